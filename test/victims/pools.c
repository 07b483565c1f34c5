/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles of its own, by agent/api/pprof_agent.h: says on standard output what the names and values that it tries come
 * to. Behind the gate pools_take has put 5 values into "db.connections" and pools_borrow, by way of a wrapper that skips
 * itself, 3, of which 2 have been given back; "empty" has none. At the next gate pools_take puts 10 more, and at the one
 * after that all go. */
#include "../../agent/api/pprof_agent.h"

#include <string.h>

#include "victim.h"

enum { TAKEN = 5, BORROWED = 3, RETURNED = 2, MORE = 10 };

static struct pprof_profile *pool;
static char connections[TAKEN + BORROWED + MORE];

VICTIM_NOINLINE static void pools_take(int from, int to)
{
	for (int i = from; i < to; i++)
		victim_check(pprof_profile_add(pool, &connections[i], 0) == 0, "pprof_profile_add");
	VICTIM_NO_TAIL_CALL();
}

VICTIM_NOINLINE static void pools_wrapper(int i)
{
	victim_check(pprof_profile_add(pool, &connections[i], 1) == 0, "pprof_profile_add");
	VICTIM_NO_TAIL_CALL();
}

VICTIM_NOINLINE static void pools_borrow(int from, int to)
{
	for (int i = from; i < to; i++)
		pools_wrapper(i);
	VICTIM_NO_TAIL_CALL();
}

static void try_names(void)
{
	static const char *const names[] = {
		"db.connections", "heap", "profile", "cmdline", "wall", "",	"a b",
		"../x",		  "a//b", "/a",	     "a/",	"a/..", "a/.b", "github.com/me/pool.Conn",
		"x%41",		  "\"",	  "<b>"};
	char longest[70];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		printf("%s: %s\n", names[i], pprof_profile_new(names[i]) ? "new" : "refused");
	memset(longest, 'n', sizeof(longest));
	longest[64] = '\0';
	printf("64 letters: %s\n", pprof_profile_new(longest) ? "new" : "refused");
	longest[63] = '\0';
	printf("63 letters: %s\n", pprof_profile_new(longest) ? "new" : "refused");
}

int main(void)
{
	int n = 0;
	char name[16];

	pool = pprof_profile_new("db.connections");
	try_names();
	victim_check(pprof_profile_new("empty") != NULL, "pprof_profile_new");
	pools_take(0, TAKEN);
	pools_borrow(TAKEN, TAKEN + BORROWED);
	printf("twice: %d, NULL: %d\n", pprof_profile_add(pool, connections, 0) == -EEXIST,
	       pprof_profile_add(pool, NULL, 0) == -EINVAL);
	for (int i = 0; i < RETURNED; i++)
		pprof_profile_remove(pool, &connections[TAKEN + i]);
	pprof_profile_remove(pool, &connections[TAKEN]);
	pprof_profile_remove(pool, &n);
	puts("ready");
	fflush(stdout);
	victim_gate();
	pools_take(TAKEN + BORROWED, TAKEN + BORROWED + MORE);
	puts("more");
	fflush(stdout);
	victim_gate();
	for (size_t i = 0; i < sizeof(connections); i++)
		pprof_profile_remove(pool, &connections[i]);
	do
		snprintf(name, sizeof(name), "x%d", n++);
	while (n < 1000 && pprof_profile_new(name));
	printf("all: %d\n", n);
	fflush(stdout);
	victim_gate();
	return 0;
}
