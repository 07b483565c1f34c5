#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: profiles that begin and end all the time, most because their client goes away, at different rates and several
# at once, disturb nothing: threads that end in every way, libraries that come and go, forks.
. test/lib.sh
need gcc
plugin one 2000
plugin two 3000

# churn: clients in the background until the victim is gone; each gives up after 20 to 300 ms.
churn() {
	local n
	for n in 1 2 3; do
		(
			exec 9>&-
			RANDOM=$((n * 7919))
			while kill -0 "$PID" 2>/dev/null; do
				curl -s -o /dev/null --max-time "0.$(printf %03d $((RANDOM % 280 + 20)))" \
					"http://$ADDR/debug/pprof/profile?seconds=1&hz=$((RANDOM % 1000 + 1))"
			done
		) >/dev/null 2>&1 &
		STARTED+=("$!")
		disown "$!"
	done
}

for victim in "threadends 150" "dlopenloop 8000 $TMP/one.so $TMP/two.so" "forkstorm 400"; do
	# shellcheck disable=SC2086
	bare "$VICTIMS/"$victim
	# shellcheck disable=SC2086
	start "$VICTIMS/"$victim
	churn
	profile_on
	open_gate
	finish
	compare "$victim under churn"
done
