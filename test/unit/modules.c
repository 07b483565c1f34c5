/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/module/modules.c unwind/module/module_table.c unwind/module/module_stays.c unwind/module/module_scan.c unwind/module/maps.c unwind/module/maps_read.c unwind/module/elf_headers.c agent/base/sys.c agent/base/vheap.c -ldl
/* Promise: the table shows what is loaded: program, libraries, vdso, with build ids and unwind indexes.
 * Promise: what is unloaded and loaded again is another module; what did not change is the same one.
 * Promise: handlers find code before the table knows it, and never trust the table while something is unloaded.
 * Promise: tables of former times are kept if somebody wants them, a bounded number, and know their time.
 * Promise: a held table outlives the modules it names; the child of a fork works on. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/base/vheap.h"
#include "unwind/module/module_scan.h"
#include "unwind/module/modules.h"

#define LIBRARY "libz.so.1"

static const struct ppa_module *module_at(const struct ppa_module_table *t, const void *p)
{
	const struct ppa_text_segment *s = ppa_modules_lookup(t, (uintptr_t)p);

	return s ? s->module : NULL;
}

static bool find(const void *p, struct ppa_code *code)
{
	unsigned token = ppa_modules_read_begin();
	bool found = ppa_modules_find((uintptr_t)p, code);

	ppa_modules_read_end(token);
	return found;
}

/* A function of libc's, whatever the program's own procedure linkage says. */
static void *libc_function(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

static void the_program_and_its_libraries(void **state)
{
	const struct ppa_module_table *t;
	const struct ppa_module *self, *libc, *vdso;
	struct stat st;

	(void)state;
	assert_int_equal(ppa_modules_refresh(true), 0);
	t = ppa_modules_hold();
	assert_non_null(t);
	for (size_t i = 1; i < t->nsegs; i++)
		assert_true(t->segs[i - 1].end <= t->segs[i].start);
	self = module_at(t, (void *)&the_program_and_its_libraries);
	libc = module_at(t, libc_function("printf"));
	vdso = module_at(t, (void *)(getauxval(AT_SYSINFO_EHDR) + 0x800));
	assert_non_null(self);
	assert_non_null(libc);
	assert_non_null(vdso);
	assert_true(self->is_main && self->is_agent && self->at_startup && !self->deleted);
	assert_true(!libc->is_main && !libc->is_agent && libc->at_startup);
	assert_true(self->serial != libc->serial && self->serial && libc->serial);
	assert_int_equal(stat("/proc/self/exe", &st), 0);
	assert_int_equal(self->ino, st.st_ino);
	assert_string_equal(vdso->path, "[vdso]");
	assert_true(vdso->at_startup && vdso->build_id_len && vdso->ino == 0);
	assert_true(self->build_id_len == 20 && libc->build_id_len == 20);
	assert_true(self->eh_frame_hdr > self->lo && self->eh_frame_hdr + self->eh_frame_hdr_len < self->hi);
	ppa_modules_release(t);
}

/* The loader's own list is the oracle for biases and indexes. */
static int compare_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct ppa_module_table *t = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const struct ppa_text_segment *s;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		s = ppa_modules_lookup(t, info->dlpi_addr + p->p_vaddr);
		assert_non_null(s);
		assert_int_equal(s->module->bias, info->dlpi_addr);
		assert_int_equal(s->file_offset + (info->dlpi_addr + p->p_vaddr - s->start), p->p_offset);
		for (int k = 0; k < info->dlpi_phnum; k++)
			if (info->dlpi_phdr[k].p_type == PT_GNU_EH_FRAME)
				assert_int_equal(s->module->eh_frame_hdr, info->dlpi_addr + info->dlpi_phdr[k].p_vaddr);
	}
	return 0;
}

static void agrees_with_the_loader(void **state)
{
	const struct ppa_module_table *t = ppa_modules_hold();

	(void)state;
	dl_iterate_phdr(compare_object, (void *)t);
	ppa_modules_release(t);
}

static void nothing_new_is_the_same_table(void **state)
{
	const struct ppa_module_table *a = ppa_modules_hold(), *b;

	(void)state;
	assert_int_equal(ppa_modules_refresh(true), 0);
	b = ppa_modules_hold();
	assert_ptr_equal(a, b);
	ppa_modules_release(a);
	ppa_modules_release(b);
}

static void loaded_and_unloaded(void **state)
{
	const struct ppa_module_table *before = ppa_modules_hold(), *with, *without, *again;
	const struct ppa_module *m;
	struct ppa_code code;
	void *h = dlopen(LIBRARY, RTLD_NOW), *f;
	uint64_t serial;

	(void)state;
	if (!h)
		skip();
	f = dlsym(h, "crc32");
	ppa_modules_mark();
	assert_int_equal(ppa_modules_refresh(false), 0);
	with = ppa_modules_hold();
	m = module_at(with, f);
	assert_non_null(m);
	assert_null(module_at(before, f));
	assert_true(!m->at_startup && !m->is_main);
	assert_int_equal(with->layout, before->layout);
	assert_ptr_equal(module_at(with, (void *)&find), module_at(before, (void *)&find));
	assert_true(find(f, &code) && code.serial == m->serial && !code.stays && code.epoch == with->layout);
	serial = m->serial;
	ppa_modules_unload_begin();
	dlclose(h);
	ppa_modules_unload_end();
	assert_int_equal(ppa_modules_refresh(false), 0);
	without = ppa_modules_hold();
	assert_null(module_at(without, f));
	assert_true(without->layout > with->layout);
	h = dlopen(LIBRARY, RTLD_NOW);
	f = dlsym(h, "crc32");
	assert_int_equal(ppa_modules_refresh(true), 0);
	again = ppa_modules_hold();
	assert_true(module_at(again, f)->serial > serial);
	ppa_modules_release(before);
	ppa_modules_release(with);
	ppa_modules_release(without);
	ppa_modules_release(again);
	dlclose(h);
	assert_int_equal(ppa_modules_refresh(true), 0);
}

/* While dlclose runs, and until the next refresh, only what stays is believed. */
static void distrust_while_unloading(void **state)
{
	void *h = dlopen(LIBRARY, RTLD_NOW), *f;
	uint64_t loader = 0;
	struct ppa_code code;

	(void)state;
	if (!h)
		skip();
	f = dlsym(h, "crc32");
	/* Before the table knows it, the loader does; what is learnt of it holds until something is unloaded. */
	if (find(f, &code)) {
		assert_true(!code.serial && !code.stays && code.eh_frame_hdr);
		assert_true(code.epoch && code.epoch == ppa_modules_epochs().loader);
		loader = code.epoch;
		assert_true(code.cfi_lo <= code.eh_frame_hdr && code.eh_frame_hdr < code.cfi_hi);
	}
	assert_int_equal(ppa_modules_refresh(true), 0);
	assert_true(find(f, &code) && code.epoch == ppa_modules_epochs().rest);
	ppa_modules_unload_begin();
	assert_int_equal(ppa_modules_epochs().rest, 0);
	assert_int_equal(ppa_modules_epochs().loader, 0);
	assert_true(ppa_modules_epochs().stays != 0);
	assert_true(!find(f, &code) || (!code.serial && !code.epoch));
	assert_true(find((void *)&distrust_while_unloading, &code) && code.serial && code.stays);
	assert_int_equal(ppa_modules_refresh(true), 0); /* in the middle: not final */
	assert_int_equal(ppa_modules_epochs().rest, 0);
	ppa_modules_unload_end();
	assert_int_equal(ppa_modules_epochs().rest, 0);
	assert_true(ppa_modules_epochs().loader && ppa_modules_epochs().loader != loader);
	assert_int_equal(ppa_modules_refresh(false), 0);
	assert_true(ppa_modules_epochs().rest != 0);
	assert_true(find(f, &code) && code.serial);
	dlclose(h);
	assert_int_equal(ppa_modules_refresh(true), 0);
}

/* A walk that does not end delays dlclose by 10 ms, not for ever; without walks it does not wait. */
static void unloading_waits_for_walks_a_while(void **state)
{
	struct timespec a, b, c;
	unsigned token = ppa_modules_read_begin();
	double with, without;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &a);
	ppa_modules_unload_begin();
	clock_gettime(CLOCK_MONOTONIC, &b);
	ppa_modules_unload_end();
	ppa_modules_read_end(token);
	with = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
	assert_true(with >= 9);
	clock_gettime(CLOCK_MONOTONIC, &b);
	ppa_modules_unload_begin();
	clock_gettime(CLOCK_MONOTONIC, &c);
	ppa_modules_unload_end();
	without = (double)(c.tv_sec - b.tv_sec) * 1e3 + (double)(c.tv_nsec - b.tv_nsec) / 1e6;
	assert_true(without < 9);
	assert_int_equal(ppa_modules_refresh(false), 0);
}

/* Executable memory that is no library is no module, and known as such once looked at. */
static void foreign_code_is_no_module(void **state)
{
	const struct ppa_module_table *t;
	void *jit = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *data;
	int fd = open("/proc/self/exe", O_RDONLY);
	struct ppa_code code;
	struct stat st;

	(void)state;
	fstat(fd, &st);
	/* The program a second time, as data, is no second program; nor is a part of it that can be executed. */
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_int_equal(ppa_modules_refresh(true), 0);
	t = ppa_modules_hold();
	assert_null(module_at(t, jit));
	assert_false(find(jit, &code));
	assert_null(module_at(t, data));
	for (size_t i = 0, n = 0; i < t->nsegs; i++) {
		n += t->segs[i].module->is_main;
		assert_true(n <= 1);
	}
	ppa_modules_release(t);
	munmap(jit, 4096);
	munmap(data, (size_t)st.st_size);
	close(fd);
	assert_int_equal(ppa_modules_refresh(true), 0);
}

static void old_tables_are_freed(void **state)
{
	uint64_t before = 0;

	(void)state;
	for (int i = 0; i < 60; i++) {
		void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		assert_int_equal(ppa_modules_refresh(true), 0);
		munmap(p, 4096);
		assert_int_equal(ppa_modules_refresh(true), 0);
		if (i == 20) {
			ppa_vheap_trim();
			before = ppa_vheap_mapped_bytes();
		}
	}
	ppa_vheap_trim();
	assert_true(ppa_vheap_mapped_bytes() <= before);
}

static bool wanted;

static bool is_wanted(void)
{
	return wanted;
}

/* Load and unload a library, seen by a refresh in between. Its function's address. */
static uintptr_t come_and_go(void)
{
	void *h = dlopen(LIBRARY, RTLD_NOW), *f;

	if (!h)
		skip();
	f = dlsym(h, "crc32");
	assert_int_equal(ppa_modules_refresh(true), 0);
	ppa_modules_unload_begin();
	dlclose(h);
	ppa_modules_unload_end();
	assert_int_equal(ppa_modules_refresh(false), 0);
	return (uintptr_t)f;
}

static size_t hold_all(struct ppa_module_era *eras)
{
	size_t n = ppa_modules_hold_all(eras);

	for (size_t i = 0; i < n; i++)
		ppa_modules_release(eras[i].table);
	return n;
}

/* Those that somebody wants, and not one more; each says its time. */
static void former_tables_are_kept(void **state)
{
	struct ppa_module_era eras[1 + PPA_MODULES_PAST_MAX];
	uint64_t before, between;
	uintptr_t f;

	(void)state;
	ppa_modules_keep_past(is_wanted);
	come_and_go();
	assert_int_equal(hold_all(eras), 1);
	wanted = true;
	before = ppa_modules_unloads();
	f = come_and_go();
	wanted = false;
	come_and_go();
	between = ppa_modules_unloads();
	assert_int_equal(hold_all(eras), 2);
	assert_non_null(ppa_modules_lookup(eras[1].table, f));
	assert_null(ppa_modules_lookup(eras[0].table, f));
	assert_true(eras[1].from <= before && eras[1].until == before);
	assert_true(eras[0].from > eras[1].until && eras[0].until == between);
	wanted = true;
	for (int i = 0; i < PPA_MODULES_PAST_MAX + 5; i++)
		come_and_go();
	assert_int_equal(hold_all(eras), 1 + PPA_MODULES_PAST_MAX);
	/* The one from the beginning was dropped. */
	assert_true(eras[PPA_MODULES_PAST_MAX].from > between);
	for (size_t i = 0; i < PPA_MODULES_PAST_MAX; i++)
		assert_true(eras[i].from > eras[i + 1].until);
	ppa_modules_keep_past(NULL);
}

/* Where /proc is closed the loader's list must give the same picture, but for inodes. */
static void the_loaders_list_will_do(void **state)
{
	const struct ppa_module_table *t = ppa_modules_hold();
	uint64_t serial = 0;
	struct ppa_module_scan s = {.next_serial = &serial, .main_phdr = getauxval(AT_PHDR)};
	size_t seen = 0;

	(void)state;
	assert_int_equal(ppa_module_scan_loader(&s), 0);
	for (size_t i = 0; i < s.nranges; i++) {
		const struct ppa_module_range *r = &s.ranges[i];
		const struct ppa_module *m = module_at(t, (void *)r->start), *n = &r->node->m;

		assert_true(!i || s.ranges[i - 1].end <= r->start);
		assert_non_null(m);
		assert_true(m->bias == n->bias && m->eh_frame_hdr == n->eh_frame_hdr && m->is_main == n->is_main);
		assert_true(m->lo == n->lo && m->hi == n->hi && m->build_id_len == n->build_id_len);
		assert_true(r->node->cfi_lo <= n->eh_frame_hdr && n->eh_frame_hdr < r->node->cfi_hi);
		seen++;
	}
	assert_true(seen >= 4);
	ppa_module_scan_free(&s);
	ppa_modules_release(t);
}

static atomic_bool stop;

static void *reader(void *arg)
{
	long *found = arg;
	struct ppa_code code;

	do /* once at least: on a host that takes a CPU away for 100 ms, it may all be over before the first look */
		*found += find((void *)&reader, &code) && code.serial && code.lo <= (uintptr_t)&reader;
	while (!stop);
	return NULL;
}

static void readers_and_refreshes_do_not_meet(void **state)
{
	pthread_t t[2];
	long found[2] = {0, 0};

	(void)state;
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, reader, &found[i]);
	for (int i = 0; i < 200; i++) {
		void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		const struct ppa_module_table *held = ppa_modules_hold();

		assert_int_equal(ppa_modules_refresh(true), 0);
		munmap(p, 4096);
		assert_int_equal(ppa_modules_refresh(true), 0);
		assert_non_null(module_at(held, (void *)&reader));
		ppa_modules_release(held);
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	assert_true(found[0] > 0 && found[1] > 0);
}

static int child(const struct ppa_module_table *parents)
{
	const struct ppa_module_table *t;
	struct ppa_code code;
	void *h;

	ppa_vheap_reset();
	ppa_modules_reset();
	/* What was true at the fork is true, and not looked at again. */
	if (!ppa_modules_epochs().rest || !find((void *)&child, &code) || !code.stays || ppa_modules_refresh(false))
		return 1;
	t = ppa_modules_hold();
	if (t != parents)
		return 5;
	ppa_modules_release(t);
	ppa_modules_unload_end(); /* of a dlclose that this thread was in */
	if (ppa_modules_epochs().rest)
		return 6;
	h = dlopen(LIBRARY, RTLD_NOW);
	if (ppa_modules_refresh(false) || !ppa_modules_epochs().rest)
		return 2;
	t = ppa_modules_hold();
	if (h && !module_at(t, dlsym(h, "crc32")))
		return 3;
	ppa_modules_release(t);
	if (h)
		dlclose(h);
	return ppa_modules_refresh(true) ? 4 : 0;
}

static void the_child_works_on(void **state)
{
	const struct ppa_module_table *held = ppa_modules_hold();
	unsigned token = ppa_modules_read_begin();
	int status;
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(child(held));
	ppa_modules_read_end(token);
	ppa_modules_release(held);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_dlclose_elsewhere_is_not_trusted(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	ppa_modules_unload_begin();
	pid = fork();
	if (!pid) {
		ppa_vheap_reset();
		ppa_modules_reset();
		if (ppa_modules_epochs().rest)
			_exit(1);
		_exit(ppa_modules_refresh(false) || !ppa_modules_epochs().rest ? 2 : 0);
	}
	ppa_modules_unload_end();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(ppa_modules_refresh(false), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_program_and_its_libraries),
		cmocka_unit_test(agrees_with_the_loader),
		cmocka_unit_test(nothing_new_is_the_same_table),
		cmocka_unit_test(loaded_and_unloaded),
		cmocka_unit_test(distrust_while_unloading),
		cmocka_unit_test(unloading_waits_for_walks_a_while),
		cmocka_unit_test(foreign_code_is_no_module),
		cmocka_unit_test(the_loaders_list_will_do),
		cmocka_unit_test(old_tables_are_freed),
		cmocka_unit_test(readers_and_refreshes_do_not_meet),
		cmocka_unit_test(former_tables_are_kept),
		cmocka_unit_test(the_child_works_on),
		cmocka_unit_test(a_dlclose_elsewhere_is_not_trusted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
