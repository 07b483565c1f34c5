#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: the target gets every descriptor its limit allows, and when it has used them all up it goes on as without
# us and can still be profiled (our descriptors are in a table of our own).
. test/lib.sh
bare "$VICTIMS/limits" files
start "$VICTIMS/limits" files
profile_on
open_gate
wait_for grep -q still "$TMP/out"
grep -q '^files' "$TMP/out" || fail "the victim is stuck: $(cat "$TMP/out" "$TMP/err")"
fetch /debug/pprof/cmdline -f -o /dev/null || fail "no new connection once the target has no descriptor left"
open_gate
finish
compare "limits files"
agent_lines 2
