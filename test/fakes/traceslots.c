/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads without a slot, for tests of the trace's buffers. */
#include "agent/base/self.h"
#include "agent/thread/threads.h"

__thread struct ppa_self ppa_self __attribute__((tls_model("initial-exec"), visibility("hidden")));

uint32_t ppa_threads_index(const struct ppa_thread *t)
{
	(void)t;
	return 0;
}
