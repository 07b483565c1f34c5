#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: under RLIMIT_SIGPENDING 0, where no timer can be created, the target runs as without us and a CPU profile
# is an error at once that says so, or a profile that says so in a comment; one line at most besides the announcement.
. test/lib.sh
need prlimit
WRAP=(prlimit --sigpending=0)
bare "$VICTIMS/spin" 2 300
start "$VICTIMS/spin" 2 300
finish
compare "spin without signals"

bare "$VICTIMS/idle"
start "$VICTIMS/idle"
[ -n "$ADDR" ] || fail "no address: $(cat "$TMP/err")"
code=$(fetch '/debug/pprof/profile?seconds=1' -o "$TMP/p" -w '%{http_code}' --max-time 8) || fail "no answer"
case $code in
500) echo "said: $(head -c 200 "$TMP/p")" ;;
200) ;;
*) fail "profile answered $code" ;;
esac
open_gate
open_gate
finish
compare "idle without signals"
agent_lines 2
