/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for people, by libiberty: Rust's first, because its older mangling is valid C++ with a hash
 * at the end, then C++, then D. Parameter lists are left out, template arguments stay.
 *
 * libiberty trusts its input with the stack and the processor: 1,000 nested pointers cost it 430
 * KiB of stack, and some names print more text than there are atoms. So: names above NAME_MAX_BYTES
 * stay as they are; it runs on a stack of its own with a guard page; C++ and Rust print through a
 * callback into the caller's buffer and are left by a jump once that is full; D, which has no
 * callback, runs on a budget of memory. One lock makes the three a single-threaded program with one
 * such stack; a name takes microseconds. libiberty's own limit on recursion, which stops at C++
 * names of a kilobyte, is off: this stack holds what it was made to prevent.
 *
 * Rejected: a limit on nesting found by scanning the name. Argument lists and qualified names nest
 * as deep as pointers do inside libiberty, so that any safe limit refused honest names. */
#include "unwind/name/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "agent/base/lock.h"
#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "unwind/name/symbols.h"

#if defined(__x86_64__)
#include "unwind/name/stack_switch_x86_64.h"
#else
#error "no stack switch for this processor yet: add unwind/stack_switch_<cpu>.h"
#endif

enum {
	NAME_MAX_BYTES = 4096,
	STACK_BYTES = 2 << 20,	  /* the worst name found takes 690 KiB; untouched pages cost nothing */
	GUARD_BYTES = 64 << 10,	  /* more than the largest step of the stack pointer, so none passes over it */
	BUDGET_BYTES = 256 << 10, /* of one name's blocks together, ever */
	PRINTS_MAX = 20000,	  /* numbers formatted for one name */
	D_TEXT_MAX = 16 << 10,	  /* longest D name printed */
};

#define PLT_SUFFIX "@plt"

/* For functions with a frame of their own that a jump leaves: the sanitizer does not see them go from a stack it does
 * not know, and would complain of whoever uses the place next. */
#define JUMPED_OVER __attribute__((no_sanitize("address")))

/* A block of the demangler's. */
struct block {
	struct block *prev, *next;
	size_t bytes;
	size_t pad; /* keeps the payload aligned to 16 */
};

/* Where text goes while a demangler runs. */
struct printer {
	char *buf;
	size_t cap, len; /* len < cap always: room for the NUL */
};

/* One name, for the other stack. */
struct job {
	const char *name;
	struct printer to;
	bool done;
};

static struct {
	struct ppa_lock lock; /* protects the rest; a leaf but for the private heap's. Held while a name is demangled */
	struct block *blocks;
	size_t spent;
	unsigned prints;
	char name[NAME_MAX_BYTES + 1];
	char *stack; /* STACK_BYTES, mapped at first use; NULL before and after trim */
	jmp_buf out; /* to the caller of the demangler that is running: 1 gave up, 2 the buffer is full */
} state;

enum { GAVE_UP = 1, FULL = 2 };

void *ppa_demangle_malloc(size_t bytes)
{
	struct block *b;

	if (bytes > BUDGET_BYTES - state.spent)
		return NULL;
	b = ppa_vheap_malloc(sizeof(*b) + bytes);
	if (!b)
		return NULL;
	state.spent += bytes;
	b->bytes = bytes;
	b->prev = NULL;
	b->next = state.blocks;
	if (b->next)
		b->next->prev = b;
	state.blocks = b;
	return b + 1;
}

void ppa_demangle_free(void *p)
{
	struct block *b = (struct block *)p - 1;

	if (!p)
		return;
	if (b->next)
		b->next->prev = b->prev;
	if (b->prev)
		b->prev->next = b->next;
	else
		state.blocks = b->next;
	ppa_vheap_free(b);
}

void *ppa_demangle_realloc(void *p, size_t bytes)
{
	struct block *b = (struct block *)p - 1;
	void *q = ppa_demangle_malloc(bytes);

	if (!q || !p)
		return q;
	memcpy(q, p, b->bytes < bytes ? b->bytes : bytes);
	ppa_demangle_free(p);
	return q;
}

void *ppa_demangle_xmalloc(size_t bytes)
{
	void *p = ppa_demangle_malloc(bytes);

	if (!p)
		longjmp(state.out, GAVE_UP);
	return p;
}

void *ppa_demangle_xrealloc(void *p, size_t bytes)
{
	void *q = ppa_demangle_realloc(p, bytes);

	if (!q)
		longjmp(state.out, GAVE_UP);
	return q;
}

void ppa_demangle_reset(void)
{
	ppa_lock_reset(&state.lock);
	state.blocks = NULL;
	state.spent = 0;
}

static void drop_blocks(void)
{
	while (state.blocks)
		ppa_demangle_free(state.blocks + 1);
	state.spent = 0;
	state.prints = 0;
}

static int print_number(char *s, size_t cap, const char *format, va_list args)
{
	if (++state.prints > PRINTS_MAX)
		longjmp(state.out, GAVE_UP);
	return vsnprintf(s, cap, format, args);
}

JUMPED_OVER int ppa_demangle_snprintf_chk(char *s, size_t n, int flag, size_t cap, const char *format, ...)
{
	va_list args;
	int len;

	(void)flag;
	va_start(args, format);
	len = print_number(s, n < cap ? n : cap, format, args);
	va_end(args);
	return len;
}

JUMPED_OVER int ppa_demangle_sprintf_chk(char *s, int flag, size_t cap, const char *format, ...)
{
	va_list args;
	int len;

	(void)flag;
	va_start(args, format);
	/* An unknown size is (size_t)-1, which vsnprintf would refuse. */
	len = print_number(s, cap > INT32_MAX ? INT32_MAX : cap, format, args);
	va_end(args);
	return len;
}

/* Append what fits; false if that was not all. */
static bool append(struct printer *p, const char *text, size_t len)
{
	size_t room = p->cap - 1 - p->len;
	size_t n = len < room ? len : room;

	if (n)
		memcpy(p->buf + p->len, text, n);
	p->len += n;
	return n == len;
}

/* For the demanglers. Leaves them by a jump when the rest would not be seen anyway. */
static void print(const char *text, size_t len, void *arg)
{
	if (!append(arg, text, len))
		longjmp(state.out, FULL);
}

/* D prints parameter lists always: leave out every (...) that is not a template's !(...). */
static void print_d(const char *text, struct printer *p)
{
	int depth = 0, skipping = 0;
	char quote = '\0';

	for (const char *s = text; *s; s++) {
		if (quote) {
			if (*s == '\\' && s[1] && !skipping)
				print(s++, 1, p);
			else if (*s == quote)
				quote = '\0';
		} else if (depth && (*s == '"' || *s == '\'')) {
			quote = *s;
		} else if (*s == '(') {
			depth++;
			if (!skipping && depth == 1 && (s == text || s[-1] != '!'))
				skipping = depth;
		} else if (*s == ')' && depth) {
			depth--;
			if (skipping && !depth) {
				skipping = 0;
				continue;
			}
		}
		if (!skipping)
			print(s, 1, p);
	}
}

static bool demangle_d(const char *name, struct printer *p)
{
	char *text = dlang_demangle(name, DMGL_DLANG);

	if (!text || strlen(text) > D_TEXT_MAX)
		return false;
	print_d(text, p);
	return true;
}

static bool demangle_rust_or_cxx(const char *name, struct printer *p)
{
	if (rust_demangle_callback(name, DMGL_RUST, print, p))
		return true;
	p->len = 0;
	return name[1] == 'Z' && cplus_demangle_v3_callback(name, DMGL_ANSI | DMGL_NO_RECURSE_LIMIT, print, p);
}

/* On the other stack, with the lock held. The jumps of print and the x-allocators end here. */
static void run(void *arg)
{
	struct job *job = arg;

	switch (_setjmp(state.out)) {
	case 0:
		if (job->name[1] == 'D')
			job->done = demangle_d(job->name, &job->to);
		else
			job->done = demangle_rust_or_cxx(job->name, &job->to);
		break;
	case FULL:
		job->done = true;
		break;
	default:
		job->done = false;
	}
}

static bool map_stack_locked(void)
{
	char *p = state.stack;

	if (p)
		return true;
	p = ppa_sys_map(STACK_BYTES);
	if (p && ppa_syscall(SYS_mprotect, (long)p, GUARD_BYTES, PROT_NONE, 0, 0, 0)) {
		ppa_sys_unmap(p, STACK_BYTES);
		p = NULL;
	}
	state.stack = p;
	return p != NULL;
}

/* The first len bytes of name. */
static bool demangle(const char *name, size_t len, struct printer *to)
{
	struct job job = {.to = *to};

	ppa_lock(&state.lock);
	if (map_stack_locked()) {
		memcpy(state.name, name, len);
		state.name[len] = '\0';
		job.name = state.name;
		ppa_arch_call_on_stack(state.stack + STACK_BYTES, run, &job);
		drop_blocks();
	}
	ppa_unlock(&state.lock);
	*to = job.to;
	return job.done && job.to.len;
}

void ppa_demangle_trim(void)
{
	ppa_lock(&state.lock);
	if (state.stack)
		ppa_sys_unmap(state.stack, STACK_BYTES);
	state.stack = NULL;
	ppa_unlock(&state.lock);
}

static bool is_mangled(const char *name, size_t len)
{
	return len > 2 && len <= NAME_MAX_BYTES && name[0] == '_' &&
	       (name[1] == 'Z' || name[1] == 'R' || (name[1] == 'D' && name[2] >= '0' && name[2] <= '9'));
}

/* Cut at a whole UTF-8 character: Rust identifiers may hold any. */
static size_t whole_characters(const char *s, size_t len)
{
	size_t start = len;

	while (start && len - start < 4 && ((unsigned char)s[start - 1] & 0xc0) == 0x80)
		start--;
	if (start && ((unsigned char)s[start - 1] & 0xc0) == 0xc0) {
		unsigned char lead = (unsigned char)s[start - 1];
		size_t want = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;

		return len - (start - 1) < want ? start - 1 : len;
	}
	return len;
}

/* The length without the "@plt" of our own making, which no demangler knows. */
static size_t without_plt(const char *name, size_t len)
{
	size_t suffix = sizeof(PLT_SUFFIX) - 1;

	return len > suffix && memcmp(name + len - suffix, PLT_SUFFIX, suffix) == 0 ? len - suffix : len;
}

size_t ppa_symbols_demangle(const char *linker_name, char *buf, size_t cap)
{
	struct printer to = {.buf = buf, .cap = cap};
	size_t len = strlen(linker_name), bare = without_plt(linker_name, len);

	if (!cap)
		return 0;
	if (is_mangled(linker_name, bare) && demangle(linker_name, bare, &to)) {
		append(&to, linker_name + bare, len - bare);
	} else {
		to.len = 0;
		append(&to, linker_name, len);
	}
	if (to.len == cap - 1)
		to.len = whole_characters(buf, to.len);
	buf[to.len] = '\0';
	return to.len;
}
