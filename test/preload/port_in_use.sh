#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: a port held by a stranger is told in one line, the target runs as without us, and the port is taken when it
# becomes free. A port held by another process with the agent is not worth a word.
. test/lib.sh
need python3
holder='import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 0)); s.listen(5); print(s.getsockname()[1], flush=True); sys.stdin.read()'

mkfifo "$TMP/hold"
exec 8<>"$TMP/hold"
python3 -c "$holder" <"$TMP/hold" >"$TMP/port" 8>&- &
HOLDER=$!
STARTED+=("$HOLDER")
wait_for test -s "$TMP/port"
PORT=$(cat "$TMP/port")

bare "$VICTIMS/spin" 1 2500
env LD_PRELOAD="$LIB" PPROF_ADDR="127.0.0.1:$PORT" "$VICTIMS/spin" 1 2500 >"$TMP/out" 2>"$TMP/err" 8>&-
STATUS=$?
compare "spin beside a stranger"
[ "$(grep -c '^pprofagent: ' "$TMP/err")" = 1 ] || fail "expected one line: $(cat "$TMP/err")"
grep -q "$PORT" "$TMP/err" || fail "the line does not name the port: $(cat "$TMP/err")"

# Two that wait for the port: the stranger goes, one takes over; it goes, the other does.
for n in 1 2; do
	env LD_PRELOAD="$LIB" PPROF_ADDR="127.0.0.1:$PORT" "$VICTIMS/spin" 1 0 >/dev/null 2>"$TMP/err.$n" 8>&- &
	eval "PID$n=$!"
	STARTED+=("$!")
done
sleep 0.5
kill "$HOLDER"
ADDR=127.0.0.1:$PORT

# owner: the pid behind the port, by its index page or announcement; waits up to 30 s for one of $*.
await_owner() {
	local i n
	for ((i = 0; i < 600; i++)); do
		for n in "$@"; do
			grep -q "^pprofagent: http://$ADDR/debug/pprof/ (pid " "$TMP/err.$n" &&
				fetch /debug/pprof/cmdline -f -o /dev/null 2>/dev/null && OWNER=$n && return
		done
		sleep 0.05
	done
	fail "nobody took the port within 30 s: $(cat "$TMP/err.1" "$TMP/err.2")"
}
await_owner 1 2
other=$((3 - OWNER))
sleep 1.5
grep -q 'http://' "$TMP/err.$other" && fail "both announced"
# The stranger is told once, whoever comes after it is not.
[ "$(grep -c . "$TMP/err.$other")" -le 1 ] || fail "not quiet about a port held by an agent: $(cat "$TMP/err.$other")"
eval "kill -KILL \$PID$OWNER"
await_owner "$other"
exit 0
