/* SPDX-License-Identifier: Apache-2.0
 *
 * Which threads there are: the kernel's list, and the way from a thread id to our slot. */
#ifndef PPA_THREAD_TASKS_H
#define PPA_THREAD_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/base/attr.h"

struct ppa_thread;

struct ppa_tid_list {
	pid_t *tids; /* on the private heap */
	size_t n, cap;
};

/* 0 or -ENOMEM. Context: server. */
int ppa_tid_list_add(struct ppa_tid_list *l, pid_t tid) PPA_CTX_SERVER;
bool ppa_tid_list_has(const struct ppa_tid_list *l, pid_t tid) PPA_CTX_SERVER;
void ppa_tid_list_free(struct ppa_tid_list *l) PPA_CTX_SERVER;

/* Append every thread of this process, ours included (and known to ppa_thread_owns); dir: /proc/self/task, open. 0 or -errno. Context: server. */
int ppa_tasks_read(int dir, struct ppa_tid_list *out) PPA_CTX_SERVER;

/* Open /proc/self/task; the descriptor or -errno. Context: server. */
int ppa_tasks_open(void) PPA_CTX_SERVER;

/* The live slots by thread id, as they were when it was made. */
struct ppa_tid_map {
	struct ppa_thread **slots;
	size_t mask;
};

/* add enters the slots one by one (ppa_tid_map_at); NULL: every live one, the last of equals. 0 or -ENOMEM.
 * Context: server. */
int ppa_tid_map_make(struct ppa_tid_map *m, void (*add)(struct ppa_thread *t, void *map)) PPA_CTX_SERVER;
void ppa_tid_map_free(struct ppa_tid_map *m) PPA_CTX_SERVER;

/* Where the slot of tid stands, or the free place where it belongs. Context: server. */
struct ppa_thread **ppa_tid_map_at(const struct ppa_tid_map *m, pid_t tid) PPA_CTX_SERVER;

#endif
