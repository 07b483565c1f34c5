/* SPDX-License-Identifier: Apache-2.0
 *
 * A CPU profile from the server's side: open a session, wait and keep the sampler going, close, build the snapshot. */
#include "agent/snapshot/collect.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/lock.h"
#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "agent/snapshot/build.h"
#include "agent/profile/marker.h"
#include "agent/cpu/sampler.h"
#include "agent/cpu/session.h"
#include "unwind/modules.h"
#include "unwind/symbols.h"

static _Atomic int default_hz = 100;

static struct {
	struct ppa_lock lock; /* protects nusers; held while the symbol tables are dropped */
	int nusers;	      /* requests that hold pointers into the symbol tables */
} symbols;

static void use_symbols(int users)
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
	ppa_unlock(&symbols.lock);
	ppa_vheap_trim();
}

void ppa_collect_reset(void)
{
	memset(&symbols, 0, sizeof(symbols));
}

void ppa_collect_set_default_hz(int hz)
{
	default_hz = hz;
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
		use_symbols(1);
		err = ppa_build_cpu(s, out);
		use_symbols(-1);
	}
	ppa_session_free(s);
	return err;
}

int ppa_collect_symbol(uint64_t address, char *buf, size_t cap)
{
	const struct ppa_module_table *t;
	const struct ppa_text_segment *seg;
	const char *marker = ppa_marker_name(address);
	struct ppa_symbol sym;
	int err = -ENOENT;
	size_t n;

	if (marker) {
		n = strlen(marker);
		n = n < cap ? n : cap - 1;
		memcpy(buf, marker, n);
		buf[n] = '\0';
		return (int)n;
	}
	use_symbols(1);
	ppa_modules_refresh(false);
	t = ppa_modules_hold();
	seg = t ? ppa_modules_lookup(t, address) : NULL;
	if (seg && ppa_symbols_lookup(seg->module, address, &sym) == 0) {
		n = strlen(sym.name);
		n = n < cap ? n : cap - 1;
		memcpy(buf, sym.name, n);
		buf[n] = '\0';
		err = (int)n;
	}
	if (t)
		ppa_modules_release(t);
	use_symbols(-1);
	return err;
}
