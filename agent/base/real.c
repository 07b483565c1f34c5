/* SPDX-License-Identifier: Apache-2.0
 *
 * dlsym(RTLD_NEXT) finds the definition after ours in search order: libc's, or that of another preloaded library,
 * which then sees the call as it would without us. Before glibc 2.36 dlsym gives the *oldest* version of a symbol; for
 * the functions of this table there is one behaviour across versions. */
#include "agent/base/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/base/resolve.h"
#include "agent/base/sys.h"

#define ENTRY(name)                                                                                                    \
	{                                                                                                              \
#name, offsetof(struct ppa_real, name)                                                                 \
	}

static const struct {
	const char *name;
	size_t offset;
} entries[] = {
	ENTRY(pthread_create), ENTRY(pthread_exit), ENTRY(pthread_sigmask),
	ENTRY(sigprocmask),    ENTRY(sigaction),    ENTRY(signal),
	ENTRY(sigwait),	       ENTRY(sigwaitinfo),  ENTRY(sigtimedwait),
	ENTRY(sigpending),     ENTRY(signalfd),	    ENTRY(fork),
	ENTRY(daemon),	       ENTRY(forkpty),	    ENTRY(execve),
	ENTRY(execv),	       ENTRY(execvp),	    ENTRY(execvpe),
	ENTRY(fexecve),	       ENTRY(posix_spawn),  ENTRY(posix_spawnp),
	ENTRY(dlopen),	       ENTRY(dlmopen),	    ENTRY(dlclose),
	ENTRY(thrd_create),    ENTRY(thrd_exit),    ENTRY(pthread_setname_np),
};

static struct ppa_real real;
static atomic_bool resolved;

static void resolve(void)
{
	struct ppa_resolving r = ppa_resolve_begin();

	for (size_t i = 0; i < PPA_ARRAY_LEN(entries); i++)
		*(void **)((char *)&real + entries[i].offset) = dlsym(RTLD_NEXT, entries[i].name);
	ppa_resolve_end(&r);
	/* release: the table is complete; pairs with the acquire in ppa_real. */
	atomic_store_explicit(&resolved, true, memory_order_release);
}

const struct ppa_real *ppa_real(void)
{
	if (ppa_unlikely(!atomic_load_explicit(&resolved, memory_order_acquire)))
		resolve();
	return &real;
}
