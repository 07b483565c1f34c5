#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: loading, announcing, a thousand requests of every kind and profiles without end leave a process as it was:
# dispositions, masks, descriptors, environment, umask, directory, limits, timers, names, priorities, and
# its heap to the byte. After closefrom(3) the files the target then opens are its own.
#
# PROFILES (20; 1000 in the long form) of a second each, 16 at once, and REQUESTS (400; 10000) of other kinds.
. test/lib.sh
PROFILES=${PROFILES:-20}
REQUESTS=${REQUESTS:-400}

# storm: requests of every kind, 16 profiles at once among them; all must be answered as they should.
storm() {
	local i pids=() code
	for ((i = 0; i < PROFILES; i++)); do
		fetch "/debug/pprof/profile?seconds=1&hz=$((i % 2 ? 1000 : 100))" -o /dev/null -w '%{http_code}\n' >>"$TMP/codes" 9>&- &
		pids+=("$!")
		if [ ${#pids[@]} -eq 16 ]; then
			wait "${pids[@]}"
			pids=()
		fi
	done
	# Threads are looked at, and asked, meanwhile.
	fetch "/debug/pprof/wall?seconds=2&hz=1000" -o /dev/null -w '%{http_code}\n' >>"$TMP/codes" 9>&- &
	pids+=("$!")
	for ((i = 0; i < REQUESTS / 6; i++)); do
		curl -s --max-time 30 -w '%{http_code}\n' -o /dev/null "http://$ADDR/debug/pprof/" -o /dev/null "http://$ADDR/debug/pprof/cmdline" \
			-o /dev/null "http://$ADDR/debug/pprof/symbol?0x1234" -o /dev/null "http://$ADDR/debug/pprof/heap?debug=$((i % 2))" \
			-o /dev/null "http://$ADDR/debug/pprof/goroutine?debug=$((i % 3))" -o /dev/null "http://$ADDR/debug/pprof/threadcreate?debug=$((i % 2))" >>"$TMP/codes" 9>&-
	done
	wait ${pids[@]+"${pids[@]}"}
	grep -vx 200 "$TMP/codes" | sort | uniq -c >"$TMP/odd"
	[ ! -s "$TMP/odd" ] || fail "some requests were not answered: $(cat "$TMP/odd")"
	echo "$(wc -l <"$TMP/codes") requests answered"
}

bare "$VICTIMS/unharmed"
[ "$BARE_STATUS" = 0 ] || fail "the victim does not work here: $(tail -3 "$TMP/bare.out")"
start "$VICTIMS/unharmed"
[ -n "$ADDR" ] || fail "the agent told no address: $(cat "$TMP/err")"
storm
open_gate
REQUESTS=40 PROFILES=4 storm
open_gate
finish
[ "$STATUS" = 0 ] || fail "status $STATUS: $(tail -3 "$TMP/out")"
# Descriptor 9 is the test's; the two runs have different standard inputs.
cmp -s <(sed 's/ 0:[0-9a-f]*//' "$TMP/bare.out") <(sed 's/ 0:[0-9a-f]*//' "$TMP/out") ||
	fail "something has changed (< without, > with): $(diff "$TMP/bare.out" "$TMP/out" | head -20)"

# Not a byte: what libc allocates for the agent's threads comes from the agent's own heap.
diff <(grep -E '^(heap|grown) ' "$TMP/bare.err") <(grep -E '^(heap|grown) ' "$TMP/err") >"$TMP/heap" ||
	fail "the target's heap has changed (< without, > with): $(cat "$TMP/heap")"
grep -c '^heap ' "$TMP/err" >"$TMP/lines"
[ "$(cat "$TMP/lines")" = 3 ] || fail "the victim told its heap $(cat "$TMP/lines") times, not 3"
