/* SPDX-License-Identifier: Apache-2.0
 *
 * Birth and end of threads. The creator reserves a slot, the new thread fills it, arms its own timer and runs the
 * target's function; nothing is allocated, attributes pass through untouched. Return and pthread_exit leave through
 * here; a thread that is cancelled or calls the exit system call is noticed by the next scan.
 *
 * Off, or with the table full, this is a direct call. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <threads.h>

#include "agent/base/real.h"
#include "agent/base/self.h"
#include "agent/base/sys.h"
#include "agent/thread/created.h"
#include "agent/thread/renamed.h"
#include "agent/thread/threads.h"
#include "agent/trace/trace.h"

static void enter(struct ppa_thread *t, uintptr_t frame)
{
	ppa_self.slot = t;
	ppa_threads_enter(t, frame);
	if (ppa_unlikely(ppa_trace_is_on()))
		ppa_trace_thread_begins();
}

static void leave(void)
{
	struct ppa_thread *t = ppa_self.slot;

	if (ppa_unlikely(ppa_trace_is_on()))
		ppa_trace_thread_ends();
	ppa_self.slot = NULL;
	ppa_threads_leave(t);
}

static void *thread_main(void *p)
{
	struct ppa_thread *t = p;
	void *ret;

	enter(t, (uintptr_t)__builtin_frame_address(0));
	ret = t->fn(t->arg);
	leave();
	return ret;
}

/* As C11 has it. libc leaves the result where the type of the start function says. */
static int c11_main(void *p)
{
	struct ppa_thread *t = p;
	int ret;

	enter(t, (uintptr_t)__builtin_frame_address(0));
	ret = ((int (*)(void *))(uintptr_t)t->fn)(t->arg);
	leave();
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

/* What a trace says of a birth: known only before, said only if there was one. Its time is that of the genuine function's
 * return: the new thread is let go at the very end of it, after its stack was made. */
struct birth {
	uint64_t key;
	bool is_traced;
	const struct ppa_site *site;
};

static struct birth before_birth(const struct ppa_thread *t, const struct ppa_site *site)
{
	struct birth b = {0, ppa_trace_is_on(), site};

	if (ppa_unlikely(b.is_traced))
		b.key = ppa_threads_key(ppa_threads_index(t),
					atomic_load_explicit(&t->generation, memory_order_relaxed));
	return b;
}

static void after_birth(const struct birth *b)
{
	if (ppa_unlikely(b->is_traced))
		ppa_trace_created(b->key, ppa_sys_clock_ns(CLOCK_MONOTONIC), b->site);
}

PPA_EXPORT int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr, void *(*fn)(void *),
			      void *restrict arg)
{
	struct ppa_thread *t = ppa_threads_reserve();
	struct ppa_site *site;
	struct birth birth;
	int err;

	if (ppa_likely(!t))
		return ppa_real()->pthread_create(thread, attr, fn, arg);
	t->fn = fn;
	t->arg = arg;
	t->stack_bytes = stack_bytes_of(attr);
	site = ppa_created_by_caller(t, (uintptr_t)__builtin_return_address(0));
	birth = before_birth(t, site);
	err = ppa_real()->pthread_create(thread, attr, thread_main, t);
	if (err) {
		ppa_threads_unreserve(t);
	} else {
		ppa_created_count(site);
		after_birth(&birth);
	}
	return err;
}

PPA_EXPORT void pthread_exit(void *ret)
{
	leave();
	ppa_real()->pthread_exit(ret);
}

/* libc's own calls pthread_create by no name that we see. Without the function in the libc, nobody can create. */
PPA_EXPORT int thrd_create(thrd_t *thread, thrd_start_t fn, void *arg)
{
	struct ppa_thread *t;
	struct ppa_site *site;
	struct birth birth;
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
	birth = before_birth(t, site);
	err = ppa_real()->thrd_create(thread, c11_main, t);
	if (err) {
		ppa_threads_unreserve(t);
	} else {
		ppa_created_count(site);
		after_birth(&birth);
	}
	return err;
}

PPA_EXPORT void thrd_exit(int ret)
{
	leave();
	if (ppa_real()->thrd_exit)
		ppa_real()->thrd_exit(ret);
	ppa_real()->pthread_exit((void *)(intptr_t)ret);
}

PPA_EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
	int err;

	if (ppa_unlikely(!ppa_real()->pthread_setname_np))
		return ENOSYS;
	err = ppa_real()->pthread_setname_np(thread, name);
	if (!pthread_equal(thread, pthread_self()))
		ppa_renamed_note();
	return err;
}
