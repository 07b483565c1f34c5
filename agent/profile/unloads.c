/* SPDX-License-Identifier: Apache-2.0
 *
 * A stack wants two tables kept: the current one, which has its libraries, or else the next one has them, because they
 * came after the last dlclose and that is not yet seen through.
 *
 * Requests to the thread: asked grows with each that somebody waits for, and done follows it; later is set by those who
 * do not wait, and served a moment after, together with what else came. calls grows with both. */
#include "agent/profile/unloads.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "unwind/module/modules.h"

enum {
	TABLES = 2,
	WAIT_MS = 20,
	LATER_MS = 20,
	LINGER_MS = 1000,
	STACK_BYTES = 64 << 10,
};

static struct {
	_Atomic bool is_on;
	/* set by hooks */
	_Atomic uint32_t wanted;  /* how many more tables to keep */
	_Atomic uint32_t unknown; /* a stack with an unknown library was seen since the last refresh */
	/* the thread's */
	_Atomic uint32_t asked, done, later, calls, is_running;
} unloads;

uint32_t ppa_unloads_note_birth(void)
{
	atomic_store_explicit(&unloads.wanted, TABLES, memory_order_relaxed);
	return (uint32_t)ppa_modules_unloads();
}

uint64_t ppa_unloads_note_unknown(void)
{
	atomic_store_explicit(&unloads.unknown, 1, memory_order_relaxed);
	return ~ppa_modules_unloads();
}

/* Asked by the module table when a layout ends. */
static bool is_wanted(void)
{
	uint32_t wanted = atomic_load_explicit(&unloads.wanted, memory_order_relaxed);

	if (wanted)
		atomic_store_explicit(&unloads.wanted, wanted - 1, memory_order_relaxed);
	return wanted;
}

/* Sleep until the word changes or is woken, or the time is over. */
static void wait_ms(_Atomic uint32_t *word, uint32_t seen, int ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000L};

	ppa_syscall(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, (long)seen, (long)&ts, 0, 0);
}

static void wake(_Atomic uint32_t *word)
{
	ppa_syscall(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, INT32_MAX, 0, 0, 0);
}

static bool is_called(uint32_t seen)
{
	return atomic_load_explicit(&unloads.calls, memory_order_seq_cst) != seen;
}

/* Wait for the next call, and let the unhurried ones gather. False: none came for a while. */
static bool next_call(uint32_t seen)
{
	if (!is_called(seen))
		wait_ms(&unloads.calls, seen, LINGER_MS);
	if (!is_called(seen))
		return false;
	seen = atomic_load_explicit(&unloads.calls, memory_order_relaxed);
	if (atomic_load_explicit(&unloads.asked, memory_order_relaxed) ==
	    atomic_load_explicit(&unloads.done, memory_order_relaxed))
		wait_ms(&unloads.calls, seen, LATER_MS);
	return true;
}

static void *serve(void *unused)
{
	(void)unused;
	for (;;) {
		/* acquire: the caller's library is mapped, or the unload counted, before we look. */
		uint32_t calls = atomic_load_explicit(&unloads.calls, memory_order_acquire);
		uint32_t asked = atomic_load_explicit(&unloads.asked, memory_order_acquire);

		atomic_store_explicit(&unloads.later, 0, memory_order_seq_cst);
		ppa_modules_refresh(false);
		/* release: the table is published before anybody goes on. */
		atomic_store_explicit(&unloads.done, asked, memory_order_release);
		wake(&unloads.done);
		if (next_call(calls))
			continue;
		/* seq_cst: either the next caller sees that nobody runs, or we see the call. */
		atomic_store_explicit(&unloads.is_running, 0, memory_order_seq_cst);
		if (!is_called(calls) || atomic_exchange_explicit(&unloads.is_running, 1, memory_order_seq_cst))
			return NULL;
	}
}

/* Let the thread take up what was asked. False if there is none and none can be had. */
static bool call(void)
{
	uint32_t none = 0;

	atomic_fetch_add_explicit(&unloads.calls, 1, memory_order_seq_cst);
	if (!atomic_compare_exchange_strong_explicit(&unloads.is_running, &none, 1, memory_order_seq_cst,
						     memory_order_seq_cst)) {
		wake(&unloads.calls);
		return true;
	}
	if (ppa_thread_spawn(serve, NULL, STACK_BYTES, "pprof-modules") == 0)
		return true;
	atomic_store_explicit(&unloads.is_running, 0, memory_order_seq_cst);
	return false;
}

static bool is_needed(void)
{
	return atomic_load_explicit(&unloads.is_on, memory_order_relaxed) && !ppa_thread_is_ours();
}

void ppa_unloads_before(void)
{
	uint64_t begin;
	uint32_t mine, done;

	if (!is_needed() || !atomic_load_explicit(&unloads.unknown, memory_order_relaxed))
		return;
	atomic_store_explicit(&unloads.unknown, 0, memory_order_relaxed);
	begin = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	mine = atomic_fetch_add_explicit(&unloads.asked, 1, memory_order_seq_cst) + 1;
	if (!call())
		return;
	while ((int32_t)((done = atomic_load_explicit(&unloads.done, memory_order_acquire)) - mine) < 0 &&
	       ppa_sys_clock_ns(CLOCK_MONOTONIC) - begin < WAIT_MS * 1000000ULL)
		wait_ms(&unloads.done, done, WAIT_MS);
}

void ppa_unloads_after(void)
{
	if (!is_needed() || atomic_exchange_explicit(&unloads.later, 1, memory_order_seq_cst))
		return;
	call();
}

void ppa_unloads_start(void)
{
	ppa_modules_keep_past(is_wanted);
	atomic_store_explicit(&unloads.is_on, true, memory_order_relaxed);
}

void ppa_unloads_reset(void)
{
	atomic_store_explicit(&unloads.asked, 0, memory_order_relaxed);
	atomic_store_explicit(&unloads.done, 0, memory_order_relaxed);
	atomic_store_explicit(&unloads.later, 0, memory_order_relaxed);
	atomic_store_explicit(&unloads.is_running, 0, memory_order_relaxed);
}
