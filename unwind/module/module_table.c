/* SPDX-License-Identifier: Apache-2.0
 *
 * The half of the module table that server threads run: who builds tables, who holds them, when they are freed.
 *
 * A refresh, under one lock, reads maps, scans, and if anything differs swaps in a new table. The old one is freed once
 * nobody holds it and no walk can be using it (modules.c). Nobody ever waits for that: what is still in use waits for
 * the next refresh. Modules are shared between tables and counted.
 *
 * In a fork child the parent's tables stay readable and are never freed: their heap was forgotten. The current one goes
 * on being true as far as it was at the fork. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "unwind/module/module_table.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/lock.h"
#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "unwind/module/maps.h"
#include "unwind/module/module_stays.h"

enum {
	MAX_AUXV = 64,
};

struct table {
	struct ppa_module_table pub; /* first: holders have its address */
	struct ppa_live_table live;
	struct ppa_text_segment *segs; /* of pub */
	uintptr_t *starts;	       /* of live, as are the ranges */
	struct ppa_module_range *ranges;
	struct ppa_module_node **nodes;
	size_t nnodes;
	size_t holds;
	uint64_t from, until; /* struct ppa_module_era's */
	uint32_t generation;  /* of the private heap */
	struct table *next_retired;
	uint64_t busy_stripes; /* not yet seen idle since it was retired */
};

static struct {
	struct ppa_lock lock; /* protects everything here and the tables' bookkeeping; held while maps are read */
	struct table *current, *retired;
	struct table *past[PPA_MODULES_PAST_MAX]; /* held; of layouts that ended, oldest first */
	size_t npast;
	bool (*wants_past)(void);
	uint64_t next_serial;
	uint32_t generation;		  /* grows at each fork */
	_Atomic bool is_looking;	  /* a request was taken and is not answered */
	uintptr_t main_phdr, loader_base; /* AT_PHDR, AT_BASE */
} modules;

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

		t->busy_stripes = ppa_live_busy(t->busy_stripes);
		if (t->holds || t->busy_stripes) {
			link = &t->next_retired;
			continue;
		}
		*link = t->next_retired;
		table_free(t);
	}
}

static void keep_past(struct table *t)
{
	if (modules.npast == PPA_MODULES_PAST_MAX) {
		modules.past[0]->holds--;
		memmove(modules.past, modules.past + 1, --modules.npast * sizeof(modules.past[0]));
	}
	t->holds++;
	modules.past[modules.npast++] = t;
}

static void publish(struct table *t)
{
	struct table *old = modules.current;

	modules.current = t;
	ppa_live_swap(&t->live);
	if (!old)
		return;
	if (old->pub.layout != t->pub.layout && modules.wants_past && modules.wants_past())
		keep_past(old);
	old->busy_stripes = UINT64_MAX;
	old->next_retired = modules.retired;
	modules.retired = old;
}

/* Both were built in order of address, so equal pictures are equal arrays. */
static bool unchanged(const struct table *old, const struct ppa_module_scan *s)
{
	return old && old->live.nranges == s->nranges && old->nnodes == s->nnodes &&
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

/* Who was loaded for the program and us. Our own address finds us, abort the libc. */
static void decide_who_stays(const struct ppa_module_scan *s)
{
	const uintptr_t roots[] = {modules.main_phdr, modules.loader_base, (uintptr_t)&decide_who_stays,
				   (uintptr_t)&abort};

	ppa_module_decide_stays(s->nodes, s->nnodes, roots, PPA_ARRAY_LEN(roots));
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
			t->segs[nsegs++] = (struct ppa_text_segment){r->start, r->end, r->file_offset, &r->node->m};
	}
	t->pub.layout = old ? old->pub.layout + lost_module(old, s, &startup) : PPA_EPOCH_STAYS + 1;
	t->live.layout = t->pub.layout;
	t->live.epoch_stays = !old ? PPA_EPOCH_STAYS : startup ? t->pub.layout : old->live.epoch_stays;
	t->pub.nsegs = nsegs;
	t->pub.segs = t->segs;
	t->ranges = s->ranges;
	t->live.starts = t->starts;
	t->live.ranges = s->ranges;
	t->live.nranges = s->nranges;
	t->nodes = s->nodes;
	t->nnodes = s->nnodes;
	t->generation = modules.generation;
	for (size_t i = 0; i < t->nnodes; i++)
		t->nodes[i]->refs++;
	return t;
}

/* ---- refresh ---- */

/* AT_PHDR and AT_BASE (0: unknown), from the kernel's file; getauxval is younger than the oldest libc that we load
 * into. */
static void read_auxv(void)
{
	int fd = ppa_sys_open_read("/proc/thread-self/auxv");
	unsigned long (*get)(unsigned long);
	Elf64_auxv_t auxv[MAX_AUXV];
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
	char *text = ppa_maps_read(&len);
	int err;

	if (!text)
		return ppa_module_scan_loader(s);
	err = ppa_module_scan_maps(s, text, len);
	ppa_vheap_free(text);
	return err;
}

/* Modules told anew, because their file was deleted, stay what they were. */
static void carry_over(const struct ppa_module_scan *s, const struct table *old)
{
	for (size_t i = 0; i < s->nnodes; i++)
		for (size_t k = 0; k < old->nnodes; k++)
			if (s->nodes[i] != old->nodes[k] && s->nodes[i]->m.serial == old->nodes[k]->m.serial)
				s->nodes[i]->m.at_startup = old->nodes[k]->m.at_startup;
}

/* When the table of now was true, as it was at the time seq of unloading. */
static void date(struct table *old, uint64_t seq)
{
	struct table *t = modules.current;

	if (t != old)
		t->from = old && old->pub.layout == t->pub.layout ? old->from : seq;
	t->until = seq;
}

static int refresh_locked(void)
{
	struct table *old = modules.current, *t = NULL;
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
	if (err || unchanged(old, &s))
		goto out;
	if (old)
		carry_over(&s, old);
	else
		decide_who_stays(&s);
	t = table_new(&s, old);
	if (t)
		publish(t);
	else
		err = -ENOMEM;
out:
	if (!t)
		ppa_module_scan_free(&s);
	return err;
}

int ppa_modules_refresh(bool force)
{
	struct ppa_live_request r;
	struct table *old;
	int err = 0;

	ppa_lock(&modules.lock);
	old = modules.current;
	if (!modules.main_phdr)
		read_auxv();
	/* release, twice: a child of a fork that finds the request taken finds this as well. */
	atomic_store_explicit(&modules.is_looking, true, memory_order_release);
	r = ppa_live_take_request();
	if (force || r.marked || !r.is_settled || !modules.current)
		err = refresh_locked();
	if (err) {
		ppa_modules_mark();
	} else {
		date(old, r.unload_seq);
		ppa_live_settle(&r);
	}
	atomic_store_explicit(&modules.is_looking, false, memory_order_release);
	reclaim();
	ppa_unlock(&modules.lock);
	return err;
}

/* ---- holders ---- */

const struct ppa_module_table *ppa_modules_hold(void)
{
	struct table *t;

	ppa_lock(&modules.lock);
	t = modules.current;
	if (t)
		t->holds++;
	ppa_unlock(&modules.lock);
	return t ? &t->pub : NULL;
}

void ppa_modules_keep_past(bool (*wanted)(void))
{
	ppa_lock(&modules.lock);
	modules.wants_past = wanted;
	ppa_unlock(&modules.lock);
}

static struct ppa_module_era hold_locked(struct table *t)
{
	t->holds++;
	return (struct ppa_module_era){&t->pub, t->from, t->until};
}

size_t ppa_modules_hold_all(struct ppa_module_era out[static 1 + PPA_MODULES_PAST_MAX])
{
	size_t n = 0;

	ppa_lock(&modules.lock);
	if (modules.current)
		out[n++] = hold_locked(modules.current);
	for (size_t i = modules.npast; i--;)
		out[n++] = hold_locked(modules.past[i]);
	ppa_unlock(&modules.lock);
	return n;
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
	ppa_lock_reset(&modules.lock);
	modules.generation++;
	modules.retired = NULL;
	if (modules.current) {
		modules.current->holds = 0;
		ppa_live_swap(&modules.current->live); /* the fork may have come in the middle of publish */
	}
	ppa_live_reset();
	/* Whoever was answering what was marked is not here. */
	if (atomic_exchange_explicit(&modules.is_looking, false, memory_order_relaxed))
		ppa_modules_mark();
}
