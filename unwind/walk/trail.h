/* SPDX-License-Identifier: Apache-2.0
 *
 * The trail of a walk: every word of the stack that it depended on. A walk by compact rows reads the return addresses,
 * and where a frame is found by its frame pointer, the place where that was saved; nothing else decides where the next
 * frame is. So if the same call is reached with the same stack pointer and all these words are what they were, the stack
 * is the same one, and need not be walked to know that. Only the warm walk leaves a trail: where a step is taken in any
 * other way (a search, a guess, an expression, a frame of a signal, a second opinion), more than these words may have
 * decided.
 *
 * Words below the floor, the frame of the function that asks, are those of the agent's own calls on the way to the walk:
 * always the same ones. A frame pointer that comes from there must be that function's own. */
#ifndef PPA_UNWIND_WALK_TRAIL_H
#define PPA_UNWIND_WALK_TRAIL_H

#include "unwind/walk/rowcache.h"
#include "unwind/walk/walk.h"

PPA_CTX_SIGNAL static inline void ppa_trail_add(struct ppa_unwind_trail *t, const struct ppa_memory *m, uintptr_t addr)
{
	if (addr < t->floor) /* a frame of the agent's */
		return;
	if (t->n == PPA_TRAIL_MAX || addr < m->lo || addr >= m->hi || m->hi - addr < sizeof(addr) ||
	    addr - t->floor > UINT32_MAX) {
		t->holds = false;
		return;
	}
	t->at[t->n] = (uint32_t)(addr - t->floor);
	t->word[t->n++] = ppa_memory_load(addr);
}

/* The frame pointer as it is now, fp, matters. */
PPA_CTX_SIGNAL static inline void ppa_trail_use_fp(struct ppa_unwind_trail *t, const struct ppa_memory *m, uintptr_t fp)
{
	if (t->fp_at < t->floor)
		t->holds &= fp == t->floor;
	else if (!t->fp_is_noted)
		ppa_trail_add(t, m, t->fp_at);
	t->fp_is_noted = true;
}

/* The step that row tells, from a frame with this frame pointer to this CFA. */
PPA_CTX_SIGNAL static inline void ppa_trail_note(struct ppa_unwind_trail *t, const struct ppa_memory *m,
						 const struct ppa_row *row, uintptr_t fp, uintptr_t cfa)
{
	unsigned reg = row->cfa >> PPA_ROW_REG_SHIFT & PPA_ROW_REG_MASK;
	uintptr_t fp_words = row->saved >> PPA_ROW_FIELD_BITS & PPA_ROW_FIELD_MAX, base;
	bool is_fp_base = (row->saved & PPA_ROW_BASE_FP) != 0;

	if (row->cfa & PPA_ROW_DEREF) /* the word that the CFA is */
		t->holds = false;
	if (cfa > t->floor && (reg == PPA_REG_FP || (fp_words && is_fp_base)))
		ppa_trail_use_fp(t, m, fp);
	ppa_trail_add(t, m, cfa - sizeof(cfa));
	if (!fp_words)
		return;
	base = is_fp_base ? fp + PPA_ROW_FP_BIAS : cfa;
	t->fp_at = base - fp_words * sizeof(base);
	t->fp_is_noted = false;
}

#endif
