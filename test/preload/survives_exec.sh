#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: exec under a running 1000 Hz profile never kills the new program with a pending timer signal, and hands it
# the signal mask and dispositions the target chose, whichever of the exec functions is called. 500 execs, at least one in ten
# of them with timers armed: the victim waits for them.
. test/lib.sh
bare "$VICTIMS/execloop" 7
[ "$BARE_STATUS" = 5 ] || fail "the victim does not work here: $(cat "$TMP/bare.out")"
start "$VICTIMS/execloop" "${EXECS:-500}"
rm "$TMP/addr"
# Each exec begins the agent anew on another port; whoever it is now is asked for a profile at once.
(
	exec 9>&-
	while kill -0 "$PID" 2>/dev/null; do
		mv "$TMP/addr" "$TMP/asked" 2>/dev/null || { sleep 0.005; continue; }
		address=$(cat "$TMP/asked")
		curl -s --max-time 5 -w '%{size_upload}\n' -o /dev/null "http://$address/debug/pprof/profile?seconds=1&hz=1000" &
	done
	wait
) >/dev/null 2>&1 &
STARTED+=("$!")
curl -s --max-time 5 -o /dev/null "http://$ADDR/debug/pprof/profile?seconds=1&hz=1000" 9>&- &
wait_for has_timers || fail "not being profiled"
open_gate
finish
[ "$STATUS" = 5 ] || fail "status $STATUS, expected 5: $(cat "$TMP/out" "$TMP/err" | tail -n 3)"
grep -qx done "$TMP/out" || fail "$(cat "$TMP/out")"
