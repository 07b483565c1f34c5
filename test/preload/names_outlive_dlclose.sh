#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: memory that a library allocated keeps the library's names after the library is gone, even if it went at once
# and another one came to the same address, which has names of its own; and coming and going a thousand times costs the
# program little.
. test/lib.sh
need gcc curl

# library NAME BYTES: compile $TMP/NAME.so whose keep() allocates BYTES through NAME_inner.
library() {
	cat >"$TMP/$1.c" <<-END
		#include <stdlib.h>
		static void *volatile kept[1000];
		static int n;
		__attribute__((noinline)) void $1_inner(void)
		{
			kept[n++] = malloc($2);
		}
		void keep(void)
		{
			$1_inner();
			__asm__ volatile("");
		}
	END
	gcc -shared -fPIC -O2 -g "$TMP/$1.c" -o "$TMP/$1.so" || fail "cannot compile a library"
}

for i in one two three; do
	library "$i" 1000
done

AGENT_ENV=(PPROF_HEAP_RATE=1)
start "$VICTIMS/unloader" "$TMP/one.so" "$TMP/two.so" "$TMP/three.so"
wait_for test -s "$TMP/out"
grep -q '^2 at the same address' "$TMP/out" || skip "the loader puts equal libraries at different addresses here: $(cat "$TMP/out")"
for round in 1 2; do
	fetch '/debug/pprof/heap?debug=1' >"$TMP/text" || fail "no profile"
	for i in one two three; do
		n=$(grep -c "${i}_inner" "$TMP/text")
		[ "$n" = 1 ] || fail "round $round: ${i}_inner is $n times in the profile: $(grep -B3 -A3 "keep\|_inner\|unloaded" "$TMP/text")"
		# The record has its own bytes and its own caller, keep() of the same file.
		grep -A1 "${i}_inner" "$TMP/text" | grep -q "keep.*/$i\.[cs]" || fail "round $round: ${i}_inner is not called by its own library's keep: $(grep -A2 "${i}_inner" "$TMP/text")"
	done
	grep -c '^1: 1000 \[1: 1000\]' "$TMP/text" | grep -qx 3 || fail "round $round: $(grep 1000 "$TMP/text")"
done
open_gate
finish
[ "$STATUS" = 0 ] || fail "status $STATUS: $(cat "$TMP/err")"

# Without end.
start "$VICTIMS/unloader" -300 "$TMP/one.so" "$TMP/two.so" "$TMP/three.so"
wait_for test -s "$TMP/out"
grep -q 'same address' "$TMP/out" || fail "900 libraries took more than a minute"
fetch '/debug/pprof/heap?debug=1' >"$TMP/text" || fail "no profile"
total=$(sed -n 's/^heap profile: .*\[\([0-9]*\): .*/\1/p' "$TMP/text")
[ "$total" -ge 900 ] || fail "900 blocks were allocated, the profile has $total"
for i in one two three; do
	# The last 64 layouts keep their names.
	[ "$(grep -c "${i}_inner" "$TMP/text")" -ge 10 ] || fail "${i}_inner: $(grep -c "${i}_inner" "$TMP/text") records of the last have names"
done
open_gate
finish
[ "$STATUS" = 0 ] || fail "status $STATUS: $(cat "$TMP/err")"
