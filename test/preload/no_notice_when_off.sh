#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: with PPROF_ADDR unset, empty or 0 the library does nothing: no thread, timer, socket, descriptor or heap
# block, no handler, not a word, and no system call after the loader's but those of the target.
. test/lib.sh
bare "$VICTIMS/selfview"
for off in unset empty 0; do
	case $off in
	unset) settings=() ;;
	empty) settings=(PPROF_ADDR=) ;;
	*) settings=(PPROF_ADDR=0) ;;
	esac
	env LD_PRELOAD="$LIB" PPROF_ADDR_FILE="$TMP/told" ${settings[@]+"${settings[@]}"} "$VICTIMS/selfview" </dev/null >"$TMP/out" 2>"$TMP/err" &
	wait "$!"
	STATUS=$?
	compare "selfview, PPROF_ADDR $off"
	[ -s "$TMP/err" ] && fail "PPROF_ADDR $off: $(cat "$TMP/err")"
	[ -e "$TMP/told" ] && fail "PPROF_ADDR $off: an address was told"
done
grep -qx 'threads 1' "$TMP/out" || fail "$(grep threads "$TMP/out")"

command -v strace >/dev/null || skip "strace is not installed; the rest of the test passed"
strace -f -o "$TMP/bare.calls" "$VICTIMS/spin" 2 50 >/dev/null || true
strace -f -E LD_PRELOAD="$LIB" -o "$TMP/off.calls" "$VICTIMS/spin" 2 50 >/dev/null || true
[ -s "$TMP/off.calls" ] || skip "strace does not work here; the rest of the test passed"
for call in socket bind timer_create clone clone3 rt_sigaction rt_sigprocmask brk; do
	plain=$(grep -Ec "^[0-9]+ +$call\(" "$TMP/bare.calls")
	off=$(grep -Ec "^[0-9]+ +$call\(" "$TMP/off.calls")
	[ "$plain" = "$off" ] || fail "$call: $off calls when off, $plain without the library"
done
