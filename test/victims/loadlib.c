/* SPDX-License-Identifier: Apache-2.0
 *
 * loadlib LIBRARY: load it, say so, and call its plugin() after the gate for half a second of CPU. Meanwhile the test
 * destroys the file on disk. */
#include <dlfcn.h>

#include "victim.h"

int main(int argc, char **argv)
{
	void *lib = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	uint64_t end;
	int (*plugin)(int);

	victim_check(lib != NULL, "dlopen");
	*(void **)&plugin = dlsym(lib, "plugin");
	puts("loaded");
	fflush(stdout);
	victim_gate();
	end = victim_cpu_ns() + 500000000;
	while (victim_cpu_ns() < end)
		plugin(1);
	puts("called");
	fflush(stdout);
	victim_gate();
	return 4;
}
