/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of modules: who publishes, who reads, when it is freed.
 *
 * Server threads refresh under one lock: read maps, scan, and if anything differs swap in a new table. Handlers find
 * the table through one atomic pointer, inside a bracket: a counter of running walks, striped by stack address. A table
 * that was swapped out is freed once nobody holds it and each stripe was seen at zero at some time after the swap; a
 * walk that began later has the new one. Nobody ever waits for that: what is still in use waits for the next refresh.
 *
 * dlclose: the hook moves unload_seq before and after. settled_seq says up to which value the current table is true.
 * While they differ, handlers use only the modules of the first refresh, and ask _dl_find_object about the rest; what
 * they learn is not cached. libc's own unloads (iconv, NSS) do not come through the hook, so the text of modules that
 * may go is never read directly at all (struct ppa_code, stays); at worst one sample is read with a stale rule. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "unwind/modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/base/lock.h"
#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "unwind/module_scan.h"

enum {
	NSTRIPES = 64, /* bits of a word */
	STRIPE_BYTES = 64,
	UNLOAD_WAIT_NS = 10 * 1000 * 1000,
	UNLOAD_NAP_NS = 50 * 1000,
	MAPS_FIRST_BYTES = 128 << 10,
	MAPS_MAX_BYTES = 64 << 20,
	EPOCH_STAYS = 1,
};

struct table {
	struct ppa_module_table pub; /* first: holders have its address */
	struct ppa_text_segment *segs;
	/* for handlers: starts[i] begins ranges[i] */
	uintptr_t *starts;
	struct ppa_module_range *ranges;
	size_t nranges;
	struct ppa_module_node **nodes;
	size_t nnodes;
	uint64_t epoch_stays;
	/* under the lock */
	size_t holds;
	uint32_t generation; /* of the private heap */
	struct table *next_retired;
	uint64_t stripes_seen_idle; /* since it was retired */
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

static struct {
	/* read by handlers */
	_Atomic(struct table *) current;
	_Atomic uint64_t unload_seq;  /* moved by the hook */
	_Atomic uint64_t settled_seq; /* moved by refresh */
	_Atomic uint32_t marked;
	struct stripe stripe[NSTRIPES];
	/* the hook */
	_Atomic uint32_t unloading; /* dlcloses that are running */
	/* under the lock */
	struct ppa_lock lock; /* protects the tables' bookkeeping and everything below; held while maps are read */
	struct table *retired;
	uint64_t next_serial;
	uint32_t generation; /* grows at each fork */
	uintptr_t main_phdr, loader_base; /* AT_PHDR, AT_BASE */
} modules = { .unload_seq = 1 };

/* ---- handlers ---- */

unsigned ppa_modules_read_begin(void)
{
	unsigned stripe = (unsigned)((uintptr_t)__builtin_frame_address(0) >> 14) % NSTRIPES;

	/* seq_cst: the count is up before the table pointer is loaded; pairs with the swap and the look at the stripes in
	 * retire and reclaim, and with unload_seq in ppa_modules_unload_begin. */
	atomic_fetch_add_explicit(&modules.stripe[stripe].readers, 1, memory_order_seq_cst);
	return stripe;
}

void ppa_modules_read_end(unsigned token)
{
	/* release: the walk's reads of the table are done. Not below zero: a fork child was reset in between. */
	uint32_t n = atomic_load_explicit(&modules.stripe[token % NSTRIPES].readers, memory_order_relaxed);

	while (n && !atomic_compare_exchange_weak_explicit(&modules.stripe[token % NSTRIPES].readers, &n, n - 1,
							    memory_order_release, memory_order_relaxed))
		;
}

void ppa_modules_mark(void)
{
	if (!atomic_load_explicit(&modules.marked, memory_order_relaxed))
		atomic_store_explicit(&modules.marked, 1, memory_order_relaxed);
}

PPA_CTX_SIGNAL static bool settled(void)
{
	/* acquire: pairs with the release in refresh; the table loaded next is at least as new. seq_cst on unload_seq:
	 * a hook that moves it later waits for our bracket. */
	uint64_t settled_seq = atomic_load_explicit(&modules.settled_seq, memory_order_acquire);

	return atomic_load_explicit(&modules.unload_seq, memory_order_seq_cst) == settled_seq;
}

struct ppa_epochs ppa_modules_epochs(void)
{
	bool is_settled = settled();
	const struct table *t = atomic_load_explicit(&modules.current, memory_order_seq_cst);

	if (!t)
		return (struct ppa_epochs){ EPOCH_STAYS, 0 };
	return (struct ppa_epochs){ t->epoch_stays, is_settled ? t->pub.layout : 0 };
}

/* The last range that starts at or before pc and contains it, or NULL. */
PPA_CTX_SIGNAL static const struct ppa_module_range *search(const struct table *t, uintptr_t pc)
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
	};
	return true;
}

bool ppa_modules_find(uintptr_t pc, struct ppa_code *out)
{
	bool is_settled = settled();
	const struct table *t = atomic_load_explicit(&modules.current, memory_order_seq_cst);
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
			.epoch = n->m.at_startup ? t->epoch_stays : t->pub.layout,
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
	const struct ppa_module_range *r = search(atomic_load_explicit(&modules.current, memory_order_seq_cst), pc);

	return r && r->node;
}

/* ---- the dlclose hook ---- */

/* Take the stripes that are idle now out of the set. */
static uint64_t still_busy(uint64_t stripes)
{
	for (unsigned i = 0; i < NSTRIPES; i++)
		if (stripes >> i & 1 &&
		    !atomic_load_explicit(&modules.stripe[i].readers, memory_order_seq_cst))
			stripes &= ~(UINT64_C(1) << i);
	return stripes;
}

void ppa_modules_unload_begin(void)
{
	struct timespec nap = { 0, UNLOAD_NAP_NS };
	uint64_t busy = UINT64_MAX, start;

	atomic_fetch_add_explicit(&modules.unloading, 1, memory_order_seq_cst);
	/* seq_cst: walks that begin after this see it; those that did not are in the stripes below. */
	atomic_fetch_add_explicit(&modules.unload_seq, 1, memory_order_seq_cst);
	busy = still_busy(busy);
	if (!busy)
		return;
	start = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	while ((busy = still_busy(busy)) != 0 && ppa_sys_clock_ns(CLOCK_MONOTONIC) - start < UNLOAD_WAIT_NS)
		ppa_syscall(SYS_nanosleep, (long)&nap, 0, 0, 0, 0, 0);
}

void ppa_modules_unload_end(void)
{
	uint32_t n = atomic_load_explicit(&modules.unloading, memory_order_relaxed);

	/* Not below zero: the thread may have forked inside dlclose, and the child was reset. */
	while (n && !atomic_compare_exchange_weak_explicit(&modules.unloading, &n, n - 1, memory_order_seq_cst,
							    memory_order_relaxed))
		;
	atomic_fetch_add_explicit(&modules.unload_seq, 1, memory_order_seq_cst);
	ppa_modules_mark();
}

/* ---- tables, under the lock ---- */

static void table_free(struct table *t)
{
	for (size_t i = 0; i < t->nnodes; i++)
		if (!--t->nodes[i]->refs && t->nodes[i]->generation == modules.generation)
			ppa_vheap_free(t->nodes[i]);
	if (t->generation != modules.generation)
		return; /* the parent's heap is no longer ours to free into */
	ppa_vheap_free(t->nodes);
	ppa_vheap_free(t->ranges);
	ppa_vheap_free(t->starts);
	ppa_vheap_free(t->segs);
	ppa_vheap_free(t);
}

static void reclaim(void)
{
	struct table **link = &modules.retired;

	while (*link) {
		struct table *t = *link;

		t->stripes_seen_idle |= ~still_busy(~t->stripes_seen_idle);
		if (t->holds || ~t->stripes_seen_idle) {
			link = &t->next_retired;
			continue;
		}
		*link = t->next_retired;
		table_free(t);
	}
}

static void publish(struct table *t)
{
	/* seq_cst: pairs with the bracket; who counts himself in after our look at the stripes loads the new one. */
	struct table *old = atomic_exchange_explicit(&modules.current, t, memory_order_seq_cst);

	if (!old)
		return;
	old->stripes_seen_idle = 0;
	old->next_retired = modules.retired;
	modules.retired = old;
}

/* Both were built in order of address, so equal pictures are equal arrays. */
static bool unchanged(const struct table *old, const struct ppa_module_scan *s)
{
	return old && old->nranges == s->nranges && old->nnodes == s->nnodes &&
	       !memcmp(old->ranges, s->ranges, s->nranges * sizeof(*s->ranges)) &&
	       !memcmp(old->nodes, s->nodes, s->nnodes * sizeof(*s->nodes));
}

/* Did a module go away? *startup: was it one that we took to stay? */
static bool lost_module(const struct table *old, const struct ppa_module_scan *s, bool *startup)
{
	bool lost = false;

	*startup = false;
	for (size_t i = 0; old && i < old->nnodes; i++) {
		bool found = false;

		for (size_t k = 0; k < s->nnodes && !found; k++)
			found = s->nodes[k]->m.serial == old->nodes[i]->m.serial;
		lost |= !found;
		*startup |= !found && old->nodes[i]->m.at_startup;
	}
	return lost;
}

/* The first refresh decides who stays: what was loaded before main. A dlopen that came even before us (from another
 * library's constructor) spoils that, and then only the program, its loader, the libc and we are sure. */
static void decide_who_stays(struct ppa_module_scan *s, bool dlopen_seen)
{
	const uintptr_t sure[] = { modules.main_phdr, modules.loader_base, (uintptr_t)&decide_who_stays,
				   (uintptr_t)&abort };

	for (size_t i = 0; i < s->nnodes; i++) {
		struct ppa_module *m = &s->nodes[i]->m;

		m->at_startup = !dlopen_seen || !m->ino;
		for (size_t k = 0; k < PPA_ARRAY_LEN(sure); k++)
			m->at_startup |= sure[k] >= m->lo && sure[k] < m->hi;
	}
}

/* A table from a scan, whose arrays it takes over; NULL: out of memory, and the scan still owns all. */
static struct table *table_new(struct ppa_module_scan *s, const struct table *old)
{
	struct table *t = ppa_vheap_calloc(1, sizeof(*t));
	size_t nsegs = 0;
	bool startup;

	if (!t)
		return NULL;
	t->starts = ppa_vheap_malloc((s->nranges + 1) * sizeof(*t->starts));
	t->segs = ppa_vheap_malloc((s->nranges + 1) * sizeof(*t->segs));
	if (!t->starts || !t->segs) {
		ppa_vheap_free(t->starts);
		ppa_vheap_free(t->segs);
		ppa_vheap_free(t);
		return NULL;
	}
	for (size_t i = 0; i < s->nranges; i++) {
		const struct ppa_module_range *r = &s->ranges[i];

		t->starts[i] = r->start;
		if (r->node)
			t->segs[nsegs++] =
				(struct ppa_text_segment){ r->start, r->end, r->file_offset, &r->node->m };
	}
	t->pub.layout = old ? old->pub.layout + lost_module(old, s, &startup) : EPOCH_STAYS + 1;
	t->epoch_stays = !old ? EPOCH_STAYS : startup ? t->pub.layout : old->epoch_stays;
	t->pub.nsegs = nsegs;
	t->pub.segs = t->segs;
	t->ranges = s->ranges;
	t->nranges = s->nranges;
	t->nodes = s->nodes;
	t->nnodes = s->nnodes;
	t->generation = modules.generation;
	for (size_t i = 0; i < t->nnodes; i++)
		t->nodes[i]->refs++;
	return t;
}

/* ---- refresh ---- */

/* The whole file, in the private heap; *len bytes. NULL: cannot be read. The thread's own entry is asked first: the
 * process's shows the main thread's memory, which is gone when that thread has ended before the others. */
static char *read_maps(size_t *len)
{
	int fd = ppa_sys_open_read("/proc/thread-self/maps");
	char *text = NULL;
	long n = 0;

	if (fd < 0)
		fd = ppa_sys_open_read("/proc/self/maps");
	if (fd < 0)
		return NULL;
	for (size_t cap = MAPS_FIRST_BYTES; cap <= MAPS_MAX_BYTES; cap *= 2) {
		char *more = ppa_vheap_malloc(cap);

		ppa_vheap_free(text);
		text = more;
		/* From the start again: one reading, so that no line is cut between two states of the list. */
		n = text ? ppa_sys_pread(fd, text, cap, 0) : 0;
		if (n <= 0 || (size_t)n < cap)
			break;
	}
	ppa_sys_close(fd);
	if (n <= 0) {
		ppa_vheap_free(text);
		return NULL;
	}
	*len = (size_t)n;
	return text;
}

/* AT_PHDR and AT_BASE (0: unknown), from the kernel's file; getauxval is younger than the oldest libc that we load
 * into. */
static void read_auxv(void)
{
	int fd = ppa_sys_open_read("/proc/self/auxv");
	unsigned long (*get)(unsigned long);
	Elf64_auxv_t auxv[64];
	long n;

	if (fd >= 0) {
		n = ppa_sys_pread(fd, auxv, sizeof(auxv), 0);
		ppa_sys_close(fd);
		for (long i = 0; i < n / (long)sizeof(auxv[0]); i++) {
			if (auxv[i].a_type == AT_PHDR)
				modules.main_phdr = auxv[i].a_un.a_val;
			else if (auxv[i].a_type == AT_BASE)
				modules.loader_base = auxv[i].a_un.a_val;
		}
	}
	if (modules.main_phdr)
		return;
	get = (unsigned long (*)(unsigned long))dlsym(RTLD_DEFAULT, "getauxval");
	if (get) {
		modules.main_phdr = get(AT_PHDR);
		modules.loader_base = get(AT_BASE);
	}
}

static int scan(struct ppa_module_scan *s)
{
	size_t len = 0;
	char *text = read_maps(&len);
	int err;

	if (!text)
		return ppa_module_scan_loader(s);
	err = ppa_module_scan_maps(s, text, len);
	ppa_vheap_free(text);
	return err;
}

static int refresh_locked(bool dlopen_seen)
{
	struct table *old = atomic_load_explicit(&modules.current, memory_order_relaxed), *t;
	struct ppa_module_scan s = {
		.known = old ? old->nodes : NULL,
		.nknown = old ? old->nnodes : 0,
		.main_phdr = modules.main_phdr,
		.next_serial = &modules.next_serial,
		.generation = modules.generation,
	};
	int err = scan(&s);

	if (!err && !s.nnodes)
		err = -ENOENT;
	if (err || unchanged(old, &s)) {
		ppa_module_scan_free(&s);
		return err;
	}
	if (!old)
		decide_who_stays(&s, dlopen_seen);
	else
		for (size_t i = 0; i < s.nnodes; i++) /* told anew because its file was deleted: still stays */
			for (size_t k = 0; k < old->nnodes; k++)
				if (s.nodes[i] != old->nodes[k] &&
				    s.nodes[i]->m.serial == old->nodes[k]->m.serial)
					s.nodes[i]->m.at_startup = old->nodes[k]->m.at_startup;
	t = table_new(&s, old);
	if (!t) {
		ppa_module_scan_free(&s);
		return -ENOMEM;
	}
	publish(t);
	return 0;
}

int ppa_modules_refresh(bool force)
{
	uint64_t seq;
	uint32_t unloading, was_marked;
	int err = 0;

	ppa_lock(&modules.lock);
	if (!modules.main_phdr)
		read_auxv();
	seq = atomic_load_explicit(&modules.unload_seq, memory_order_seq_cst);
	unloading = atomic_load_explicit(&modules.unloading, memory_order_seq_cst);
	was_marked = atomic_exchange_explicit(&modules.marked, 0, memory_order_acquire);
	if (force || was_marked || !atomic_load_explicit(&modules.current, memory_order_relaxed) ||
	    seq != atomic_load_explicit(&modules.settled_seq, memory_order_relaxed))
		err = refresh_locked(was_marked);
	if (err)
		ppa_modules_mark();
	else if (!unloading) /* release: pairs with the acquire in settled */
		atomic_store_explicit(&modules.settled_seq, seq, memory_order_release);
	reclaim();
	ppa_unlock(&modules.lock);
	return err;
}

/* ---- holders ---- */

const struct ppa_module_table *ppa_modules_hold(void)
{
	struct table *t;

	ppa_lock(&modules.lock);
	t = atomic_load_explicit(&modules.current, memory_order_relaxed);
	if (t)
		t->holds++;
	ppa_unlock(&modules.lock);
	return t ? &t->pub : NULL;
}

void ppa_modules_release(const struct ppa_module_table *pub)
{
	struct table *t = (struct table *)pub;

	if (!t)
		return;
	ppa_lock(&modules.lock);
	if (t->generation == modules.generation && t->holds)
		t->holds--;
	reclaim();
	ppa_unlock(&modules.lock);
}

const struct ppa_text_segment *ppa_modules_lookup(const struct ppa_module_table *t, uintptr_t pc)
{
	size_t lo = 0, n = t->nsegs;

	while (n) {
		size_t half = n / 2;

		if (t->segs[lo + half].start <= pc) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo && pc < t->segs[lo - 1].end ? &t->segs[lo - 1] : NULL;
}

void ppa_modules_reset(void)
{
	struct table *t = atomic_load_explicit(&modules.current, memory_order_relaxed);

	ppa_lock_reset(&modules.lock);
	for (unsigned i = 0; i < NSTRIPES; i++)
		atomic_store_explicit(&modules.stripe[i].readers, 0, memory_order_relaxed);
	/* The parent's tables stay readable, and are never freed: their heap was forgotten. */
	modules.generation++;
	modules.retired = NULL;
	if (t)
		t->holds = 0;
	atomic_store_explicit(&modules.unloading, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&modules.unload_seq, 1, memory_order_seq_cst);
	ppa_modules_mark();
}
