#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: under the storm of test/torture/storm.c (libraries that come and go, exceptions, dl_iterate_phdr, malloc,
# threads, forks, setjmp, fibers, small alternate stacks; 10,000 walks a second a thread by the program itself) and
# profiled at 1000 Hz all the time, a process neither crashes nor hangs, and the agent's memory does not grow.
# And the storm can fail: with stock libunwind in the walker's place it deadlocks.
#
# TORTURE_SECONDS: how long (30). TORTURE_LOG: a file for the figures as well.
. test/lib.sh
SECONDS_LONG=${TORTURE_SECONDS:-30}
STORM=$OUT/torture/storm
[ -x "$STORM" ] || fail "$STORM was not built"

# note: standard input is a figure that a person may want.
note() {
	tee -a "${TORTURE_LOG:-/dev/null}"
}

# Profiles of 5 s, back to back; the newest is kept, each one's account of the agent's memory (KiB) goes to $TMP/memory.
profile_all_along() {
	(
		exec 9>&-
		while kill -0 "$PID" 2>/dev/null; do
			if fetch "/debug/pprof/profile?seconds=5&hz=1000" -f -o "$TMP/part"; then
				mv "$TMP/part" "$TMP/profile"
				gunzip -c <"$TMP/profile" | grep -aoE 'own memory [0-9]+' | grep -oE '[0-9]+' >>"$TMP/memory"
			elif kill -0 "$PID" 2>/dev/null; then
				echo refused >>"$TMP/refused"
				sleep 0.2
			fi
		done
	) >/dev/null 2>&1 &
	STARTED+=("$!")
	disown "$!"
}

# The largest of the last third of the lines against the largest of the second third.
memory_is_flat() {
	awk '{ m[NR] = $1 }
		END {
			for (i = int(NR / 3) + 1; i <= int(2 * NR / 3); i++) if (m[i] > a) a = m[i]
			for (i = int(2 * NR / 3) + 1; i <= NR; i++) if (m[i] > b) b = m[i]
			printf "agent memory in %d profiles: %d KiB, later %d KiB\n", NR, a, b
			exit NR >= 3 && b > a + 2048
		}' "$TMP/memory"
}

start nice -n 5 "$STORM" "$SECONDS_LONG"
[ -n "$ADDR" ] || fail "the agent told no address: $(cat "$TMP/err")"
profile_all_along
wait_for has_timers
open_gate
finish
cat "$TMP/out" "$TMP/err" | note
[ "$STATUS" = 0 ] || fail "status $STATUS"
# Its children are targets of their own: one that lives long enough tells its address, too.
sed -i "/^pprofagent: http.*(pid $PID, /! { /^pprofagent: http.*(pid /d }" "$TMP/err"
agent_lines 1
[ -s "$TMP/profile" ] || fail "not one profile was taken"
# The last one may be cut off by the end.
[ "$(wc -l 2>/dev/null <"$TMP/refused" || echo 0)" -le 1 ] || fail "profiles were refused"
echo "the last profile: $(gunzip -c <"$TMP/profile" | grep -aoE '[0-9]+ samples, [ -~]*frames')" | note
memory_is_flat >"$TMP/flat"
FLAT=$?
note <"$TMP/flat"
[ "$FLAT" = 0 ] || fail "the agent's memory grew: $(tr '\n' ' ' <"$TMP/memory")"

if ldconfig -p | grep -q 'libunwind.so.8 '; then
	timeout 120 "$STORM" 60 libunwind <<<go >"$TMP/deadlock"
	STATUS=$?
	note <"$TMP/deadlock"
	[ "$STATUS" = 3 ] || fail "the storm with libunwind ended with status $STATUS: this test could not have failed"
fi
exit 0
