#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: pprof-run --check tells every program that cannot be profiled, with one line a reason and exit 1, and says
# ok of the others; what it says of real programs is what the loader then does with them.
# Promise: without --check the program runs as it was asked to, with our library first in LD_PRELOAD.
set -u
cd "$(dirname "$0")/../.."
run=$PWD/scripts/pprof-run
lib=$(realpath -m "${LIB:-build/libpprofagent.so}")
tmp=$(mktemp -d /tmp/pprof-run.XXXXXX)
trap 'rm -rf "$tmp"' EXIT
unset LD_PRELOAD PPROF_ADDR PPROF_LIB
cd "$tmp" || exit 1
bad=0 checked=0

fail() {
	echo "FAIL: $*"
	bad=1
}

if [ ! -f "$lib" ]; then
	echo 'int ppa_stand_in;' | gcc -shared -fPIC -x c -o "$tmp/libpprofagent.so" - || exit 1
	lib=$tmp/libpprofagent.so
fi
export PPROF_LIB=$lib

# refuses PATTERN WORD...: exit 1 and exactly one line, which matches
refuses() {
	local pattern=$1 out code
	shift
	out=$("$run" --check "$@" 2>&1)
	code=$?
	checked=$((checked + 1))
	[ $code -eq 1 ] || fail "--check $* exits with $code: $out"
	[ "$(wc -l <<< "$out")" -eq 1 ] || fail "--check $* says more than one line: $out"
	grep -qE -- "$pattern" <<< "$out" || fail "--check $* does not say \"$pattern\": $out"
}

accepts() {
	local out code
	out=$("$run" --check "$@" 2>&1)
	code=$?
	checked=$((checked + 1))
	[ $code -eq 0 ] || fail "--check $* exits with $code: $out"
	[[ $out == ok:* ]] || fail "--check $* does not say ok: $out"
}

# Bytes at an offset of a file: poke FILE OFFSET BYTES
poke() {
	printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

cat > t.c <<'C'
#include <stdio.h>
int main(void) { puts("hello"); return 7; }
C
gcc -o plain t.c && gcc -static -o static t.c && gcc -static-pie -o staticpie t.c && gcc -no-pie -o fixed t.c || exit 1

accepts ./plain
accepts "$tmp/fixed"
accepts sleep
accepts -- ls -l
refuses 'not found in PATH' no-such-program-anywhere
refuses 'does not exist' ./absent
refuses 'is a directory' /tmp
refuses 'statically linked' ./static
refuses 'statically linked' ./staticpie

cp plain noexec && chmod -x noexec
refuses 'not executable' ./noexec
printf 'neither\n' > text && chmod +x text
refuses 'neither an ELF program nor a script' ./text
: > empty && chmod +x empty
refuses 'neither an ELF program nor a script' ./empty

cp plain m32 && poke m32 4 '\001' && poke m32 18 '\003\000'
refuses '32-bit x86' ./m32
cp plain arm && if [ "$(uname -m)" = aarch64 ]; then poke arm 18 '\076\000'; else poke arm 18 '\267\000'; fi
refuses 'is for .*, the agent for' ./arm
cp plain cut && truncate -s 40 cut
refuses 'statically linked|is for' ./cut

# Setuid: what the loader does is seen as somebody else, as root ignores nothing.
[ ! -u /usr/bin/su ] || refuses 'setuid' /usr/bin/su
cp plain suid && chmod u+s suid
refuses 'setuid' ./suid
cp plain sgid && chmod g+s sgid
refuses 'setgid' ./sgid
if command -v setcap >/dev/null && cp plain caps && setcap cap_net_raw+ep caps 2>/dev/null; then
	refuses 'file capabilities' ./caps
fi

printf '#!/bin/sh\necho hello\n' > script && chmod +x script
accepts ./script
printf '#! /usr/bin/env -S FOO=1 sh -e\necho hello\n' > viaenv && chmod +x viaenv
accepts ./viaenv
printf '#!%s/static\n' "$tmp" > badscript && chmod +x badscript
refuses 'static is statically linked' ./badscript
printf '#!/usr/bin/env no-such-interpreter\n' > lost && chmod +x lost
refuses 'interpreter .* was not found' ./lost
printf '#!%s/script\n' "$tmp" > twice && chmod +x twice
accepts ./twice
printf '#!%s/round\n' "$tmp" > round && chmod +x round
refuses 'scripts run by scripts' ./round

if command -v go >/dev/null; then
	printf 'package main\nfunc main() { println("hello") }\n' > g.go
	if CGO_ENABLED=0 GOCACHE=$tmp/cache GOFLAGS= go build -o gostatic g.go 2>/dev/null; then
		refuses 'static Go program' ./gostatic
	fi
fi
if command -v musl-gcc >/dev/null && musl-gcc -o musl t.c 2>/dev/null; then
	accepts ./musl
	"$run" --check ./musl | grep -q musl || fail "a musl program is not called one"
fi
gcc -o oldlibc -Wl,--dynamic-linker="$tmp/old/ld.so" t.c
refuses 'loader .* does not exist' ./oldlibc
mkdir old && printf 'GNU C Library stable release version 2.13, by Roland McGrath\n' > old/libc.so.6 && : > old/ld.so
refuses 'glibc 2.13; the agent needs 2.14' ./oldlibc
printf 'GNU C Library stable release version 2.14, by Roland McGrath\n' > old/libc.so.6
accepts ./oldlibc

mkdir "with space" with:colon && cp "$lib" "with space/l.so" && cp "$lib" with:colon/l.so
PPROF_LIB="$tmp/with space/l.so" refuses 'holds a space' ./plain
PPROF_LIB=$tmp/with:colon/l.so refuses 'colon' ./plain
PPROF_LIB=$tmp/none.so refuses 'does not exist' ./plain
[ "$(PPROF_LIB=$tmp/none.so "$run" --check ./static | wc -l)" -eq 2 ] || fail "two reasons are not two lines"

# Every shell that may be /bin/sh there says the same.
for sh in dash "busybox sh" "bash --posix"; do
	command -v "${sh%% *}" >/dev/null || continue
	$sh "$run" --check ./plain > out 2>&1 || fail "$sh: $(cat out)"
	$sh "$run" --check ./static > out 2>&1 && fail "$sh accepts a static program"
done

# -- running ---------------------------------------------------------------------------------------------------------
cat > show.c <<'C'
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	printf("%s|%s|%d|%s\n", getenv("LD_PRELOAD"), getenv("PPROF_ADDR"), argc, argv[argc - 1]);
	return 7;
}
C
gcc -o show show.c
echo 'int other;' | gcc -shared -fPIC -x c -o other.so -
says() { # says WANTED COMMAND...
	local wanted=$1 out code
	shift
	out=$("$@" 2>/dev/null)
	code=$?
	checked=$((checked + 1))
	[ $code -eq 7 ] || fail "$* exits with $code"
	[ "$out" = "$wanted" ] || fail "$* prints \"$out\", not \"$wanted\""
}
says "$lib|127.0.0.1:0|3|a b" "$run" --addr 127.0.0.1:0 ./show x "a b"
says "$lib|127.0.0.1:0|2|--check" "$run" --addr=127.0.0.1:0 ./show --check
says "$lib:$tmp/other.so|127.0.0.1:0|1|./show" env LD_PRELOAD="$tmp/other.so" "$run" --addr 127.0.0.1:0 ./show
says "$lib|127.0.0.2:0|1|./show" env PPROF_ADDR=127.0.0.2:0 "$run" ./show
says "$lib|:6060|1|./show" "$run" ./show
PPROF_LIB=$tmp/none.so "$run" ./show > out 2>&1 && fail "runs without the library"
"$run" > out 2>&1; [ $? -eq 2 ] || fail "no program is not a usage error"
"$run" --what ./show > out 2>&1; [ $? -eq 2 ] || fail "an unknown option is not a usage error"
"$run" --help | grep -q -- --check || fail "--help does not help"

echo "$checked programs and commands checked"
exit $bad
