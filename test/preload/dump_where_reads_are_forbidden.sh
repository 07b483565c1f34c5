#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: where a sandbox forbids process_vm_readv, threads' stacks are whole all the same, and those of sleepers are
# not read in a way that could fault when they end meanwhile.
. test/lib.sh
: "${OUT:=build}"
WRAP=("$OUT/preload/forbid" 310)

start "$VICTIMS/sleepers" still 60 1
[ -n "$ADDR" ] || fail "no address: $(cat "$TMP/err")"
wait_for grep -q ready "$TMP/out"
sleep 0.3
fetch '/debug/pprof/goroutine?debug=2' -f -o "$TMP/dump" || fail "no dump"
for way in poll nanosleep futex epoll sem clock select big cond read; do
	n=$(grep -c "^nap_$way(" "$TMP/dump")
	[ "$n" = 6 ] || fail "nap_$way is there $n times, not 6: $(head -20 "$TMP/dump")"
done
[ "$(grep -c '^start_thread(' "$TMP/dump")" -ge 60 ] || fail "not whole: $(head -30 "$TMP/dump")"
tail -n 1 "$TMP/dump"
open_gate
finish
[ "$STATUS" = 0 ] || fail "status $STATUS"

# Threads that end while they are looked at.
bare "$VICTIMS/threadends" 40
start "$VICTIMS/threadends" 40
(
	exec 9>&-
	while kill -0 "$PID" 2>/dev/null; do
		fetch '/debug/pprof/goroutine?debug=2' -f -o /dev/null || sleep 0.05
	done
) >/dev/null 2>&1 &
STARTED+=("$!")
disown "$!"
open_gate
open_gate
finish
compare "threadends 40"
