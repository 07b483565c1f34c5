/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache of answers and the thread that fills it.
 *
 * Everything hangs on a file: the answers found so far (an open-addressing table by address, frames and texts in a pool),
 * the addresses that somebody asked for meanwhile, and whether the thread is at it. While it is, the pool is the thread's
 * and the table everybody's under the lock; answers are entered together at the end. Who waits sleeps on a counter that
 * grows with each file done.
 *
 * One request waits for one piece of work, not everybody behind it as well: what was given up is waited for by nobody.
 *
 * The thread begins with the priority of the requests, since one of them waits; when that gives up, the rest is done at a
 * lower one. Whoever of the target wakes up beside it goes first. It ends when nothing is asked for any more.
 *
 * At the limit no more is kept, and the next request finds the cache emptied: that costs time, never memory. */
#include "unwind/name/lines.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/lock.h"
#include "agent/base/slice.h"
#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "agent/base/vheap.h"
#include "unwind/name/file_key.h"
#include "unwind/name/module_file.h"
#include "unwind/name/pool.h"

enum {
	STACK_BYTES = 128 << 10,
	LOW_PRIORITY = 10,
	ANSWERS_FIRST = 256,
	/* More than that of inflated sections is not worth its memory between requests: libc's, with libc6-dbg, are 8 MiB. */
	INFLATED_BYTES = 1 << 20,
};

struct answer {
	uint64_t pc; /* as the file counts, + 1; 0: free */
	const struct ppa_line_frame *frames;
	uint32_t nframes;
};

struct file {
	struct file *next;
	struct ppa_file_key key;
	struct ppa_module module; /* a copy, path included: the table that it came from may go meanwhile */
	/* under the lock */
	struct answer *answers;
	size_t nanswers, cap;
	uint64_t *asked;
	size_t nasked, asked_cap;
	unsigned flags;	   /* PPA_DWARF_* */
	int err;	   /* not 0: there is nothing to be had */
	unsigned nwaiting; /* requests that have a pointer to it while they wait */
	bool is_at_work;
	bool is_late; /* a request gave up waiting: others do not even begin */
	/* the thread's while at work */
	struct ppa_pool pool;
	struct ppa_dwarf_kept kept; /* dropped with the answers */
};

static struct {
	struct ppa_lock lock; /* protects what follows; the private heap's and that of our threads are taken under it */
	struct file *files;
	size_t limit, bytes; /* of all answers */
	pid_t tid;	     /* the thread's, once it runs */
	bool has_thread;
	bool is_full;	/* empty the cache when nobody is at work */
	bool is_unused; /* so do, and give the memory back */
	_Atomic int done;
} state = {.limit = 32 << 20};

static uint64_t hash(uint64_t pc)
{
	return (pc * UINT64_C(0x9e3779b97f4a7c15)) >> 20;
}

static size_t answer_place(const struct file *f, uint64_t pc)
{
	size_t at = hash(pc) & (f->cap - 1);

	while (f->answers[at].pc && f->answers[at].pc != pc + 1)
		at = (at + 1) & (f->cap - 1);
	return at;
}

static const struct answer *find_locked(const struct file *f, uint64_t pc)
{
	const struct answer *a = f->cap ? &f->answers[answer_place(f, pc)] : NULL;

	return a && a->pc ? a : NULL;
}

static bool grow_locked(struct file *f)
{
	size_t old_cap = f->cap, cap = old_cap ? 2 * old_cap : ANSWERS_FIRST;
	struct answer *old = f->answers, *a = ppa_vheap_calloc(cap, sizeof(*a));

	if (!a)
		return false;
	f->answers = a;
	f->cap = cap;
	for (size_t i = 0; i < old_cap; i++)
		if (old[i].pc)
			a[answer_place(f, old[i].pc - 1)] = old[i];
	ppa_vheap_free(old);
	state.bytes += (cap - old_cap) * sizeof(*a);
	return true;
}

static bool enter_locked(struct file *f, const struct ppa_dwarf_want *w)
{
	size_t at;

	if (2 * (f->nanswers + 1) > f->cap && !grow_locked(f))
		return false;
	at = answer_place(f, w->pc);
	f->nanswers += !f->answers[at].pc;
	f->answers[at] = (struct answer){w->pc + 1, w->frames, w->nframes};
	return true;
}

static void free_file_locked(struct file *f)
{
	state.bytes -= f->pool.bytes + ppa_dwarf_kept_bytes(&f->kept) + f->cap * sizeof(*f->answers);
	ppa_pool_free(&f->pool);
	ppa_dwarf_kept_free(&f->kept);
	ppa_vheap_free(f->answers);
	ppa_vheap_free(f->asked);
	ppa_vheap_free((char *)f->module.path);
	ppa_vheap_free(f);
}

/* Drop every file, unless somebody has a pointer to one. What is asked for and not waited for is dropped, too. */
static bool empty_locked(void)
{
	struct file *f, *next;

	for (f = state.files; f; f = f->next)
		if (f->is_at_work || f->nwaiting)
			return false;
	for (f = state.files; f; f = next) {
		next = f->next;
		free_file_locked(f);
	}
	state.files = NULL;
	state.is_full = state.is_unused = false;
	return true;
}

/* ---- the thread ---- */

static void sift(uint64_t *a, size_t from, size_t n)
{
	for (size_t child; (child = 2 * from + 1) < n; from = child) {
		uint64_t swap = a[from];

		if (child + 1 < n && a[child + 1] > a[child])
			child++;
		if (swap >= a[child])
			return;
		a[from] = a[child];
		a[child] = swap;
	}
}

/* Heap sort: in place, and without the worst case. */
static void sort(uint64_t *a, size_t n)
{
	for (size_t i = n / 2; i-- > 0;)
		sift(a, i, n);
	for (size_t i = n; i-- > 1;) {
		uint64_t largest = a[0];

		a[0] = a[i];
		a[i] = largest;
		sift(a, 0, i);
	}
}

/* Everything of the file that is asked for, from its debug file if it has one. */
static int read_file(struct file *f, struct ppa_dwarf_want *wants, size_t n, unsigned *flags)
{
	struct ppa_module_file *files = ppa_vheap_calloc(3, sizeof(*files)), *own = files, *debug, *alternate;
	const struct ppa_elf_file *elf = NULL;
	bool has_own, has_debug = false, has_alternate = false;
	int err = -ENOENT;

	if (!files)
		return -ENOMEM;
	debug = files + 1;
	alternate = files + 2;
	has_own = ppa_module_file_open(&f->module, own) == 0;
	if (has_own &&
	    (ppa_elf_section_named(&own->elf, ".debug_info") || ppa_elf_section_named(&own->elf, ".zdebug_info"))) {
		elf = &own->elf;
	} else {
		has_debug = ppa_module_file_debug(&f->module, has_own ? own : NULL, debug) == 0;
		if (has_debug)
			elf = &debug->elf;
	}
	if (elf) {
		has_alternate = ppa_module_file_alternate(has_debug ? debug : own, alternate) == 0;
		err = ppa_dwarf_resolve_again(elf, has_alternate ? &alternate->elf : NULL, wants, n, &f->pool, &f->kept,
					      flags);
	}
	if (has_alternate)
		ppa_module_file_close(alternate);
	if (has_debug)
		ppa_module_file_close(debug);
	if (has_own)
		ppa_module_file_close(own);
	ppa_vheap_free(files);
	return err;
}

/* The addresses as wants, each once; the list of addresses is gone. NULL on no memory. */
static struct ppa_dwarf_want *make_wants(uint64_t *asked, size_t *n)
{
	struct ppa_dwarf_want *wants = ppa_vheap_calloc(*n + 1, sizeof(*wants));
	size_t kept = 0;

	sort(asked, *n);
	for (size_t i = 0; wants && i < *n; i++)
		if (!kept || wants[kept - 1].pc != asked[i])
			wants[kept++].pc = asked[i];
	ppa_vheap_free(asked);
	*n = kept;
	return wants;
}

static void answer(struct file *f, uint64_t *asked, size_t n)
{
	struct ppa_dwarf_want *wants = make_wants(asked, &n);
	size_t before = f->pool.bytes + ppa_dwarf_kept_bytes(&f->kept);
	unsigned flags = 0;
	int err = wants ? read_file(f, wants, n, &flags) : -ENOMEM;

	ppa_dwarf_kept_shed(&f->kept, INFLATED_BYTES);
	ppa_lock(&state.lock);
	for (size_t i = 0; i < n && !err; i++)
		if (!enter_locked(f, &wants[i]))
			flags |= PPA_DWARF_NO_MEMORY;
	state.bytes += f->pool.bytes + ppa_dwarf_kept_bytes(&f->kept) - before;
	if (err == -ENOMEM || flags & PPA_DWARF_NO_MEMORY || state.bytes > state.limit)
		state.is_full = true;
	if (err && err != -ENOMEM)
		f->err = err;
	f->flags |= flags;
	f->is_at_work = false;
	f->is_late = f->is_late && f->nasked;
	ppa_unlock(&state.lock);
	ppa_vheap_free(wants);
}

static void announce(void)
{
	atomic_fetch_add_explicit(&state.done, 1, memory_order_release);
	ppa_syscall(SYS_futex, (long)&state.done, FUTEX_WAKE_PRIVATE, INT32_MAX, 0, 0, 0);
}

static struct file *next_file_locked(void)
{
	struct file *f = state.files;

	while (f && !f->nasked)
		f = f->next;
	return f;
}

static void *work(void *unused)
{
	bool gives_back = false;

	(void)unused;
	ppa_slice_longest();
	for (;;) {
		bool is_first;
		struct file *f;
		uint64_t *asked;
		size_t n;

		ppa_lock(&state.lock);
		state.tid = ppa_sys_gettid();
		f = next_file_locked();
		if (!f) {
			gives_back = state.is_unused && empty_locked();
			state.has_thread = false;
			state.tid = 0;
			ppa_unlock(&state.lock);
			break;
		}
		asked = f->asked;
		n = 0;
		/* Some may have been answered since they were asked for. */
		for (size_t i = 0; i < f->nasked; i++)
			if (!find_locked(f, asked[i]))
				asked[n++] = asked[i];
		f->asked = NULL;
		f->nasked = f->asked_cap = 0;
		f->is_at_work = true;
		is_first = !f->pool.bytes;
		f->pool.max_bytes = f->pool.bytes + (state.bytes < state.limit ? state.limit - state.bytes : 0);
		ppa_unlock(&state.lock);
		if (is_first)
			ppa_slice_give_turn();
		answer(f, asked, n);
		announce();
	}
	if (gives_back)
		ppa_vheap_trim();
	return NULL;
}

/* ---- requests ---- */

static struct file *file_of_locked(const struct ppa_module *m)
{
	struct ppa_file_key key;
	struct file *f;

	ppa_file_key_of(m, &key);
	for (f = state.files; f; f = f->next)
		if (ppa_file_key_is(&f->key, &key))
			return f;
	f = ppa_vheap_calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->key = key;
	f->module = *m;
	f->module.path = ppa_vheap_strdup(m->path);
	if (!f->module.path) {
		ppa_vheap_free(f);
		return NULL;
	}
	f->next = state.files;
	state.files = f;
	return f;
}

static bool ask_locked(struct file *f, uint64_t pc)
{
	if (f->nasked == f->asked_cap) {
		size_t cap = f->asked_cap ? 2 * f->asked_cap : ANSWERS_FIRST;
		uint64_t *asked = ppa_vheap_realloc(f->asked, cap * sizeof(*asked));

		if (!asked)
			return false;
		f->asked = asked;
		f->asked_cap = cap;
	}
	f->asked[f->nasked++] = pc;
	return true;
}

/* Ask for what has no answer; true if the thread has something to do for us. */
static bool ask_all_locked(struct file *f, const struct ppa_module *m, const uintptr_t *pcs, size_t n)
{
	/* What is asked for already was asked for by a request like this one. */
	bool was_asked = f->nasked || f->is_at_work;

	for (size_t i = 0; i < n; i++)
		if (!find_locked(f, pcs[i] - m->bias) && !ask_locked(f, pcs[i] - m->bias))
			break;
	if (f->nasked && !state.has_thread)
		state.has_thread = ppa_thread_spawn(work, NULL, STACK_BYTES, "pprof-lines") == 0;
	if (!state.has_thread) {
		f->nasked = 0;
		return false;
	}
	return was_asked || f->nasked;
}

/* Never raise it: in a target that is nicer still, and may raise priorities, it would be more urgent than the target. */
static void lower_priority(pid_t tid)
{
	/* The system call gives 20 less the niceness. */
	if (tid && ppa_syscall(SYS_getpriority, 0, tid, 0, 0, 0, 0) > 20 - LOW_PRIORITY)
		ppa_syscall(SYS_setpriority, 0, tid, LOW_PRIORITY, 0, 0, 0);
}

/* Until the file is done, or the deadline is over: then the thread need not hurry any more. Releases the lock meanwhile. */
static void wait_locked(struct file *f, uint64_t deadline_ns)
{
	f->nwaiting++;
	while ((f->nasked || f->is_at_work) && !f->is_late) {
		uint64_t now = ppa_sys_clock_ns(CLOCK_MONOTONIC), left = deadline_ns > now ? deadline_ns - now : 0;
		struct timespec ts = {(time_t)(left / 1000000000ULL), (long)(left % 1000000000ULL)};
		int seen = atomic_load_explicit(&state.done, memory_order_acquire);
		bool is_first;

		if (!left) {
			f->is_late = true;
			lower_priority(state.tid);
			break;
		}
		is_first = !f->pool.bytes;
		ppa_unlock(&state.lock);
		/* A file's first reading; later ones take a millisecond, and so does the rest of their answers. */
		if (is_first && ppa_slice_longest())
			ppa_slice_give_turn();
		ppa_syscall(SYS_futex, (long)&state.done, FUTEX_WAIT_PRIVATE, seen, (long)&ts, 0, 0);
		ppa_lock(&state.lock);
	}
	f->nwaiting--;
}

static void report_locked(const struct file *f, struct ppa_lines_report *r)
{
	r->has_split |= (f->flags & PPA_DWARF_SPLIT) != 0;
	r->has_no_memory |= (f->flags & PPA_DWARF_NO_MEMORY) != 0;
	r->is_too_large |= f->err == -EFBIG;
	r->is_unreadable |= f->err == -ENOTSUP;
}

void ppa_lines_resolve(const struct ppa_module *m, const uintptr_t *pcs, size_t n, uint64_t deadline_ns,
		       void (*found)(void *arg, size_t i, const struct ppa_line_frame *frames, uint32_t nframes),
		       void *arg, struct ppa_lines_report *report)
{
	struct file *f;

	ppa_lock(&state.lock);
	if (state.is_full || state.is_unused)
		empty_locked();
	state.is_unused = false;
	f = m->path[0] == '[' || m->hi <= m->lo ? NULL : file_of_locked(m);
	if (f && !f->err && ask_all_locked(f, m, pcs, n))
		wait_locked(f, deadline_ns);
	if (f)
		report_locked(f, report);
	for (size_t i = 0; f && !f->err && i < n; i++) {
		const struct answer *a = find_locked(f, pcs[i] - m->bias);

		if (a && a->nframes)
			found(arg, i, a->frames, a->nframes);
		else if (!a)
			report->nlate++;
	}
	ppa_unlock(&state.lock);
}

void ppa_lines_set_limit(size_t bytes)
{
	state.limit = bytes;
}

uint64_t ppa_lines_cached_bytes(void)
{
	uint64_t bytes;

	ppa_lock(&state.lock);
	bytes = state.bytes;
	ppa_unlock(&state.lock);
	return bytes;
}

void ppa_lines_trim(void)
{
	ppa_lock(&state.lock);
	if (!empty_locked())
		state.is_unused = true;
	ppa_unlock(&state.lock);
}

void ppa_lines_reset(void)
{
	size_t limit = state.limit;

	memset(&state, 0, sizeof(state));
	state.limit = limit;
}
