#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: a target with its own ITIMER_PROF and SIGPROF handler, and its own POSIX timer on a real-time signal, gets
# exactly its own signals while it is profiled.
#
# What it is owed follows from its clocks: one SIGPROF for 10 ms of CPU, one real-time tick for 5 ms. The real-time ticks
# must agree within 3 plus 3 %. ITIMER_PROF the kernel charges by whole scheduler ticks to whoever runs then: a bare
# process on a loaded machine of two cores got 55 to 107 of 100. So its bound is a factor of two, where a profiler that
# used SIGPROF at its 1000 Hz would be off by ten; and not one signal may have another origin than the timer.
. test/lib.sh
for rt in 35 50 64; do
	start "$VICTIMS/ownprof" 1000 "$rt"
	profile_on
	open_gate
	finish
	[ "$STATUS" = 0 ] || fail "signal $rt: status $STATUS: $(cat "$TMP/out" "$TMP/err")"
	awk -v rt="$rt" '
		{ d = $2 - $4; if (d < 0) d = -d }
		d > 3 + ($1 == "prof" ? 1 : 0.03) * $4 || $1 == "prof" && $2 * 2 < $4 - 6 { print "with signal " rt ": " $0; bad = 1 }
		$6 != 0 { print "foreign signals with " rt ": " $0; bad = 1 }
		$1 == "prof" && $8 != 10000 { print "getitimer: " $0; bad = 1 }
		END { exit bad || NR != 2 }' "$TMP/out" || fail "not exactly its own"
done
