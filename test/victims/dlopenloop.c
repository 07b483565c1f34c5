/* SPDX-License-Identifier: Apache-2.0
 *
 * dlopenloop ROUNDS LIBRARY...: two threads load, call and unload the libraries over and over while a third burns.
 * Each library exports "int plugin(int)" that burns a little. Prints the sum of what they returned. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "victim.h"

struct job {
	long rounds;
	char **libs;
	int nlibs;
	long sum;
};

static atomic_int stop;

static void *loader(void *arg)
{
	struct job *j = arg;

	for (long i = 0; i < j->rounds; i++) {
		void *lib = dlopen(j->libs[i % j->nlibs], RTLD_NOW | RTLD_LOCAL);
		int (*plugin)(int);

		if (!lib) {
			printf("BROKEN: %s\n", dlerror());
			fflush(stdout);
			_exit(99);
		}
		*(void **)&plugin = dlsym(lib, "plugin");
		victim_check(plugin != NULL, "no plugin()");
		j->sum += plugin((int)i);
		dlclose(lib);
	}
	return NULL;
}

static void *burner(void *arg)
{
	while (!atomic_load(&stop))
		victim_burn_ns(1000000);
	return arg;
}

int main(int argc, char **argv)
{
	struct job jobs[2] = {{victim_arg(argc, argv, 1, 100), argv + 2, argc - 2, 0}};
	pthread_t t[3];

	victim_check(argc > 2, "no library");
	jobs[1] = jobs[0];
	victim_gate();
	victim_check(!pthread_create(&t[2], NULL, burner, NULL), "pthread_create");
	for (int i = 0; i < 2; i++)
		victim_check(!pthread_create(&t[i], NULL, loader, &jobs[i]), "pthread_create");
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	atomic_store(&stop, 1);
	pthread_join(t[2], NULL);
	printf("sums %ld %ld\n", jobs[0].sum, jobs[1].sum);
	return 0;
}
