/* SPDX-License-Identifier: Apache-2.0
 *
 * Worker threads, as many as there is work for and none a minute later. */
#ifndef PPA_HTTP_POOL_H
#define PPA_HTTP_POOL_H

#include <stdbool.h>

#include "agent/base/attr.h"

enum {
	PPA_POOL_WORKERS_MAX = 32,
	PPA_POOL_QUEUE_MAX = 128,
	PPA_POOL_LINGER_SECONDS = 60, /* an idle worker ends after this */
};

/* Let a worker serve the connection, whose request head has arrived; takes ownership. A connection that no worker can
 * be had for is told 503. Context: server, the keeper only. */
void ppa_pool_submit(int fd) PPA_CTX_SERVER;

/* Start workers that could not be started before. True while any connection is queued or served: it may come back to
 * the gate at any time. Context: server, the keeper only. */
bool ppa_pool_tick(void) PPA_CTX_SERVER;

/* Context: child. */
void ppa_pool_reset(void) PPA_CTX_CHILD;

#endif
