#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: sleepers of programs linked against musl, whose libc has no unwind tables and keeps no frame pointer, have
# whole stacks, too, whether the program itself keeps one or not.
. test/lib.sh
need musl-gcc
for flags in '-O0 -fno-omit-frame-pointer' '-O2 -fomit-frame-pointer'; do
	# shellcheck disable=SC2086
	musl-gcc -g -pthread $flags -o "$TMP/sleepers" test/victims/sleepers.c 2>"$TMP/gcc.log" ||
		fail "musl-gcc does not compile: $(head -5 "$TMP/gcc.log")"
	start "$TMP/sleepers" still 60 0
	[ -n "$ADDR" ] || fail "no address: $(cat "$TMP/err")"
	wait_for grep -q ready "$TMP/out"
	sleep 0.5
	fetch '/debug/pprof/goroutine?debug=2' -f -o "$TMP/dump" || fail "no dump"
	for way in poll nanosleep futex epoll sem clock select big cond read; do
		for part in nap stay; do
			n=$(grep -c "^${part}_$way(" "$TMP/dump")
			[ "$n" = 6 ] || fail "$flags: ${part}_$way is there $n times, not 6: $(grep -A 20 "\"$way\"" "$TMP/dump" | head -24)"
		done
	done
	[ "$(grep -c '^sleepers_still(' "$TMP/dump")" = 60 ] || fail "$flags: not whole: $(head -30 "$TMP/dump")"
	echo "$flags: $(tail -n 1 "$TMP/dump")"
	open_gate
	finish
	[ "$STATUS" = 0 ] || fail "status $STATUS"
done
