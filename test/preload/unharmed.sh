#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: loading, announcing, a thousand requests of every kind and profiles without end leave a process as it was:
# dispositions, masks, descriptors, environment, umask, directory, limits, timers, names, priorities; and its heap, but for
# what libc itself takes from it to create a thread. After closefrom(3) the files the target then opens are its own.
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
	for ((i = 0; i < REQUESTS / 4; i++)); do
		curl -s --max-time 30 -w '%{http_code}\n' -o /dev/null "http://$ADDR/debug/pprof/" -o /dev/null "http://$ADDR/debug/pprof/cmdline" \
			-o /dev/null "http://$ADDR/debug/pprof/symbol?0x1234" -o /dev/null "http://$ADDR/debug/pprof/symbol" >>"$TMP/codes" 9>&-
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

# What libc takes from the target's heap for our threads: a table of thread-local storage each (304 bytes while there are
# few modules), for 1 keeper and 24 workers at most, and, for the keeper, an arena of its own with its cache. Nothing else:
# no mapped blocks, no second arena, and nothing more at the end than behind the gate.
read -r bare_used bare_arena bare_mapped < <(awk '/^heap at the end/ { print $6, $8, $10 $12 }' "$TMP/bare.err")
read -r used arena mapped < <(awk '/^heap at the end/ { print $6, $8, $10 $12 }' "$TMP/err")
read -r used_before < <(awk '/^heap behind the gate/ { print $6 }' "$TMP/err")
read -r bare_before < <(awk '/^heap behind the gate/ { print $6 }' "$TMP/bare.err")
echo "heap: $((used - bare_used)) bytes in use and $((arena - bare_arena)) bytes of arenas more than without the agent"
[ "$mapped" = "$bare_mapped" ] || fail "mapped blocks: $mapped, without the agent $bare_mapped"
[ $((used - bare_used)) -le $((25 * 320 + 1024)) ] || fail "$((used - bare_used)) bytes of the target's heap"
[ $((arena - bare_arena)) -le 135168 ] || fail "$((arena - bare_arena)) bytes of arenas"
[ $((used - used_before)) -le $((bare_used - bare_before + 8 * 320)) ] || fail "the heap grows with requests"
