#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: of the library's code in memory only the static calls of malloc, calloc, free and malloc_usable_size and the
# entry of pthread_mutex_lock are not as they are in its file, in the program and in its forked children; where the heap is not sampled or waiting not
# measured from the start, their own are. The pages stay patched when the library's others are let go of.
. test/lib.sh
need python3

# differences PID: a line for each run of bytes that differ: offset in the file and length (of code in between of less
# than 8 equal bytes, one run).
differences() {
	python3 - "$1" "$LIB" <<-'END'
		import sys
		pid, lib = sys.argv[1:]
		file = open(lib, "rb").read()
		try:
		    memory = open(f"/proc/{pid}/mem", "rb")
		    maps = open(f"/proc/{pid}/maps").readlines()
		except PermissionError:
		    sys.exit(77)
		runs, seen = [], 0
		for line in maps:
		    where, mode, offset, *_ = line.split()
		    if not line.rstrip().endswith(lib) or "x" not in mode:
		        continue
		    lo, hi = (int(x, 16) for x in where.split("-"))
		    offset = int(offset, 16)
		    memory.seek(lo)
		    now = memory.read(hi - lo)
		    seen += len(now)
		    for i, (a, b) in enumerate(zip(now, file[offset:offset + len(now)])):
		        if a != b and runs and offset + i - runs[-1][1] < 8:
		            runs[-1][1] = offset + i + 1
		        elif a != b:
		            runs.append([offset + i, offset + i + 1])
		if not seen:
		    sys.exit("the library's code is not mapped")
		for lo, hi in runs:
		    print(f"{lo:x} {hi - lo}")
	END
}

look() { # PID
	differences "$1" >"$TMP/runs" 2>"$TMP/why"
	case $? in
	0) ;;
	77) skip "memory of other processes cannot be read here" ;;
	*) fail "process $1 cannot be looked at: $(cat "$TMP/why")" ;;
	esac
}

# inside NAME: print the runs of $TMP/runs that lie in a function of the library.
inside() {
	local at size lo len
	read -r at size < <(nm -D -S "$LIB" | awk -v n="$1" '$4 == n { print $1, $2 }')
	while read -r lo len; do
		((16#$lo >= 16#$at && 16#$lo + len <= 16#$at + 16#$size)) && echo "$lo $len"
	done <"$TMP/runs"
}

patched() { # PID NAME...
	local pid=$1 name
	shift
	look "$pid"
	[ "$(wc -l <"$TMP/runs")" = $# ] || fail "process $pid: $(wc -l <"$TMP/runs") places differ, not $#: $(cat "$TMP/runs")"
	for name; do
		[ "$(inside $name | wc -l)" = 1 ] || fail "process $pid: none of them in $name: $(cat "$TMP/runs")"
	done
}

start "$VICTIMS/forker" stay
[ -n "$ADDR" ] || fail "the agent told no address: $(cat "$TMP/err")"
patched "$PID" malloc calloc free malloc_usable_size pthread_mutex_lock
# A request runs through pages that are let go of afterwards, once nobody has asked for a second.
fetch /debug/pprof/heap -o /dev/null || fail "no heap profile"
sleep 2.5
patched "$PID" malloc calloc free malloc_usable_size pthread_mutex_lock
open_gate
wait_for grep -q child "$TMP/out" || fail "no child: $(cat "$TMP/err")"
child=$(awk '/^child/ { print $2 }' "$TMP/out")
STARTED+=("$child")
patched "$child" malloc calloc free malloc_usable_size pthread_mutex_lock

AGENT_ENV=(PPROF_HEAP_RATE=0)
start "$VICTIMS/idle"
[ -n "$ADDR" ] || fail "the agent told no address: $(cat "$TMP/err")"
patched "$PID" pthread_mutex_lock
AGENT_ENV=(PPROF_MUTEX_FRACTION=0 PPROF_BLOCK_RATE=0)
start "$VICTIMS/idle"
[ -n "$ADDR" ] || fail "the agent told no address: $(cat "$TMP/err")"
patched "$PID" malloc calloc free malloc_usable_size
AGENT_ENV+=(PPROF_HEAP_RATE=0)
start "$VICTIMS/idle"
[ -n "$ADDR" ] || fail "the agent told no address: $(cat "$TMP/err")"
patched "$PID"
