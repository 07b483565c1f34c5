/* SPDX-License-Identifier: Apache-2.0
 *
 * The warm walk. Where every row is remembered, two registers decide where the next frame is: the stack pointer and the
 * frame pointer; the other callee-saved ones are restored for the frame in a thousand whose rule counts from them. So
 * the walk is first tried with these two alone, in registers of the processor: what a step then waits for is the row of
 * its pc and the word at its CFA, nothing else. At the first frame that needs more (a row that is not remembered or
 * counts from another register, memory that cannot be loaded directly, no progress) it gives up, and walk.c begins anew
 * with all of them. That costs the frames gone so far once more, warm ones. */
#include "unwind/walk/rowcache.h"
#include "unwind/walk/trail.h"
#include "unwind/walk/walk.h"

enum {
	WORD = sizeof(uintptr_t),
	/* Where a row's CFA comes from, its register and flags, as it stands above the offset. */
	FROM_MASK = 0x7f,
	FROM_SP = PPA_REG_SP,
	FROM_FP = PPA_REG_FP,
	FROM_NEAR_FP = PPA_REG_FP | (int)(PPA_ROW_DEREF >> PPA_ROW_REG_SHIFT), /* a frame that was realigned */
	FROM_END = (int)(PPA_ROW_END >> PPA_ROW_REG_SHIFT),
};
_Static_assert(FROM_NEAR_FP < FROM_MASK && FROM_END < FROM_MASK, "flags below the mask");
_Static_assert(FROM_MASK >> 8 == 0 && PPA_ROW_DEEPEST_SHIFT - PPA_ROW_REG_SHIFT == 8, "nothing else below the mask");

struct quick {
	const struct ppa_row_view rows;
	const struct ppa_epochs epochs;
	const uintptr_t lo, room; /* a word at lo + [0, room] can be loaded */
	uintptr_t pc, sp, fp;
	bool may_go;
};

/* What a step gives besides PPA_WALK_ON and an end. */
enum { NEEDS_MORE = -2 };

PPA_CTX_SIGNAL static inline __attribute__((always_inline)) bool load(const struct quick *q, uintptr_t addr,
								      uintptr_t *out)
{
	if (ppa_unlikely(addr - q->lo > q->room))
		return false;
	*out = ppa_memory_load(addr);
	return true;
}

/* Where the frame at q ends. */
PPA_CTX_SIGNAL static inline __attribute__((always_inline)) int find_cfa(const struct quick *q,
									 const struct ppa_row *row, uintptr_t *cfa)
{
	unsigned from = row->cfa >> PPA_ROW_REG_SHIFT & FROM_MASK;
	uintptr_t offset = (uintptr_t)(int32_t)row->cfa;

	if (ppa_likely(from == FROM_SP))
		*cfa = q->sp + offset;
	else if (ppa_likely(from == FROM_FP))
		*cfa = q->fp + offset;
	else if (from & FROM_END)
		return PPA_UNWIND_COMPLETE;
	else if (from != FROM_NEAR_FP || !load(q, q->fp + offset, cfa))
		return NEEDS_MORE;
	return PPA_WALK_ON;
}

PPA_CTX_SIGNAL static inline __attribute__((always_inline)) int step(struct quick *q, const struct ppa_memory *m,
								     struct ppa_unwind_trail *trail)
{
	struct ppa_row row;
	uintptr_t cfa, fp_words;
	int end, found = ppa_row_lookup_in(&q->rows, q->pc, &q->epochs, &row);

	if (ppa_unlikely(found != PPA_ROW_STAYS)) {
		if (!found)
			return NEEDS_MORE;
		q->may_go = true;
	}
	end = find_cfa(q, &row, &cfa);
	if (ppa_unlikely(end != PPA_WALK_ON))
		return end;
	if (trail)
		ppa_trail_note(trail, m, &row, q->fp, cfa);
	if (ppa_unlikely(cfa <= q->sp) || !load(q, cfa - WORD, &q->pc))
		return NEEDS_MORE;
	fp_words = row.saved >> PPA_ROW_FIELD_BITS & PPA_ROW_FIELD_MAX;
	if (fp_words) {
		uintptr_t base = row.saved & PPA_ROW_BASE_FP ? q->fp + PPA_ROW_FP_BIAS : cfa;

		if (!load(q, base - fp_words * WORD, &q->fp))
			return NEEDS_MORE;
	}
	q->sp = cfa;
	return ppa_likely(q->pc--) ? PPA_WALK_ON : PPA_UNWIND_COMPLETE;
}

/* Compiled twice, with a trail to leave and without. What the loop looks at is a local of its own: no store makes the
 * compiler read it again. */
PPA_CTX_SIGNAL static inline __attribute__((always_inline)) int go(const struct ppa_walk *w, struct ppa_unwind_buf *buf,
								   struct ppa_unwind_trail *trail)
{
	struct quick q = {.rows = ppa_row_view(),
			  .epochs = w->epochs,
			  .lo = w->mem.lo,
			  .room = w->mem.hi - WORD - w->mem.lo,
			  .pc = w->regs.r[PPA_REG_PC],
			  .sp = w->regs.r[PPA_REG_SP],
			  .fp = w->regs.r[PPA_REG_FP]};
	uintptr_t *out = buf->pcs + buf->npcs, *const last = buf->pcs + PPA_UNWIND_MAX_FRAMES;
	int end = PPA_UNWIND_FULL;

	if (!q.rows.entries || w->mem.hi < w->mem.lo + WORD)
		return NEEDS_MORE;
	for (; out < last; *out++ = q.pc) {
		end = step(&q, &w->mem, trail);
		if (ppa_unlikely(end != PPA_WALK_ON))
			break;
		end = PPA_UNWIND_FULL;
	}
	if (end == NEEDS_MORE)
		return NEEDS_MORE;
	buf->npcs = (uint32_t)(out - buf->pcs);
	buf->may_go = q.may_go;
	return end;
}

bool ppa_quick_walk(const struct ppa_walk *w, struct ppa_unwind_buf *buf, enum ppa_unwind_end *end)
{
	int got = w->trail ? go(w, buf, w->trail) : go(w, buf, NULL);

	if (got != NEEDS_MORE) {
		*end = (enum ppa_unwind_end)got;
		return true;
	}
	if (w->trail)
		w->trail->holds = false;
	return false;
}
