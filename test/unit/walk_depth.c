/* SPDX-License-Identifier: Apache-2.0 */
// link: @walker @unwind @backtrace @iberty @zlib
// flags: -O2
/* Promise: a walk in a handler is sparing with the stack it finds. A program's alternate stack of 8 KiB, with a frame of the
 * kernel's for its own signal and another for ours (3.4 KiB each where there is AVX-512), leaves about 1.2 KiB, of which
 * the sampler's handler takes its part, too. The deepest way is a cold step through a library that can be unloaded,
 * whose tables are read by copies. */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <cmocka.h>

#include "unwind/module/modules.h"
#include "unwind/walk/arch.h"
#include "unwind/walk/unwind.h"

enum { STACK = 64 << 10, PAINT = 0xa5, DEEPEST = 1104, PCS = 64 };

static unsigned char *stack;
static struct ppa_unwind_buf buf;
static size_t deepest;
static uintptr_t function;

/* Bytes of stack that a walk takes from some instruction of the function, wherever that one's caller is. */
static __attribute__((noinline)) size_t depth_at(const ucontext_t *uc)
{
	unsigned char *top, *p;

	__asm__("mov %%rsp, %0" : "=r"(top));
	memset(stack, PAINT, (size_t)(top - stack) - 512); /* memset's own frame, if it has one, lies above that */
	ppa_unwind_context(uc, NULL, &buf);
	for (p = stack; p < top && *p == PAINT; p++)
		;
	return (size_t)(top - p);
}

static void on_signal(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;

	(void)sig;
	(void)si;
	for (int i = 0; i < PCS; i++) {
		static ucontext_t at; /* of the kernel's frame only the registers */
		size_t depth;

		memcpy(&at.uc_mcontext, &uc->uc_mcontext, sizeof(at.uc_mcontext));
		at.uc_mcontext.gregs[REG_RIP] = (greg_t)(function + (uintptr_t)i);
		depth = depth_at(&at);
		deepest = depth > deepest ? depth : deepest;
	}
}

static void a_cold_step_is_shallow(void **state)
{
	struct sigaction act = {.sa_sigaction = on_signal, .sa_flags = SA_ONSTACK | SA_SIGINFO};
	stack_t ss = {.ss_size = STACK};
	void *library = dlopen("libbz2.so.1.0", RTLD_NOW);

	(void)state;
	if (!library)
		library = dlopen("libm.so.6", RTLD_NOW);
	assert_non_null(library);
	function = (uintptr_t)dlsym(library, "BZ2_bzCompress");
	if (!function)
		function = (uintptr_t)dlsym(library, "cos");
	assert_true(function != 0);
	stack = malloc(STACK);
	ss.ss_sp = stack;
	assert_int_equal(sigaltstack(&ss, NULL), 0);
	assert_int_equal(ppa_modules_refresh(true), 0);
	assert_int_equal(ppa_unwind_init(), 0);
	sigaction(SIGUSR1, &act, NULL);
	raise(SIGUSR1);
	print_message("deepest: %zu bytes\n", deepest);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_in_range(deepest, 200, DEEPEST);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_cold_step_is_shallow)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
