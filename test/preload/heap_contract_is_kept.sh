#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: with every block sampled, at the default rate and with sampling off, the allocation family behaves as it does
# without the agent: errno, alignment, usable sizes, refusals, realloc(p, 0), functions that exist; and a program near its
# address space limit gets what it would have got, but for what the agent may keep.
. test/lib.sh

# While the program takes all of its address space there may be nothing left for an answer; when it has given it back and
# waits at its gate, there is.
heap_same() {
	local rate=$1
	shift
	AGENT_ENV=("PPROF_HEAP_RATE=$rate")
	bare "$VICTIMS/$1" "${@:2}"
	start "$VICTIMS/$1" "${@:2}"
	[ -n "$ADDR" ] || fail "the agent told no address: $(cat "$TMP/err")"
	open_gate
	fetch /debug/pprof/heap -f -o "$TMP/heap" || [ "${2-}" = limit ] || fail "rate $rate: no heap profile"
	wait_for cmp -s "$TMP/bare.out" "$TMP/out"
	fetch /debug/pprof/heap -f -o "$TMP/heap" || fail "rate $rate: no heap profile of a program that waits"
	open_gate
	finish
	compare "$* at rate $rate"
}

for rate in 1 4096 524288 0; do
	heap_same "$rate" alloccontract
	heap_same "$rate" alloccontract limit
done
# Loaded, but off: nothing of the heap profiler runs.
bare "$VICTIMS/alloccontract" limit
printf 'go\ngo\n' | LD_PRELOAD=$LIB "$VICTIMS/alloccontract" limit >"$TMP/off.out" 2>"$TMP/off.err"
STATUS=$?
[ $STATUS = 0 ] && cmp -s "$TMP/bare.out" "$TMP/off.out" || fail "off: status $STATUS, $(diff "$TMP/bare.out" "$TMP/off.out" | head)"
