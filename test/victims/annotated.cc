/* SPDX-License-Identifier: Apache-2.0
 *
 * A C++ program that uses agent/api/pprof_agent.h. Behind the gate it serves 20 requests: each a task "request" with
 * regions "parse" (2 ms of CPU) and "query" (5 ms), a message in between, and the label op=checkout meanwhile. Then its thread
 * keeps the label op=wait and one value in the profile "db.connections", and waits at the gate. annotated_rust.rs and
 * annotated.py are the same program. */
#include "../../agent/api/pprof_agent.h"

#include "victim.h"

enum { REQUESTS = 20 };

static struct pprof_profile *pool;

struct connection {
	connection()
	{
		pprof_profile_add(pool, this, 0);
	}
	~connection()
	{
		pprof_profile_remove(pool, this);
	}
};

VICTIM_NOINLINE static void parse(pprof_task request)
{
	pprof::region region(request, "parse");

	victim_burn_ns(2000000);
}

VICTIM_NOINLINE static void query(pprof_task request)
{
	pprof::region region(request, "query");
	connection used;

	victim_burn_ns(5000000);
}

VICTIM_NOINLINE static void serve()
{
	pprof::task request("request");
	pprof::scoped_label op("op", "checkout");

	parse(request);
	pprof_log(request, "db", "select \"all\"");
	query(request);
}

int main()
{
	pool = pprof_profile_new("db.connections");
	victim_gate();
	for (int i = 0; i < REQUESTS; i++)
		serve();
	pprof::scoped_label op("op", "wait");
	connection kept;
	puts("served");
	fflush(stdout);
	victim_gate();
	return 0;
}
