#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: the mmap profile shows what the program maps, to the byte, and nothing else: neither the memory of whatever
# allocator serves it (glibc, musl, jemalloc, tcmalloc, mimalloc, in both orders of preloading) nor thread stacks. Where
# another library's mmap comes before ours, the profile says so.
. test/lib.sh
need go
LIBS=/usr/lib/$(uname -m)-linux-gnu

# only WHAT PROGRAM...: the program maps 120 MiB in touched(), allocates 100 MiB and starts a thread.
only() {
	local what=$1 i sum
	shift
	start "$@" rss
	[ -n "$ADDR" ] || fail "$what: the agent told no address: $(cat "$TMP/err")"
	open_gate
	wait_for grep -q READY "$TMP/out"
	# The first word is a library that must be there.
	grep -q "${what%% *}" "/proc/$PID/maps" || fail "$what is not loaded"
	fetch /debug/pprof/mmap -f -o "$TMP/p.pb.gz" || fail "$what: no profile"
	open_gate
	finish
	[ "$STATUS" = 0 ] || fail "$what: status $STATUS: $(cat "$TMP/err")"
	go tool pprof -symbolize=none -top "$TMP/p.pb.gz" >"$TMP/top" 2>/dev/null
	sum=$(awk '/^Showing nodes/ { sub(",", "", $5); print $5 }' "$TMP/top")
	[ "${sum%MB}" = "${MAPPED:-120}" ] || fail "$what: $sum mapped instead of ${MAPPED:-120}: $(cat "$TMP/top")"
	[ "${MAPPED:-}" != 0 ] || grep -q 'mappings are not seen' "$TMP/top" || fail "$what: nothing is said: $(cat "$TMP/top")"
	[ "${MAPPED:-}" = 0 ] || ! grep -q 'not seen' "$TMP/top" || fail "$what: $(cat "$TMP/top")"
	echo "$what: $sum"
}

only libc.so.6 "$VICTIMS/mapper"
for name in jemalloc.so.2 tcmalloc_minimal.so.4 tcmalloc.so.4 mimalloc.so.2; do
	other=$LIBS/lib$name
	[ -r "$other" ] || continue
	AGENT_ENV=("LD_PRELOAD=$LIB:$other")
	only "$name behind us" "$VICTIMS/mapper"
	AGENT_ENV=("LD_PRELOAD=$other:$LIB")
	# tcmalloc has an mmap of its own, which asks the kernel: before us, it hides every mapping, and we say so.
	case $name in
	tcmalloc*) MAPPED=0 only "$name before us" "$VICTIMS/mapper" ;;
	*) only "$name before us" "$VICTIMS/mapper" ;;
	esac
done
AGENT_ENV=()

if command -v musl-gcc >/dev/null; then
	musl-gcc -O2 -g -pthread -o "$TMP/mapper" test/victims/mapper.c 2>"$TMP/gcc.log" || fail "musl: $(head -5 "$TMP/gcc.log")"
	only linux-musl "$TMP/mapper"
fi

OLD=$PWD/build/debian11/lib/x86_64-linux-gnu
if [ -x "$OLD/ld-2.31.so" ]; then
	gcc -O2 -g -o "$TMP/mapper" test/victims/mapper.c -nodefaultlibs -Wl,--dynamic-linker="$OLD/ld-2.31.so" \
		-Wl,--disable-new-dtags -Wl,-rpath,"$OLD" -lgcc -Wl,--no-as-needed "$OLD"/lib{c,pthread,dl,rt}-2.31.so \
		2>"$TMP/gcc.log" || fail "cannot link to glibc 2.31: $(head -5 "$TMP/gcc.log")"
	only "libc-2.31" "$TMP/mapper"
fi
