/* SPDX-License-Identifier: Apache-2.0
 *
 * Our own threads. The first one leaves the target's descriptor table; those it starts share its private one.
 *
 * close_range(CLOSE_RANGE_UNSHARE) is preferred to unshare(CLONE_FILES) because container runtimes' seccomp profiles
 * allow the former without privilege and not the latter. Descriptors 0..2 of the private table are /dev/null, so that
 * nothing that writes to "standard error" from here meets a socket of ours. */
#include "agent/base/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "agent/base/lock.h"
#include "agent/base/real.h"
#include "agent/base/self.h"
#include "agent/base/sys.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum {
	OURS_MAX = 64,
	CLOSE_RANGE_UNSHARE_FLAG = 2,
	CLONE_FILES_FLAG = 0x400,
	STACK_RETRY_MAX = 8 << 20,
	SETTLE_TRIES = 200,
	LINGER_NS = 500000000
};

__thread struct ppa_self ppa_self;

struct start {
	void *(*fn)(void *);
	void *arg;
	char name[16];
	bool shares_private_fds; /* the creator is one of ours */
	_Atomic int taken;
};

static struct {
	struct ppa_lock lock; /* protects tids and ended_ns; a leaf */
	pid_t tids[OURS_MAX];
	pid_t ended[OURS_MAX]; /* those that ended last may still be on a list of threads */
	uint64_t ended_at_ns[OURS_MAX];
	unsigned nended;
	uint64_t ended_ns;
	atomic_bool fds_shared; /* the kernel refused a private table */
	struct start starts[OURS_MAX];
} ours;

static void leave_descriptor_table(void)
{
	int fd;

	if (ppa_syscall(SYS_close_range, 0, ~0U, CLOSE_RANGE_UNSHARE_FLAG, 0, 0, 0)) {
		if (ppa_syscall(SYS_unshare, CLONE_FILES_FLAG, 0, 0, 0, 0, 0)) {
			atomic_store_explicit(&ours.fds_shared, true, memory_order_relaxed);
			return;
		}
		for (fd = 0; fd < 65536; fd++)
			ppa_sys_close(fd);
	}
	for (fd = 0; fd <= 2; fd++)
		ppa_syscall(SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDWR | O_CLOEXEC, 0, 0, 0);
}

/* A thread of ours that wakes up must not take the CPU from one of the target's in the middle of its slice: batch threads
 * wait for the next tick, and get their fair share then. A real-time or idle target's policy stays as it is inherited;
 * so does this one, by the threads that ours start. */
static void be_polite(void)
{
	struct sched_param none = {0};

	if (ppa_syscall(SYS_sched_getscheduler, 0, 0, 0, 0, 0, 0) == SCHED_OTHER)
		ppa_syscall(SYS_sched_setscheduler, 0, SCHED_BATCH, (long)&none, 0, 0, 0);
}

static void register_tid(pid_t tid)
{
	ppa_lock(&ours.lock);
	for (int i = 0; i < OURS_MAX; i++) {
		if (ours.tids[i])
			continue;
		ours.tids[i] = tid;
		break;
	}
	ppa_unlock(&ours.lock);
}

static void unregister_tid(pid_t tid)
{
	uint64_t used = ppa_sys_clock_ns(ppa_sys_thread_clock(tid));

	ppa_lock(&ours.lock);
	ours.ended_ns += used;
	for (int i = 0; i < OURS_MAX; i++)
		if (ours.tids[i] == tid)
			ours.tids[i] = 0;
	ours.ended[ours.nended % OURS_MAX] = tid;
	ours.ended_at_ns[ours.nended++ % OURS_MAX] = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	ppa_unlock(&ours.lock);
}

/* The address of a libc's own symbol, 0 if it has none. Looked for once: a child of a fork, which comes here as well, would
 * otherwise read the loader's tables anew. place is 0 at first, and 1 if there is none. */
static uintptr_t libc_symbol(const char *name, _Atomic(uintptr_t) *place)
{
	uintptr_t at = atomic_load_explicit(place, memory_order_relaxed);

	if (!at) {
		at = (uintptr_t)dlsym(RTLD_DEFAULT, name);
		at = at ? at : 1;
		atomic_store_explicit(place, at, memory_order_relaxed);
	}
	return at == 1 ? 0 : at;
}

/* The last thread of a process ends it with exit(0), by libc's count of threads, in which ours must not be: a program
 * whose main thread leaves by pthread_exit would never end. glibc since 2.34 shows the count.
 *
 * Whoever is created is counted out as soon as it is counted in, and back in before libc counts its end. */
static void count_target_threads(int change)
{
	static _Atomic(uintptr_t) place;
	uintptr_t count = libc_symbol("__nptl_nthreads", &place);

	if (count && __atomic_add_fetch((unsigned *)count, (unsigned)change, __ATOMIC_RELAXED) == 0)
		exit(0); /* the target's last thread ended in between and thought that there was another */
}

static void *thread_main(void *p)
{
	struct start s = *(struct start *)p;
	pid_t tid = ppa_sys_gettid();
	void *ret;

	ppa_self.is_ours = true;
	register_tid(tid);
	/* release: the copy is made and the thread is known; pairs with the compare-exchange in take_start and the acquire
	 * in ppa_thread_settle. */
	atomic_store_explicit(&((struct start *)p)->taken, 0, memory_order_release);
	ppa_syscall(SYS_prctl, PR_SET_NAME, (long)s.name, 0, 0, 0, 0);
	if (!s.shares_private_fds) {
		be_polite();
		leave_descriptor_table();
	}
	ret = s.fn(s.arg);
	unregister_tid(tid);
	count_target_threads(1);
	return ret;
}

static struct start *take_start(void)
{
	for (int i = 0; i < OURS_MAX; i++) {
		int seen = 0;

		if (atomic_compare_exchange_strong_explicit(&ours.starts[i].taken, &seen, 1, memory_order_acquire,
							    memory_order_relaxed))
			return &ours.starts[i];
	}
	return NULL;
}

/* glibc takes a thread's static TLS out of its stack: a target with much of it needs more than we ask for.
 * __pthread_get_minstack is how the JVM and Rust's std learn the amount; musl has neither the function nor the need. */
static size_t with_static_tls(size_t stack_bytes, const pthread_attr_t *attr)
{
	static _Atomic(uintptr_t) place;
	uintptr_t function = libc_symbol("__pthread_get_minstack", &place);

	return stack_bytes + (function ? ((size_t(*)(const pthread_attr_t *))function)(attr) : 0);
}

static int create(struct start *s, size_t stack_bytes)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t unused;
	size_t size;
	int err;
	uint64_t heap_left = ppa_self.heap_left;

	if ((err = pthread_attr_init(&attr)))
		return -err;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	size = with_static_tls(stack_bytes, &attr);
	/* The new thread inherits the mask: it must not run a handler of the target's for even an instant. */
	sigfillset(&all);
	ppa_real()->pthread_sigmask(SIG_SETMASK, &all, &old);
	/* What libc allocates for the thread comes from our heap: see hook/malloc.c, which asks when nothing is left. */
	ppa_self.is_spawning = true;
	ppa_self.heap_left = 0;
	do {
		pthread_attr_setstacksize(&attr, size);
		err = ppa_real()->pthread_create(&unused, &attr, thread_main, s);
		size *= 2;
	} while (err == EINVAL && size <= STACK_RETRY_MAX);
	if (!err)
		count_target_threads(-1);
	ppa_self.is_spawning = false;
	ppa_self.heap_left = heap_left;
	ppa_real()->pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}

int ppa_thread_spawn(void *(*fn)(void *), void *arg, size_t stack_bytes, const char *name)
{
	struct start *s = take_start();
	int saved = errno, err;

	if (!s)
		return -EAGAIN;
	s->fn = fn;
	s->arg = arg;
	s->shares_private_fds = ppa_self.is_ours;
	strncpy(s->name, name, sizeof(s->name) - 1);
	err = create(s, stack_bytes);
	if (err)
		atomic_store_explicit(&s->taken, 0, memory_order_release);
	errno = saved;
	return err;
}

bool ppa_thread_is_ours(void)
{
	return ppa_self.is_ours;
}

bool ppa_thread_owns(pid_t tid)
{
	uint64_t now = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	bool found = false;

	ppa_lock(&ours.lock);
	for (int i = 0; i < OURS_MAX; i++)
		found |= ours.tids[i] == tid || (ours.ended[i] == tid && now - ours.ended_at_ns[i] < LINGER_NS);
	ppa_unlock(&ours.lock);
	return found;
}

void ppa_thread_settle(void)
{
	struct timespec pause = {0, 100000};

	for (int i = 0; i < OURS_MAX; i++)
		for (int tries = 0; tries < SETTLE_TRIES; tries++) {
			if (!atomic_load_explicit(&ours.starts[i].taken, memory_order_acquire))
				break;
			ppa_syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&pause, 0, 0, 0);
		}
}

unsigned ppa_thread_count(void)
{
	unsigned n = 0;

	ppa_lock(&ours.lock);
	for (int i = 0; i < OURS_MAX; i++)
		n += ours.tids[i] != 0;
	ppa_unlock(&ours.lock);
	return n;
}

uint64_t ppa_thread_cpu_ns(void)
{
	uint64_t ns;

	ppa_lock(&ours.lock);
	ns = ours.ended_ns;
	for (int i = 0; i < OURS_MAX; i++)
		if (ours.tids[i])
			ns += ppa_sys_clock_ns(ppa_sys_thread_clock(ours.tids[i]));
	ppa_unlock(&ours.lock);
	return ns;
}

bool ppa_thread_fds_are_private(void)
{
	return !atomic_load_explicit(&ours.fds_shared, memory_order_relaxed);
}

void ppa_thread_reset(void)
{
	memset(ours.tids, 0, sizeof(ours.tids));
	memset(ours.ended, 0, sizeof(ours.ended));
	for (int i = 0; i < OURS_MAX; i++)
		atomic_store_explicit(&ours.starts[i].taken, 0, memory_order_relaxed);
	ours.ended_ns = 0;
	ppa_lock_reset(&ours.lock);
}
