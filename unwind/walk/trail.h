/* SPDX-License-Identifier: Apache-2.0
 *
 * The trail of a walk: every word of the stack that it depended on. A walk by compact rows reads the return addresses,
 * and where a frame is found by its frame pointer, the place where that was saved; nothing else decides where the next
 * frame is. So if the same call is reached with the same stack pointer and all these words are what they were, the stack
 * is the same one, and need not be walked to know that. All other ways to take a step (guesses, expressions, frames of
 * signals, a second opinion) leave no trail.
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

/* The frame pointer as it is now matters. */
PPA_CTX_SIGNAL static inline void ppa_trail_use_fp(struct ppa_unwind_trail *t, const struct ppa_walk *w)
{
	if (t->fp_at < t->floor)
		t->holds &= w->regs.r[PPA_REG_FP] == t->floor;
	else if (!t->fp_is_noted)
		ppa_trail_add(t, &w->mem, t->fp_at);
	t->fp_is_noted = true;
}

/* Before the row is applied to the current frame. */
PPA_CTX_SIGNAL static inline void ppa_trail_note(struct ppa_unwind_trail *t, const struct ppa_walk *w,
						 const struct ppa_row *row)
{
	unsigned reg = row->cfa >> PPA_ROW_REG_SHIFT & PPA_ROW_REG_MASK;
	uintptr_t fp_words = row->saved >> PPA_ROW_FIELD_BITS & PPA_ROW_FIELD_MAX, base;
	uintptr_t cfa = w->regs.r[reg] + (uintptr_t)(int32_t)row->cfa;
	bool is_fp_base = (row->saved & PPA_ROW_BASE_FP) != 0;

	if (row->cfa & PPA_ROW_END)
		return;
	if (row->cfa & PPA_ROW_DEREF || (reg != PPA_REG_FP && reg != PPA_REG_SP))
		t->holds = false;
	if (cfa > t->floor && (reg == PPA_REG_FP || (fp_words && is_fp_base)))
		ppa_trail_use_fp(t, w);
	ppa_trail_add(t, &w->mem, cfa - sizeof(cfa));
	if (!fp_words)
		return;
	base = is_fp_base ? w->regs.r[PPA_REG_FP] + PPA_ROW_FP_BIAS : cfa;
	t->fp_at = base - fp_words * sizeof(base);
	t->fp_is_noted = false;
}

#endif
