/* SPDX-License-Identifier: Apache-2.0
 *
 * The second opinion: one step by libunwind. Frames that need it are rare enough to be counted in every profile.
 *
 * It is asked only about descriptions that our interpreter has read to the end and found in order, and only lacks the
 * room for, in modules that stay mapped. Fuzzing showed why: a corrupt one makes libunwind 1.6.2 index its register
 * table by whatever number is written there, and an expression with a backward jump makes it loop for ever. Both would
 * be the target's end.
 *
 * Only libunwind's generic ("remote") interface is linked, with accessors of our own: registers are the walk's, memory
 * comes through the walk's bounded reads, the procedure's description through the module table. So it touches no
 * loader, no descriptor and no signal mask, and validates no address by writing somewhere. Its pools are created at
 * init; its locks and masks are renamed to nothing when the archive is built, because one flag lets one walk in at a
 * time: busy means no second opinion, not a wait. A fork while another thread holds the flag leaves the child without
 * second opinions, which is right, as the pools may be half changed.
 *
 * Cursor and work memory are static under the flag; the 6.5 KiB of stack it takes are used only where they are known
 * to be there. */
#define UNW_REMOTE
#include <libunwind-x86_64.h>

#include <errno.h>
#include <stdatomic.h>

#include "agent/base/stats.h"
#include "unwind/walk/walk.h"

enum {
	STACK_NEEDED = 16 << 10,
	HDR_VERSION = 1,
	PE_UDATA4 = 0x03,
	PE_TABLE = 0x3b, /* datarel | sdata4 */
	INDEX_ENTRY = 8,
};

/* Exported by the archive for its unwinders of core files and the like, without a header. */
extern int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t, unw_word_t, unw_dyn_info_t *, unw_proc_info_t *, int,
					      void *);

/* What the accessors get. */
struct question {
	struct ppa_walk *walk;
	const struct ppa_code *code;
};

static struct {
	atomic_flag busy; /* who set it owns cursor and libunwind's pools */
	unw_cursor_t cursor;
	_Atomic(unw_addr_space_t) space; /* set once */
} second = {.busy = ATOMIC_FLAG_INIT};

PPA_CTX_SIGNAL static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi, int need, void *arg)
{
	const struct question *q = arg;
	struct ppa_view *v = &q->walk->scratch->cfi.view;
	uintptr_t hdr = q->code->eh_frame_hdr, pos = hdr;
	unw_dyn_info_t di = {.format = UNW_INFO_FORMAT_REMOTE_TABLE};
	uint8_t version, frame_encoding, count_encoding, table_encoding;
	uint64_t count;

	v->bad = false;
	version = ppa_view_u8(v, &pos);
	frame_encoding = ppa_view_u8(v, &pos);
	count_encoding = ppa_view_u8(v, &pos);
	table_encoding = ppa_view_u8(v, &pos);
	if (version != HDR_VERSION || count_encoding != PE_UDATA4 || table_encoding != PE_TABLE || ip < q->code->lo ||
	    ip >= q->code->hi)
		return -UNW_EINVAL;
	ppa_view_encoded(v, &pos, frame_encoding, hdr);
	count = ppa_view_uint(v, &pos, 4);
	if (v->bad || count > (v->limit_hi - pos) / INDEX_ENTRY)
		return -UNW_EINVAL;
	di.start_ip = q->code->lo;
	di.end_ip = q->code->hi;
	di.u.rti.segbase = hdr;
	di.u.rti.table_data = pos;
	di.u.rti.table_len = count * INDEX_ENTRY / sizeof(unw_word_t);
	return UNW_OBJ(dwarf_search_unwind_table)(as, ip, &di, pi, need, arg) < 0 ? -UNW_EINVAL : 0;
}

PPA_CTX_SIGNAL static void put_unwind_info(unw_addr_space_t as, unw_proc_info_t *pi, void *arg)
{
	(void)as;
	(void)pi;
	(void)arg;
}

PPA_CTX_SIGNAL static int no_dyn_info(unw_addr_space_t as, unw_word_t *list, void *arg)
{
	(void)as;
	(void)list;
	(void)arg;
	return -UNW_ENOINFO;
}

PPA_CTX_SIGNAL static int access_mem(unw_addr_space_t as, unw_word_t addr, unw_word_t *value, int write, void *arg)
{
	const struct question *q = arg;
	struct ppa_view *v = &q->walk->scratch->cfi.view;

	(void)as;
	if (write)
		return -UNW_EINVAL;
	v->bad = false;
	if (addr >= v->limit_lo && addr < v->limit_hi && ppa_view_has(v, addr, sizeof(*value))) {
		memcpy(value, v->bytes + (addr - v->lo), sizeof(*value));
		return 0;
	}
	return ppa_memory_read(&q->walk->mem, addr, value) ? 0 : -UNW_EINVAL;
}

PPA_CTX_SIGNAL static int access_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *value, int write, void *arg)
{
	const struct question *q = arg;

	(void)as;
	if (write || reg < 0 || reg >= PPA_NREGS)
		return -UNW_EBADREG;
	*value = q->walk->regs.r[reg];
	return 0;
}

PPA_CTX_SIGNAL static int access_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *value, int write, void *arg)
{
	(void)as;
	(void)reg;
	(void)value;
	(void)write;
	(void)arg;
	return -UNW_EBADREG;
}

PPA_CTX_SIGNAL static int resume(unw_addr_space_t as, unw_cursor_t *cursor, void *arg)
{
	(void)as;
	(void)cursor;
	(void)arg;
	return -UNW_EINVAL;
}

/* Under the flag, with the walk's pc set to the lookup address: its remote interface does not subtract 1 itself. */
PPA_CTX_SIGNAL static bool ask(struct ppa_walk *w, unw_addr_space_t space, struct question *q)
{
	struct ppa_regs *next = &w->scratch->next;
	unw_word_t value;

	if (unw_init_remote(&second.cursor, space, q) < 0 || unw_step(&second.cursor) < 0)
		return false;
	for (int i = 0; i < PPA_NREGS; i++) {
		next->r[i] = w->regs.r[i]; /* a register without a value keeps the old one, as with our own rules */
		if (unw_get_reg(&second.cursor, i, &value) >= 0)
			next->r[i] = value;
		else if (i == PPA_REG_PC || i == PPA_REG_SP)
			return false;
	}
	return true;
}

int ppa_second_opinion_step(struct ppa_walk *w, const struct ppa_code *code, uintptr_t pc)
{
	unw_addr_space_t space = atomic_load_explicit(&second.space, memory_order_acquire);
	struct ppa_cfi *c = &w->scratch->cfi;
	uintptr_t old_pc = w->regs.r[PPA_REG_PC], old_sp = w->regs.r[PPA_REG_SP], sp;
	struct question q = {w, code};
	bool known;

	if (!space || w->stack_room < STACK_NEEDED || !code->stays || !code->eh_frame_hdr ||
	    atomic_flag_test_and_set_explicit(&second.busy, memory_order_acquire))
		return PPA_UNWIND_NO_RULE;
	ppa_view_init(&c->view, code->cfi_lo, code->cfi_hi, NULL, NULL);
	w->regs.r[PPA_REG_PC] = pc;
	known = ask(w, space, &q);
	w->regs.r[PPA_REG_PC] = old_pc;
	atomic_flag_clear_explicit(&second.busy, memory_order_release);
	if (!known)
		return PPA_UNWIND_NO_RULE;
	ppa_stat_add(PPA_STAT_SECOND_OPINION, 1);
	pc = w->scratch->next.r[PPA_REG_PC];
	sp = w->scratch->next.r[PPA_REG_SP];
	w->scratch->next.r[PPA_REG_PC] = old_pc;
	w->scratch->next.r[PPA_REG_SP] = old_sp;
	w->regs = w->scratch->next;
	return ppa_walk_arrive(w, pc, sp, c->signal_frame);
}

int ppa_second_opinion_init(void)
{
	static unw_accessors_t accessors = {
		.find_proc_info = find_proc_info,
		.put_unwind_info = put_unwind_info,
		.get_dyn_info_list_addr = no_dyn_info,
		.access_mem = access_mem,
		.access_reg = access_reg,
		.access_fpreg = access_fpreg,
		.resume = resume,
	};
	static struct ppa_walk nobody; /* zero registers: enough for init_remote, which builds the pools */
	struct question q = {&nobody, NULL};
	unw_addr_space_t space;

	if (atomic_load_explicit(&second.space, memory_order_relaxed))
		return 0;
	if (atomic_flag_test_and_set_explicit(&second.busy, memory_order_acquire))
		return 0; /* another thread is at it */
	space = unw_create_addr_space(&accessors, 0);
	if (space) {
		/* No cache: it would be a lock, and would outlive the modules it describes. */
		unw_set_caching_policy(space, UNW_CACHE_NONE);
		unw_init_remote(&second.cursor, space, &q);
		/* release: pairs with the acquire in ppa_second_opinion_step */
		atomic_store_explicit(&second.space, space, memory_order_release);
	}
	atomic_flag_clear_explicit(&second.busy, memory_order_release);
	return space ? 0 : -ENOMEM;
}
