/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/trace/trace.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/self.h"
#include "agent/base/sys.h"
#include "agent/thread/parked.h"
#include "agent/thread/stack_here.h"
#include "agent/trace/buffer.h"

_Atomic bool ppa_trace_on;
_Atomic uint16_t ppa_trace_watched[1 << PPA_TRACE_WATCH_BITS];
/* Recorded for ever, samples alone would find new stacks without end. */
PPA_SITES(ppa_trace_sites, 1 << 15);

/* ---- waits ---- */

/* These tell of others as well: who came last lets the rest of a barrier go. */
PPA_CTX_MALLOC static bool is_always_wanted(enum ppa_parked_kind kind)
{
	return kind == PPA_PARKED_BARRIER || kind == PPA_PARKED_JOIN;
}

PPA_CTX_MALLOC static bool wants_short(struct ppa_trace_track *t, const struct ppa_trace_wait *w, uint64_t took)
{
	uint64_t period = atomic_load_explicit(&t->short_period_ns, memory_order_relaxed);
	uint32_t n = atomic_load_explicit(&t->short_recorded, memory_order_relaxed);

	if (w->end_ns - period >= PPA_TRACE_SHORT_PERIOD_NS) {
		atomic_store_explicit(&t->short_period_ns, w->end_ns, memory_order_relaxed);
		n = 0;
	}
	if (n >= PPA_TRACE_SHORT_MAX) {
		/* Only this thread adds. */
		atomic_store_explicit(&t->short_left_out,
				      atomic_load_explicit(&t->short_left_out, memory_order_relaxed) + 1,
				      memory_order_relaxed);
		atomic_store_explicit(&t->short_left_out_ns,
				      atomic_load_explicit(&t->short_left_out_ns, memory_order_relaxed) + took,
				      memory_order_relaxed);
		return false;
	}
	atomic_store_explicit(&t->short_recorded, n + 1, memory_order_relaxed);
	return true;
}

bool ppa_trace_wants(const struct ppa_trace_wait *w)
{
	uint64_t took = w->end_ns > w->begin_ns ? w->end_ns - w->begin_ns : 0;
	struct ppa_trace_track *t;

	if (!is_always_wanted(w->kind) && took < PPA_TRACE_INSTANT_NS)
		return false;
	t = ppa_trace_track_mine();
	if (!t)
		return false;
	return took >= PPA_TRACE_SHORT_NS || is_always_wanted(w->kind) || wants_short(t, w, took);
}

/* Is this call about a file, or does it wait for somebody? A call that took no time to speak of did not wait. */
PPA_CTX_MALLOC static int class_of(const struct ppa_trace_wait *w)
{
	struct stat st;

	if (w->kind != PPA_PARKED_IO || w->fd < 0)
		return w->kind == PPA_PARKED_IO ? w->fd : PPA_TRACE_FD_NONE;
	if (w->end_ns - w->begin_ns < PPA_TRACE_SHORT_NS)
		return PPA_TRACE_FD_FILE;
	if (ppa_syscall(SYS_fstat, w->fd, (long)&st, 0, 0, 0, 0))
		return PPA_TRACE_FD_NETWORK; /* closed by somebody else meanwhile: files do not take so long */
	return S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode) ? PPA_TRACE_FD_FILE
										 : PPA_TRACE_FD_NETWORK;
}

void ppa_trace_wait(const struct ppa_trace_wait *w, const struct ppa_site *site)
{
	struct ppa_trace_track *t = ppa_trace_track_mine();
	uint64_t words[4] = {w->begin_ns, w->end_ns, (uintptr_t)site, (uintptr_t)w->object};

	if (t)
		ppa_trace_put(t,
			      ppa_trace_head_of(1 + PPA_ARRAY_LEN(words), PPA_ENTRY_WAIT, w->kind,
						w->is_vain ? PPA_ENTRY_FLAG_VAIN : 0, class_of(w)),
			      words);
}

/* ---- who wakes ---- */

/* Of which recording a watch is: those of former ones are not taken off. */
static _Atomic uint32_t recording;

uint32_t ppa_trace_watch(const void *object)
{
	uint32_t r = atomic_load_explicit(&recording, memory_order_relaxed);

	/* seq_cst: before the caller looks at the object; who changes it then sees the watch, or the caller the change. */
	atomic_fetch_add_explicit(&ppa_trace_watched[ppa_trace_hash(object)], 1, memory_order_seq_cst);
	return r;
}

void ppa_trace_unwatch(const void *object, uint32_t watching)
{
	if (watching == atomic_load_explicit(&recording, memory_order_relaxed))
		atomic_fetch_sub_explicit(&ppa_trace_watched[ppa_trace_hash(object)], 1, memory_order_relaxed);
}

static void watch_one(struct ppa_thread *t, void *unused)
{
	struct ppa_parked_copy parked;

	(void)unused;
	/* For good: who waits now will not take it off. */
	if (ppa_parked_read(t, &parked) && parked.object)
		atomic_fetch_add_explicit(&ppa_trace_watched[ppa_trace_hash((const void *)parked.object)], 1,
					  memory_order_relaxed);
}

void ppa_trace_watch_parked(void)
{
	atomic_fetch_add_explicit(&recording, 1, memory_order_relaxed);
	for (unsigned i = 0; i < PPA_ARRAY_LEN(ppa_trace_watched); i++)
		atomic_store_explicit(&ppa_trace_watched[i], 0, memory_order_relaxed);
	ppa_threads_each(watch_one, NULL);
}

void ppa_trace_wake_at(const void *object, uint64_t at_ns, bool is_all, const struct ppa_site *site)
{
	struct ppa_trace_track *t = ppa_trace_track_mine();
	uint64_t words[3] = {at_ns, (uintptr_t)site, (uintptr_t)object};

	if (t)
		ppa_trace_put(t,
			      ppa_trace_head_of(1 + PPA_ARRAY_LEN(words), PPA_ENTRY_WAKE, 0,
						is_all ? PPA_ENTRY_FLAG_ALL : 0, 0),
			      words);
}

PPA_CTX_MALLOC static const struct ppa_site *site_here(uintptr_t function, uintptr_t caller)
{
	struct ppa_stack_want want = {.table = &ppa_trace_sites};

	ppa_stack_find(&want, 1, function, caller);
	return want.site;
}

uint64_t ppa_trace_waking(void)
{
	return ppa_self.is_ours ? 0 : ppa_sys_clock_ns(CLOCK_MONOTONIC);
}

void ppa_trace_woke(const void *object, uint64_t at_ns, bool is_all, uintptr_t function, uintptr_t caller)
{
	if (at_ns)
		ppa_trace_wake_at(object, at_ns, is_all, site_here(function, caller));
}

/* ---- threads ---- */

void ppa_trace_created(uint64_t key, uint64_t at_ns, const struct ppa_site *site)
{
	struct ppa_trace_track *t = ppa_trace_track_mine();
	uint64_t words[3] = {at_ns, (uintptr_t)site, key};

	if (t)
		ppa_trace_put(t, ppa_trace_head_of(1 + PPA_ARRAY_LEN(words), PPA_ENTRY_CREATED, 0, 0, 0), words);
}

void ppa_trace_thread_begins(void)
{
	struct ppa_trace_track *t = ppa_trace_track_mine();

	if (t)
		atomic_store_explicit(&t->born_ns, t->begin_ns, memory_order_relaxed);
}

void ppa_trace_thread_ends(void)
{
	struct ppa_trace_track *t = ppa_trace_track_mine();
	uint64_t words[4] = {ppa_sys_clock_ns(CLOCK_MONOTONIC)};

	if (!t)
		return;
	words[1] = (uintptr_t)site_here(0, (uintptr_t)__builtin_return_address(0));
	ppa_syscall(SYS_prctl, PR_GET_NAME, (long)(words + 2), 0, 0, 0, 0);
	ppa_trace_put(t, ppa_trace_head_of(1 + PPA_ARRAY_LEN(words), PPA_ENTRY_EXIT, 0, 0, 0), words);
	atomic_store_explicit(&t->ended_ns, words[0], memory_order_relaxed);
}

/* ---- what the program says of itself ---- */

/* Copy a text with its NUL, cut to what fits and not within a UTF-8 sequence; the number of bytes. */
static size_t put_text(char *out, const char *text)
{
	size_t n = 0;

	while (text && n < PPA_TRACE_TEXT_MAX && text[n])
		n++;
	while (text && text[n] && n && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	if (n)
		memcpy(out, text, n);
	out[n] = '\0';
	return n + 1;
}

void ppa_trace_note(enum ppa_trace_note what, uint64_t task, uint64_t parent, const char *text, const char *value,
		    uintptr_t caller)
{
	enum { FIXED = 4, TEXT_WORDS = (2 * (PPA_TRACE_TEXT_MAX + 1) + 7) / 8 };
	uint64_t words[FIXED + TEXT_WORDS];
	struct ppa_trace_track *t;
	size_t n;

	_Static_assert(1 + FIXED + TEXT_WORDS <= PPA_TRACE_RECORD_WORDS_MAX, "a record holds both texts");
	if (!ppa_trace_is_on() || ppa_self.is_ours)
		return;
	t = ppa_trace_track_mine();
	if (!t)
		return;
	words[0] = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	words[1] = (uintptr_t)site_here(0, caller);
	words[2] = task;
	words[3] = parent;
	n = put_text((char *)(words + FIXED), text);
	n += put_text((char *)(words + FIXED) + n, value);
	ppa_trace_put(t, ppa_trace_head_of(1 + FIXED + (n + 7) / 8, PPA_ENTRY_NOTE, what, 0, 0), words);
}
