#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: at 99.9 % of all instructions inside a libc without unwind tables (Debian's musl) a stack is whole and right,
# frame by frame, for programs with and without frame pointers, and with and without an index of their own tables. (It
# was all of 400,000 with musl 1.2.3.)
#
# Beside others: it compiles and compares, and measures no time.
. test/lib.sh
need musl-gcc
mkdir "$TMP/kernel"
for d in linux asm-generic; do ln -s "/usr/include/$d" "$TMP/kernel/$d"; done
ln -s "/usr/include/$(gcc -print-multiarch)/asm" "$TMP/kernel/asm"
ln -s /usr/include/zlib.h /usr/include/zconf.h "$TMP/kernel"
walker=()
for f in unwind/*/*.c agent/base/{sys,vheap,stats}.c; do
	case ${f##*/} in libunwind.c | demangle.c | debugdata.c | symbols.c | functions.c | bt_alloc.c | dwarf*.c | lines.c | pool.c) ;; *) walker+=("$f") ;; esac
done
for options in "-O2" "-O0 -fno-omit-frame-pointer" "-O2 -Wl,--eh-frame-hdr"; do
	# shellcheck disable=SC2086
	musl-gcc $options -g -w -std=gnu11 -D_GNU_SOURCE -I. -I"$TMP/kernel" -o "$TMP/step" test/preload/musl/singlestep.c \
		"${walker[@]}" 2>"$TMP/log" || fail "does not compile: $(head -5 "$TMP/log")"
	"$TMP/step" >"$TMP/out" || fail "$options: status $?"
	read -r steps wrong stack <"$TMP/out"
	echo "$options: $wrong of $steps walks wrong; the deepest took $stack bytes of stack"
	[ "$steps" -gt 100000 ] || fail "only $steps steps"
	[ $((wrong * 1000)) -le "$steps" ] || fail "$options: $wrong of $steps walks are wrong"
	# The handler is to need no more than 1.5 KiB, of which it takes a tenth itself.
	[[ $options == -O0* ]] || [ "$stack" -le 1400 ] || fail "$options: a walk took $stack bytes of stack"
done
