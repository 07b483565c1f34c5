#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: the target's descriptor table never shows one of ours: not in its listing while it is profiled, not in the
# numbers it is given, not after closefrom(3), not in a child after fork or exec; and nothing is written to its files.
. test/lib.sh
same fdview
kept=("$TMP"/profile.*)
[ -e "${kept[0]}" ] || echo "note: no profile was complete before the end"

# The same from outside, with a connection open.
start "$VICTIMS/idle"
before=$(ls "/proc/$PID/fd")
profile_on 2
during=$(ls "/proc/$PID/fd")
[ "$before" = "$during" ] || fail "descriptors before: $before; during: $during"
ls -l "/proc/$PID/fd" | grep -q 'socket:' && fail "a socket in the target's table"
open_gate
open_gate
finish
[ "$STATUS" = 0 ] || fail "status $STATUS"
