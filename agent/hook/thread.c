/* SPDX-License-Identifier: Apache-2.0
 *
 * Birth and end of threads. The creator reserves a slot, the new thread fills it, arms its own timer and runs the
 * target's function; nothing is allocated, attributes pass through untouched. Return and pthread_exit leave through
 * here; a thread that is cancelled or calls the exit system call is noticed by the next scan.
 *
 * Off, or with the table full, this is a direct call. */
#include <pthread.h>
#include <stdint.h>
#include <threads.h>

#include "agent/base/real.h"
#include "agent/base/self.h"
#include "agent/thread/created.h"
#include "agent/thread/threads.h"

static void *thread_main(void *p)
{
	struct ppa_thread *t = p;
	void *ret;

	ppa_self.slot = t;
	ppa_threads_enter(t, (uintptr_t)__builtin_frame_address(0));
	ret = t->fn(t->arg);
	ppa_threads_leave(ppa_self.slot);
	ppa_self.slot = NULL;
	return ret;
}

/* As C11 has it. libc leaves the result where the type of the start function says. */
static int c11_main(void *p)
{
	struct ppa_thread *t = p;
	int ret;

	ppa_self.slot = t;
	ppa_threads_enter(t, (uintptr_t)__builtin_frame_address(0));
	ret = ((int (*)(void *))(uintptr_t)t->fn)(t->arg);
	ppa_threads_leave(ppa_self.slot);
	ppa_self.slot = NULL;
	return ret;
}

static size_t stack_bytes_of(const pthread_attr_t *attr)
{
	pthread_attr_t fresh;
	size_t bytes = 0;

	if (attr)
		return pthread_attr_getstacksize(attr, &bytes) ? 0 : bytes;
	/* A fresh attribute answers with the process's default. */
	if (pthread_attr_init(&fresh))
		return 0;
	if (pthread_attr_getstacksize(&fresh, &bytes))
		bytes = 0;
	pthread_attr_destroy(&fresh);
	return bytes;
}

PPA_EXPORT int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr, void *(*fn)(void *),
			      void *restrict arg)
{
	struct ppa_thread *t = ppa_threads_reserve();
	struct ppa_site *site;
	int err;

	if (ppa_likely(!t))
		return ppa_real()->pthread_create(thread, attr, fn, arg);
	t->fn = fn;
	t->arg = arg;
	t->stack_bytes = stack_bytes_of(attr);
	site = ppa_created_by_caller(t, (uintptr_t)__builtin_return_address(0));
	err = ppa_real()->pthread_create(thread, attr, thread_main, t);
	if (err)
		ppa_threads_unreserve(t);
	else
		ppa_created_count(site);
	return err;
}

PPA_EXPORT void pthread_exit(void *ret)
{
	struct ppa_thread *t = ppa_self.slot;

	ppa_self.slot = NULL;
	ppa_threads_leave(t);
	ppa_real()->pthread_exit(ret);
}

/* libc's own calls pthread_create by no name that we see. Without the function in the libc, nobody can create. */
PPA_EXPORT int thrd_create(thrd_t *thread, thrd_start_t fn, void *arg)
{
	struct ppa_thread *t;
	struct ppa_site *site;
	int err;

	if (ppa_unlikely(!ppa_real()->thrd_create))
		return thrd_error;
	t = ppa_threads_reserve();
	if (ppa_likely(!t))
		return ppa_real()->thrd_create(thread, fn, arg);
	t->fn = (void *(*)(void *))(uintptr_t)fn;
	t->arg = arg;
	t->stack_bytes = stack_bytes_of(NULL);
	site = ppa_created_by_caller(t, (uintptr_t)__builtin_return_address(0));
	err = ppa_real()->thrd_create(thread, c11_main, t);
	if (err)
		ppa_threads_unreserve(t);
	else
		ppa_created_count(site);
	return err;
}

PPA_EXPORT void thrd_exit(int ret)
{
	struct ppa_thread *t = ppa_self.slot;

	ppa_self.slot = NULL;
	ppa_threads_leave(t);
	if (ppa_real()->thrd_exit)
		ppa_real()->thrd_exit(ret);
	ppa_real()->pthread_exit((void *)(intptr_t)ret);
}
