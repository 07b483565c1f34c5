# SPDX-License-Identifier: Apache-2.0
#
# allocleak.py: an ordinary Python program that leaks. Before its first gate it builds the data it legitimately has (about
# 24 MB: strings, lists, dictionaries, compiled code); behind it, it forgets 30,000 bytearrays of 2000 bytes in a list that
# nobody looks at (60 MB), while the rest of its work comes and goes. Small objects are pymalloc's, which maps its memory
# itself; what is larger than 512 bytes, and list and dictionary tables, comes from malloc.
import json
import sys

forgotten = []


def legitimate():
    text = [("line %d " % i) * 200 for i in range(4000)]
    tables = [dict.fromkeys(range(i % 500), i) for i in range(1500)]
    lists = [list(range(i % 900)) for i in range(1500)]
    return text, tables, lists, [compile("x = %d" % i, "f", "exec") for i in range(500)]


def leak_here(i):
    forgotten.append(bytearray(2000))


def work(i):
    d = json.loads(json.dumps({str(k): "v" * (k + 500) for k in range(20)}))
    return len(d) + i


def main():
    kept = legitimate()
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(30000):
        leak_here(i)
        if i % 10 == 0:
            work(i)
    print("done", flush=True)
    sys.stdin.readline()
    return len(kept)


main()
