/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows in compact form and where they are remembered: one direct-mapped table for the process, without locks.
 *
 * A compact row is two words. It says how to compute the CFA (a register plus an offset, perhaps dereferenced) and
 * where the six callee-saved registers are (the same, or so many words below a base: the CFA or, in frames that were
 * realigned, the frame pointer). The return address is always right below the CFA. Rows of any other shape, about one
 * in a thousand, are not remembered.
 *
 * An entry is three words (and a fourth, so that it lies in one cache line), written and read in any order; the first is a
 * hash of the key and the other two, so a torn entry is one that does not match, like an empty one. Losing a race costs a
 * second search.
 *
 * Of the table only a part is in use, which doubles when its entries replace each other: a program of which few stacks
 * are ever walked has all its rows on two pages rather than each on its own. Doubling moves nothing: half of the
 * entries are found where they are, the others are looked up anew. */
#ifndef PPA_UNWIND_WALK_ROWCACHE_H
#define PPA_UNWIND_WALK_ROWCACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/walk/cfi.h"
#include "unwind/module/modules.h"

/* saved: PPA_NSAVED fields of 10 bits, 0 the same, n: at base - 8 n; then a flag for the base.
 * cfa: offset (32 bits), register, flags, the largest n of saved. */
struct ppa_row {
	uint64_t saved, cfa;
};

enum {
	PPA_ROW_FIELD_BITS = 10,
	PPA_ROW_FIELD_MAX = (1 << PPA_ROW_FIELD_BITS) - 1,
	PPA_ROW_REG_SHIFT = 32,
	PPA_ROW_REG_MASK = 31,
	PPA_ROW_DEEPEST_SHIFT = 40,
	PPA_ROW_FP_BIAS = 16, /* base of frame pointer rows is fp + 16, so that [fp + 8] can be said */
};
#define PPA_ROW_BASE_FP (UINT64_C(1) << 60) /* in saved */
#define PPA_ROW_DEREF (UINT64_C(1) << 37)   /* in cfa: the CFA is the word at register + offset */
#define PPA_ROW_END (UINT64_C(1) << 38)	    /* in cfa: no caller */
#define PPA_ROW_VALID (UINT64_C(1) << 63)   /* in cfa: always set */

struct ppa_row_entry {
	_Alignas(32) _Atomic uint64_t check;
	_Atomic uint64_t saved, cfa;
};

enum { PPA_ROW_FIRST = 1 << 8, PPA_ROW_ENTRIES = 1 << 14 }; /* 8 KiB, 512 KiB */

struct ppa_row_table {
	_Atomic(struct ppa_row_entry *) entries; /* set once by ppa_unwind_init; NULL: nothing is remembered */
	_Atomic uint32_t mask;			 /* entries in use, less one; only grows */
	_Atomic uint32_t replaced;		 /* entries, since it grew */
};

extern struct ppa_row_table ppa_rows __attribute__((visibility("hidden")));

PPA_CTX_SIGNAL static inline uint64_t ppa_row_key(uintptr_t pc, uint64_t epoch)
{
	return pc ^ epoch * UINT64_C(0x9e3779b97f4a7c15);
}

/* Odd multipliers: the checks of two different rows of one slot do not differ by the rows' own few bits. */
PPA_CTX_SIGNAL static inline uint64_t ppa_row_digest(uint64_t saved, uint64_t cfa)
{
	return saved * UINT64_C(0xbf58476d1ce4e5b9) ^ cfa * UINT64_C(0x94d049bb133111eb);
}

/* What a walk needs of the table. */
struct ppa_row_view {
	struct ppa_row_entry *entries; /* NULL: nothing is remembered */
	uint32_t mask;		       /* any is right: an old one only finds less */
};

PPA_CTX_SIGNAL static inline struct ppa_row_view ppa_row_view(void)
{
	return (struct ppa_row_view){atomic_load_explicit(&ppa_rows.entries, memory_order_relaxed),
				     atomic_load_explicit(&ppa_rows.mask, memory_order_relaxed)};
}

/* A walk waits for each of these operations, one frame after the other: so few of them, and none that is slow. */
PPA_CTX_SIGNAL static inline struct ppa_row_entry *ppa_row_slot(const struct ppa_row_view *v, uintptr_t pc)
{
	return v->entries + ((pc ^ pc >> 14) & v->mask);
}

/* What lookup found: nothing, a row of a module that stays, a row of one that may be unloaded. */
enum { PPA_ROW_NONE, PPA_ROW_STAYS, PPA_ROW_MAY_GO };

/* v's entries are not NULL. Context: signal. */
PPA_CTX_SIGNAL static inline int ppa_row_lookup_in(const struct ppa_row_view *v, uintptr_t pc,
						   const struct ppa_epochs *epochs, struct ppa_row *row)
{
	struct ppa_row_entry *e = ppa_row_slot(v, pc);
	uint64_t key;

	/* relaxed: the digest, not the order, tells whether the three belong together. */
	row->saved = atomic_load_explicit(&e->saved, memory_order_relaxed);
	row->cfa = atomic_load_explicit(&e->cfa, memory_order_relaxed);
	key = atomic_load_explicit(&e->check, memory_order_relaxed) ^ ppa_row_digest(row->saved, row->cfa);
	if (ppa_likely(key == ppa_row_key(pc, epochs->stays)))
		return PPA_ROW_STAYS;
	if (epochs->rest && key == ppa_row_key(pc, epochs->rest))
		return PPA_ROW_MAY_GO;
	return epochs->loader && key == ppa_row_key(pc, epochs->loader) ? PPA_ROW_MAY_GO : PPA_ROW_NONE;
}

/* Context: signal. */
PPA_CTX_SIGNAL static inline int ppa_row_lookup(uintptr_t pc, const struct ppa_epochs *epochs, struct ppa_row *row)
{
	struct ppa_row_view v = ppa_row_view();

	return ppa_likely(v.entries) ? ppa_row_lookup_in(&v, pc, epochs, row) : PPA_ROW_NONE;
}

/* Context: signal. */
void ppa_row_store(uintptr_t pc, uint64_t epoch, const struct ppa_row *row) PPA_CTX_SIGNAL;

/* The compact form of c's row at pc; false if it has none. Context: signal. */
bool ppa_row_pack(struct ppa_cfi *c, uintptr_t pc, struct ppa_row *out) PPA_CTX_SIGNAL;

/* Map the table; idempotent. Returns 0 or -ENOMEM. Context: server. */
int ppa_row_init(void) PPA_CTX_SERVER;

#endif
