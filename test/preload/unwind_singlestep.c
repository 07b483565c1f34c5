/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/walk/walk.c unwind/walk/quick.c unwind/walk/asleep.c unwind/walk/guess.c unwind/walk/generated.c unwind/walk/starts.c unwind/walk/libunwind.c unwind/walk/rowcache.c unwind/walk/cfi.c unwind/walk/unindexed.c unwind/walk/cfi_program.c unwind/walk/expr.c unwind/walk/memory.c unwind/module/modules.c unwind/module/module_table.c unwind/module/module_stays.c unwind/module/module_scan.c unwind/module/maps.c unwind/module/maps_read.c unwind/module/elf_headers.c agent/base/sys.c agent/base/stats.c agent/base/vheap.c agent/base/vendor.c @unwind -lunwind -Wl,-z,lazy -lm
// flags: -fomit-frame-pointer
/* Promise: at every single instruction of ordinary programs (allocator, stdio, vdso, lazy binding, dlopen, callbacks,
 * stack realignment, signal handlers, context switches) the walker reaches the thread's start and sees what libunwind
 * sees.
 *
 * The program steps itself: `int3` switches the trap flag on and off in the interrupted context, and the SIGTRAP
 * handler unwinds thrice and compares. libunwind's local unwinder is the oracle, uncached, on a list of objects taken
 * beforehand (its own way to the loader deadlocks when the step is inside dlopen). It does not follow a rule for the
 * stack pointer itself, which longjmp and setcontext have; where it differs, libgcc's unwinder decides. In the second
 * run the handler is on an alternate stack, in the third the walker is told nothing of the stack's bounds. Code that
 * nobody describes (_init and _fini) both give up on: there the last stack that was agreed on must still stand below. */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <dlfcn.h>
#include <link.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "unwind/module/modules.h"
#include "unwind/walk/unwind.h"

enum {
	TRAP_FLAG = 0x100,
	MAX_REPORTS = 10,
	ALTSTACK_BYTES = 256 << 10,
	LEAST_STEPS = 30000,
	MAX_DLOPEN_STEPS = 150000
};

static struct {
	long steps, complete, agree, reports, limit;
	long decided, undescribed; /* agreed with libgcc alone; with the stack before */
	long ends[PPA_UNWIND_NENDS];
	bool tell_bounds, in_fiber;
	struct ppa_stack_bounds bounds;
	struct ppa_unwind_buf buf;
} t;

static void report(const char *what, size_t n, const uintptr_t *theirs, size_t ntheirs)
{
	if (t.reports++ >= MAX_REPORTS)
		return;
	fprintf(stderr, "%s at %#lx, end %d\n", what, t.buf.pcs[0], t.buf.end);
	for (size_t i = 0; i < n || i < ntheirs; i++) {
		Dl_info di = {0};
		uintptr_t pc = i < t.buf.npcs ? t.buf.pcs[i] : 0;

		dladdr((void *)(pc ? pc : theirs[i]), &di);
		fprintf(stderr, "  %#14lx %#14lx %s %s+%#lx\n", pc, i < ntheirs ? theirs[i] : 0, di.dli_fname,
			di.dli_sname ? di.dli_sname : "?", pc - (uintptr_t)di.dli_fbase);
	}
}

/* ---- libunwind ---- */

enum { MAX_OBJECTS = 32, MAX_PHDRS = 24 };
static struct {
	struct dl_phdr_info info[MAX_OBJECTS];
	ElfW(Phdr) phdr[MAX_OBJECTS][MAX_PHDRS];
	int n;
} objects;

static int keep_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	if (objects.n == MAX_OBJECTS || info->dlpi_phnum > MAX_PHDRS)
		return 0;
	objects.info[objects.n] = *info;
	memcpy(objects.phdr[objects.n], info->dlpi_phdr, info->dlpi_phnum * sizeof(ElfW(Phdr)));
	objects.info[objects.n].dlpi_phdr = objects.phdr[objects.n];
	objects.n++;
	return 0;
}

/* Interposes libc's for libunwind. */
__attribute__((visibility("default"))) int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *),
							   void *arg)
{
	int r = 0;

	for (int i = 0; i < objects.n && !r; i++)
		r = callback(&objects.info[i], sizeof(objects.info[i]), arg);
	return r;
}

static void list_objects(void)
{
	int (*iterate)(int (*)(struct dl_phdr_info *, size_t, void *), void *) =
		(int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))dlsym(RTLD_NEXT, "dl_iterate_phdr");
	/* Loaded once more while stepped, it comes to lie at the same address. */
	void *h = dlopen("libz.so.1", RTLD_LAZY);

	iterate(keep_object, NULL);
	if (h)
		dlclose(h);
}

/* Its frames, as the walker would write them. */
static size_t by_libunwind(void *ucontext, uintptr_t *pcs, size_t cap)
{
	unw_cursor_t c;
	unw_word_t ip;
	size_t n = 0;
	bool exact = true;

	if (unw_init_local2(&c, ucontext, UNW_INIT_SIGNAL_FRAME))
		return 0;
	do {
		unw_get_reg(&c, UNW_REG_IP, &ip);
		if (!ip)
			break;
		pcs[n++] = ip - !exact;
		exact = unw_is_signal_frame(&c) > 0;
	} while (n < cap && unw_step(&c) > 0);
	return n;
}

/* ---- libgcc ---- */

typedef _Unwind_Reason_Code (*backtrace_fn)(_Unwind_Trace_Fn, void *);
typedef _Unwind_Ptr (*ip_fn)(struct _Unwind_Context *, int *);
static backtrace_fn gcc_backtrace;
static ip_fn gcc_ip;

struct frames {
	uintptr_t *pcs, from;
	size_t n, cap;
};

static _Unwind_Reason_Code keep_frame(struct _Unwind_Context *c, void *arg)
{
	struct frames *f = arg;
	int exact = 0;
	uintptr_t ip = gcc_ip(c, &exact);

	/* First come the handler's own frames and the trampoline. */
	if ((f->n || (exact && ip == f->from)) && f->n < f->cap && ip)
		f->pcs[f->n++] = ip - !exact;
	return _URC_NO_REASON;
}

static void find_libgcc(void)
{
	void *h = dlopen("libgcc_s.so.1", RTLD_NOW);

	gcc_backtrace = h ? (backtrace_fn)dlsym(h, "_Unwind_Backtrace") : NULL;
	gcc_ip = h ? (ip_fn)dlsym(h, "_Unwind_GetIPInfo") : NULL;
}

/* The stack of the last step on which all agreed. */
static struct {
	uintptr_t pcs[PPA_UNWIND_MAX_FRAMES];
	size_t n;
} last;

/* Is ours the last stack with one or two frames more, which its leaf called, or is its leaf where that one jumped to? */
static bool called_from_last(void)
{
	const uintptr_t *tail = t.buf.pcs + t.buf.npcs - last.n;

	return t.buf.npcs >= last.n && t.buf.npcs <= last.n + 2 &&
	       (t.buf.npcs == last.n || tail[0] - last.pcs[0] < 7) &&
	       !memcmp(tail + 1, last.pcs + 1, (last.n - 1) * sizeof(last.pcs[0]));
}

static void compare(void *ucontext)
{
	static uintptr_t theirs[PPA_UNWIND_MAX_FRAMES], gccs[PPA_UNWIND_MAX_FRAMES];
	struct frames f = {gccs, 0, 0, PPA_UNWIND_MAX_FRAMES};
	size_t n;

	ppa_unwind_context(ucontext, t.tell_bounds ? &t.bounds : NULL, &t.buf);
	n = by_libunwind(ucontext, theirs, PPA_UNWIND_MAX_FRAMES);
	t.steps++;
	t.ends[t.buf.end]++;
	if (t.buf.end == PPA_UNWIND_COMPLETE)
		t.complete++;
	else if (!t.in_fiber)
		report("incomplete", t.buf.npcs, theirs, n);
	if (n == t.buf.npcs && !memcmp(theirs, t.buf.pcs, n * sizeof(theirs[0]))) {
		t.agree++;
		memcpy(last.pcs, theirs, n * sizeof(theirs[0]));
		last.n = n;
		return;
	}
	f.from = t.buf.pcs[0];
	gcc_backtrace(keep_frame, &f);
	if (f.n == t.buf.npcs && !memcmp(gccs, t.buf.pcs, f.n * sizeof(gccs[0])))
		t.decided++;
	else if (f.n <= 1 && called_from_last())
		t.undescribed++;
	else
		report("disagree", t.buf.npcs, theirs, n);
}

static void on_trap(int sig, siginfo_t *info, void *ucontext)
{
	greg_t *flags = &((ucontext_t *)ucontext)->uc_mcontext.gregs[REG_EFL];

	(void)sig;
	if (info->si_code == SI_KERNEL) { /* int3 */
		*flags ^= TRAP_FLAG;
		return;
	}
	compare(ucontext);
	if (t.limit && !--t.limit)
		*flags &= ~TRAP_FLAG;
}

#define TOGGLE() __asm__ volatile("int3" ::: "memory")

/* ---- what is stepped through ---- */

static __attribute__((noinline)) int by_value(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

static __attribute__((noinline)) void heap(void)
{
	void *p[40];

	for (int i = 0; i < 40; i++)
		p[i] = malloc((size_t)(i * i * 50 + 1));
	for (int i = 0; i < 40; i += 2)
		p[i] = realloc(p[i], 3000);
	for (int i = 0; i < 40; i++)
		free(p[i]);
	p[0] = malloc(1 << 20);
	free(p[0]);
}

static __attribute__((noinline)) void text(void)
{
	char buf[200];
	FILE *f = fopen("/dev/null", "w");

	snprintf(buf, sizeof(buf), "%d %s %g %08lx %p", 42, "text", 3.25, 77L, (void *)buf);
	fprintf(f, "%s %5.3f\n", buf, 1.0 / 3);
	fclose(f);
	strtod("1.5e10", NULL);
	getenv("HOME");
}

static __attribute__((noinline)) void times(void)
{
	struct timespec ts;
	struct tm tm;
	time_t now = 1700000000;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	time(&now);
	gmtime_r(&now, &tm);
}

static __attribute__((noinline)) void sort(void)
{
	int v[100];

	for (int i = 0; i < 100; i++)
		v[i] = i * 7919 % 101;
	qsort(v, 100, sizeof(v[0]), by_value);
	bsearch(&v[3], v, 100, sizeof(v[0]), by_value);
}

/* An over-aligned local and a variable length make gcc realign by DRAP. */
static __attribute__((noinline)) long realigned(int n, long a, long b, long c, long d, long e, long f, long g)
{
	struct {
		_Alignas(64) char bytes[64];
	} x;
	char *v = __builtin_alloca((size_t)n);

	memset(&x, n, sizeof(x));
	snprintf(v, (size_t)n, "%ld", a + b + c + d + e + f + g);
	return x.bytes[n % 64] + v[0];
}

static __attribute__((noinline)) double many_registers(double x, int n)
{
	double a = x, b = x + 1, c = 0;

	for (int i = 0; i < n; i++) {
		a = sin(a) + i;
		b = pow(b, 0.5) + a;
		c += a * b;
	}
	return n ? c + many_registers(x * 0.5, n - 1) : c;
}

static jmp_buf jump;
static __attribute__((noinline)) void jumps(void)
{
	if (!setjmp(jump))
		longjmp(jump, 1);
}

static ucontext_t here, there;
static char fiber_stack[64 << 10];
static void fiber(void)
{
	char b[20];

	snprintf(b, sizeof(b), "%d", 5);
	swapcontext(&there, &here);
}

static void on_usr1(int sig)
{
	(void)sig;
	text();
}

static __attribute__((noinline)) void signals(void)
{
	signal(SIGUSR1, on_usr1);
	raise(SIGUSR1);
	signal(SIGUSR1, SIG_DFL);
}

static volatile double sink;

static __attribute__((noinline)) void libraries(void)
{
	void *h;

	t.limit = MAX_DLOPEN_STEPS;
	TOGGLE();
	h = dlopen("libz.so.1", RTLD_LAZY);
	if (t.limit) {
		unsigned long (*crc)(unsigned long, const void *, unsigned) =
			h ? (unsigned long (*)(unsigned long, const void *, unsigned))dlsym(h, "crc32") : NULL;

		if (crc)
			sink += (double)crc(0, "some text to be summed", 22);
		if (h)
			dlclose(h);
		if (t.limit)
			TOGGLE();
	} else if (h) {
		dlclose(h);
	}
	t.limit = 0;
}

static void print_figures(const char *name, const long was[5])
{
	printf("%-28s steps %6ld, complete %6ld, agree with libunwind %6ld, with libgcc only %ld, undescribed %ld\n",
	       name, t.steps - was[0], t.complete - was[1], t.agree - was[2], t.decided - was[3],
	       t.undescribed - was[4]);
}

static void run(const char *name, bool altstack, bool bounds)
{
	struct sigaction sa = {.sa_sigaction = on_trap};
	long was[5] = {t.steps, t.complete, t.agree, t.decided, t.undescribed};

	sa.sa_flags = SA_SIGINFO | (altstack ? SA_ONSTACK : 0);
	sigaction(SIGTRAP, &sa, NULL);
	t.tell_bounds = bounds;
	TOGGLE();
	heap();
	text();
	times();
	sort();
	sink = (double)realigned(40, 1, 2, 3, 4, 5, 6, 7);
	sink = many_registers(0.3, 4);
	jumps();
	signals();
	TOGGLE();
	libraries();
	print_figures(name, was);
}

/* A fiber has another start: makecontext's trampoline. All must see the same; completeness is not asked for, because
 * glibc's swapcontext describes itself wrongly for the eight instructions between two stacks. */
static void run_fiber(void)
{
	long was[5] = {t.steps, t.complete, t.agree, t.decided, t.undescribed};

	getcontext(&there);
	there.uc_stack.ss_sp = fiber_stack;
	there.uc_stack.ss_size = sizeof(fiber_stack);
	there.uc_link = &here;
	makecontext(&there, fiber, 0);
	t.tell_bounds = true;
	t.in_fiber = true;
	TOGGLE();
	swapcontext(&here, &there);
	TOGGLE();
	print_figures("fiber", was);
}

static void find_stack(void)
{
	char line[300];
	FILE *f = fopen("/proc/self/maps", "r");

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "[stack]"))
			sscanf(line, "%*x-%lx", &t.bounds.hi);
	if (f)
		fclose(f);
	t.bounds.lo = t.bounds.hi - (1UL << 30); /* a guess from an unlimited rlimit: the walker must not believe it */
}

int main(void)
{
	bool all_complete;
	stack_t alt = {.ss_sp = malloc(ALTSTACK_BYTES), .ss_size = ALTSTACK_BYTES};

	setvbuf(stdout, NULL, _IOLBF, 0);
	unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_NONE);
	find_libgcc();
	if (!gcc_backtrace || !gcc_ip || ppa_modules_refresh(true) || ppa_unwind_init())
		return 2;
	find_stack();
	list_objects();
	sigaltstack(&alt, NULL);
	run("same stack", false, true);
	run("alternate stack", true, true);
	run("alternate stack, no bounds", true, false);
	all_complete = t.complete == t.steps;
	run_fiber();
	print_figures("total", (const long[5]){0});
	printf("ends");
	for (int i = 0; i < PPA_UNWIND_NENDS; i++)
		printf(" %ld", t.ends[i]);
	printf("\n");
	return t.steps >= LEAST_STEPS && all_complete && t.agree + t.decided + t.undescribed == t.steps ? 0 : 1;
}
