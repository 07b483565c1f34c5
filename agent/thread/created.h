/* SPDX-License-Identifier: Apache-2.0
 *
 * Who creates threads: the stack of each pthread_create that succeeded, counted, and remembered by the thread that came
 * of it. Sites stay when their threads end. Out of memory: [other stacks]. */
#ifndef PPA_THREAD_CREATED_H
#define PPA_THREAD_CREATED_H

#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/profile/sites.h"

struct ppa_thread;

/* counters[0]: threads. */
extern struct ppa_sites ppa_created_sites __attribute__((visibility("hidden")));

/* 0 or -ENOMEM; without it nothing is remembered. The budget is set. Context: init. */
int ppa_created_start(void) PPA_CTX_INIT;

/* The calling thread is about to create t. caller: the return address of pthread_create. The site to be counted when it
 * has worked; NULL: none. Context: any. */
struct ppa_site *ppa_created_by_caller(struct ppa_thread *t, uintptr_t caller) PPA_CTX_ANY;
void ppa_created_count(struct ppa_site *site) PPA_CTX_ANY;

/* So many threads are there now that nobody was seen creating; the most ever counts. Context: server. */
void ppa_created_note_unknown(uint64_t now) PPA_CTX_SERVER;

/* The child has the one thread, and begins anew. Context: child. */
void ppa_created_reset(void) PPA_CTX_CHILD;

#endif
