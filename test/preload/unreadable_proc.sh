#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: without /proc the target runs as without us; the agent writes at most one line besides its announcement
# and still answers requests, with a profile or with an error, never with a hang.
. test/lib.sh
need unshare
unshare -m true 2>/dev/null || skip "unshare -m is not permitted here"
# shellcheck disable=SC2016
WRAP=(unshare -m sh -c 'mount -t tmpfs none /proc && exec "$@"' sh)
bare true
[ "$BARE_STATUS" = 0 ] || skip "cannot mount over /proc here"

bare "$VICTIMS/spin" 2 300
start "$VICTIMS/spin" 2 300
finish
compare "spin without /proc"
agent_lines 2

bare "$VICTIMS/idle"
start "$VICTIMS/idle"
if [ -n "$ADDR" ]; then
	code=$(fetch '/debug/pprof/profile?seconds=1' -o "$TMP/p" -w '%{http_code}' --max-time 8) || fail "no answer without /proc"
	case $code in
	200 | 5??) ;;
	*) fail "profile answered $code without /proc" ;;
	esac
	echo "profile without /proc: $code"
	for kind in 'goroutine?debug=2' goroutine 'threadcreate?debug=1' 'wall?seconds=1'; do
		code=$(fetch "/debug/pprof/$kind" -o "$TMP/p" -w '%{http_code}' --max-time 8) || fail "no answer without /proc"
		case $code in
		200 | 5??) ;;
		*) fail "$kind answered $code without /proc" ;;
		esac
		echo "$kind without /proc: $code"
		[ "$kind" != 'goroutine?debug=2' ] || grep -q '^\[no stack\](' "$TMP/p" || fail "the main thread is missing: $(cat "$TMP/p")"
	done
fi
open_gate
open_gate
finish
compare "idle without /proc"
agent_lines 2
