/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles from the server's side. CPU: open a session, wait and keep the sampler going, close, build the snapshot.
 * Named kinds: gather rows, for a delta gather them again a while later and subtract, build.
 *
 * A snapshot of a large heap takes some ten megabytes while it is being built and encoded. So there is one at a time:
 * whoever has it holds named_lock, until it is freed. */
#include "agent/snapshot/collect.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/lock.h"
#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "agent/snapshot/build.h"
#include "agent/snapshot/kinds.h"
#include "agent/snapshot/picture.h"
#include "agent/snapshot/rows.h"
#include "agent/snapshot/since.h"
#include "agent/profile/marker.h"
#include "agent/profile/ready.h"
#include "agent/cpu/sampler.h"
#include "agent/cpu/session.h"
#include "agent/dump/dump.h"
#include "agent/dump/wall.h"
#include "unwind/jit/jit.h"
#include "unwind/module/modules.h"
#include "unwind/name/lines.h"
#include "unwind/name/symbols.h"

static _Atomic int default_hz = 100;

static struct {
	struct ppa_lock lock; /* protects nusers; held while the symbol tables are dropped */
	int nusers;	      /* requests that hold pointers into the symbol tables */
} symbols;

static struct ppa_lock named_lock; /* outermost; server */

void ppa_collect_use_symbols(int users)
{
	ppa_lock(&symbols.lock);
	symbols.nusers += users;
	ppa_unlock(&symbols.lock);
}

void ppa_collect_trim(void)
{
	ppa_lock(&symbols.lock);
	if (symbols.nusers == 0)
		ppa_symbols_trim();
	ppa_lines_trim();
	ppa_jit_trim();
	ppa_unlock(&symbols.lock);
	ppa_dump_trim();
	ppa_vheap_trim();
}

void ppa_collect_reset(void)
{
	memset(&symbols, 0, sizeof(symbols));
	ppa_lock_reset(&named_lock);
	ppa_goroutine_reset();
	ppa_kinds_reset();
	ppa_since_reset();
}

void ppa_collect_set_default_hz(int hz)
{
	default_hz = hz;
}

int ppa_collect_default_hz(void)
{
	return default_hz;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / 1000000000ULL), (long)(ns % 1000000000ULL)};

	ppa_syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&ts, 0, 0, 0);
}

/* Until the window is over. -ECANCELED if the caller lost interest. */
static int wait_out(const struct ppa_cpu_request *req, const struct ppa_session *s)
{
	uint64_t deadline = s->begin_ns + (uint64_t)req->duration_ns, now, step;

	while ((now = ppa_sys_clock_ns(CLOCK_MONOTONIC)) < deadline) {
		if (req->is_cancelled && req->is_cancelled(req->arg))
			return -ECANCELED;
		step = ppa_sampler_tick();
		sleep_ns(step < deadline - now ? step : deadline - now);
	}
	return 0;
}

int ppa_collect_cpu(const struct ppa_cpu_request *req, struct ppa_snapshot **out)
{
	struct ppa_session *s;
	int err = ppa_sampler_open(req->hz ? req->hz : default_hz, req->label_tid, &s);

	if (err)
		return err;
	err = wait_out(req, s);
	ppa_sampler_close(s);
	if (!err) {
		ppa_collect_use_symbols(1);
		err = ppa_build_cpu(s, out);
		ppa_collect_use_symbols(-1);
	}
	ppa_session_free(s);
	return err;
}

/* As wait_out, and looking at threads meanwhile. */
static int watch(const struct ppa_cpu_request *req, struct ppa_wall *w)
{
	uint64_t deadline = w->begin_ns + (uint64_t)req->duration_ns, now, step, sampler_due = 0;

	while ((now = ppa_sys_clock_ns(CLOCK_MONOTONIC)) < deadline) {
		if (now >= sampler_due) {
			if (req->is_cancelled && req->is_cancelled(req->arg))
				return -ECANCELED;
			sampler_due = now + ppa_sampler_tick();
		}
		step = ppa_wall_tick(w);
		sleep_ns(step < deadline - now ? step : deadline - now);
	}
	return 0;
}

int ppa_collect_wall(const struct ppa_cpu_request *req, struct ppa_snapshot **out)
{
	int hz = req->hz ? req->hz : default_hz, err;
	struct ppa_session *cpu;
	struct ppa_wall *w;

	err = ppa_sampler_open(hz, true, &cpu);
	if (err)
		return err;
	w = ppa_wall_begin(hz, req->label_tid);
	err = w ? watch(req, w) : -ENOMEM;
	if (w)
		ppa_wall_end(w);
	ppa_sampler_close(cpu);
	if (!err) {
		ppa_collect_use_symbols(1);
		err = ppa_build_wall(w, cpu, out);
		ppa_collect_use_symbols(-1);
	}
	ppa_wall_free(w);
	ppa_session_free(cpu);
	return err;
}

/* ---- named kinds ---- */

enum { CANCEL_CHECK_NS = 100000000 };

/* Until the second moment of a delta. -ECANCELED if the caller lost interest. */
static int wait_delta(const struct ppa_named_request *req, uint64_t begin_ns)
{
	uint64_t deadline = begin_ns + (uint64_t)req->delta_ns, now;

	while ((now = ppa_sys_clock_ns(CLOCK_MONOTONIC)) < deadline) {
		if (req->is_cancelled && req->is_cancelled(req->arg))
			return -ECANCELED;
		sleep_ns(deadline - now < CANCEL_CHECK_NS ? deadline - now : CANCEL_CHECK_NS);
	}
	return 0;
}

static void free_named(void)
{
	ppa_unlock(&named_lock);
}

/* From rows to snapshot, before being what to subtract. Under named_lock, which the snapshot takes along. */
static int build_named(const struct ppa_named_request *req, const struct ppa_rows *before, uint64_t begin_ns,
		       struct ppa_snapshot **out)
{
	struct ppa_named_times times = {.duration_ns = 0};
	struct ppa_rows rows = {.list = NULL};
	int err;

	ppa_ready_prepare();
	if (req->wants_each && req->kind->build_each) {
		ppa_collect_use_symbols(1);
		err = req->kind->build_each(req, out);
		ppa_collect_use_symbols(-1);
		return err;
	}
	times.time_ns = (int64_t)ppa_sys_clock_ns(CLOCK_REALTIME);
	if (before)
		times.duration_ns = (int64_t)(ppa_sys_clock_ns(CLOCK_MONOTONIC) - begin_ns);
	ppa_kinds_gather(req->kind, &rows);
	if (before)
		ppa_rows_subtract(&rows, before);
	err = req->is_since_last ? ppa_since_subtract(req->kind, &rows, &times.duration_ns) : 0;
	if (!err) {
		ppa_collect_use_symbols(1);
		err = ppa_build_named(req, &rows, &times, out);
		ppa_collect_use_symbols(-1);
	}
	ppa_rows_free(&rows);
	return err;
}

int ppa_collect_named(const struct ppa_named_request *req, struct ppa_snapshot **out)
{
	struct ppa_rows before = {.list = NULL};
	uint64_t begin_ns = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	int err = 0;

	if (req->delta_ns) {
		ppa_ready_prepare();
		ppa_kinds_gather(req->kind, &before);
		err = wait_delta(req, begin_ns);
	}
	if (!err) {
		ppa_lock(&named_lock);
		err = build_named(req, req->delta_ns ? &before : NULL, begin_ns, out);
		if (err)
			ppa_unlock(&named_lock);
		else
			ppa_picture_on_free(*out, free_named);
	}
	ppa_rows_free(&before);
	return err;
}

/* The first cap - 1 bytes of a text; how many. */
static int copy_text(char *buf, size_t cap, const char *text)
{
	size_t n = strlen(text);

	n = n < cap ? n : cap - 1;
	memcpy(buf, text, n);
	buf[n] = '\0';
	return (int)n;
}

enum { JIT_AGE_NS = 100000000 }; /* a POST asks address by address */

static int generated_symbol(uint64_t address, char *buf, size_t cap)
{
	struct ppa_jit_words words;
	int err = -ENOENT;
	uintptr_t start;
	char *texts = ppa_vheap_malloc(PPA_JIT_WORDS_BYTES);

	if (!texts)
		return -ENOMEM;
	if (ppa_symbols_are_on())
		ppa_jit_refresh(JIT_AGE_NS);
	if (ppa_jit_find(address, texts, PPA_JIT_WORDS_BYTES, &words, &start))
		err = copy_text(buf, cap, words.symbol);
	ppa_vheap_free(texts);
	return err;
}

int ppa_collect_symbol(uint64_t address, char *buf, size_t cap)
{
	const struct ppa_module_table *t;
	const struct ppa_text_segment *seg;
	const char *marker = ppa_marker_name(address);
	struct ppa_symbol sym;
	int err = -ENOENT;

	if (marker)
		return copy_text(buf, cap, marker);
	ppa_collect_use_symbols(1);
	ppa_modules_refresh(false);
	t = ppa_modules_hold();
	seg = t ? ppa_modules_lookup(t, address) : NULL;
	if (seg && ppa_symbols_lookup(seg->module, address, &sym) == 0)
		err = copy_text(buf, cap, sym.name);
	if (t)
		ppa_modules_release(t);
	ppa_collect_use_symbols(-1);
	return seg ? err : generated_symbol(address, buf, cap);
}
