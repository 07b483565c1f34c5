/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/walk/walk.c unwind/walk/quick.c unwind/walk/asleep.c unwind/walk/guess.c unwind/walk/generated.c unwind/walk/starts.c unwind/walk/libunwind.c unwind/walk/rowcache.c unwind/walk/cfi.c unwind/walk/unindexed.c unwind/walk/cfi_program.c unwind/walk/expr.c unwind/walk/memory.c unwind/module/modules.c unwind/module/module_table.c unwind/module/module_stays.c unwind/module/module_scan.c unwind/module/maps.c unwind/module/maps_read.c unwind/module/elf_headers.c agent/base/sys.c agent/base/stats.c agent/base/vheap.c agent/base/vendor.c @unwind
// flags: -fomit-frame-pointer -fno-stack-protector
/* Promise: the warm walk, with two registers, gives what the whole one gives, and gives up where it cannot: frames found
 * by the stack pointer, by the frame pointer, realigned ones; code that may be unloaded is told; no loop. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>
#include <cmocka.h>

#include "unwind/module/modules.h"
#include "unwind/walk/rowcache.h"
#include "unwind/walk/unwind.h"
#include "unwind/walk/walk.h"

static struct ppa_stack_bounds bounds;
static struct ppa_unwind_buf buf, again;

/* Did the warm walk do it, and give the same? (When it gives up nothing is wrong, but slow.) */
static bool is_quick;

static bool walks_quickly(const void *uc)
{
	static struct ppa_unwind_buf b;
	struct ppa_walk w = {.mem = {.lo = bounds.lo, .hi = bounds.hi}, .epochs = ppa_modules_epochs()};

	ppa_arch_from_ucontext(uc, &w.regs);
	b.pcs[0] = w.regs.r[PPA_REG_PC];
	b.npcs = 1;
	return ppa_quick_walk(&w, &b, &b.end) && b.end == buf.end && b.npcs == buf.npcs &&
	       memcmp(b.pcs, buf.pcs, b.npcs * sizeof(b.pcs[0])) == 0;
}

static void on_usr1(int sig, siginfo_t *info, void *uc)
{
	(void)sig;
	(void)info;
	ppa_unwind_context(uc, &bounds, &buf);
	ppa_unwind_context(uc, &bounds, &again); /* from the row cache now */
	is_quick = walks_quickly(uc);
}

static bool has_frame_in(const void *function)
{
	enum { BYTES = 200 }; /* where it ends is not known */

	for (uint32_t i = 0; i < buf.npcs; i++)
		if (buf.pcs[i] - (uintptr_t)function < BYTES)
			return true;
	return false;
}

#define FRAME_IN(f) has_frame_in((const void *)(f))

static void complete(void)
{
	assert_int_equal(buf.end, PPA_UNWIND_COMPLETE);
	assert_int_equal(again.npcs, buf.npcs);
	assert_int_equal(again.end, buf.end);
	assert_memory_equal(again.pcs, buf.pcs, buf.npcs * sizeof(buf.pcs[0]));
}

/* Frames of one walk whose rows have one place in the table drive each other out: where the loader put things decides. */
static bool rows_share_a_place(void)
{
	struct ppa_row_view v = ppa_row_view();

	for (uint32_t i = 0; i < buf.npcs; i++)
		for (uint32_t k = 0; k < i; k++)
			if (buf.pcs[i] != buf.pcs[k] && ppa_row_slot(&v, buf.pcs[i]) == ppa_row_slot(&v, buf.pcs[k]))
				return true;
	return false;
}

static __attribute__((noinline)) void raise_here(void)
{
	raise(SIGUSR1);
	__asm__ volatile("" ::: "memory");
}

/* Frames that are found by the frame pointer: one of variable size, one that is realigned, and between them some that
 * only save it. Warm, a walk carries nothing but this register and the stack pointer along. */
static __attribute__((noinline, optimize("no-omit-frame-pointer"))) int keeps_fp(int (*next)(int), int n)
{
	int r = next(n);

	__asm__ volatile("" ::: "memory");
	return r + 1;
}

static int raises(int n)
{
	raise_here();
	return n;
}

static __attribute__((noinline)) int realigned(int n)
{
	volatile char block[64] __attribute__((aligned(64)));
	volatile char *more = __builtin_alloca((size_t)n * 10 + 1);

	block[n & 63] = (char)n;
	more[n] = block[n & 63];
	keeps_fp(raises, n);
	return block[n & 63] + more[n];
}

static __attribute__((noinline)) int clobbers_fp(int n)
{
	int r;

	/* The walk must take it from the frame below, not from the register. */
	__asm__ volatile("" ::: "rbx", "r12", "r13", "r14", "r15", "memory");
	r = keeps_fp(realigned, n + 1);
	__asm__ volatile("" : "+r"(r)::"rbx", "r12", "r13", "r14", "r15", "memory");
	return r;
}

static __attribute__((noinline)) int of_variable_size(int n)
{
	volatile char *block = __builtin_alloca((size_t)n * 100 + 1);
	int r;

	block[n] = (char)n;
	r = keeps_fp(clobbers_fp, n);
	return r + block[n];
}

static void frames_found_by_the_frame_pointer(void **state)
{
	(void)state;
	for (int n = 1; n < 5; n++) {
		of_variable_size(n);
		complete();
		assert_true(FRAME_IN(realigned) && FRAME_IN(clobbers_fp) && FRAME_IN(of_variable_size) &&
			    FRAME_IN(frames_found_by_the_frame_pointer));
		assert_true(is_quick || rows_share_a_place());
	}
}

/* The row of a frame as if its module could be unloaded: whoever keeps the stack must know. */
static void warm_frames_that_may_go(void **state)
{
	const struct ppa_epochs now = ppa_modules_epochs();
	struct ppa_row row;

	(void)state;
	raise_here();
	complete();
	if (rows_share_a_place())
		return;
	assert_false(again.may_go);
	assert_int_equal(ppa_row_lookup(buf.pcs[buf.npcs - 2], &now, &row), PPA_ROW_STAYS);
	ppa_row_store(buf.pcs[buf.npcs - 2], now.rest, &row);
	raise_here();
	complete();
	assert_true(again.may_go);
	ppa_row_store(buf.pcs[buf.npcs - 2], now.stays, &row);
}

/* A frame whose saved frame pointer points to itself, in code with rules. */
static void a_frame_that_calls_itself(void **state)
{
	uintptr_t stack[64] = {0}, ret = 0;
	ucontext_t uc = {0};

	(void)state;
	of_variable_size(1);
	for (uint32_t i = 0; i < buf.npcs && !ret; i++)
		if (buf.pcs[i] - (uintptr_t)of_variable_size < 200)
			ret = buf.pcs[i] + 1;
	assert_true(ret != 0);
	stack[32] = (uintptr_t)&stack[32];
	stack[33] = ret;
	uc.uc_mcontext.gregs[REG_RIP] = (greg_t)ret;
	uc.uc_mcontext.gregs[REG_RSP] = (greg_t)stack;
	uc.uc_mcontext.gregs[REG_RBP] = (greg_t)&stack[32];
	for (int warm = 0; warm < 2; warm++) {
		ppa_unwind_context(&uc, &bounds, &buf);
		assert_int_equal(buf.end, PPA_UNWIND_NO_PROGRESS);
		assert_true(buf.npcs < 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_found_by_the_frame_pointer),
		cmocka_unit_test(warm_frames_that_may_go),
		cmocka_unit_test(a_frame_that_calls_itself),
	};
	struct sigaction sa = {.sa_sigaction = on_usr1, .sa_flags = SA_SIGINFO};

	bounds.hi = (uintptr_t)environ; /* above every frame, below the end of the stack */
	bounds.lo = bounds.hi - (1 << 20);
	sigaction(SIGUSR1, &sa, NULL);
	/* All of the table, or rows would share a place in every second run. */
	atomic_store(&ppa_rows.mask, PPA_ROW_ENTRIES - 1);
	if (ppa_modules_refresh(true) || ppa_unwind_init())
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
