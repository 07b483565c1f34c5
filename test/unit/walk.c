/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/walk/walk.c unwind/walk/quick.c unwind/walk/asleep.c unwind/walk/guess.c unwind/walk/generated.c unwind/walk/starts.c unwind/walk/libunwind.c unwind/walk/rowcache.c unwind/walk/cfi.c unwind/walk/unindexed.c unwind/walk/cfi_program.c unwind/walk/expr.c unwind/walk/memory.c unwind/module/modules.c unwind/module/module_table.c unwind/module/module_stays.c unwind/module/module_scan.c unwind/module/maps.c unwind/module/maps_read.c unwind/module/elf_headers.c agent/base/sys.c agent/base/stats.c agent/base/vheap.c agent/base/vendor.c @unwind
// flags: -fomit-frame-pointer -fno-stack-protector
/* Promise: from any instruction the walk ends, names how it ended, and reads nothing that could fault.
 * Promise: frames of foreign code, of calls to nowhere, of signal trampolines without unwind information and of other
 * stacks are walked through.
 * Promise: a description too large for us is asked of libunwind, once, and counted. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/base/stats.h"
#include "unwind/module/modules.h"
#include "unwind/walk/rowcache.h"
#include "unwind/walk/unwind.h"

enum { PAGE = 4096 };

static struct ppa_stack_bounds bounds;
static struct ppa_unwind_buf buf, again;
static const struct ppa_stack_bounds *tell;

/* ---- a real signal at a place of our choice ---- */

static void on_usr1(int sig, siginfo_t *info, void *uc)
{
	(void)sig;
	(void)info;
	ppa_unwind_context(uc, tell, &buf);
	ppa_unwind_context(uc, tell, &again); /* from the row cache now */
}

static void handle(int sig, int flags)
{
	struct sigaction sa = {.sa_sigaction = on_usr1, .sa_flags = SA_SIGINFO | SA_NODEFER | flags};

	sigaction(sig, &sa, NULL);
}

static bool has_frame_in(const void *function, size_t bytes)
{
	for (uint32_t i = 0; i < buf.npcs; i++)
		if (buf.pcs[i] - (uintptr_t)function < bytes)
			return true;
	return false;
}

/* Which frame stands in a function of this file, whose end is not known: the next 200 bytes. */
#define FRAME_IN(f) has_frame_in((const void *)(f), 200)

static void complete(void)
{
	assert_int_equal(buf.end, PPA_UNWIND_COMPLETE);
	assert_int_equal(again.npcs, buf.npcs);
	assert_int_equal(again.end, buf.end);
	assert_memory_equal(again.pcs, buf.pcs, buf.npcs * sizeof(buf.pcs[0]));
}

static __attribute__((noinline)) void raise_here(void)
{
	raise(SIGUSR1);
	__asm__ volatile("" ::: "memory");
}

static void a_signal_in_a_callback(void **state)
{
	(void)state;
	handle(SIGUSR1, 0);
	tell = &bounds;
	raise_here();
	complete();
	assert_true(buf.npcs >= 5 && FRAME_IN(raise_here));
	tell = NULL;
	raise_here();
	complete();
	assert_true(FRAME_IN(raise_here));
}

static void bounds_that_lie(void **state)
{
	struct ppa_stack_bounds b = {0, bounds.hi};

	(void)state;
	handle(SIGUSR1, 0);
	tell = &b;
	raise_here();
	complete();
	b = (struct ppa_stack_bounds){PAGE, 2 * PAGE};
	raise_here();
	complete();
	b = (struct ppa_stack_bounds){bounds.lo, (uintptr_t)&b};
	raise_here();
	complete();
	tell = &bounds;
}

static void an_alternate_stack(void **state)
{
	static char stack[64 << 10];
	stack_t alt = {.ss_sp = stack, .ss_size = sizeof(stack)}, off = {.ss_flags = SS_DISABLE};

	(void)state;
	sigaltstack(&alt, NULL);
	handle(SIGUSR1, SA_ONSTACK);
	tell = &bounds;
	raise_here();
	complete();
	assert_true(FRAME_IN(raise_here));
	sigaltstack(&off, NULL);
}

/* A handler of the target's, on an alternate stack, is interrupted by ours. */
static void in_handler(int sig)
{
	(void)sig;
	raise_here();
}

static __attribute__((noinline)) void raise_outer(void)
{
	raise(SIGUSR2);
	__asm__ volatile("" ::: "memory");
}

static void a_handler_on_another_stack(void **state)
{
	static char stack[64 << 10];
	stack_t alt = {.ss_sp = stack, .ss_size = sizeof(stack)}, off = {.ss_flags = SS_DISABLE};
	struct sigaction sa = {.sa_handler = in_handler, .sa_flags = SA_ONSTACK};

	(void)state;
	handle(SIGUSR1, 0);
	sigaction(SIGUSR2, &sa, NULL);
	sigaltstack(&alt, NULL);
	tell = &bounds;
	raise_outer();
	complete();
	assert_true(FRAME_IN(raise_outer) && FRAME_IN(in_handler));
	sigaltstack(&off, NULL);
}

/* The pc below a signal trampoline is exact, not a return address: here the faulting instruction itself. */
extern char fault_here[];
__asm__(".text; .p2align 4; .globl call_fault_here; .type call_fault_here,@function; call_fault_here: .cfi_startproc\n"
	".globl fault_here; fault_here: ud2; ret; .cfi_endproc; .size call_fault_here, .-call_fault_here");
void call_fault_here(void);

static void on_ill(int sig, siginfo_t *info, void *uc)
{
	(void)sig;
	(void)info;
	raise_here();
	((ucontext_t *)uc)->uc_mcontext.gregs[REG_RIP] += 2;
}

static void interrupted_frames_are_exact(void **state)
{
	struct sigaction sa = {.sa_sigaction = on_ill, .sa_flags = SA_SIGINFO};
	bool found = false;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* its handlers run later, from a context of its own */
#endif
	handle(SIGUSR1, 0);
	sigaction(SIGILL, &sa, NULL);
	tell = &bounds;
	call_fault_here();
	complete();
	for (uint32_t i = 0; i < buf.npcs; i++)
		found |= buf.pcs[i] == (uintptr_t)fault_here;
	assert_true(found);
}

static sigjmp_buf back;

static void on_segv(int sig, siginfo_t *info, void *uc)
{
	on_usr1(sig, info, uc);
	siglongjmp(back, 1);
}

static __attribute__((noinline)) void call(void (*f)(void))
{
	f();
	__asm__ volatile("" ::: "memory");
}

/* Call code; it faults, and on_segv comes back. */
static __attribute__((noinline)) void call_and_fault(void (*code)(void))
{
	if (!sigsetjmp(back, 1))
		call(code);
}

static void a_call_to_nowhere(void **state)
{
	static const uintptr_t nowhere[] = {0, 0x10, 0x7fff12345678};
	struct sigaction sa = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};

	(void)state;
	sigaction(SIGSEGV, &sa, NULL);
	tell = &bounds;
	for (size_t i = 0; i < 3; i++) {
		call_and_fault((void (*)(void))nowhere[i]);
		complete();
		assert_int_equal(buf.pcs[0], nowhere[i]);
		assert_true(FRAME_IN(call));
	}
	signal(SIGSEGV, SIG_DFL);
}

/* A saved register whose place cannot be read is no reason to stop: gcc's rules are wrong in some epilogues. */
__asm__(".text; .p2align 4; .globl call_with_lost_fp; .type call_with_lost_fp,@function\n"
	"call_with_lost_fp: .cfi_startproc; push %rbp; .cfi_adjust_cfa_offset 8\n"
	".cfi_escape 0x10,6,2,0x76,0; mov $1, %ebp\n" /* rbp is at *rbp */
	"call *%rdi; pop %rbp; .cfi_adjust_cfa_offset -8; .cfi_restore %rbp; ret; .cfi_endproc\n"
	".size call_with_lost_fp, .-call_with_lost_fp");
void call_with_lost_fp(void (*f)(void));

static void an_unreadable_register_is_passed_over(void **state)
{
	(void)state;
	handle(SIGUSR1, 0);
	tell = &bounds;
	call_with_lost_fp(raise_here);
	complete();
	assert_true(FRAME_IN(call_with_lost_fp) && FRAME_IN(an_unreadable_register_is_passed_over));
}

/* ---- code that nobody describes ---- */

static uint8_t *jit_page(void)
{
	static uint8_t *page;

	if (!page)
		page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return page;
}

/* With a frame pointer, calling back; and a leaf that faults before and after it has its frame. */
static void just_in_time_code(void **state)
{
	static const uint8_t caller[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
	uint8_t *code = jit_page();

	(void)state;
	memcpy(code, caller, sizeof(caller));
	handle(SIGUSR1, 0);
	tell = &bounds;
	((void (*)(void (*)(void)))(void *)code)(raise_here);
	complete();
	assert_true(has_frame_in(code, sizeof(caller)) && FRAME_IN(raise_here) && FRAME_IN(just_in_time_code));
}

static void a_just_in_time_leaf_with_its_frame(void **state)
{
	/* push rbp; mov rsp, rbp; sub 32, rsp; nop; add 32, rsp; pop rbp; ret */
	static const uint8_t leaf[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20,
				       0x90, 0x48, 0x83, 0xc4, 0x20, 0x5d, 0xc3};
	static const uint8_t at[] = {4, 8, 9, 13};
	struct sigaction sa = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};
	uint8_t *code = jit_page();

	(void)state;
	sigaction(SIGILL, &sa, NULL);
	tell = &bounds;
	for (size_t i = 0; i < sizeof(at); i++) {
		memset(code, 0x90, 64);
		memcpy(code, leaf, at[i]);
		memcpy(code + at[i], "\x0f\x0b", 2); /* ud2: faults at itself */
		call_and_fault((void (*)(void))(void *)code);
		complete();
		assert_true(buf.pcs[0] == (uintptr_t)code + at[i] && FRAME_IN(call));
	}
	signal(SIGILL, SIG_DFL);
}

/* Hand-made contexts at hand-made code show what bytes alone tell. */
static void first_and_last_instructions(void **state)
{
	static const uint8_t push[] = {0x55, 0x48, 0x89, 0xe5}, ret[] = {0xc3, 0, 0, 0};
	uint8_t *code = jit_page();
	uintptr_t stack[64], caller = (uintptr_t)&call + 64;
	ucontext_t uc = {0};

	(void)state;
	memset(stack, 0, sizeof(stack));
	/* A return address that passes: right behind a call instruction in our own page. */
	memcpy(code + 100, "\xe8\x00\x00\x00\x00", 5);
	caller = (uintptr_t)code + 105;
	stack[0] = caller;
	uc.uc_mcontext.gregs[REG_RSP] = (greg_t)stack;
	uc.uc_mcontext.gregs[REG_RIP] = (greg_t)code;
	memcpy(code, push, sizeof(push));
	ppa_unwind_context(&uc, NULL, &buf);
	assert_true(buf.npcs == 2 && buf.pcs[1] == caller - 1);
	assert_int_equal(buf.end, PPA_UNWIND_NO_MODULE);
	memcpy(code, ret, sizeof(ret));
	ppa_unwind_context(&uc, NULL, &buf);
	assert_true(buf.npcs == 2 && buf.pcs[1] == caller - 1);
	memcpy(code, push + 1, 3);
	stack[0] = 0x1234;
	stack[1] = caller;
	ppa_unwind_context(&uc, NULL, &buf);
	assert_true(buf.npcs == 2 && buf.pcs[1] == caller - 1);
	stack[1] = (uintptr_t)stack; /* no code: no guess */
	ppa_unwind_context(&uc, NULL, &buf);
	assert_int_equal(buf.npcs, 1);
}

/* What a Java machine runs: an interpreter with a frame pointer, whose return address no call stands before; a compiled
 * method that uses the register for something else and has an old return address in its frame; another one, which calls
 * back. Copied to a page of its own; all of it is relative. */
__asm__(".pushsection .text\n"
	"generated_begin: push %rbp; mov %rsp, %rbp; sub $16, %rsp; lea 1f(%rip), %rax; push %rax; jmp 2f\n"
	"1: leave; ret; call generated_end\n"
	"3: nop\n"
	"generated_one:\n"
	"2: push %rbp; sub $32, %rsp; mov $0x1234, %ebp; lea 3b(%rip), %rax; mov %rax, 8(%rsp); call 4f\n"
	"add $32, %rsp; pop %rbp; ret\n"
	"generated_two:\n"
	"4: push %rbp; sub $48, %rsp; call *%rdi; add $48, %rsp; pop %rbp; ret\n"
	"generated_end: nop\n"
	".popsection");
extern const uint8_t generated_begin[], generated_one[], generated_two[], generated_end[];

static __attribute__((noinline)) void call_generated(void *code)
{
	((void (*)(void (*)(void)))code)(raise_here);
	__asm__ volatile("" ::: "memory");
}

static void generated_code_without_frame_pointers(void **state)
{
	uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t one = (size_t)(generated_one - generated_begin), two = (size_t)(generated_two - generated_begin),
	       all = (size_t)(generated_end - generated_begin);
	unsigned frames = 0;

	(void)state;
	memcpy(page, generated_begin, all);
	assert_int_equal(ppa_modules_refresh(true), 0);
	handle(SIGUSR1, 0);
	tell = &bounds;
	call_generated(page);
	complete();
	assert_true(has_frame_in(page + two, all - two) && has_frame_in(page + one, two - one) &&
		    has_frame_in(page, one) && FRAME_IN(call_generated));
	for (uint32_t i = 0; i < buf.npcs; i++)
		frames += buf.pcs[i] - (uintptr_t)page < all;
	assert_int_equal(frames, 3);
	munmap(page, PAGE);
	ppa_modules_refresh(true);
}

/* The kernel's trampoline without unwind information, as musl has it: bytes alone. */
static void a_bare_signal_trampoline(void **state)
{
	static const uint8_t trampoline[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	uint8_t *code = jit_page();
	struct {
		ucontext_t saved; /* where the trampoline's stack pointer is */
		uintptr_t above[64];
	} frame;
	ucontext_t at = {0};

	(void)state;
	memset(&frame, 0, sizeof(frame));
	memcpy(code, trampoline, sizeof(trampoline));
	frame.saved.uc_mcontext.gregs[REG_RIP] = 0x10;
	frame.saved.uc_mcontext.gregs[REG_RSP] = (greg_t)frame.above;
	at.uc_mcontext.gregs[REG_RIP] = (greg_t)code;
	at.uc_mcontext.gregs[REG_RSP] = (greg_t)&frame.saved;
	ppa_unwind_context(&at, NULL, &buf);
	assert_true(buf.npcs == 2 && buf.pcs[1] == 0x10);
	assert_int_equal(buf.end, PPA_UNWIND_NO_MODULE);
}

/* ---- depth, loops, garbage ---- */

static volatile int sink;

static __attribute__((noinline)) int deep(int n)
{
	int r = n ? deep(n - 1) : raise(SIGUSR1);

	sink = r;
	return r + 1;
}

static void deep_stacks_fill_the_buffer(void **state)
{
	(void)state;
	handle(SIGUSR1, 0);
	tell = &bounds;
	deep(2000);
	__asm__ volatile("" ::: "memory");
	assert_int_equal(buf.end, PPA_UNWIND_FULL);
	assert_int_equal(buf.npcs, PPA_UNWIND_MAX_FRAMES);
	tell = NULL; /* by windows, many of them */
	deep(400);
	__asm__ volatile("" ::: "memory");
	complete();
}

/* A frame pointer chain that points to itself. */
static void loops_end(void **state)
{
	uint8_t *code = jit_page();
	uintptr_t stack[8];
	ucontext_t uc = {0};

	(void)state;
	memset(code, 0x90, 200);
	memcpy(code + 100, "\xff\xd0", 2);
	stack[2] = (uintptr_t)&stack[2];
	stack[3] = (uintptr_t)code + 102;
	uc.uc_mcontext.gregs[REG_RIP] = (greg_t)code;
	uc.uc_mcontext.gregs[REG_RSP] = (greg_t)stack;
	uc.uc_mcontext.gregs[REG_RBP] = (greg_t)&stack[2];
	ppa_unwind_context(&uc, NULL, &buf);
	/* What lies above it on the stack may lead on, to our own start. */
	assert_true(buf.npcs < 64);
}

static uint64_t random_word(void)
{
	static uint64_t x = 88172645463325252ULL;

	x ^= x << 13;
	x ^= x >> 7;
	return x ^= x << 17;
}

/* Random registers at every kind of pc: code of this program, of libc, stack, nothing. The walk must come back. */
static void garbage_registers(void **state)
{
	const uintptr_t text[] = {(uintptr_t)&garbage_registers, (uintptr_t)&qsort, (uintptr_t)jit_page(), 0};
	const uintptr_t places[] = {(uintptr_t)&text, bounds.hi - 64, bounds.lo, (uintptr_t)jit_page(), PAGE, 0};
	long ends[PPA_UNWIND_NENDS] = {0};
	ucontext_t uc;

	(void)state;
	memset(&uc, 0, sizeof(uc));
	for (int i = 0; i < 100000; i++) {
		const struct ppa_stack_bounds *b = i & 1 ? &bounds : NULL;

		for (int r = 0; r < 17; r++) {
			uint64_t w = random_word();

			uc.uc_mcontext.gregs[r] =
				(greg_t)(w & 1 ? places[w / 2 % 6] + (w >> 32) % 20000 - 10000 : w >> (w % 64));
		}
		uc.uc_mcontext.gregs[REG_RIP] = (greg_t)(text[i % 4] + random_word() % 100000);
		ppa_unwind_context(&uc, b, &buf);
		ends[buf.end]++;
		assert_true(buf.npcs >= 1 && buf.npcs <= PPA_UNWIND_MAX_FRAMES);
	}
	assert_true(ends[PPA_UNWIND_NO_MODULE] > 0 && ends[PPA_UNWIND_BAD_MEMORY] > 0);
}

/* ---- the second opinion ---- */

/* A state restored that was remembered deeper than our interpreter keeps them: libunwind has no limit. */
__asm__(".text; .p2align 4; .globl call_deeply_described; .type call_deeply_described,@function\n"
	"call_deeply_described: .cfi_startproc; push %rbx; .cfi_adjust_cfa_offset 8; .cfi_rel_offset %rbx, 0\n"
	".rept 9; .cfi_remember_state; .endr\n"
	".cfi_adjust_cfa_offset 64; .cfi_restore_state\n"
	"mov $77, %ebx; call *%rdi\n"
	".rept 8; .cfi_restore_state; .endr\n"
	"pop %rbx; .cfi_adjust_cfa_offset -8; .cfi_restore %rbx; ret; .cfi_endproc\n"
	".size call_deeply_described, .-call_deeply_described");
void call_deeply_described(void (*f)(void));

static void large_descriptions_are_asked_of_libunwind(void **state)
{
	uint64_t before = ppa_stat_get(PPA_STAT_SECOND_OPINION);

	(void)state;
	handle(SIGUSR1, 0);
	tell = &bounds;
	call_deeply_described(raise_here);
	complete();
	assert_true(FRAME_IN(raise_here) && FRAME_IN(call_deeply_described) &&
		    FRAME_IN(large_descriptions_are_asked_of_libunwind));
	assert_int_equal(ppa_stat_get(PPA_STAT_SECOND_OPINION), before + 2); /* walked twice */
}

/* Its 6.5 KiB are not taken from a stack that may not have them. */
static void no_second_opinion_on_a_short_stack(void **state)
{
	static char stack[12 << 10];
	stack_t alt = {.ss_sp = stack, .ss_size = sizeof(stack)}, off = {.ss_flags = SS_DISABLE};
	uint64_t before = ppa_stat_get(PPA_STAT_SECOND_OPINION);

	(void)state;
	sigaltstack(&alt, NULL);
	handle(SIGUSR1, SA_ONSTACK);
	call_deeply_described(raise_here);
	sigaltstack(&off, NULL);
	assert_int_equal(buf.end, PPA_UNWIND_NO_RULE);
	assert_true(FRAME_IN(call_deeply_described));
	assert_int_equal(ppa_stat_get(PPA_STAT_SECOND_OPINION), before);
}

static void find_stack(void)
{
	char line[300];
	FILE *f = fopen("/proc/self/maps", "r");

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "[stack]"))
			sscanf(line, "%*x-%lx", &bounds.hi);
	fclose(f);
	bounds.lo = bounds.hi - (8 << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signal_in_a_callback),
		cmocka_unit_test(bounds_that_lie),
		cmocka_unit_test(an_alternate_stack),
		cmocka_unit_test(a_handler_on_another_stack),
		cmocka_unit_test(interrupted_frames_are_exact),
		cmocka_unit_test(a_call_to_nowhere),
		cmocka_unit_test(an_unreadable_register_is_passed_over),
		cmocka_unit_test(just_in_time_code),
		cmocka_unit_test(a_just_in_time_leaf_with_its_frame),
		cmocka_unit_test(first_and_last_instructions),
		cmocka_unit_test(generated_code_without_frame_pointers),
		cmocka_unit_test(a_bare_signal_trampoline),
		cmocka_unit_test(deep_stacks_fill_the_buffer),
		cmocka_unit_test(loops_end),
		cmocka_unit_test(garbage_registers),
		cmocka_unit_test(large_descriptions_are_asked_of_libunwind),
		cmocka_unit_test(no_second_opinion_on_a_short_stack),
	};

	find_stack();
	if (ppa_modules_refresh(true) || ppa_unwind_init())
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
