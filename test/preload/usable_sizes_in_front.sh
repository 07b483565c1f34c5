#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: a library preloaded before the agent that asks malloc_usable_size of each block that passes through it (as
# accounting wrappers do) gets an answer for all of them, those that libc allocates for the agent's threads included.
. test/lib.sh
need gcc curl
cat >"$TMP/sizes.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
static atomic_long wrong, of_agent;
static void check(void *p, size_t least)
{
	size_t n = malloc_usable_size(p);
	char name[17] = "";
	prctl(PR_GET_NAME, name);
	of_agent += !strncmp(name, "pprof-", 6);
	wrong += n < least || n > 2 * least + (1 << 20);
}
void *calloc(size_t n, size_t size)
{
	static void *(*next)(size_t, size_t);
	static atomic_int busy;
	void *p;
	if (!next && !busy++)
		next = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
	p = next ? next(n, size) : NULL;
	if (p)
		check(p, n * size);
	return p;
}
void free(void *p)
{
	static void (*next)(void *);
	static atomic_int busy;
	if (!next && !busy++)
		next = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	if (!p || !next)
		return;
	check(p, 0);
	next(p);
}
__attribute__((destructor)) static void report(void)
{
	FILE *f = fopen(getenv("SIZES_FILE"), "w");
	if (f)
		fprintf(f, "wrong %ld, of the agent's %ld\n", wrong, of_agent);
	if (f)
		fclose(f);
}
END
gcc -shared -fPIC -O1 -fno-builtin -o "$TMP/sizes.so" "$TMP/sizes.c" -ldl 2>"$TMP/log" || fail "cannot compile: $(head -5 "$TMP/log")"
AGENT_ENV=("LD_PRELOAD=$TMP/sizes.so $LIB" "SIZES_FILE=$TMP/sizes")
start "$VICTIMS/spin" 1 1500
[ -n "$ADDR" ] || fail "no address: $(cat "$TMP/err")"
clients=()
for i in 1 2 3; do
	fetch "/debug/pprof/profile?seconds=1" -f -o "$TMP/p$i" &
	clients+=($!)
done
wait "${clients[@]}"
finish
grep -q '^wrong 0, of the agent.s [1-9]' "$TMP/sizes" || fail "status $STATUS; $(cat "$TMP/sizes" "$TMP/err")"
