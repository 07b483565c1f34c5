/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/jit/codemap.c unwind/jit/perfmap.c unwind/jit/jitdump.c unwind/jit/jit_words.c agent/base/sys.c test/fakes/vheap.c
/* Promise: no bytes in a perf map (first byte even) or a jitdump (odd) make their readers fault, leak or loop, however the file
 * grows, is cut or rewritten between two readings; entries stay sorted and apart, names whole; and a map that is read in two
 * parts says the same as one that is read at once. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/fakes/vheap.h"
#include "unwind/jit/codemap.h"
#include "unwind/jit/jit_words.h"
#include "unwind/jit/jitdump.h"
#include "unwind/jit/perfmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char words_buf[PPA_JIT_WORDS_BYTES];

static void check(int ok)
{
	if (!ok)
		abort();
}

static void check_map(struct ppa_codemap *m)
{
	struct ppa_jit_words words;
	uint64_t start;

	ppa_codemap_settle(m);
	for (uint32_t i = 0; i < m->n; i++) {
		const struct ppa_codemap_entry *e = &m->entries[i];
		const char *name = ppa_codemap_find(m, e->start, &start);

		check(e->size && e->start + (e->size - 1) >= e->start);
		check(!i || e[-1].start + e[-1].size <= e->start);
		check(name && *name && strlen(name) <= PPA_CODEMAP_NAME_MAX && start == e->start);
		ppa_jit_words(name, words_buf, 1 + strlen(name) % sizeof(words_buf), &words);
		ppa_jit_words(name, words_buf, sizeof(words_buf), &words);
		check(!*words.symbol || *words.name);
	}
}

static void check_same(const struct ppa_codemap *a, const struct ppa_codemap *b)
{
	uint64_t start;

	if (a->forgotten || b->forgotten)
		return;
	for (uint32_t i = 0; i < a->n; i++) {
		const char *x = ppa_codemap_find(a, a->entries[i].start, &start);
		const char *y = ppa_codemap_find(b, a->entries[i].start, &start);

		check(x && y && strcmp(x, y) == 0);
	}
}

static void read_map(int fd, size_t part, size_t size)
{
	struct ppa_codemap once = {.max_bytes = 1 << 20}, twice = {.max_bytes = 1 << 20};
	struct ppa_perfmap p = {.at = 0}, q = {.at = 0};

	ppa_perfmap_read(&p, fd, size, &once);
	check_map(&once);
	ppa_perfmap_read(&q, fd, part, &twice);
	if (part % 2)
		check_map(&twice);
	ppa_perfmap_read(&q, fd, size, &twice);
	check_map(&twice);
	check(p.at <= size && p.at == q.at);
	check_same(&once, &twice);
	check_same(&twice, &once);
	ftruncate(fd, (off_t)part); /* the size was true a moment ago */
	ppa_perfmap_read(&q, fd, size + 100, &twice);
	ppa_codemap_clear(&once);
	ppa_codemap_clear(&twice);
}

static void read_dump(int fd, size_t part, size_t size)
{
	struct ppa_codemap m = {.max_bytes = 1 << 20};
	struct ppa_jitdump d = {.at = 0};

	ppa_jitdump_read(&d, fd, part, &m);
	ppa_jitdump_read(&d, fd, size, &m);
	check_map(&m);
	ftruncate(fd, (off_t)part);
	d.is_broken = false;
	ppa_jitdump_read(&d, fd, size + 100, &m);
	check_map(&m);
	ppa_codemap_clear(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	size_t part;

	if (size < 3 || size > 100000)
		return 0;
	if (fd < 0)
		fd = memfd_create("fuzz", 0);
	part = (size_t)data[1] * (size - 2) / 255;
	check(ftruncate(fd, 0) == 0 && pwrite(fd, data + 2, size - 2, 0) == (ssize_t)(size - 2));
	if (data[0] % 2)
		read_dump(fd, part, size - 2);
	else
		read_map(fd, part, size - 2);
	check(fake_vheap_live == 0);
	return 0;
}
