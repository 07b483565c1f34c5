/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cpu/sampler.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "agent/base/lock.h"
#include "agent/base/log.h"
#include "agent/base/sampling_signal.h"
#include "agent/base/sys.h"
#include "agent/profile/ready.h"
#include "agent/snapshot/collect.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/session.h"
#include "agent/thread/newborn.h"
#include "agent/thread/threads.h"
#include "agent/thread/timer.h"
#include "unwind/module/modules.h"

enum {
	TICK_NS = 50 * 1000 * 1000,
	HURRY_NS = 5 * 1000 * 1000, /* a ring is more than half full */
	SCAN_NS = 100 * 1000 * 1000,
	SCAN_SHARE = 50, /* a scan may take one part in so many of the time */
};

static struct {
	struct ppa_lock lock; /* protects everything here and all open sessions; held while /proc is read */
	struct ppa_session *sessions[PPA_CPU_SESSIONS_MAX + 1];
	int nsessions;
	int ntaps; /* of these: 0 or 1 */
	uint64_t next_scan_ns;
	unsigned signal_generation;
	bool told_timer_error;
} sampler;

static void take(const struct ppa_record *r, const uintptr_t *pcs, void *arg)
{
	(void)arg;
	for (int i = 0; i < sampler.nsessions; i++)
		ppa_session_take(sampler.sessions[i], r, pcs);
}

static void note_modules(void)
{
	ppa_modules_refresh(false);
	for (int i = 0; i < sampler.nsessions; i++)
		ppa_session_note_modules(sampler.sessions[i]);
}

static int scan(bool adopt_now)
{
	uint64_t begin = ppa_sys_clock_ns(CLOCK_MONOTONIC), took;
	int armed = ppa_threads_scan(adopt_now);

	took = ppa_sys_clock_ns(CLOCK_MONOTONIC) - begin;
	sampler.next_scan_ns = begin + (took * SCAN_SHARE > SCAN_NS ? took * SCAN_SHARE : SCAN_NS);
	sampler.signal_generation = ppa_signal_generation();
	return armed;
}

static uint64_t wanted_period(void)
{
	uint64_t period = 0;

	for (int i = 0; i < sampler.nsessions; i++)
		if (!period || sampler.sessions[i]->period_ns < period)
			period = sampler.sessions[i]->period_ns;
	return period;
}

/* Bring the timers to what the open sessions need. The number of threads with one, or -errno. */
static int retime(bool adopt_now)
{
	uint64_t period = wanted_period();

	if (period == ppa_threads_period() && !adopt_now)
		return 0;
	ppa_threads_set_period(period);
	return scan(adopt_now);
}

static void remove_session(struct ppa_session *s)
{
	for (int i = 0; i < sampler.nsessions; i++) {
		if (sampler.sessions[i] != s)
			continue;
		sampler.sessions[i] = sampler.sessions[--sampler.nsessions];
		sampler.ntaps -= s->tap != NULL;
		break;
	}
	retime(false);
	if (sampler.nsessions == 0)
		ppa_cpu_quiesce();
}

/* Not one timer: why? RLIMIT_SIGPENDING is the usual reason (each POSIX timer holds one queued signal). */
static int explain_failure(int armed)
{
	int err = ppa_timer_last_error();

	if (armed > 0) {
		if (err && !sampler.told_timer_error)
			ppa_log("some threads have no CPU timer (timer_create: errno %d; see ulimit -i)", err);
		sampler.told_timer_error |= err != 0;
		return 0;
	}
	if (!sampler.told_timer_error)
		ppa_log("no CPU timer could be created (errno %d; see ulimit -i): no CPU profile", err);
	sampler.told_timer_error = true;
	return err ? -err : -EAGAIN;
}

static int prepare(void)
{
	int err;

	if ((err = ppa_cpu_prepare()) || (err = ppa_ready_prepare()))
		return err;
	return ppa_signal_install(ppa_cpu_handler);
}

typedef void tap_fn(const struct ppa_record *r, const uintptr_t *pcs);

/* Is there a place for one more, tapped or not? */
static bool has_room(tap_fn *tap)
{
	return tap ? !sampler.ntaps : sampler.nsessions - sampler.ntaps < PPA_CPU_SESSIONS_MAX;
}

static int open_locked(int hz, bool label_tid, tap_fn *tap, struct ppa_session **out)
{
	struct ppa_session *s;
	int err;

	if (!has_room(tap))
		return -EBUSY;
	if ((err = prepare()))
		return err;
	/* Everyone's clock is read before the first timer runs; strangers must be known for that. */
	ppa_threads_scan(true);
	ppa_cpu_drain(take, NULL);
	s = ppa_session_begin(hz, label_tid);
	if (!s)
		return -ENOMEM;
	s->tap = tap;
	sampler.ntaps += tap != NULL;
	sampler.sessions[sampler.nsessions++] = s;
	err = explain_failure(retime(true));
	if (err) {
		remove_session(s);
		ppa_session_free(s);
		return err;
	}
	*out = s;
	return 0;
}

int ppa_sampler_open(int hz, bool label_tid, struct ppa_session **out)
{
	int err;

	ppa_lock(&sampler.lock);
	err = open_locked(hz, label_tid, NULL, out);
	ppa_unlock(&sampler.lock);
	return err;
}

int ppa_sampler_open_tap(int hz, tap_fn *tap, struct ppa_session **out)
{
	int err;

	ppa_lock(&sampler.lock);
	err = open_locked(hz, false, tap, out);
	ppa_unlock(&sampler.lock);
	return err;
}

uint64_t ppa_sampler_tick(void)
{
	uint64_t again = TICK_NS, newborns;

	if (!ppa_trylock(&sampler.lock))
		return TICK_NS;
	ppa_cpu_drain(take, NULL);
	note_modules();
	if (sampler.signal_generation != ppa_signal_generation() ||
	    ppa_sys_clock_ns(CLOCK_MONOTONIC) >= sampler.next_scan_ns)
		scan(false);
	newborns = ppa_newborn_tick(ppa_threads_period());
	if (newborns < again)
		again = newborns;
	if (ppa_cpu_is_behind() && again > HURRY_NS)
		again = HURRY_NS;
	ppa_unlock(&sampler.lock);
	return again;
}

void ppa_sampler_close(struct ppa_session *s)
{
	ppa_lock(&sampler.lock);
	s->end_ns = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	ppa_cpu_drain(take, NULL);
	note_modules();
	ppa_session_settle(s);
	remove_session(s);
	ppa_unlock(&sampler.lock);
}

void ppa_sampler_reset(void)
{
	/* The sessions' memory went with the heap. */
	memset(&sampler, 0, sizeof(sampler));
}
