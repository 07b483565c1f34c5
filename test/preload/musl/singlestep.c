/* SPDX-License-Identifier: Apache-2.0
 *
 * The walker over every instruction of some work inside a musl libc that has no unwind tables. Linked with the walker's
 * sources and compiled by musl-gcc (see ../unwind_musl.sh); a trap handler on an alternate stack walks at each single
 * step. A walk is right if it is complete and goes through main. Prints steps and wrong walks. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "unwind/debugdata.h"
#include "unwind/starts.h"
#include "unwind/unindexed.h"
#include "unwind/walk.h"

enum { TRAP_FLAG = 0x100, NUMBERS = 200, BLOCKS = 50 };

/* What the walker's sources ask of files that are left out. */
int ppa_second_opinion_step(struct ppa_walk *w, const struct ppa_code *code, uintptr_t pc)
{
	(void)w;
	(void)code;
	(void)pc;
	return PPA_UNWIND_NO_RULE;
}

int ppa_second_opinion_init(void)
{
	return 0;
}

int ppa_debugdata_read(const struct ppa_elf_file *f, struct ppa_debugdata *d)
{
	(void)f;
	(void)d;
	return -2;
}

void ppa_debugdata_free(struct ppa_debugdata *d)
{
	(void)d;
}

static struct ppa_unwind_buf buf;
static struct ppa_stack_bounds bounds;
static uintptr_t main_lo, main_hi;
static volatile bool is_on;
static long steps, wrong;

static void on_trap(int sig, siginfo_t *info, void *ucontext)
{
	bool through_main = false;

	(void)sig;
	(void)info;
	if (!is_on) {
		((ucontext_t *)ucontext)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
		return;
	}
	ppa_unwind_context(ucontext, &bounds, &buf);
	for (unsigned i = 0; i < buf.npcs; i++)
		through_main |= buf.pcs[i] >= main_lo && buf.pcs[i] < main_hi;
	steps++;
	wrong += !through_main || buf.end != PPA_UNWIND_COMPLETE;
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static __attribute__((noinline)) void work(void)
{
	static int numbers[NUMBERS];
	static char text[4096];
	void *blocks[BLOCKS];
	double d;
	FILE *f;

	snprintf(text, sizeof(text), "%d %s %f %g %Lf %x", 5, "text", 3.14159, 1e300, 2.5L, 77);
	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = i * 7919 % 211;
	qsort(numbers, NUMBERS, sizeof(int), compare);
	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = malloc((size_t)i * 97);
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	sscanf("12 abc 3.5", "%d %s %lf", numbers, text, &d);
	f = fopen("/proc/self/maps", "r");
	if (f && fgets(text, sizeof(text), f))
		fclose(f);
	__asm__ volatile("" : : : "memory");
}

__attribute__((noinline)) int main(void)
{
	static char alternate[64 << 10];
	struct sigaction a = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	stack_t st = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
	extern char main_end[];

	main_lo = (uintptr_t)main;
	main_hi = (uintptr_t)main_end;
	bounds.hi = ((uintptr_t)__builtin_frame_address(0) | 4095) + 1;
	bounds.lo = bounds.hi - (4 << 20);
	if (ppa_modules_refresh(true) || ppa_unwind_init())
		return 1;
	ppa_unindexed_learn();
	ppa_starts_learn();
	ppa_starts_set_agent(0, 0); /* the agent is this program, whose frames count */
	sigaltstack(&st, NULL);
	sigaction(SIGTRAP, &a, NULL);
	work();
	is_on = true;
	__asm__ volatile("pushf; orq %0, (%%rsp); popf" : : "i"(TRAP_FLAG) : "memory", "cc");
	work();
	__asm__ volatile("pushf; andq %0, (%%rsp); popf" : : "i"(~TRAP_FLAG) : "memory", "cc");
	is_on = false;
	printf("%ld %ld\n", steps, wrong);
	__asm__ volatile(".globl main_end; main_end:");
	return 0;
}
