/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw getdents64: readdir would allocate. */
#include "agent/thread/tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "agent/base/vheap.h"
#include "agent/thread/threads.h"

enum { DIR_BYTES = 16 << 10 };

struct kernel_dirent {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

int ppa_tid_list_add(struct ppa_tid_list *l, pid_t tid)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 64;
		pid_t *tids = ppa_vheap_realloc(l->tids, cap * sizeof(*tids));

		if (!tids)
			return -ENOMEM;
		l->tids = tids;
		l->cap = cap;
	}
	l->tids[l->n++] = tid;
	return 0;
}

bool ppa_tid_list_has(const struct ppa_tid_list *l, pid_t tid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->tids[i] == tid)
			return true;
	return false;
}

void ppa_tid_list_free(struct ppa_tid_list *l)
{
	ppa_vheap_free(l->tids);
	memset(l, 0, sizeof(*l));
}

static pid_t parse_tid(const char *s)
{
	pid_t v = 0;

	for (; *s >= '0' && *s <= '9'; s++)
		v = v * 10 + (*s - '0');
	return v;
}

int ppa_tasks_open(void)
{
	return (int)ppa_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0,
				0);
}

int ppa_tasks_read(int dir, struct ppa_tid_list *out)
{
	char *buf = ppa_vheap_malloc(DIR_BYTES);
	int err = 0;
	long n = 0;

	if (!buf)
		return -ENOMEM;
	while (!err && (n = ppa_syscall(SYS_getdents64, dir, (long)buf, DIR_BYTES, 0, 0, 0)) > 0) {
		for (long at = 0; at < n && !err;) {
			const struct kernel_dirent *d = (const void *)(buf + at);
			pid_t tid = parse_tid(d->name);

			if (tid)
				err = ppa_tid_list_add(out, tid);
			at += d->reclen;
		}
	}
	ppa_vheap_free(buf);
	ppa_thread_settle();
	return n < 0 ? (int)n : err;
}

static size_t tid_hash(pid_t tid)
{
	return (size_t)tid * 2654435761U;
}

struct ppa_thread **ppa_tid_map_at(const struct ppa_tid_map *m, pid_t tid)
{
	size_t i = tid_hash(tid) & m->mask;

	while (m->slots[i] && atomic_load_explicit(&m->slots[i]->tid, memory_order_relaxed) != tid)
		i = (i + 1) & m->mask;
	return &m->slots[i];
}

static void add_any(struct ppa_thread *t, void *map)
{
	*ppa_tid_map_at(map, atomic_load_explicit(&t->tid, memory_order_relaxed)) = t;
}

static void count_live(struct ppa_thread *t, void *arg)
{
	(void)t;
	++*(size_t *)arg;
}

int ppa_tid_map_make(struct ppa_tid_map *m, void (*add)(struct ppa_thread *t, void *map))
{
	size_t n = 0, cap = 64;

	ppa_threads_each(count_live, &n);
	while (cap < 4 * n + 64) /* threads may be born while we build */
		cap *= 2;
	m->slots = ppa_vheap_calloc(cap, sizeof(*m->slots));
	if (!m->slots)
		return -ENOMEM;
	m->mask = cap - 1;
	ppa_threads_each(add ? add : add_any, m);
	return 0;
}

void ppa_tid_map_free(struct ppa_tid_map *m)
{
	ppa_vheap_free(m->slots);
	memset(m, 0, sizeof(*m));
}
