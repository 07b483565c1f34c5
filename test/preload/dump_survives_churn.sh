#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: whatever threads do, dumping them and looking at them all the time changes nothing: programs whose threads are
# born and end in every way, fork, have tiny stacks, block and take signals print what they print without us.
. test/lib.sh

# dump_on: in the background, until the victim is gone.
dump_on() {
	local kind
	for kind in 'goroutine?debug=2' 'goroutine' 'wall?seconds=1&hz=1000' 'threadcreate?debug=1'; do
		(
			exec 9>&-
			while kill -0 "$PID" 2>/dev/null; do
				fetch "/debug/pprof/$kind" -f -o "$TMP/dump.${kind%%\?*}" && echo . >>"$TMP/dumps" || sleep 0.05
			done
		) >/dev/null 2>&1 &
		STARTED+=("$!")
		disown "$!"
	done
	wait_for test -s "$TMP/dumps" || fail "no dump within a minute: $(cat "$TMP/err")"
}

dumped() {
	rm -f "$TMP/dumps"
	bare "$VICTIMS/$1" "${@:2}"
	start "$VICTIMS/$1" "${@:2}"
	dump_on
	open_gate
	open_gate
	finish
	compare "$*"
	echo "$*: $(wc -l <"$TMP/dumps") dumps"
}

dumped fdview # first: later ones inherit the gate of the one before
dumped threadends 40
dumped threadways 30
dumped minstack 60 600
dumped forkstorm 100
dumped errnoview
dumped maskview
dumped sigwaits 43
dumped sigpipe
dumped limits threads
dumped sleeper 200
