/* SPDX-License-Identifier: Apache-2.0
 *
 * Known to be true: each library of the command line was loaded, its keep() allocated memory that stays, and it was
 * unloaded again, one after the other, without a pause. Prints how often keep() was found where the library before had
 * it, and then waits at the gate. With a first argument -N all libraries have their turn N times. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "victim.h"

int main(int argc, char **argv)
{
	int first = argc > 1 && argv[1][0] == '-' ? 2 : 1;
	int rounds = first == 2 ? atoi(argv[1] + 1) : 1, same = 0;
	void *last = NULL;

	for (int i = 0; i < rounds * (argc - first); i++) {
		void *library = dlopen(argv[first + i % (argc - first)], RTLD_NOW);
		void (*keep)(void);

		if (!library) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		*(void **)&keep = dlsym(library, "keep");
		keep();
		same += last == *(void **)&keep;
		last = *(void **)&keep;
		dlclose(library);
	}
	printf("%d at the same address\n", same);
	fflush(stdout);
	victim_gate();
	return 0;
}
