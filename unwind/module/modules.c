/* SPDX-License-Identifier: Apache-2.0
 *
 * The half of the module table that handlers and the dlclose hook run through: no lock, no allocation.
 *
 * Handlers find the table through one atomic pointer, inside a bracket: a counter of running walks, striped by stack
 * address so that threads do not share a line. module_table.c frees a table that was swapped out when each stripe was
 * seen idle since; a walk that begins after the swap has the new one.
 *
 * dlclose: the hook moves unload_seq before and after. settled_seq says up to which value the current table is true.
 * While they differ, handlers use only the modules that stay, and ask _dl_find_object about the rest; what
 * they learn is not cached. libc's own unloads (iconv, NSS) do not come through the hook, so the tables of modules that
 * may go are never read directly at all (struct ppa_code, stays); at worst one sample is read with a stale rule. */
#include "unwind/module/modules.h"

#include <stdatomic.h>
#include <sys/syscall.h>

#include "agent/base/sys.h"
#include "unwind/module/module_table.h"

enum {
	NSTRIPES = 64, /* bits of a word */
	STRIPE_BYTES = 64,
	STRIPE_SHIFT = 14, /* stacks are further apart than 16 KiB */
	UNLOAD_WAIT_NS = 10 * 1000 * 1000,
	UNLOAD_NAP_NS = 50 * 1000,
};

/* What glibc 2.35 and later fill in (dlfcn.h, DLFO_STRUCT_HAS_EH_DBASE is 0 here). The room behind is its flexible
 * reserve. eh_frame is where PT_GNU_EH_FRAME points. */
struct loader_object {
	unsigned long long flags;
	void *map_start, *map_end;
	void *link_map;
	void *eh_frame;
	unsigned long long reserved[7];
};

/* _dl_find_object of glibc 2.35, NULL elsewhere: lock-free, 0 is found. Under a name of ours because only new headers
 * declare it. */
extern int loader_find_object(void *pc, struct loader_object *out) __asm__("_dl_find_object") __attribute__((weak));

struct stripe {
	_Alignas(STRIPE_BYTES) _Atomic uint32_t readers;
};

#define LOADER_EPOCHS (UINT64_C(1) << 63) /* never an epoch of a table */

static struct {
	_Atomic(const struct ppa_live_table *) current; /* moved by refresh */
	_Atomic uint64_t settled_seq;			/* moved by refresh */
	_Atomic uint64_t unload_seq;			/* moved by the hook */
	_Atomic uint32_t unloading;			/* dlcloses that are running */
	_Atomic uint32_t marked;			/* set by handlers and hooks, cleared by refresh */
	struct stripe stripe[NSTRIPES];			/* handlers */
} live = {.unload_seq = 1};

unsigned ppa_modules_read_begin(void)
{
	unsigned stripe = (unsigned)((uintptr_t)__builtin_frame_address(0) >> STRIPE_SHIFT) % NSTRIPES;

	/* seq_cst: the count is up before the table pointer is loaded; pairs with the swap in ppa_live_swap and the look at the stripes
	 * in ppa_live_busy, and with unload_seq in ppa_modules_unload_begin. */
	atomic_fetch_add_explicit(&live.stripe[stripe].readers, 1, memory_order_seq_cst);
	return stripe;
}

void ppa_modules_read_end(unsigned token)
{
	/* release: the walk's reads of the table are done. Not below zero: a fork child was reset in between. */
	uint32_t n = atomic_load_explicit(&live.stripe[token % NSTRIPES].readers, memory_order_relaxed);

	while (n && !atomic_compare_exchange_weak_explicit(&live.stripe[token % NSTRIPES].readers, &n, n - 1,
							   memory_order_release, memory_order_relaxed))
		;
}

void ppa_modules_mark(void)
{
	if (!atomic_load_explicit(&live.marked, memory_order_relaxed))
		atomic_store_explicit(&live.marked, 1, memory_order_relaxed);
}

PPA_CTX_SIGNAL static bool settled(void)
{
	/* acquire: pairs with the release in ppa_live_settle; the table loaded next is at least as new. seq_cst on unload_seq:
	 * a hook that moves it later waits for our bracket. */
	uint64_t settled_seq = atomic_load_explicit(&live.settled_seq, memory_order_acquire);

	return atomic_load_explicit(&live.unload_seq, memory_order_seq_cst) == settled_seq;
}

/* Of libraries that came after the table was made: until the next dlclose begins, each address has one meaning, whatever
 * else is opened. In this order, which is that of ppa_modules_unload_begin the other way round: a sequence that a running
 * dlclose has moved is never seen without it. */
PPA_CTX_SIGNAL static uint64_t loader_epoch(void)
{
	uint64_t seq = atomic_load_explicit(&live.unload_seq, memory_order_seq_cst);

	return atomic_load_explicit(&live.unloading, memory_order_seq_cst) ? 0 : LOADER_EPOCHS | seq;
}

struct ppa_epochs ppa_modules_epochs(void)
{
	bool is_settled = settled();
	uint64_t loader = loader_epoch();
	const struct ppa_live_table *t = atomic_load_explicit(&live.current, memory_order_seq_cst);

	if (!t)
		return (struct ppa_epochs){PPA_EPOCH_STAYS, 0, loader};
	return (struct ppa_epochs){t->epoch_stays, is_settled ? t->layout : 0, loader};
}

/* The last range that starts at or before pc and contains it, or NULL. */
PPA_CTX_SIGNAL static const struct ppa_module_range *search(const struct ppa_live_table *t, uintptr_t pc)
{
	size_t lo = 0, n = t ? t->nranges : 0;

	while (n) {
		size_t half = n / 2;

		if (t->starts[lo + half] <= pc) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo && pc < t->ranges[lo - 1].end ? &t->ranges[lo - 1] : NULL;
}

PPA_CTX_SIGNAL static __attribute__((noinline)) bool ask_loader(uintptr_t pc, struct ppa_code *out)
{
	struct loader_object o;
	uint64_t epoch = loader_epoch(); /* before the question: if a dlclose comes between, nobody asks for it again */

	/* The frame information may be missing all the same. */
	if (!loader_find_object || loader_find_object((void *)pc, &o) || !o.eh_frame)
		return false;
	*out = (struct ppa_code){
		.lo = (uintptr_t)o.map_start,
		.hi = (uintptr_t)o.map_end,
		.cfi_lo = (uintptr_t)o.map_start,
		.cfi_hi = (uintptr_t)o.map_end,
		.eh_frame_hdr = (uintptr_t)o.eh_frame,
		.eh_frame_hdr_len = (uintptr_t)o.map_end - (uintptr_t)o.eh_frame,
		.epoch = epoch,
	};
	return true;
}

bool ppa_modules_find(uintptr_t pc, struct ppa_code *out)
{
	bool is_settled = settled();
	const struct ppa_live_table *t = atomic_load_explicit(&live.current, memory_order_seq_cst);
	const struct ppa_module_range *r = search(t, pc);
	const struct ppa_module_node *n = r ? r->node : NULL;

	if (n && (is_settled || n->m.at_startup)) {
		*out = (struct ppa_code){
			.lo = r->start,
			.hi = r->end,
			.eh_frame_hdr = n->m.eh_frame_hdr,
			.eh_frame_hdr_len = n->m.eh_frame_hdr_len,
			.cfi_lo = n->cfi_lo,
			.cfi_hi = n->cfi_hi,
			.serial = n->m.serial,
			.epoch = n->m.at_startup ? t->epoch_stays : t->layout,
			.stays = n->m.at_startup,
		};
		return true;
	}
	if (ask_loader(pc, out))
		return true;
	/* Known not to be a library: refreshing would not tell more. */
	if (!(r && !n && is_settled))
		ppa_modules_mark();
	return false;
}

bool ppa_modules_is_text(uintptr_t pc)
{
	const struct ppa_module_range *r = search(atomic_load_explicit(&live.current, memory_order_seq_cst), pc);

	return r && r->node;
}

bool ppa_modules_is_foreign(uintptr_t pc)
{
	const struct ppa_module_range *r = search(atomic_load_explicit(&live.current, memory_order_seq_cst), pc);

	return r && !r->node;
}

/* ---- the dlclose hook ---- */

uint64_t ppa_live_busy(uint64_t stripes)
{
	for (unsigned i = 0; i < NSTRIPES; i++)
		if (stripes >> i & 1 && !atomic_load_explicit(&live.stripe[i].readers, memory_order_seq_cst))
			stripes &= ~(UINT64_C(1) << i);
	return stripes;
}

uint64_t ppa_modules_unloads(void)
{
	return atomic_load_explicit(&live.unload_seq, memory_order_relaxed);
}

void ppa_modules_unload_begin(void)
{
	struct timespec nap = {0, UNLOAD_NAP_NS};
	uint64_t busy = UINT64_MAX, start;

	atomic_fetch_add_explicit(&live.unloading, 1, memory_order_seq_cst);
	/* seq_cst: walks that begin after this see it; those that did not are in the stripes below. */
	atomic_fetch_add_explicit(&live.unload_seq, 1, memory_order_seq_cst);
	busy = ppa_live_busy(busy);
	if (!busy)
		return;
	start = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	while ((busy = ppa_live_busy(busy)) != 0 && ppa_sys_clock_ns(CLOCK_MONOTONIC) - start < UNLOAD_WAIT_NS)
		ppa_syscall(SYS_nanosleep, (long)&nap, 0, 0, 0, 0, 0);
}

void ppa_modules_unload_end(void)
{
	uint32_t n = atomic_load_explicit(&live.unloading, memory_order_relaxed);

	/* Not below zero: the thread may have forked inside dlclose, and the child was reset. */
	while (n && !atomic_compare_exchange_weak_explicit(&live.unloading, &n, n - 1, memory_order_seq_cst,
							   memory_order_relaxed))
		;
	atomic_fetch_add_explicit(&live.unload_seq, 1, memory_order_seq_cst);
	ppa_modules_mark();
}

/* ---- for module_table.c ---- */

const struct ppa_live_table *ppa_live_swap(const struct ppa_live_table *t)
{
	/* seq_cst: pairs with the bracket; who counts himself in after our look at the stripes loads the new one. */
	return atomic_exchange_explicit(&live.current, t, memory_order_seq_cst);
}

struct ppa_live_request ppa_live_take_request(void)
{
	struct ppa_live_request r;

	r.unload_seq = atomic_load_explicit(&live.unload_seq, memory_order_seq_cst);
	r.unloading = atomic_load_explicit(&live.unloading, memory_order_seq_cst) != 0;
	/* acquire: the library that was marked is mapped before we look. */
	r.marked = atomic_exchange_explicit(&live.marked, 0, memory_order_acquire) != 0;
	r.is_settled = r.unload_seq == atomic_load_explicit(&live.settled_seq, memory_order_relaxed);
	return r;
}

void ppa_live_settle(const struct ppa_live_request *r)
{
	if (!r->unloading) /* release: pairs with the acquire in settled */
		atomic_store_explicit(&live.settled_seq, r->unload_seq, memory_order_release);
}

void ppa_live_reset(void)
{
	for (unsigned i = 0; i < NSTRIPES; i++)
		if (atomic_load_explicit(&live.stripe[i].readers, memory_order_relaxed))
			atomic_store_explicit(&live.stripe[i].readers, 0, memory_order_relaxed);
	/* A dlclose of another thread stays undone for ever, or half done: its end will not be told. */
	if (atomic_exchange_explicit(&live.unloading, 0, memory_order_relaxed))
		atomic_fetch_add_explicit(&live.unload_seq, 1, memory_order_seq_cst);
	if (!settled())
		ppa_modules_mark();
}
