#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: every locking function gives every result that it gives without the agent, and leaves errno as it does, with
# every wait recorded, with the defaults and with both profiles off; waits are left by cancellation, by a jump and by an
# exception as without it, destructors included. And a thread that left so is still measured, once.
. test/lib.sh

lock_same() {
	bare "$VICTIMS/$1" "${@:2}"
	start "$VICTIMS/$1" "${@:2}"
	[ -n "$ADDR" ] || fail "the agent told no address: $(cat "$TMP/err")"
	open_gate
	for ((i = 0; i < 600; i++)); do
		grep -q '^done' "$TMP/out" && break
		sleep 0.05
	done
	fetch /debug/pprof/block?debug=1 -f -o "$TMP/block" || fail "no block profile"
	fetch /debug/pprof/mutex?debug=1 -f -o "$TMP/mutex" || fail "no mutex profile"
	open_gate
	finish
	compare "$* with ${AGENT_ENV[*]}"
}

# contentions FILE FUNCTION: how many its records with that function have.
contentions() {
	awk -v f="$2" '/^[0-9]+ [0-9]+ @/ { n = $2; seen = 0 } index($0, f) && !seen { seen = 1; total += n } END { print total + 0 }' "$1"
}

for rates in "1 1" "10000 1" "0 0"; do
	read -r block mutex <<<"$rates"
	AGENT_ENV=("PPROF_BLOCK_RATE=$block" "PPROF_MUTEX_FRACTION=$mutex")
	lock_same lockcontract
done

# What waited is recorded, whatever came of it, and nothing else is.
AGENT_ENV=("PPROF_BLOCK_RATE=1")
lock_same lockcounted
for row in "waits_for_the_dying EOWNERDEAD" "waits_beyond_repair ENOTRECOVERABLE" "waits_in_vain ETIMEDOUT" "waits_for_an_heir EOWNERDEAD"; do
	read -r function result <<<"$row"
	want=$(grep -c "${function//_/ }: $result " "$TMP/out")
	got=$(contentions "$TMP/block" "$function")
	[ "$want" -ge 3 ] || fail "$function: only $want came to $result"
	[ "$got" = "$want" ] || fail "$function: $got waits were recorded, there were $want"
done
[ "$(grep -c "never waits: " "$TMP/out")" -gt 15 ] || fail "too few that never wait"
got=$(contentions "$TMP/block" never_waits)
[ "$got" = 0 ] || fail "of what never waits $got were recorded"

for io in 0 1; do
	AGENT_ENV=("PPROF_BLOCK_RATE=1" "PPROF_BLOCK_IO=$io")
	lock_same iocontract
done

AGENT_ENV=("PPROF_BLOCK_RATE=1")
for way in pending arriving jump throw; do
	lock_same lockleave "$way"
	# One wait of the same thread for one holder, after each wait that it left.
	want=$(grep -c "^$way .*: " "$TMP/out")
	got=$(contentions "$TMP/mutex" held_meanwhile)
	[ "$want" -gt 5 ] || fail "lockleave $way: only $want waits"
	[ "$got" = "$want" ] || fail "lockleave $way: $got waits for the holder were recorded, there were $want"
	awk '/^[0-9]+ [0-9]+ @/ { ns = $1 } /held_meanwhile/ { total += ns } END { print total + 0 }' "$TMP/mutex" >"$TMP/ns"
	[ "$(cat "$TMP/ns")" -ge $((want * 19000000)) ] || fail "lockleave $way: they waited $(cat "$TMP/ns") ns, each 20 ms"
done
