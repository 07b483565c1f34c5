#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: a program that includes agent/api/pprof_agent.h compiles without a warning, links without a library, and runs
# with and without the agent: C and C++, gcc and clang, position-independent or not, by every linker, optimised or not,
# statically, for musl, and against a glibc whose dlsym is in a library that the program is not linked with.
#
# Beside others: it compiles and compares, and measures no time.
. test/lib.sh
need gcc g++ clang

# Two files that include it share what they found. The status says whether that is what the argument expects.
cat >"$TMP/a.c" <<'EOC'
#include "pprof_agent.h"
#include <pthread.h>
#ifdef __cplusplus
extern "C" {
#endif
int there(const void **found);
#ifdef __cplusplus
}
#endif
static void *calls(void *found)
{
	const void *theirs;
	int bad = there(&theirs) != 0;

	errno = 77;
	bad |= pprof_label_set("key", "value") != 0 || errno != 77 || theirs != &pprof_agent_found_;
	*static_cast_int(found) = pprof_labels_get() != 0;
	pprof_region_begin(pprof_task_begin(0, "task"), "region");
	pprof_region_end(0, "region");
	pprof_log(0, "category", "message");
	pprof_profile_add(NULL, found, 0);
	bad |= pprof_profile_add(NULL, found, 0) != 0;
	pprof_profile_remove(NULL, found);
	return bad ? found : NULL;
}

int main(int argc, char **argv)
{
	int want = argc > 1 && argv[1][0] == '1', found[4] = {0, 0, 0, 0}, bad = 0;
	pthread_t t[4];
	void *result;

	for (int i = 0; i < 4; i++)
		bad += pthread_create(&t[i], NULL, calls, &found[i]) != 0;
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &result);
		bad += result != NULL || found[i] != want;
	}
	if (want)
		bad += pprof_profile_new("of.its.own") == NULL;
	return bad;
}
EOC
cat >"$TMP/b.c" <<'EOC'
#include "pprof_agent.h"
#ifdef __cplusplus
extern "C" {
#endif
int there(const void **found);
#ifdef __cplusplus
}
#endif
int there(const void **found)
{
	*found = &pprof_agent_found_;
	return pprof_label_unset("key");
}
EOC
for f in a b; do
	sed 's/\*static_cast_int(found)/*static_cast<int *>(found)/' "$TMP/$f.c" >"$TMP/$f.cc"
	sed -i 's/\*static_cast_int(found)/*(int *)found/' "$TMP/$f.c"
done
WARN=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -Iagent/api)

# link NAME COMPILER ARGS...: make $TMP/t.
link() {
	local name=$1
	shift
	"$@" -o "$TMP/t" 2>"$TMP/log" || fail "$name does not link: $(head -5 "$TMP/log")"
}

# runs NAME: $TMP/t finds the agent when it is there, and only then.
runs() {
	timeout 20 "$TMP/t" 0 || fail "$1: status $? without the agent"
	LD_PRELOAD=$LIB timeout 20 "$TMP/t" 0 || fail "$1: status $? with the agent switched off"
	LD_PRELOAD=$LIB PPROF_ADDR=127.0.0.1:0 PPROF_LOG=quiet timeout 20 "$TMP/t" 1 || fail "$1: status $? with the agent"
	n=$((n + 1))
}

n=0
# Debian 11's libc and loader to link with: nothing in them is called dlsym.
scripts/bootstrap debian11 >"$TMP/log" 2>&1 || echo "no Debian 11 packages: the old glibc is left out"
OLD=(build/debian11/lib/x86_64-linux-gnu/libc.so.6 build/debian11/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2
	build/debian11/lib/x86_64-linux-gnu/libpthread.so.0)
CRT=$(dirname "$(gcc -print-file-name=crt1.o)")
for cc in "gcc -std=c99 -D_GNU_SOURCE" "clang -std=c11" "g++ -std=c++11 -Wold-style-cast" "clang++ -std=c++20 -Wold-style-cast"; do
	read -ra compile <<<"$cc"
	suffix=c
	[[ $cc == *++* ]] && suffix=cc
	for pie in -pie -no-pie; do
		code=${pie/pie/fPIE}
		code=${code/-no-f/-fno-}
		for o in -O0 -O2; do
			[ "$suffix $o" = "cc -O0" ] && continue
			for f in a b; do
				"${compile[@]}" "${WARN[@]}" "$o" "$code" -c "$TMP/$f.$suffix" -o "$TMP/$f.o" 2>"$TMP/log" ||
					fail "$cc $o $code: $(head -5 "$TMP/log")"
			done
			for ld in bfd gold lld; do
				command -v "ld.$ld" >/dev/null || continue
				name="$cc $o $pie $ld"
				link "$name" "${compile[0]}" "$pie" -pthread "-fuse-ld=$ld" "$TMP/a.o" "$TMP/b.o"
				runs "$name"
				[ "$o" = -O2 ] && [[ $cc == gcc* ]] && [ -e "${OLD[0]}" ] || continue
				start=crt1.o
				[ "$pie" = -pie ] && start=Scrt1.o
				link "$name, glibc 2.31" "${compile[0]}" "$pie" "-fuse-ld=$ld" -nostdlib "$CRT/$start" "$CRT/crti.o" \
					"$TMP/a.o" "$TMP/b.o" "${OLD[@]}" "$CRT/crtn.o"
				runs "$name, glibc 2.31"
			done
		done
	done
done
echo "$n programs found the agent"

for how in -static -static-pie; do
	link "$how" gcc "$how" -pthread "${WARN[@]}" -O2 "$TMP/a.c" "$TMP/b.c"
	timeout 20 "$TMP/t" 0 || fail "$how: status $?"
done
link -flto gcc -flto -O2 -pthread "${WARN[@]}" "$TMP/a.c" "$TMP/b.c"
runs -flto
if command -v musl-gcc >/dev/null; then
	for how in "-fPIE -pie" "-fno-pie -no-pie"; do
		# shellcheck disable=SC2086
		link "musl $how" musl-gcc $how "${WARN[@]}" -O2 "$TMP/a.c" "$TMP/b.c"
		runs "musl $how"
	done
fi

# A library of an unchanged program.
gcc -shared -fPIC "${WARN[@]}" -O2 "$TMP/b.c" -o "$TMP/libb.so" || fail "no library"
! nm -D "$TMP/libb.so" | grep -i pprof || fail "a library that uses the header exports something of it"
