#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: of the library's own file little stays in memory while the agent sleeps, and comes back there after a request;
# all of it together is under the 1.5 MiB that the README promises.
. test/lib.sh
need awk

# own: KiB of the library's file that are resident.
own() {
	awk -v lib="$LIB" '/^[0-9a-f]+-[0-9a-f]+ / { mine = $6 == lib } /^Rss:/ && mine { sum += $2 } END { print sum + 0 }' \
		"/proc/$PID/smaps"
}

is_small() {
	[ "$(own)" -gt 0 ] && [ "$(own)" -le 400 ]
}

resident() {
	awk '/^Rss:/ { sum += $2 } END { print sum }' "/proc/$1/smaps"
}

[ -r /proc/self/smaps ] && [ -r /proc/self/pagemap ] || skip "/proc/self/smaps or pagemap cannot be read"
mkfifo "$TMP/bare"
"$VICTIMS/idle" <>"$TMP/bare" &
bare=$!
STARTED+=("$bare")
start "$VICTIMS/idle"
[ -n "$ADDR" ] || fail "the agent told no address: $(cat "$TMP/err")"
wait_for is_small || fail "$(own) KiB of the library's file are resident while it sleeps"
added=$(($(resident "$PID") - $(resident "$bare")))
[ "$added" -le 1536 ] || fail "idle, it adds $added KiB"
fetch "/debug/pprof/goroutine?debug=1" -f -o "$TMP/dump" || fail "no dump"
wait_for is_small || fail "$(own) KiB of the library's file are resident after a request"
echo "$(own) KiB of the library's file, $added KiB in all"
