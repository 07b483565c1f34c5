/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's kind of work at forty times the agent's rate: a real-time timer for each thread sends it a signal every
 * 100 us or so, and the handler unwinds what it interrupted. (A CPU-time timer cannot: it fires on the kernel's tick.
 * This one also hits threads that sleep.) The walker is linked into this program with a module table of its own; the
 * agent may be preloaded beside it and knows nothing of it.
 *
 * What the agent's hooks do for the agent's signal is done by hand for this one: it is blocked around fork, and the
 * walker is told of dlclose. Its handler blocks everything, the agent's signal too, which the agent's own sigaction
 * hook would not have: hence the raw system call.
 *
 * Stock libunwind is opened at run time, so that the program is the same whichever unwinder is chosen. */
#include "test/torture/storm/storm.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/vheap.h"
#include "unwind/module/modules.h"
#include "unwind/walk/unwind.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum {
	PROBERS_MAX = 64,
	KINDS_MAX = 16,
	PERIOD_NS = 100000,
	CURSOR_WORDS = 256,
	LIBUNWIND_FRAMES = 100,
	EXAMPLES = 4,
	EXAMPLE_FRAMES = 4
};

struct storm_prober {
	_Atomic int taken;
	unsigned kind;
	int timer;
	struct ppa_stack_bounds bounds;
	struct ppa_unwind_buf buf;
};

static struct {
	enum storm_unwinder unwinder;
	struct storm_prober probers[PROBERS_MAX];
	_Atomic uint64_t ends[KINDS_MAX][PPA_UNWIND_NENDS];
	_Atomic uint32_t nexamples;
	struct {
		uint32_t n;
		uintptr_t pcs[EXAMPLE_FRAMES];
	} examples[EXAMPLES];
	int (*backtrace)(void **, int);
	int (*init_local2)(void *cursor, void *context, int flag);
	int (*step)(void *cursor);
} storm;

unsigned storm_stack_factor = 1;

static void walk_by_libunwind(struct storm_prober *p, void *context)
{
	static const int UNW_INIT_SIGNAL_FRAME = 1;

	if (storm.unwinder == STORM_UNW_BACKTRACE) {
		storm.backtrace((void **)p->buf.pcs, LIBUNWIND_FRAMES);
	} else if (storm.unwinder == STORM_UNW_STEP) {
		uint64_t cursor[CURSOR_WORDS];
		int n = 0;

		if (storm.init_local2(cursor, context, UNW_INIT_SIGNAL_FRAME) == 0)
			while (n++ < LIBUNWIND_FRAMES && storm.step(cursor) > 0)
				;
	}
	p->buf.end = PPA_UNWIND_COMPLETE;
}

/* The last of those that were not complete. */
static void keep_example(const struct ppa_unwind_buf *b)
{
	uint32_t i = atomic_fetch_add_explicit(&storm.nexamples, 1, memory_order_relaxed) % EXAMPLES;

	storm.examples[i].n = b->npcs < EXAMPLE_FRAMES ? b->npcs : EXAMPLE_FRAMES;
	memcpy(storm.examples[i].pcs, b->pcs, storm.examples[i].n * sizeof(b->pcs[0]));
}

/* For one signal, a period from now. A timer that went on by itself would leave its thread no time at all where a walk
 * takes longer than the period: cold, on a busy machine, through two walks of the agent's. Not quite the same period in each
 * thread, so that they do not fall into step. */
static long arm(struct storm_prober *p)
{
	struct itimerspec once = {{0, 0}, {0, PERIOD_NS + (p - storm.probers) * 1013 % 7919}};

	return syscall(SYS_timer_settime, p->timer, 0, &once, NULL);
}

static void on_tick(int sig, siginfo_t *si, void *context)
{
	struct storm_prober *p = si->si_value.sival_ptr;
	int saved = errno;

	(void)sig;
	if (si->si_code != SI_TIMER)
		return;
	if (storm.unwinder == STORM_OURS)
		ppa_unwind_context(context, &p->bounds, &p->buf);
	else
		walk_by_libunwind(p, context);
	if (p->buf.end != PPA_UNWIND_COMPLETE)
		keep_example(&p->buf);
	atomic_fetch_add_explicit(&storm.ends[p->kind][p->buf.end], 1, memory_order_relaxed);
	arm(p);
	errno = saved;
}

static int find_libunwind(void)
{
	void *h = dlopen("libunwind.so.8", RTLD_NOW);

	if (!h)
		return -1;
	*(void **)&storm.backtrace = dlsym(h, "unw_backtrace");
	*(void **)&storm.init_local2 = dlsym(h, "_ULx86_64_init_local2");
	*(void **)&storm.step = dlsym(h, "_ULx86_64_step");
	return storm.backtrace && storm.init_local2 && storm.step ? 0 : -1;
}

/* As the kernel has it. */
struct kernel_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

int storm_prober_init(enum storm_unwinder unwinder)
{
	struct sigaction sa = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	struct kernel_action ka;

	storm.unwinder = unwinder;
	if (unwinder == STORM_UNW_BACKTRACE || unwinder == STORM_UNW_STEP) {
		storm_stack_factor = 8;
		if (find_libunwind()) {
			printf("no libunwind.so.8\n");
			return -1;
		}
	}
	if (ppa_modules_refresh(true) || ppa_unwind_init())
		return -1;
	sigaction(STORM_SIGNAL, &sa, NULL);
	syscall(SYS_rt_sigaction, STORM_SIGNAL, NULL, &ka, sizeof(ka.mask));
	ka.mask = ~UINT64_C(0);
	return (int)syscall(SYS_rt_sigaction, STORM_SIGNAL, &ka, NULL, sizeof(ka.mask));
}

static void own_bounds(struct ppa_stack_bounds *b)
{
	pthread_attr_t attr;
	void *at;
	size_t len;

	*b = (struct ppa_stack_bounds){0, 0};
	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	pthread_attr_getstack(&attr, &at, &len);
	pthread_attr_destroy(&attr);
	b->lo = (uintptr_t)at;
	b->hi = (uintptr_t)at + len;
}

static struct storm_prober *take_prober(void)
{
	for (int i = 0; i < PROBERS_MAX; i++)
		if (!atomic_exchange_explicit(&storm.probers[i].taken, 1, memory_order_acquire))
			return &storm.probers[i];
	storm_broken("too many probers");
}

struct storm_prober *storm_prober_start(unsigned kind)
{
	struct storm_prober *p = take_prober();
	struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = STORM_SIGNAL};

	p->kind = kind;
	own_bounds(&p->bounds);
	/* Its thread-local memory: to make that in the handler would be a deadlock of the loader's, not of its own. */
	if (storm.backtrace)
		storm.backtrace((void **)p->buf.pcs, LIBUNWIND_FRAMES);
	ev.sigev_value.sival_ptr = p;
	ev.sigev_notify_thread_id = (int)syscall(SYS_gettid);
	if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, &p->timer) || arm(p))
		storm_broken("timer_create");
	return p;
}

static void change_mask(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, STORM_SIGNAL);
	pthread_sigmask(how, &set, NULL);
}

/* The signal stays blocked: one that is on its way must not find the prober with another thread. */
void storm_prober_stop(struct storm_prober *p)
{
	change_mask(SIG_BLOCK);
	syscall(SYS_timer_delete, p->timer);
	atomic_store_explicit(&p->taken, 0, memory_order_release);
}

void storm_prober_hold(void)
{
	change_mask(SIG_BLOCK);
}

void storm_prober_release(int is_child)
{
	if (is_child) {
		ppa_vheap_reset();
		ppa_modules_reset();
		for (int i = 0; i < PROBERS_MAX; i++)
			storm.probers[i].taken = 0;
	}
	change_mask(SIG_UNBLOCK);
}

void storm_dlclose(void *handle)
{
	ppa_modules_unload_begin();
	dlclose(handle);
	ppa_modules_unload_end();
}

void storm_refresh(void)
{
	ppa_modules_refresh(false);
}

uint64_t storm_private_heap_bytes(void)
{
	return ppa_vheap_mapped_bytes();
}

uint64_t storm_walks(void)
{
	uint64_t n = 0;

	for (int k = 0; k < KINDS_MAX; k++)
		for (int e = 0; e < PPA_UNWIND_NENDS; e++)
			n += storm.ends[k][e];
	return n;
}

static void report_examples(void)
{
	for (uint32_t i = 0; i < EXAMPLES; i++) {
		for (uint32_t k = 0; k < storm.examples[i].n; k++) {
			uintptr_t pc = storm.examples[i].pcs[k];
			Dl_info di = {0};
			const char *name = dladdr((void *)pc, &di) && di.dli_fname ? strrchr(di.dli_fname, '/') : NULL;

			printf("%s %#lx %s+%#lx %s", k ? ",\n   " : "incomplete:", pc, name ? name + 1 : "?",
			       pc - (uintptr_t)di.dli_fbase, di.dli_sname ? di.dli_sname : "");
		}
		if (storm.examples[i].n)
			printf("\n");
	}
}

unsigned storm_prober_report(const char *const *names, unsigned nkinds)
{
	uint64_t all = storm_walks(), complete = 0;

	printf("%-12s %10s %9s %8s %8s %8s %8s %8s\n", "walks of", "all", "complete", "deep", "nomodule", "norule",
	       "badmem", "stuck");
	for (unsigned k = 0; k < nkinds; k++) {
		const _Atomic uint64_t *e = storm.ends[k];
		uint64_t n = 0;

		for (int i = 0; i < PPA_UNWIND_NENDS; i++)
			n += e[i];
		complete += e[PPA_UNWIND_COMPLETE];
		if (!n)
			continue;
		printf("%-12s %10lu %8.3f%% %8lu %8lu %8lu %8lu %8lu\n", names[k], n, 100.0 * (double)e[0] / (double)n,
		       e[1], e[2], e[3], e[4], e[5]);
	}
	report_examples();
	return all ? (unsigned)(complete * 1000 / all) : 1000;
}
