/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/name/lines.c unwind/name/pool.c agent/base/sys.c test/fakes/vheap.c -lpthread
/* Promise: each address is looked for once, whoever asks and in whatever module the file is; nobody waits beyond the deadline, and
 * what came late is there for the next; a file without lines is not opened again.
 * Promise: who reads lets go first whoever of the target wakes up beside it.
 * Promise: the limit holds, all is given back when asked, also while the thread reads, and memory or threads that are not to be
 * had cost lines and nothing else. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "agent/base/slice.h"
#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "agent/base/vheap.h"
#include "test/fakes/vheap.h"
#include "unwind/name/lines.h"
#include "unwind/name/module_file.h"
#include "unwind/name/pool.h"

#define A_MINUTE UINT64_C(60000000000)

enum { NPCS = 1000, DEFAULT_LIMIT = 32 << 20 };

/* The reader's place is taken by one that knows a function at every even address, and does as it is told. */
static struct {
	_Atomic int calls, naddresses, nopened, sheds;
	_Atomic bool is_held, is_in, is_rude;
	int err;
	unsigned flags;
	size_t kept_bytes;
} reader;

static _Atomic int nthreads;
static bool has_no_threads;
static __thread bool lets_others_first;

bool ppa_slice_longest(void)
{
	lets_others_first = true;
	return true;
}

static void *thread_main(void *arg)
{
	void *(*fn)(void *) = (void *(*)(void *))(uintptr_t)arg;

	fn(NULL);
	nthreads--;
	return NULL;
}

int ppa_thread_spawn(void *(*fn)(void *), void *arg, size_t stack_bytes, const char *name)
{
	pthread_t t;

	(void)arg;
	(void)stack_bytes;
	(void)name;
	if (has_no_threads)
		return -EAGAIN;
	nthreads++;
	if (pthread_create(&t, NULL, thread_main, (void *)(uintptr_t)fn) != 0)
		abort();
	pthread_detach(t);
	return 0;
}

int ppa_module_file_open(const struct ppa_module *m, struct ppa_module_file *o)
{
	(void)m;
	memset(o, 0, sizeof(*o));
	reader.nopened++;
	return -ENOENT;
}

int ppa_module_file_debug(const struct ppa_module *m, const struct ppa_module_file *file, struct ppa_module_file *o)
{
	(void)m;
	(void)file;
	memset(o, 0, sizeof(*o));
	return 0;
}

int ppa_module_file_alternate(const struct ppa_module_file *file, struct ppa_module_file *o)
{
	(void)file;
	(void)o;
	return -ENOENT;
}

void ppa_module_file_close(struct ppa_module_file *o)
{
	(void)o;
}

const Elf64_Shdr *ppa_elf_section_named(const struct ppa_elf_file *f, const char *name)
{
	(void)f;
	(void)name;
	return NULL;
}

int ppa_dwarf_resolve_again(const struct ppa_elf_file *f, const struct ppa_elf_file *alt, struct ppa_dwarf_want *wants,
			    size_t n, struct ppa_pool *pool, struct ppa_dwarf_kept *kept, unsigned *flags)
{
	(void)f;
	(void)alt;
	reader.is_in = true;
	reader.is_rude |= !lets_others_first;
	reader.calls++;
	reader.naddresses += (int)n;
	while (reader.is_held)
		sched_yield();
	reader.is_in = false;
	*flags = reader.flags;
	if (reader.err)
		return reader.err;
	kept->inflated[0].size = reader.kept_bytes;
	for (size_t i = 0; i < n; i++) {
		struct ppa_line_frame *frame;

		if (i && wants[i].pc <= wants[i - 1].pc)
			abort(); /* sorted, each once */
		if (wants[i].pc % 2)
			continue;
		frame = ppa_pool_alloc(pool, sizeof(*frame));
		if (!frame) {
			*flags |= PPA_DWARF_NO_MEMORY;
			continue;
		}
		*frame = (struct ppa_line_frame){"f", "f.c", (uint32_t)wants[i].pc, 1};
		wants[i].frames = frame;
		wants[i].nframes = 1;
	}
	return 0;
}

uint64_t ppa_dwarf_kept_bytes(const struct ppa_dwarf_kept *kept)
{
	return kept->inflated[0].size;
}

void ppa_dwarf_kept_shed(struct ppa_dwarf_kept *kept, uint64_t bytes)
{
	/* 256 KiB are worth keeping, libc's 8 MiB are not. */
	assert_in_range(bytes, 256 << 10, 4 << 20);
	reader.sheds += kept->inflated[0].size > 0;
}

void ppa_dwarf_kept_free(struct ppa_dwarf_kept *kept)
{
	kept->inflated[0].size = 0;
}

/* ---- what a request gets ---- */

struct got {
	const struct ppa_module *m;
	const uintptr_t *pcs;
	size_t n, nwrong;
	struct ppa_lines_report report;
};

static void found(void *arg, size_t i, const struct ppa_line_frame *frames, uint32_t nframes)
{
	struct got *g = arg;

	g->n++;
	g->nwrong += nframes != 1 || frames[0].line != (uint32_t)(g->pcs[i] - g->m->bias) || g->pcs[i] % 2;
}

static struct got ask(const struct ppa_module *m, uintptr_t first, size_t n, uint64_t wait_ns)
{
	static uintptr_t pcs[NPCS];
	struct got g = {.m = m, .pcs = pcs};

	/* As in profiles, in no order. */
	for (size_t i = 0; i < n; i++)
		pcs[i] = m->bias + first + (i * 7) % n;
	ppa_lines_resolve(m, pcs, n, ppa_sys_clock_ns(CLOCK_MONOTONIC) + wait_ns, found, &g, &g.report);
	assert_int_equal(g.nwrong, 0);
	return g;
}

static struct ppa_module module_of(uint8_t id)
{
	return (struct ppa_module){.serial = id,
				   .path = "/lib/libx.so",
				   .bias = 0x10000000,
				   .lo = 0x10000000,
				   .hi = 0x20000000,
				   .build_id = {id},
				   .build_id_len = 20};
}

static void wait_for_thread(void)
{
	while (nthreads)
		sched_yield();
}

static int begin(void **state)
{
	(void)state;
	memset(&reader, 0, sizeof(reader));
	has_no_threads = false;
	fake_vheap_budget = -1;
	ppa_lines_set_limit(DEFAULT_LIMIT);
	return 0;
}

static int end(void **state)
{
	(void)state;
	wait_for_thread();
	fake_vheap_budget = -1;
	ppa_lines_trim();
	return ppa_lines_cached_bytes() || fake_vheap_live;
}

static void an_address_is_looked_for_once(void **state)
{
	struct ppa_module m = module_of(1), again = module_of(1), other = module_of(2);
	struct got g = ask(&m, 0x1000, NPCS, A_MINUTE);

	(void)state;
	assert_int_equal(g.n, NPCS / 2);
	assert_int_equal(g.report.nlate, 0);
	assert_int_equal(reader.naddresses, NPCS);
	assert_false(reader.is_rude);
	/* Unloaded, and loaded again elsewhere. */
	again.serial = 3;
	again.bias = again.lo = 0x30000000;
	again.hi = 0x40000000;
	g = ask(&again, 0x1000, NPCS, A_MINUTE);
	assert_int_equal(g.n, NPCS / 2);
	assert_int_equal(reader.calls, 1);
	/* Half of them are new. */
	g = ask(&m, 0x1000 + NPCS / 2, NPCS, A_MINUTE);
	assert_int_equal(g.n, NPCS / 2);
	assert_int_equal(reader.naddresses, NPCS + NPCS / 2);
	g = ask(&other, 0x1000, NPCS, A_MINUTE);
	assert_int_equal(reader.naddresses, 2 * NPCS + NPCS / 2);
}

static void nobody_waits_beyond_the_deadline(void **state)
{
	struct ppa_module m = module_of(1);
	struct got g;

	(void)state;
	reader.is_held = true;
	g = ask(&m, 0x1000, 100, 1000000);
	assert_int_equal(g.n, 0);
	assert_int_equal(g.report.nlate, 100);
	/* What was given up is waited for by nobody. */
	g = ask(&m, 0x1000, 100, A_MINUTE);
	assert_int_equal(g.report.nlate, 100);
	reader.is_held = false;
	wait_for_thread();
	g = ask(&m, 0x1000, 100, 0);
	assert_int_equal(g.n, 50);
	assert_int_equal(g.report.nlate, 0);
	/* And the file is waited for again. */
	g = ask(&m, 0x5000, 100, A_MINUTE);
	assert_int_equal(g.n, 50);
	assert_int_equal(g.report.nlate, 0);
}

static void a_file_without_lines_is_read_once(void **state)
{
	struct ppa_module m = module_of(1), vdso = module_of(2);
	struct got g;

	(void)state;
	reader.err = -ENOENT;
	for (int i = 0; i < 3; i++) {
		g = ask(&m, 0x1000, 100, A_MINUTE);
		assert_int_equal(g.n + g.report.nlate, 0);
		assert_false(g.report.has_no_memory || g.report.is_too_large || g.report.is_unreadable);
	}
	assert_int_equal(reader.calls, 1);
	assert_int_equal(reader.nopened, 1);
	vdso.path = "[vdso]";
	g = ask(&vdso, 0x1000, 100, A_MINUTE);
	assert_int_equal(g.n + g.report.nlate, 0);
	assert_int_equal(reader.calls, 1);
}

static void what_is_missing_is_told(void **state)
{
	struct ppa_module split = module_of(1), large = module_of(2), odd = module_of(3);

	(void)state;
	reader.flags = PPA_DWARF_SPLIT;
	for (int i = 0; i < 2; i++)
		assert_true(ask(&split, 0x1000, 10, A_MINUTE).report.has_split);
	reader.flags = 0;
	reader.err = -EFBIG;
	for (int i = 0; i < 2; i++)
		assert_true(ask(&large, 0x1000, 10, A_MINUTE).report.is_too_large);
	reader.err = -ENOTSUP;
	for (int i = 0; i < 2; i++)
		assert_true(ask(&odd, 0x1000, 10, A_MINUTE).report.is_unreadable);
	assert_int_equal(reader.calls, 3);
}

static void the_limit_holds(void **state)
{
	struct ppa_module m = module_of(1);
	size_t most = 0, nfound = 0, limit = 256 << 10;

	(void)state;
	ppa_lines_set_limit(limit);
	for (uintptr_t i = 0; i < 200; i++) {
		nfound += ask(&m, i * NPCS, NPCS, A_MINUTE).n;
		most = ppa_lines_cached_bytes() > most ? ppa_lines_cached_bytes() : most;
	}
	/* Texts and frames end at the limit; the table of answers, which is smaller than they are, may double beyond it. */
	assert_in_range(most, limit / 2, 2 * limit);
	assert_true(nfound > 200 * NPCS / 4);
	/* What is kept beside the answers counts. */
	reader.kept_bytes = limit;
	ask(&m, 0x1000000, 10, A_MINUTE);
	assert_true(ppa_lines_cached_bytes() >= limit);
	/* And what is inflated of it is offered back with the answer. */
	assert_int_equal(reader.sheds, 1);
	reader.kept_bytes = 0;
	ask(&m, 0x1000000, 10, A_MINUTE);
	assert_true(ppa_lines_cached_bytes() < limit / 2);
}

static void all_is_given_back(void **state)
{
	struct ppa_module m = module_of(1);

	(void)state;
	ask(&m, 0x1000, NPCS, A_MINUTE);
	wait_for_thread();
	ppa_lines_trim();
	assert_int_equal(ppa_lines_cached_bytes(), 0);
	assert_int_equal(fake_vheap_live, 0);
	/* While it is read: as soon as it is there. */
	reader.is_held = true;
	ask(&m, 0x1000, 10, 0);
	while (!reader.is_in)
		sched_yield();
	ppa_lines_trim();
	reader.is_held = false;
	wait_for_thread();
	assert_int_equal(ppa_lines_cached_bytes(), 0);
	assert_int_equal(fake_vheap_live, 0);
}

static void without_threads_there_are_names(void **state)
{
	struct ppa_module m = module_of(1);
	struct got g;

	(void)state;
	has_no_threads = true;
	g = ask(&m, 0x1000, 100, A_MINUTE);
	assert_int_equal(g.report.nlate, 100);
	has_no_threads = false;
	assert_int_equal(ask(&m, 0x1000, 100, A_MINUTE).n, 50);
}

static void memory_may_run_out_anywhere(void **state)
{
	struct ppa_module m = module_of(1);
	struct got g;
	long n = 0;

	(void)state;
	do {
		fake_vheap_budget = n++;
		g = ask(&m, 0x1000, NPCS, A_MINUTE);
		wait_for_thread();
		fake_vheap_budget = -1;
		ppa_lines_trim();
		assert_int_equal(ppa_lines_cached_bytes(), 0);
		assert_int_equal(fake_vheap_live, 0);
	} while (g.n < NPCS / 2 && n < 1000);
	assert_in_range(n, 5, 999);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_address_is_looked_for_once, begin, end),
		cmocka_unit_test_setup_teardown(nobody_waits_beyond_the_deadline, begin, end),
		cmocka_unit_test_setup_teardown(a_file_without_lines_is_read_once, begin, end),
		cmocka_unit_test_setup_teardown(what_is_missing_is_told, begin, end),
		cmocka_unit_test_setup_teardown(the_limit_holds, begin, end),
		cmocka_unit_test_setup_teardown(all_is_given_back, begin, end),
		cmocka_unit_test_setup_teardown(without_threads_there_are_names, begin, end),
		cmocka_unit_test_setup_teardown(memory_may_run_out_anywhere, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
