#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: who binds says so in one line of the documented form, on standard error, unless it lives for less than 0.2 s
# and nobody asked it anything; PPROF_LOG=quiet says nothing; PPROF_ADDR_VAR names the variable that is read; the address
# file tells what the line tells.
. test/lib.sh
start "$VICTIMS/idle"
[ -n "$ADDR" ] || fail "no address told: $(cat "$TMP/err")"
open_gate
open_gate
finish
[ -s "$TMP/err" ] && fail "a short life announced: $(cat "$TMP/err")"

start "$VICTIMS/idle"
sleep 0.6
open_gate
open_gate
finish
[ "$STATUS" = 0 ] || fail "status $STATUS"
[ "$(cat "$TMP/err")" = "pprofagent: http://$ADDR/debug/pprof/ (pid $PID, idle)" ] || fail "announced: $(cat "$TMP/err")"

AGENT_ENV=(PPROF_LOG=quiet)
start "$VICTIMS/idle"
fetch /debug/pprof/cmdline -f -o /dev/null || fail "not serving when quiet"
open_gate
open_gate
finish
[ -s "$TMP/err" ] && fail "not quiet: $(cat "$TMP/err")"

AGENT_ENV=(PPROF_ADDR=0 PPROF_ADDR_VAR=MY_OWN_NAME MY_OWN_NAME=127.0.0.1:0)
start "$VICTIMS/idle"
fetch /debug/pprof/cmdline -f -o /dev/null || fail "PPROF_ADDR_VAR is not followed: $(cat "$TMP/err")"
open_gate
open_gate
finish
agent_lines 1

AGENT_ENV=("PPROF_ADDR=unix:$TMP/%e-%p.sock")
start "$VICTIMS/idle"
[ "$ADDR" = "unix:$TMP/idle-$PID.sock" ] || fail "address told: $ADDR"
curl -sSf --max-time 5 --unix-socket "$TMP/idle-$PID.sock" http://x/debug/pprof/cmdline -o /dev/null || fail "unix socket"
open_gate
open_gate
finish
agent_lines 1
exit 0
