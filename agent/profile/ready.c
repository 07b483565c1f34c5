/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/profile/ready.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/lock.h"
#include "agent/base/sys.h"
#include "unwind/module/modules.h"
#include "unwind/walk/starts.h"
#include "unwind/walk/unindexed.h"
#include "unwind/walk/unwind.h"

static struct {
	struct ppa_lock lock;  /* one at a time; above the module table's */
	_Atomic uint32_t done; /* futex */
} ready;

static int prepare(bool look_anew)
{
	int err;

	ppa_lock(&ready.lock);
	err = ppa_unwind_init();
	if (!err)
		err = ppa_modules_refresh(look_anew);
	if (!err) {
		ppa_unindexed_learn();
		ppa_starts_learn();
	}
	ppa_unlock(&ready.lock);
	atomic_store_explicit(&ready.done, 1, memory_order_release);
	ppa_syscall(SYS_futex, (long)&ready.done, FUTEX_WAKE_PRIVATE, INT32_MAX, 0, 0, 0);
	return err;
}

int ppa_ready_prepare(void)
{
	return prepare(true);
}

int ppa_ready_inherit(void)
{
	return prepare(false);
}

void ppa_ready_wait(int ms)
{
	struct timespec left = {ms / 1000, ms % 1000 * 1000000L};

	if (!atomic_load_explicit(&ready.done, memory_order_acquire))
		ppa_syscall(SYS_futex, (long)&ready.done, FUTEX_WAIT_PRIVATE, 0, (long)&left, 0, 0);
}

void ppa_ready_reset(void)
{
	ppa_lock_reset(&ready.lock);
}
