/* SPDX-License-Identifier: Apache-2.0
 *
 * The walker over every instruction of some work inside a musl libc that has no unwind tables. Linked with the walker's
 * sources and compiled by musl-gcc (see ../unwind_musl.sh); a trap handler on an alternate stack walks at each single
 * step. A walk is right if it is complete and its frames up to main's are the calls that were seen being made. Prints
 * steps, wrong walks, and how much stack the deepest walk took; with an argument tells each wrong one on standard error. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <glob.h>
#include <locale.h>
#include <math.h>
#include <regex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "unwind/name/debugdata.h"
#include "unwind/walk/starts.h"
#include "unwind/walk/unindexed.h"
#include "unwind/walk/walk.h"

enum { TRAP_FLAG = 0x100, NUMBERS = 30, BLOCKS = 20, MAX_DEPTH = 200, PAINTED = 1000, UNPAINTED = 40 };
#define PAINT UINT64_C(0x7061696e74706169)

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

/* Of debug files: there are none here, and zlib is no part of this program. */
unsigned long crc32(unsigned long sum, const unsigned char *bytes, unsigned len)
{
	(void)bytes;
	(void)len;
	return sum;
}

static struct ppa_unwind_buf buf;
static struct ppa_stack_bounds bounds;
static uintptr_t main_lo, main_hi;
static volatile bool is_on;
static long steps, wrong, deepest;
static bool verbose;

/* The truth: where the return addresses of all calls since main lie, kept by watching calls being made. */
static struct {
	uintptr_t at[MAX_DEPTH], pc, sp;
	unsigned depth;
} truth;

static void follow(uintptr_t pc, uintptr_t sp)
{
	if (sp == truth.sp - sizeof(sp) && truth.depth < MAX_DEPTH) {
		uintptr_t pushed = *(uintptr_t *)sp;

		/* A push of something else cannot look like a return to just behind the instruction. */
		if (pushed > truth.pc && pushed - truth.pc <= PPA_CALL_MAX)
			truth.at[truth.depth++] = sp;
	}
	while (truth.depth && truth.at[truth.depth - 1] < sp)
		truth.depth--;
	truth.pc = pc;
	truth.sp = sp;
}

/* Is the walk whole, and its frames just those down to main? */
static bool is_right(void)
{
	if (buf.end != PPA_UNWIND_COMPLETE || buf.npcs <= truth.depth)
		return false;
	for (unsigned i = 0; i < truth.depth; i++)
		if (buf.pcs[i + 1] != *(uintptr_t *)truth.at[truth.depth - 1 - i] - 1)
			return false;
	return buf.pcs[truth.depth] >= main_lo && buf.pcs[truth.depth] < main_hi;
}

/* Standard output belongs to the figures, stdio to the program under test. */
static void tell(void)
{
	char line[1200];
	int n = sprintf(line, "end %d:", buf.end);

	for (unsigned i = 0; i < buf.npcs && i < 20; i++)
		n += sprintf(line + n, " %lx", buf.pcs[i]);
	n += sprintf(line + n, "\n  truth");
	for (unsigned i = truth.depth; i-- && truth.depth - i < 20;)
		n += sprintf(line + n, " %lx", *(uintptr_t *)truth.at[i] - 1);
	line[n++] = '\n';
	write(2, line, (size_t)n);
}

/* Walk over a painted stack and see how far down the paint is gone. */
static __attribute__((noinline)) void walk(void *ucontext)
{
	volatile uint64_t *top = __builtin_frame_address(0), *p = top - PAINTED;

	for (int i = 0; i < PAINTED - UNPAINTED; i++)
		p[i] = PAINT;
	ppa_unwind_context(ucontext, &bounds, &buf);
	while (p < top - UNPAINTED && *p == PAINT)
		p++;
	if ((top - p) * 8 > deepest)
		deepest = (top - p) * 8;
}

static void on_trap(int sig, siginfo_t *info, void *ucontext)
{
	greg_t *regs = ((ucontext_t *)ucontext)->uc_mcontext.gregs;

	(void)sig;
	(void)info;
	if (!is_on) {
		regs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
		return;
	}
	follow((uintptr_t)regs[REG_RIP], (uintptr_t)regs[REG_RSP]);
	walk(ucontext);
	steps++;
	if (is_right())
		return;
	wrong++;
	if (verbose)
		tell();
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static __attribute__((noinline)) void more(char *text, size_t bytes)
{
	time_t t = 1000000000;
	size_t room = 0;
	char *line = NULL;
	struct tm tm;
	regex_t r;
	glob_t g;
	FILE *f;
	DIR *d;

	if (!regcomp(&r, "(a|b)*c[[:digit:]]+$", REG_EXTENDED)) {
		regexec(&r, "ababac1234", 0, NULL, 0);
		regfree(&r);
	}
	strftime(text, bytes, "%a %d %b %Y %H:%M:%S %z", gmtime_r(&t, &tm));
	mktime(&tm);
	d = opendir("/");
	while (d && readdir(d))
		;
	if (d)
		closedir(d);
	f = tmpfile();
	if (f) {
		fprintf(f, "%s %g\n%ls\n", text, strtod("1.7e-310", NULL), L"wide");
		rewind(f);
		while (getline(&line, &room, f) > 0)
			;
		free(line);
		fclose(f);
	}
	if (!glob("/etc/h*", 0, NULL, &g))
		globfree(&g);
	free(realpath("/usr/bin/env", NULL));
	setlocale(LC_ALL, "C.UTF-8");
	inet_ntop(AF_INET6, text, text + 100, 100);
	usleep(10);
	asprintf(&line, "%a %s", pow(text[0], 1.5), strerror(5));
	free(line);
	setenv("SINGLE", "step", 1);
	getenv("SINGLE");
	sscanf(text, "%*s %*d %*[a-z]");
}

/* As the frames of libc between two that need the frame pointer. */
static __attribute__((noinline)) void print(char *text, size_t bytes)
{
	for (int i = 0; i < 2; i++)
		snprintf(text, bytes, "%d %s %f %g", i, "text", i * 1.1, i * 1e30);
}

static __attribute__((noinline)) void work(void)
{
	static int numbers[NUMBERS];
	static char text[4096];
	void *blocks[BLOCKS];
	double d;
	FILE *f;

	snprintf(text, sizeof(text), "%d %s %f %g %Lf %x", 5, "text", 3.14159, 1e30, 2.5L, 77);
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
	print(text, sizeof(text));
	more(text, sizeof(text));
	__asm__ volatile("" : : : "memory");
}

__attribute__((noinline)) int main(int argc, char **argv)
{
	static char alternate[64 << 10];
	struct sigaction a = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	stack_t st = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
	extern char main_end[];

	verbose = argc > 1;
	(void)argv;
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
	__asm__ volatile("pushf; orq %0, (%%rsp); popf; nop" : : "i"(TRAP_FLAG) : "memory", "cc");
	work();
	__asm__ volatile("pushf; andq %0, (%%rsp); popf" : : "i"(~TRAP_FLAG) : "memory", "cc");
	is_on = false;
	printf("%ld %ld %ld\n", steps, wrong, deepest);
	__asm__ volatile(".globl main_end; main_end:");
	return 0;
}
