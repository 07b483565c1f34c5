/* SPDX-License-Identifier: Apache-2.0
 *
 * Events come after the system call that they tell of (but for the first half of a move), so two threads' events can
 * arrive in another order than the kernel acted. Births and times come from one counter: a mapping that reused
 * addresses was born after the munmap that freed them had looked at the counter, so the late event spares it. A mapping
 * that is entered where another one still stands takes its place; the event that should have removed that one finds
 * nothing.
 *
 * Counters change under the lock, together with the set. */
#include "agent/heap/mmap.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/sys.h"
#include "agent/heap/mmap_callers.h"
#include "agent/heap/mmap_lock.h"
#include "agent/thread/stack_here.h"

/* Of the kernel's interface; not in every libc's headers. */
enum { WIPE_ON_FORK = 18, HUGE_SHIFT = 26, HUGE_MASK = 0x3f, HUGE_PAGE_SHIFT = 21 };

PPA_SITES(ppa_mmap_sites, 0);

static struct {
	_Atomic(_Atomic bool *) is_on; /* in a page that a fork's child finds wiped; NULL before start */
	_Atomic uint64_t clock, events, lost, dropped;
	size_t page;
	struct ppa_regions set; /* under the lock */
} maps;

bool ppa_mmap_is_on(void)
{
	/* acquire: what start prepared is seen. */
	const _Atomic bool *on = atomic_load_explicit(&maps.is_on, memory_order_acquire);

	return on && atomic_load_explicit(on, memory_order_relaxed);
}

static inline void count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- under the lock ---- */

/* The lowest piece of [start, end) that was born by then, taken out and off its site's account. */
PPA_CTX_MALLOC static bool take(uintptr_t start, uintptr_t end, uint64_t until, struct ppa_region *out)
{
	struct ppa_regions_cut c;

	if (start >= end || !ppa_regions_cut(&maps.set, start, end, until, &c))
		return false;
	*out = c.piece;
	if (c.regions)
		ppa_site_add(out->site, c.regions < 0 ? PPA_MMAP_MAPS_GONE : PPA_MMAP_MAPS_MADE, 1);
	ppa_site_add(out->site, PPA_MMAP_BYTES_GONE, out->end - out->start);
	if (out->end > end)
		count(&maps.lost, 1);
	return true;
}

/* Take out all of them; bytes. */
PPA_CTX_MALLOC static uint64_t clear(uintptr_t start, uintptr_t end, uint64_t until)
{
	struct ppa_region r;
	uint64_t bytes = 0;

	for (; take(start, end, until, &r); start = r.end)
		bytes += r.end - r.start;
	return bytes;
}

PPA_CTX_MALLOC static void enter(uintptr_t start, uintptr_t end, struct ppa_site *site, uint64_t birth)
{
	struct ppa_region r = {start, end, site, birth};

	clear(start, end, UINT64_MAX);
	if (!ppa_regions_insert(&maps.set, &r)) {
		count(&maps.lost, 1);
		return;
	}
	ppa_site_add(site, PPA_MMAP_MAPS_MADE, 1);
	ppa_site_add(site, PPA_MMAP_BYTES_MADE, end - start);
}

/* [from, to) was added behind the region that ends at from. */
PPA_CTX_MALLOC static void extend(uintptr_t from, uintptr_t to)
{
	struct ppa_region last;

	clear(from, to, UINT64_MAX);
	if (!ppa_regions_above(&maps.set, from - 1, &last) || last.end != from)
		return; /* it belongs to nobody we know */
	clear(last.start, last.end, UINT64_MAX);
	enter(last.start, to, last.site, last.birth);
}

/* ---- events ---- */

/* From here on no handler runs on this thread: the whole of an event is one step to it. */
PPA_CTX_MALLOC static bool begin(uint64_t *mask)
{
	ppa_mmap_block(mask);
	if (ppa_likely(ppa_mmap_lock(*mask)))
		return true;
	ppa_mmap_unblock(*mask);
	return false;
}

PPA_CTX_MALLOC static void done(uint64_t mask)
{
	ppa_mmap_unlock();
	ppa_mmap_unblock(mask);
}

PPA_CTX_MALLOC static uint64_t tick(void)
{
	return atomic_fetch_add_explicit(&maps.clock, 1, memory_order_relaxed) + 1;
}

uint64_t ppa_mmap_now(void)
{
	return atomic_load_explicit(&maps.clock, memory_order_relaxed);
}

PPA_CTX_MALLOC static uintptr_t end_of(uintptr_t start, size_t len, size_t page)
{
	return start + ((len + page - 1) & ~(page - 1));
}

PPA_CTX_MALLOC static size_t page_of(int flags)
{
	unsigned shift = (unsigned)flags >> HUGE_SHIFT & HUGE_MASK;

	if (!(flags & MAP_HUGETLB))
		return maps.page;
	return (size_t)1 << (shift ? shift : HUGE_PAGE_SHIFT);
}

PPA_CTX_MALLOC static struct ppa_site *site_here(uint64_t backing, uintptr_t caller)
{
	struct ppa_stack_here st;
	struct ppa_site *s;

	ppa_stack_take(caller, &st);
	s = ppa_sites_find(&ppa_mmap_sites, st.pcs, st.npcs, st.origin, backing);
	ppa_stack_drop(&st);
	return s;
}

PPA_CTX_MALLOC static void mapped(uintptr_t start, uintptr_t stop, uint64_t backing, uintptr_t caller)
{
	uint64_t birth = tick(), mask;
	struct ppa_site *site;

	count(&maps.events, 1);
	ppa_mmap_block(&mask);
	site = site_here(backing, caller);
	if (ppa_likely(ppa_mmap_lock(mask))) {
		enter(start, stop, site, birth);
		ppa_mmap_unlock();
	} else {
		count(&maps.lost, 1);
	}
	ppa_mmap_unblock(mask);
}

void ppa_mmap_mapped(uintptr_t start, size_t len, int flags, uintptr_t caller)
{
	mapped(start, end_of(start, len, page_of(flags)), flags & MAP_ANONYMOUS ? PPA_MMAP_ANONYMOUS : PPA_MMAP_FILE,
	       caller);
}

void ppa_mmap_unmapped(uintptr_t start, size_t len, uint64_t before)
{
	uint64_t mask;

	if (!begin(&mask)) {
		count(&maps.lost, 1);
		return;
	}
	clear(start, end_of(start, len, maps.page), before);
	done(mask);
}

void ppa_mmap_move_begin(struct ppa_mmap_move *m, uintptr_t start, size_t len)
{
	struct ppa_region r;
	uint64_t mask;

	m->start = start;
	m->end = end_of(start, len, maps.page);
	m->before = ppa_mmap_now();
	m->npieces = 0;
	m->is_known = begin(&mask);
	if (!m->is_known)
		return;
	while (ppa_regions_above(&maps.set, start, &r) && r.start < m->end) {
		start = r.end;
		if (m->npieces == PPA_MMAP_PIECES) {
			m->is_known = false;
			break;
		}
		if (r.start < m->start)
			r.start = m->start;
		if (r.end > m->end)
			r.end = m->end;
		m->piece[m->npieces++] = r;
	}
	done(mask);
}

/* A piece at its new place, cut off or drawn out to fill it. */
PPA_CTX_MALLOC static void place(const struct ppa_mmap_move *m, const struct ppa_region *p, uintptr_t to, uintptr_t end,
				 uint64_t birth)
{
	uintptr_t lo = p->start - m->start + to, hi = p->end - m->start + to;

	if (hi > end || p->end == m->end)
		hi = end;
	if (lo < hi)
		enter(lo, hi, p->site, birth);
}

PPA_CTX_MALLOC static void move(const struct ppa_mmap_move *m, uintptr_t to, uintptr_t end)
{
	uintptr_t from = m->start;
	uint64_t birth = tick();
	struct ppa_region r;

	clear(to, end, UINT64_MAX);
	if (m->is_known) {
		clear(m->start, m->end, m->before);
		for (uint32_t i = 0; i < m->npieces; i++)
			place(m, &m->piece[i], to, end, birth);
		return;
	}
	/* What still stands there must do. */
	for (; take(from, m->end, m->before, &r); from = r.end)
		place(m, &r, to, end, birth);
}

void ppa_mmap_move_end(const struct ppa_mmap_move *m, uintptr_t start, size_t len)
{
	uintptr_t end = end_of(start, len, maps.page);
	uint64_t mask;

	if (!begin(&mask)) {
		count(&maps.lost, 1);
		return;
	}
	if (start != m->start)
		move(m, start, end);
	else if (end > m->end)
		extend(m->end, end);
	else
		clear(end, m->end, m->before);
	done(mask);
}

void ppa_mmap_copied(const struct ppa_mmap_move *m, uintptr_t start, size_t len, uintptr_t caller)
{
	mapped(start, end_of(start, len, maps.page), m->npieces ? m->piece[0].site->label : PPA_MMAP_ANONYMOUS, caller);
}

void ppa_mmap_drop(const struct ppa_mmap_gap *gaps, size_t n, uint64_t before)
{
	uint64_t mask;

	if (!begin(&mask))
		return; /* the next check finds them again */
	for (size_t i = 0; i < n; i++)
		count(&maps.dropped, clear(gaps[i].start, gaps[i].end, before));
	done(mask);
}

/* ---- for snapshots ---- */

struct ppa_mmap_values ppa_mmap_read(const struct ppa_site *s)
{
	uint64_t n[PPA_SITE_COUNTERS];

	/* What is gone first, acquire: all that was made before is in what we read afterwards. */
	n[PPA_MMAP_MAPS_GONE] = atomic_load_explicit(&s->counters[PPA_MMAP_MAPS_GONE], memory_order_acquire);
	n[PPA_MMAP_BYTES_GONE] = atomic_load_explicit(&s->counters[PPA_MMAP_BYTES_GONE], memory_order_acquire);
	n[PPA_MMAP_MAPS_MADE] = atomic_load_explicit(&s->counters[PPA_MMAP_MAPS_MADE], memory_order_relaxed);
	n[PPA_MMAP_BYTES_MADE] = atomic_load_explicit(&s->counters[PPA_MMAP_BYTES_MADE], memory_order_relaxed);
	return (struct ppa_mmap_values){
		.maps = (int64_t)(n[PPA_MMAP_MAPS_MADE] - n[PPA_MMAP_MAPS_GONE]),
		.bytes = (int64_t)(n[PPA_MMAP_BYTES_MADE] - n[PPA_MMAP_BYTES_GONE]),
	};
}

struct ppa_mmap_state ppa_mmap_get_state(void)
{
	struct ppa_mmap_state st = {
		.is_on = ppa_mmap_is_on(),
		.is_hidden = ppa_mmap_callers_are_hidden(),
		.events = atomic_load_explicit(&maps.events, memory_order_relaxed),
		.lost = atomic_load_explicit(&maps.lost, memory_order_relaxed),
		.dropped = atomic_load_explicit(&maps.dropped, memory_order_relaxed),
	};
	uint64_t mask;

	if (begin(&mask)) {
		st.regions = maps.set.nregions;
		st.bytes = maps.set.bytes;
		done(mask);
	}
	return st;
}

const char *ppa_mmap_backing_name(uint64_t label)
{
	return label == PPA_MMAP_ANONYMOUS ? "anonymous" : "file";
}

/* ---- life ---- */

int ppa_mmap_start(void)
{
	long page = sysconf(_SC_PAGESIZE);
	int err = ppa_stack_init();
	_Atomic bool *on;

	if (!err)
		err = ppa_sites_init(&ppa_mmap_sites);
	if (err)
		return err;
	maps.page = page > 0 ? (size_t)page : 4096;
	on = ppa_sys_map(maps.page);
	if (!on)
		return -ENOMEM;
	/* Kernels before 4.14 refuse; there the child of a raw fork goes on recording for nobody. */
	ppa_syscall(SYS_madvise, (long)on, (long)maps.page, WIPE_ON_FORK, 0, 0, 0);
	ppa_mmap_callers_init();
	atomic_store_explicit(on, true, memory_order_relaxed);
	/* release: pairs with the acquire in ppa_mmap_is_on. */
	atomic_store_explicit(&maps.is_on, on, memory_order_release);
	return 0;
}

bool ppa_mmap_before_fork(void)
{
	return ppa_mmap_is_on() && ppa_mmap_lock_for_fork();
}

static void forget_site(const struct ppa_site *s, void *arg)
{
	struct ppa_site *site = (struct ppa_site *)s;

	(void)arg;
	for (int i = 0; i < 2; i++) {
		uint64_t made = atomic_load_explicit(&site->counters[PPA_MMAP_MAPS_MADE + i], memory_order_relaxed);

		atomic_store_explicit(&site->counters[PPA_MMAP_MAPS_GONE + i], made, memory_order_relaxed);
	}
}

void ppa_mmap_after_fork(bool has_lock, bool is_child)
{
	_Atomic bool *on = atomic_load_explicit(&maps.is_on, memory_order_relaxed);

	if (!on)
		return;
	if (has_lock)
		ppa_mmap_unlock_after_fork();
	if (!is_child)
		return;
	if (!has_lock) {
		/* Leaves are left behind: their list may be half-changed, too. */
		count(&maps.lost, maps.set.nregions);
		memset(&maps.set, 0, sizeof(maps.set));
		ppa_sites_each(&ppa_mmap_sites, forget_site, NULL);
		ppa_mmap_lock_reset();
	}
	atomic_store_explicit(on, true, memory_order_release);
}
