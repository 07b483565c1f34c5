/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks that are not the thread's: fibers of makecontext on 16 KiB and of a hand-written switch on 8 KiB, and signal
 * handlers of the program's own on an alternate stack of 8 KiB, the SIGSTKSZ of old. Every stack has a page below it
 * that may not be touched: an overflow is a crash. For libunwind, whose handler overflows them, they are larger. */
#include "test/torture/storm/storm.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096, NFIBERS = 4, SWITCHES = 50 };
#define SMALL ((size_t)(8 << 10) * storm_stack_factor)
#define MEDIUM (2 * SMALL)

static __thread volatile unsigned sink;

static char *guarded_stack(size_t bytes)
{
	char *p = mmap(NULL, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p, PAGE, PROT_NONE))
		storm_broken("mmap");
	return p + PAGE;
}

/* ---- fibers by hand ----
 * The two stacks look the same around the switch, so one description holds at each instruction. */
void storm_switch(void **save_sp, void *sp);
__asm__(".text\n"
	".globl storm_switch\n"
	".hidden storm_switch\n"
	".type storm_switch, @function\n"
	"storm_switch:\n"
	".cfi_startproc\n"
	"push %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbp, 0\n"
	"push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbx, 0\n"
	"push %r12\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r12, 0\n"
	"push %r13\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r13, 0\n"
	"push %r14\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r14, 0\n"
	"push %r15\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r15, 0\n"
	"mov %rsp, (%rdi)\n"
	"mov %rsi, %rsp\n"
	"pop %r15\n.cfi_adjust_cfa_offset -8\n.cfi_restore r15\n"
	"pop %r14\n.cfi_adjust_cfa_offset -8\n.cfi_restore r14\n"
	"pop %r13\n.cfi_adjust_cfa_offset -8\n.cfi_restore r13\n"
	"pop %r12\n.cfi_adjust_cfa_offset -8\n.cfi_restore r12\n"
	"pop %rbx\n.cfi_adjust_cfa_offset -8\n.cfi_restore rbx\n"
	"pop %rbp\n.cfi_adjust_cfa_offset -8\n.cfi_restore rbp\n"
	"ret\n"
	".cfi_endproc\n"
	".size storm_switch, .-storm_switch\n");

static struct {
	void *home;
	void *sp[NFIBERS];
	int current;
	ucontext_t context_home, context[NFIBERS];
} fibers;

static void small_fiber(void)
{
	for (;;) {
		free(malloc(storm_recurse(5, 40) % 500));
		storm_switch(&fibers.sp[fibers.current], fibers.home);
	}
}

static void medium_fiber(void)
{
	for (;;) {
		sink = (unsigned)storm_throw_through(2) + storm_recurse(5, 40);
		swapcontext(&fibers.context[fibers.current], &fibers.context_home);
	}
}

void storm_prepare_fibers(void)
{
	for (int i = 0; i < NFIBERS; i++) {
		/* From the top: 0 where a caller would be, the entry, six registers. The entry finds the stack as a
		 * call leaves it. */
		void **sp = (void **)(guarded_stack(SMALL) + SMALL) - 2;

		*--sp = (void *)small_fiber;
		fibers.sp[i] = sp - 6;
		getcontext(&fibers.context[i]);
		fibers.context[i].uc_stack.ss_sp = guarded_stack(MEDIUM);
		fibers.context[i].uc_stack.ss_size = MEDIUM;
		makecontext(&fibers.context[i], medium_fiber, 0);
	}
}

void storm_run_fibers(unsigned round)
{
	for (int i = 0; i < SWITCHES; i++) {
		fibers.current = (int)(round + (unsigned)i) % NFIBERS;
		storm_switch(&fibers.home, fibers.sp[fibers.current]);
		swapcontext(&fibers.context_home, &fibers.context[fibers.current]);
	}
}

/* ---- an alternate stack ---- */

static sigjmp_buf fault;

static void on_usr(int sig)
{
	char text[200];

	/* Such handlers write a message; printing takes more than a KiB. */
	snprintf(text, sizeof(text), "signal %d: %u %s", sig, storm_recurse(5, 4000), "of the storm's own");
	free(malloc(strlen(text)));
}

static void on_fault(int sig, siginfo_t *si, void *context)
{
	(void)context;
	if (si->si_addr != NULL) {
		signal(sig, SIG_DFL);
		return;
	}
	sink = storm_recurse(5, 4000);
	siglongjmp(fault, 1);
}

void storm_prepare_altstack(void)
{
	stack_t alt = {.ss_sp = guarded_stack(SMALL), .ss_size = SMALL};
	struct sigaction sa = {.sa_handler = on_usr, .sa_flags = SA_ONSTACK | SA_RESTART};

	if (sigaltstack(&alt, NULL))
		storm_broken("sigaltstack");
	/* As the agent's hook does for the agent's signal: two of the kernel's frames hardly fit into 8 KiB. */
	sigaddset(&sa.sa_mask, STORM_SIGNAL);
	sigaction(SIGUSR1, &sa, NULL);
	sa.sa_sigaction = on_fault;
	sa.sa_flags = SA_ONSTACK | SA_SIGINFO;
	sigaction(SIGSEGV, &sa, NULL);
}

void storm_use_altstack(unsigned round)
{
	for (volatile unsigned i = 0; i < 20; i++) {
		sink = storm_recurse(10, 300);
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
		if (i % 4 == 0 && sigsetjmp(fault, 1) == 0)
			*(volatile int *)NULL = 1;
	}
	sink = round;
}
