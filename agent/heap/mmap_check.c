/* SPDX-License-Identifier: Apache-2.0
 *
 * The set of regions against /proc/self/maps. What is recorded and not mapped was unmapped by somebody whom we do not
 * see (a raw system call, libc itself, a lost event, a failed call that had done half its work) and is dropped.
 *
 * Only what was recorded before the file was opened can be judged by it. Gaps are collected by the hundred, so that
 * hooks do not wait for the file. */
#include "agent/heap/mmap.h"

#include <errno.h>
#include <string.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "unwind/module/maps.h"

enum { TEXT_BYTES = 64 << 10, NGAPS = 128 };

struct reading {
	uint64_t before;
	uintptr_t seen; /* everything below was judged */
	size_t ngaps;
	struct ppa_mmap_gap gaps[NGAPS];
	char text[TEXT_BYTES];
};

static void flush(struct reading *r)
{
	ppa_mmap_drop(r->gaps, r->ngaps, r->before);
	r->ngaps = 0;
}

static void add_gap(struct reading *r, uintptr_t until)
{
	if (until <= r->seen)
		return;
	r->gaps[r->ngaps++] = (struct ppa_mmap_gap){r->seen, until};
	if (r->ngaps == NGAPS)
		flush(r);
}

/* -EINVAL: a line that cannot be read would look like a gap. */
static int take_lines(struct reading *r, const char *end)
{
	const char *pos = r->text;
	struct ppa_map m;
	size_t skipped = 0;

	while (ppa_maps_next(&pos, end, &m, &skipped) && !skipped) {
		add_gap(r, m.start);
		if (m.end > r->seen)
			r->seen = m.end;
	}
	return skipped ? -EINVAL : 0;
}

static size_t whole_lines(const char *text, size_t n)
{
	while (n && text[n - 1] != '\n')
		n--;
	return n;
}

/* 0 at the end of the file. */
static int take_file(struct reading *r, int fd)
{
	size_t have = 0;
	uint64_t at = 0;
	long n;

	while ((n = ppa_sys_pread(fd, r->text + have, sizeof(r->text) - have, at)) > 0) {
		size_t whole;

		have += (size_t)n;
		at += (size_t)n;
		whole = whole_lines(r->text, have);
		if (!whole || take_lines(r, r->text + whole))
			return -EINVAL;
		have -= whole;
		memmove(r->text, r->text + whole, have);
	}
	return (int)n;
}

int ppa_mmap_check(void)
{
	struct reading *r;
	int fd, err;

	if (!ppa_mmap_is_on() || !ppa_mmap_get_state().regions)
		return 0;
	r = ppa_vheap_calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->before = ppa_mmap_now();
	fd = ppa_sys_open_read(
		"/proc/thread-self/maps"); /* the process's shows nothing once its main thread has ended */
	if (fd < 0)
		fd = ppa_sys_open_read("/proc/self/maps");
	err = fd < 0 ? fd : take_file(r, fd);
	if (!err && r->seen) {
		add_gap(r, UINTPTR_MAX);
		flush(r);
	}
	if (fd >= 0)
		ppa_sys_close(fd);
	ppa_vheap_free(r);
	return err;
}
