#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: the one library works on a glibc of 2020 (2.31, Debian 11), where threads, dlsym and timers live in libraries
# of their own and dlsym gives the oldest version of a symbol: python3.9 is profiled with names and whole stacks, it
# forks, spawns and execs as without us, and our own victims, linked against that libc, notice nothing.
#
# Beside others: it compiles and compares, and measures no time.
. test/lib.sh
need go gcc
scripts/bootstrap debian11 >"$TMP/log" 2>&1 || skip "no Debian 11 packages: $(tail -n 1 "$TMP/log")"
ROOT=$PWD/build/debian11
OLD=$ROOT/lib/x86_64-linux-gnu
PYTHON=("$OLD/ld-2.31.so" --library-path "$OLD:$ROOT/usr/lib/x86_64-linux-gnu" "$ROOT/usr/bin/python3.9")
[ -x "${PYTHON[0]}" ] || skip "only for x86-64"

cat >"$TMP/work.py" <<'EOF'
import json, re, sys, threading
sys.stdin.readline()
def work():
    while True:
        d = {str(i): [i, str(i) * 3] for i in range(500)}
        s = json.dumps(d); json.loads(s)
        re.sub(r"(\d+)", lambda m: m.group(1)[::-1], s)
        sorted(d.values(), key=lambda v: v[1][::-1])
threading.Thread(target=work, daemon=True).start()
work()
EOF
start "${PYTHON[@]}" "$TMP/work.py"
[ -n "$ADDR" ] || fail "the agent told no address: $(cat "$TMP/err")"
open_gate
fetch '/debug/pprof/profile?seconds=3&hz=500' -f -o "$TMP/p.pb.gz" || fail "no profile"
kill "$PID"
finish
go tool pprof -symbolize=none -raw "$TMP/p.pb.gz" >"$TMP/raw" 2>/dev/null || fail "unreadable profile"
grep -q 'libc-2.31.so' "$TMP/raw" || fail "this is not glibc 2.31"
line=$(grep -m 1 'stacks truncated' "$TMP/raw")
samples=$(sed -E 's/.* ([0-9]+) samples.*/\1/' <<<"$line")
truncated=$(sed -E 's/.* ([0-9]+) stacks truncated.*/\1/' <<<"$line")
echo "python3.9: $truncated of $samples stacks truncated"
[ "$samples" -ge 100 ] || fail "only $samples samples"
[ $((truncated * 100)) -le "$samples" ] || fail "$line"
PPROF_BINARY_PATH=/nonexistent go tool pprof -symbolize=none -top -cum -nodefraction=0 -nodecount=10000 "$TMP/p.pb.gz" >"$TMP/top" 2>/dev/null
for name in _PyEval_EvalFrameDefault _PyFunction_Vectorcall start_thread __libc_start_main malloc; do
	grep -Eq "[0-9]%  +$name\$" "$TMP/top" || fail "$name is not in the profile: $(head -40 "$TMP/top")"
done

cat >"$TMP/family.py" <<'EOF'
import os, signal, subprocess, sys, threading
python = sys.argv[1:]
sys.stdin.readline()
def burn(n):
    return sum(i * i for i in range(n))
threads = [threading.Thread(target=burn, args=(300000,)) for _ in range(4)]
for t in threads: t.start()
for i in range(20):
    pid = os.fork()
    if pid == 0:
        burn(20000)
        if i % 2: os.execv(python[0], python + ["-c", "import sys; sum(range(100000)); sys.exit(%d)" % i])
        os._exit(i)
    print(i, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(subprocess.run(python + ["-c", "print(6 * 7)"], stdout=subprocess.PIPE).stdout)
pid = os.posix_spawn(python[0], python + ["-c", "import os; os.kill(os.getpid(), 15)"], os.environ)
print("spawned", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
for t in threads: t.join()
print(sorted(str(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])))
os.execv(python[0], python + ["-c", "import sys; print('last', burn) if 0 else print('last'); sys.exit(3)"])
EOF
bare "${PYTHON[@]}" "$TMP/family.py" "${PYTHON[@]}"
[ "$BARE_STATUS" = 3 ] || fail "the victim does not work here: $(cat "$TMP/bare.out" "$TMP/bare.err")"
start "${PYTHON[@]}" "$TMP/family.py" "${PYTHON[@]}"
profile_on
open_gate
finish
compare "python's family"

# The victims that need no newer libc. Not no_key_lost: before glibc 2.34 the first dlsym of a process takes a key for
# dlerror's state, and the agent is then the first to call it. Nor what a loaded machine makes unequal (own_sigprof).
mkdir "$TMP/old"
for name in dlopenloop errnoview execloop forkstorm limits loadlib minstack ownrt shortthreads sigpipe sigwaits sleeper spawner \
	threadways wholesignals; do
	gcc -O2 -g -o "$TMP/old/$name" "test/victims/$name.c" -nodefaultlibs -Wl,--dynamic-linker="$OLD/ld-2.31.so" \
		-Wl,--disable-new-dtags -Wl,-rpath,"$OLD" -lgcc -Wl,--no-as-needed "$OLD"/lib{c,pthread,dl,rt}-2.31.so \
		2>"$TMP/gcc.log" || fail "cannot link $name to glibc 2.31: $(head -5 "$TMP/gcc.log")"
done
VICTIMS=$TMP/old
same threadways 30
export VICTIMS LIB
for test in errno_untouched handlers_run_on_target_threads min_stack_threads refused_threads rt_signals_untouched \
	sigpipe_untouched sigwait_sees_only_its_own sleepers_not_interrupted survives_fork survives_spawning; do
	bash "test/preload/$test.sh" >"$TMP/log" 2>&1 || fail "on glibc 2.31, $test: $(tail -n 5 "$TMP/log")"
done
EXECS=60 bash test/preload/survives_exec.sh >"$TMP/log" 2>&1 || fail "on glibc 2.31, survives_exec: $(tail -n 5 "$TMP/log")"
ROUNDS=500 bash test/preload/survives_dlopen_loop.sh >"$TMP/log" 2>&1 ||
	fail "on glibc 2.31, survives_dlopen_loop: $(tail -n 5 "$TMP/log")"
