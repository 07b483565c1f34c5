/* SPDX-License-Identifier: Apache-2.0
 *
 * Reconciling the thread table with /proc/self/task: threads that were there before the agent, that raw clone made,
 * and that ended without passing any hook (cancellation, the exit system call).
 *
 * Raw getdents64: readdir would allocate. */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "agent/thread/tasks.h"
#include "agent/thread/threads.h"

/* Strangers met by the previous scan. */
static struct ppa_tid_list strangers;
static uint32_t scan_number;

static void map_add(struct ppa_thread *t, void *arg)
{
	struct ppa_tid_map *m = arg;
	struct ppa_thread **at = ppa_tid_map_at(m, atomic_load_explicit(&t->tid, memory_order_relaxed));

	/* A newborn was adopted before its own slot filled: the adopted copy goes. */
	if (*at && (*at)->is_adopted)
		ppa_threads_retire(*at);
	else if (*at && t->is_adopted) {
		ppa_threads_retire(t);
		return;
	}
	*at = t;
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

static void meet(const struct ppa_tid_list *tasks, const struct ppa_tid_map *m, enum adoption who,
		 struct ppa_tid_list *unknown)
{
	for (size_t i = 0; i < tasks->n; i++) {
		struct ppa_thread *t = *ppa_tid_map_at(m, tasks->tids[i]);

		if (t)
			t->scan = scan_number;
		else if (ppa_thread_owns(tasks->tids[i]))
			continue;
		else if (who == ADOPT_ALL || (who == ADOPT_MET_BEFORE && ppa_tid_list_has(&strangers, tasks->tids[i])))
			adopt(tasks->tids[i]);
		else
			ppa_tid_list_add(unknown,
					 tasks->tids[i]); /* forgotten when memory is short: met again next time */
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
	struct ppa_tid_list tasks = {0}, unknown = {0};
	struct visit v = {0};
	struct ppa_tid_map m = {0};
	enum adoption who = adopt_now ? ADOPT_ALL : ADOPT_MET_BEFORE;
	int dir = ppa_tasks_open(), err = dir < 0 ? dir : ppa_tasks_read(dir, &tasks);

	if (dir >= 0)
		ppa_sys_close(dir);
	scan_number++;
	/* Between the list of tasks and the map: whoever is on the list had its slot reserved before, so it is either seen
	 * here or, filled meanwhile, in the map. */
	if (ppa_threads_is_birth_under_way())
		who = ADOPT_NONE;
	if (!err)
		err = ppa_tid_map_make(&m, map_add);
	if (!err)
		meet(&tasks, &m, who, &unknown);
	v.have_tasks = !err;
	ppa_threads_each(follow_up, &v);
	ppa_tid_map_free(&m);
	ppa_tid_list_free(&tasks);
	ppa_tid_list_free(&strangers);
	strangers = unknown;
	return err && v.armed == 0 ? err : v.armed;
}

void ppa_threads_scan_reset(void)
{
	memset(&strangers, 0, sizeof(strangers)); /* the heap behind it is gone */
	scan_number = 0;
}
