/* SPDX-License-Identifier: Apache-2.0
 *
 * Reconciling the thread table with /proc/self/task: threads that were there before the agent, that raw clone made,
 * and that ended without passing any hook (cancellation, the exit system call).
 *
 * Raw getdents64: readdir would allocate. */
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

struct tid_list {
	pid_t *tids;
	size_t n, cap;
};

/* Strangers met by the previous scan. */
static struct tid_list strangers;
static uint32_t scan_number;

static int list_add(struct tid_list *l, pid_t tid)
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

static bool list_has(const struct tid_list *l, pid_t tid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->tids[i] == tid)
			return true;
	return false;
}

static pid_t parse_tid(const char *s)
{
	pid_t v = 0;

	for (; *s >= '0' && *s <= '9'; s++)
		v = v * 10 + (*s - '0');
	return v;
}

static int read_tasks(struct tid_list *out)
{
	char *buf = ppa_vheap_malloc(DIR_BYTES);
	int fd, err = 0;
	long n = 0;

	if (!buf)
		return -ENOMEM;
	fd = (int)ppa_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0,
			      0);
	if (fd < 0) {
		err = fd;
		goto out;
	}
	while (!err && (n = ppa_syscall(SYS_getdents64, fd, (long)buf, DIR_BYTES, 0, 0, 0)) > 0) {
		for (long at = 0; at < n && !err;) {
			const struct kernel_dirent *d = (const void *)(buf + at);
			pid_t tid = parse_tid(d->name);

			if (tid)
				err = list_add(out, tid);
			at += d->reclen;
		}
	}
	if (n < 0)
		err = (int)n;
	ppa_sys_close(fd);
out:
	ppa_vheap_free(buf);
	return err;
}

/* tid -> slot, open addressing, for one scan. */
struct tid_map {
	struct ppa_thread **slots;
	size_t mask;
};

static size_t tid_hash(pid_t tid)
{
	return (size_t)tid * 2654435761U;
}

static struct ppa_thread **map_at(const struct tid_map *m, pid_t tid)
{
	size_t i = tid_hash(tid) & m->mask;

	while (m->slots[i] && atomic_load_explicit(&m->slots[i]->tid, memory_order_relaxed) != tid)
		i = (i + 1) & m->mask;
	return &m->slots[i];
}

static void map_add(struct ppa_thread *t, void *arg)
{
	struct tid_map *m = arg;
	struct ppa_thread **at = map_at(m, atomic_load_explicit(&t->tid, memory_order_relaxed));

	/* A newborn was adopted before its own slot filled: the adopted copy goes. */
	if (*at && (*at)->is_adopted)
		ppa_threads_retire(*at);
	else if (*at && t->is_adopted) {
		ppa_threads_retire(t);
		return;
	}
	*at = t;
}

static void count_live(struct ppa_thread *t, void *arg)
{
	(void)t;
	++*(size_t *)arg;
}

static int map_build(struct tid_map *m)
{
	size_t n = 0, cap = 64;

	ppa_threads_each(count_live, &n);
	while (cap < 4 * n + 64) /* threads may be born while we build */
		cap *= 2;
	m->slots = ppa_vheap_calloc(cap, sizeof(*m->slots));
	if (!m->slots)
		return -ENOMEM;
	m->mask = cap - 1;
	ppa_threads_each(map_add, m);
	return 0;
}

static void adopt(pid_t tid)
{
	struct ppa_thread *t = ppa_threads_reserve();

	if (!t)
		return;
	t->is_adopted = true;
	t->is_main = tid == ppa_sys_getpid();
	atomic_store_explicit(&t->tid, tid, memory_order_relaxed);
	atomic_store(&t->state, PPA_THREAD_LIVE);
	ppa_threads_retime(t);
}

enum adoption { ADOPT_NONE, ADOPT_MET_BEFORE, ADOPT_ALL };

static void meet(const struct tid_list *tasks, const struct tid_map *m, enum adoption who, struct tid_list *unknown)
{
	for (size_t i = 0; i < tasks->n; i++) {
		struct ppa_thread *t = *map_at(m, tasks->tids[i]);

		if (t)
			t->scan = scan_number;
		else if (ppa_thread_owns(tasks->tids[i]))
			continue;
		else if (who == ADOPT_ALL || (who == ADOPT_MET_BEFORE && list_has(&strangers, tasks->tids[i])))
			adopt(tasks->tids[i]);
		else
			list_add(unknown, tasks->tids[i]); /* forgotten when memory is short: met again next time */
	}
}

struct visit {
	bool have_tasks;
	int armed;
};

static void follow_up(struct ppa_thread *t, void *arg)
{
	struct visit *v = arg;
	pid_t tid = atomic_load_explicit(&t->tid, memory_order_relaxed);

	/* Not on the list may also mean born after it was read: ask for the thread itself. */
	if (v->have_tasks && t->scan != scan_number &&
	    ppa_syscall(SYS_tgkill, ppa_sys_getpid(), tid, 0, 0, 0, 0) == -ESRCH) {
		ppa_threads_retire(t);
		return;
	}
	ppa_threads_retime(t);
	v->armed += atomic_load_explicit(&t->period_ns, memory_order_relaxed) != 0;
}

int ppa_threads_scan(bool adopt_now)
{
	struct tid_list tasks = {0}, unknown = {0};
	struct visit v = {0};
	struct tid_map m = {0};
	enum adoption who = adopt_now ? ADOPT_ALL : ADOPT_MET_BEFORE;
	int err = read_tasks(&tasks);

	scan_number++;
	/* Between the list of tasks and the map: whoever is on the list had its slot reserved before, so it is either seen
	 * here or, filled meanwhile, in the map. */
	if (ppa_threads_is_birth_under_way())
		who = ADOPT_NONE;
	if (!err)
		err = map_build(&m);
	if (!err)
		meet(&tasks, &m, who, &unknown);
	v.have_tasks = !err;
	ppa_threads_each(follow_up, &v);
	ppa_vheap_free(m.slots);
	ppa_vheap_free(tasks.tids);
	ppa_vheap_free(strangers.tids);
	strangers = unknown;
	return err && v.armed == 0 ? err : v.armed;
}

void ppa_threads_scan_reset(void)
{
	memset(&strangers, 0, sizeof(strangers)); /* the heap behind it is gone */
	scan_number = 0;
}
