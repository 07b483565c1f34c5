/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording is on while somebody wants it: one request, and the keeper of the past, a thread of ours that exists if the
 * settings ask for it. Who records also keeps the sampler going and reads how much memory there is. The keeper takes
 * back what is older than the past it keeps, or than the window of a request that runs; whoever records, the older half of
 * all when memory gets short. */
#include "agent/snapshot/trace_collect.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/budget.h"
#include "agent/base/lock.h"
#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "agent/base/vheap.h"
#include "agent/cpu/sampler.h"
#include "agent/cpu/session.h"
#include "agent/dump/dump.h"
#include "agent/dump/look.h"
#include "agent/heap/heap.h"
#include "agent/lock/contention.h"
#include "agent/profile/ready.h"
#include "agent/snapshot/collect.h"
#include "agent/snapshot/trace_build.h"
#include "agent/trace/buffer.h"
#include "agent/trace/samples.h"
#include "agent/trace/trace.h"

enum {
	SAMPLE_HZ = 100,
	STEP_NS = 50 * 1000 * 1000,
	COUNTERS_MAX = 1 << 16,
	FIRST_COUNTERS = 256,
	PAGE = 4096,
	KEEPER_STACK = 128 << 10,
	TAKE_BACK_NS = 500 * 1000 * 1000,
	MARGIN_NS = 1000 * 1000 * 1000, /* what is taken back is older than this beyond the past */
};

/* The sampler remembers every thread of a session: it gets a new one now and then. */
static const uint64_t renew_ns = 60ULL * 1000000000;

static struct {
	struct ppa_lock lock;	 /* protects all of this, and reading what was recorded; above the sampler's; server */
	bool is_busy;		 /* by a request */
	int nusers;		 /* the request and the keeper */
	uint64_t begin_ns;	 /* of the recording */
	uint64_t missing_ns;	 /* before this, records were taken back */
	uint64_t past_ns;	 /* what the keeper keeps; 0: there is none */
	uint64_t wanted_ns;	 /* the beginning of a request's window, 0: none */
	struct ppa_session *cpu; /* NULL: no timer could be had */
	uint64_t cpu_since_ns;
	struct ppa_trace_counter *counters;
	size_t ncounters, counters_cap;
} trace;

static void sleep_ns(uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / 1000000000ULL), (long)(ns % 1000000000ULL)};

	ppa_syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&ts, 0, 0, 0);
}

static uint64_t now_ns(void)
{
	return ppa_sys_clock_ns(CLOCK_MONOTONIC);
}

/* ---- memory ---- */

static void add_up(const struct ppa_site *s, void *sum)
{
	*(int64_t *)sum += ppa_heap_read(s).inuse_bytes;
}

/* UINT64_MAX where the heap is not sampled. */
static uint64_t heap_bytes(void)
{
	int64_t sum = 0;

	if (!ppa_heap_rate())
		return UINT64_MAX;
	ppa_sites_each(&ppa_heap_sites, add_up, &sum);
	return sum > 0 ? (uint64_t)sum : 0;
}

/* The second number of statm, in pages; UINT64_MAX without /proc. */
static uint64_t rss_bytes(void)
{
	int fd = ppa_sys_open_read("/proc/thread-self/statm");
	char text[128];
	long n = fd < 0 ? fd : ppa_sys_pread(fd, text, sizeof(text), 0), i = 0;
	uint64_t pages = 0;

	if (fd >= 0)
		ppa_sys_close(fd);
	while (i < n && text[i] != ' ')
		i++;
	if (i >= n)
		return UINT64_MAX;
	for (i++; i < n && text[i] >= '0' && text[i] <= '9'; i++)
		pages = 10 * pages + (uint64_t)(text[i] - '0');
	return pages * PAGE;
}

static void count_memory(void)
{
	size_t cap = trace.counters_cap ? 2 * trace.counters_cap : FIRST_COUNTERS;
	struct ppa_trace_counter *list = trace.counters;

	if (trace.ncounters == trace.counters_cap) {
		list = cap > COUNTERS_MAX ? NULL : ppa_vheap_realloc(list, cap * sizeof(*list));
		if (!list)
			return;
		trace.counters = list;
		trace.counters_cap = cap;
	}
	list[trace.ncounters++] = (struct ppa_trace_counter){now_ns(), heap_bytes(), rss_bytes()};
}

static void forget_counters(uint64_t before_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < trace.ncounters; i++)
		if (trace.counters[i].at_ns >= before_ns)
			trace.counters[kept++] = trace.counters[i];
	trace.ncounters = kept;
}

/* ---- on and off, under the lock ---- */

static void open_cpu(void)
{
	trace.cpu_since_ns = now_ns();
	if (ppa_sampler_open_tap(SAMPLE_HZ, ppa_trace_samples_take, &trace.cpu))
		trace.cpu = NULL;
}

static void close_cpu(void)
{
	if (!trace.cpu)
		return;
	ppa_sampler_close(trace.cpu);
	ppa_session_free(trace.cpu);
	trace.cpu = NULL;
}

static int start(void)
{
	int err;

	if (trace.nusers++)
		return 0;
	err = ppa_ready_prepare();
	if (!err)
		err = ppa_sites_init(&ppa_trace_sites);
	if (!err)
		err = ppa_trace_buffer_open(ppa_budget_limit());
	if (err) {
		trace.nusers--;
		return err;
	}
	open_cpu();
	trace.begin_ns = trace.missing_ns = now_ns();
	ppa_trace_watch_parked();
	/* Records first: a wait that begins to be measured now is to be recorded at its end. */
	atomic_store_explicit(&ppa_trace_on, true, memory_order_relaxed);
	ppa_contention_set_trace(true);
	return 0;
}

static void stop(void)
{
	if (--trace.nusers)
		return;
	ppa_contention_set_trace(false);
	atomic_store_explicit(&ppa_trace_on, false, memory_order_relaxed);
	close_cpu();
	ppa_trace_buffer_close();
	ppa_trace_samples_forget(UINT64_MAX);
	ppa_vheap_free(trace.counters);
	trace.counters = NULL;
	trace.ncounters = trace.counters_cap = 0;
}

/* ---- the keeper of the past ---- */

static bool is_alive(pid_t tid)
{
	return ppa_look_clock(tid) != 0;
}

static void take_back(void)
{
	uint64_t now = now_ns(), before = now > trace.past_ns + MARGIN_NS ? now - trace.past_ns - MARGIN_NS : 0,
		 missing;

	if (trace.wanted_ns && trace.wanted_ns < before)
		before = trace.wanted_ns;
	missing = ppa_trace_recycle(before, is_alive);
	if (missing > trace.missing_ns)
		trace.missing_ns = missing;
	ppa_trace_samples_forget(before);
	forget_counters(before);
	if (now - trace.cpu_since_ns > renew_ns) {
		close_cpu();
		open_cpu();
	}
}

/* What has to be done every STEP_NS while recording. Threads that fill the memory faster than what is old is taken back
 * lose the oldest records, not the newest: whoever looks at a trace of too much wants to see one end of it whole. */
static void step(void)
{
	ppa_sampler_tick();
	ppa_lock(&trace.lock);
	count_memory();
	if (ppa_trace_is_short())
		take_back();
	ppa_trace_buffer_touch();
	ppa_unlock(&trace.lock);
}

static void keep_on(void)
{
	uint64_t due = now_ns() + TAKE_BACK_NS;

	for (;;) {
		sleep_ns(STEP_NS);
		step();
		if (now_ns() < due)
			continue;
		ppa_lock(&trace.lock);
		take_back();
		ppa_unlock(&trace.lock);
		due = now_ns() + TAKE_BACK_NS;
	}
}

static void *keep(void *arg)
{
	int err;

	ppa_lock(&trace.lock);
	err = start();
	if (err)
		trace.past_ns = 0;
	ppa_unlock(&trace.lock);
	if (!err)
		keep_on();
	return arg;
}

int ppa_trace_keep_past(int seconds)
{
	int err;

	if (seconds <= 0)
		return 0;
	trace.past_ns = (uint64_t)seconds * 1000000000;
	err = ppa_thread_spawn(keep, NULL, KEEPER_STACK, "pprof-trace");
	if (err)
		trace.past_ns = 0;
	return err;
}

/* ---- requests ---- */

/* Until the window's end. -ECANCELED if the caller lost interest. */
static int wait_out(const struct ppa_trace_request *req, uint64_t begin_ns)
{
	uint64_t deadline = begin_ns + (uint64_t)req->duration_ns, now;

	while ((now = now_ns()) < deadline) {
		if (req->is_cancelled && req->is_cancelled(req->arg))
			return -ECANCELED;
		if (!trace.past_ns)
			step();
		sleep_ns(deadline - now < STEP_NS ? deadline - now : STEP_NS);
	}
	return 0;
}

/* The window is over: what there was. Ends with everything recorded still there. */
static int build(struct ppa_trace_window *w, const struct ppa_trace_input **out)
{
	struct ppa_dump after;
	int err = ppa_dump_take(NULL, &after);

	if (!err) {
		w->after = &after;
		ppa_sampler_tick();
		ppa_lock(&trace.lock);
		count_memory();
		w->counters = trace.counters;
		w->ncounters = trace.ncounters;
		w->lost = ppa_trace_lost() + ppa_trace_samples_lost();
		ppa_collect_use_symbols(1);
		err = ppa_trace_build(w, out);
		ppa_collect_use_symbols(-1);
		ppa_unlock(&trace.lock);
	}
	w->after = NULL;
	ppa_dump_free(&after);
	return err;
}

static int record(const struct ppa_trace_request *req, const struct ppa_trace_input **out)
{
	struct ppa_trace_window w = {0};
	struct ppa_dump before;
	int err = ppa_dump_take(NULL, &before);

	if (!err) {
		w.before = &before;
		w.start_ns = now_ns();
		ppa_lock(&trace.lock);
		trace.wanted_ns = w.start_ns;
		ppa_unlock(&trace.lock);
		err = wait_out(req, w.start_ns);
	}
	if (!err) {
		ppa_lock(&trace.lock);
		/* The memory was too small for all of it: the window begins later, where nobody looked at the threads. */
		if (trace.missing_ns > w.start_ns) {
			w.start_ns = trace.missing_ns;
			w.before = NULL;
		}
		ppa_unlock(&trace.lock);
		w.stop_ns = now_ns();
		err = build(&w, out);
	}
	ppa_dump_free(&before);
	return err;
}

static int take_past(const struct ppa_trace_request *req, const struct ppa_trace_input **out)
{
	struct ppa_trace_window w = {.stop_ns = now_ns()};

	ppa_lock(&trace.lock);
	w.start_ns = trace.begin_ns > trace.missing_ns ? trace.begin_ns : trace.missing_ns;
	if (w.stop_ns - w.start_ns > (uint64_t)req->duration_ns)
		w.start_ns = w.stop_ns - (uint64_t)req->duration_ns;
	trace.wanted_ns = w.start_ns;
	ppa_unlock(&trace.lock);
	return build(&w, out);
}

static int begin(bool is_past)
{
	int err = 0;

	ppa_lock(&trace.lock);
	if (trace.is_busy)
		err = -EBUSY;
	else if (is_past && !(trace.past_ns && trace.nusers))
		err = -ENOTSUP;
	else
		err = start();
	if (!err)
		trace.is_busy = true;
	ppa_unlock(&trace.lock);
	return err;
}

int ppa_collect_trace(const struct ppa_trace_request *req, const struct ppa_trace_input **out)
{
	int err = begin(req->is_past);

	if (err)
		return err;
	err = req->is_past ? take_past(req, out) : record(req, out);
	ppa_lock(&trace.lock);
	trace.wanted_ns = 0;
	trace.is_busy = false;
	stop();
	ppa_unlock(&trace.lock);
	return err;
}

void ppa_trace_free(const struct ppa_trace_input *in)
{
	if (in)
		ppa_trace_build_free(in);
}

void ppa_trace_reset(void)
{
	atomic_store_explicit(&ppa_trace_on, false, memory_order_relaxed);
	ppa_contention_set_trace(false);
	ppa_trace_buffer_reset();
	ppa_trace_samples_reset();
	memset(&trace, 0, sizeof(trace));
}
