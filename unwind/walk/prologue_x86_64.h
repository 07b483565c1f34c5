/* SPDX-License-Identifier: Apache-2.0
 *
 * How deep a function's frame is and where it keeps its caller's frame pointer, read from its first instructions or from
 * those that take the frame down: for code without unwind information, where a word on the stack is more surely the return
 * address if the function that was called has just such a frame. Pure: bytes in, answer out.
 *
 * Instructions are read one behind the other, without following jumps; of each only the length and what it does to the
 * stack pointer matter. The deepest level before the first call, jump or return is the frame. Whatever the table of
 * lengths does not know (x87, AVX, string and system instructions) ends the reading: compilers do not put it before the
 * pushes. Sources: Intel's manual, volume 2, tables. */
#ifndef PPA_UNWIND_WALK_PROLOGUE_X86_64_H
#define PPA_UNWIND_WALK_PROLOGUE_X86_64_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "agent/base/attr.h"

enum { PPA_PROLOGUE_BYTES = 128, PPA_INSN_MAX = 15, PPA_STUB_MAX = 7 };

/* A frame as instructions tell it. */
struct ppa_frame {
	int32_t bytes;	  /* between the stack pointer and the return address; -1: unknown */
	int32_t fp_below; /* the caller's frame pointer lies so far below the return address; 0: in its register */
	int32_t jump;	  /* ppa_arch_frame_left: true only if a function begins so far from the pc; 0: true */
};

struct ppa_insn {
	const uint8_t *op; /* opcode, behind prefixes; for two-byte ones the second */
	bool is_0f, rex_w, rex_b, short_imm;
	int len; /* bytes in all; 0: unknown */
};

/* Bytes of a ModRM operand, displacement included. */
PPA_CTX_SIGNAL static inline int ppa_insn_modrm(const uint8_t *p)
{
	int mod = p[0] >> 6, rm = p[0] & 7, n = 1;

	if (mod == 3)
		return 1;
	if (rm == 4) {
		n = 2;
		if (mod == 0 && (p[1] & 7) == 5)
			return 6;
	} else if (mod == 0 && rm == 5) {
		return 5;
	}
	return n + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

/* What follows a two-byte opcode; -1 unknown. */
PPA_CTX_SIGNAL static inline int ppa_insn_tail_0f(const uint8_t *op)
{
	uint8_t o = *op;

	if (o >= 0x80 && o <= 0x8f)
		return 4;
	if (o == 0x05 || o == 0xa2)
		return 0;
	if (o == 0xba || o == 0x70 || o == 0xc6 || o == 0xa4 || o == 0xac)
		return ppa_insn_modrm(op + 1) + 1;
	if ((o >= 0x10 && o <= 0x1f) || (o >= 0x28 && o <= 0x2f) || (o >= 0x40 && o <= 0x6f) ||
	    (o >= 0x74 && o <= 0x76) || (o >= 0x7e && o <= 0x7f) || (o >= 0x90 && o <= 0x9f) ||
	    (o >= 0xa3 && o <= 0xc1) || (o >= 0xd0 && o <= 0xfe))
		return ppa_insn_modrm(op + 1);
	return -1;
}

/* What follows a one-byte opcode; -1 unknown. imm: bytes of a full immediate. */
PPA_CTX_SIGNAL static inline int ppa_insn_tail(const uint8_t *op, int imm, bool rex_w)
{
	uint8_t o = *op;

	if (o < 0x40) {
		if ((o & 7) < 4)
			return ppa_insn_modrm(op + 1);
		return (o & 7) == 4 ? 1 : (o & 7) == 5 ? imm : -1;
	}
	if ((o >= 0x50 && o <= 0x5f) || (o >= 0x90 && o <= 0x99) || o == 0xc3 || o == 0xc9 || o == 0xcc || o == 0xf4)
		return 0;
	if (o == 0x63 || (o >= 0x84 && o <= 0x8b) || o == 0x8d || o == 0x8f || (o >= 0xd0 && o <= 0xd3) || o >= 0xfe)
		return ppa_insn_modrm(op + 1);
	if (o == 0x6b || o == 0x80 || o == 0x83 || o == 0xc0 || o == 0xc1 || o == 0xc6)
		return ppa_insn_modrm(op + 1) + 1;
	if (o == 0x69 || o == 0x81 || o == 0xc7)
		return ppa_insn_modrm(op + 1) + imm;
	if (o == 0xf6 || o == 0xf7)
		return ppa_insn_modrm(op + 1) + ((op[1] >> 3 & 7) > 1 ? 0 : o == 0xf6 ? 1 : imm);
	if (o == 0x6a || (o >= 0x70 && o <= 0x7f) || o == 0xa8 || (o >= 0xb0 && o <= 0xb7) || o == 0xeb)
		return 1;
	if (o >= 0xb8 && o <= 0xbf)
		return rex_w ? 8 : imm;
	if (o == 0x68 || o == 0xa9)
		return imm;
	return o == 0xe8 || o == 0xe9 ? 4 : o == 0xc2 ? 2 : -1;
}

/* p: at least PPA_INSN_MAX bytes. */
PPA_CTX_SIGNAL static inline struct ppa_insn ppa_insn_read(const uint8_t *p)
{
	struct ppa_insn i = {.op = p};
	int tail;

	while (i.op - p < 4 && (*i.op == 0x66 || *i.op == 0xf2 || *i.op == 0xf3 || *i.op == 0x2e || *i.op == 0x64))
		i.short_imm |= *i.op++ == 0x66;
	if ((*i.op & 0xf0) == 0x40) {
		i.rex_w = *i.op & 8;
		i.rex_b = *i.op & 1;
		i.op++;
	}
	i.is_0f = *i.op == 0x0f;
	i.op += i.is_0f;
	tail = i.is_0f ? ppa_insn_tail_0f(i.op) : ppa_insn_tail(i.op, i.short_imm ? 2 : 4, i.rex_w);
	i.len = tail < 0 ? 0 : (int)(i.op - p) + 1 + tail;
	return i;
}

/* Is it `push %rbp` (0x55) or `pop %rbp` (0x5d), as opcode says? */
PPA_CTX_SIGNAL static inline bool ppa_insn_is_fp(const struct ppa_insn *i, uint8_t opcode)
{
	return !i->is_0f && !i->rex_b && *i->op == opcode;
}

/* By how much the instruction lowers the stack pointer. */
PPA_CTX_SIGNAL static inline int32_t ppa_insn_pushes(const struct ppa_insn *i)
{
	const uint8_t *op = i->op;
	int32_t imm;

	if (i->is_0f)
		return 0;
	if ((op[0] >= 0x50 && op[0] <= 0x57) || op[0] == 0x6a || op[0] == 0x68 ||
	    (op[0] == 0xff && (op[1] >> 3 & 7) == 6))
		return 8;
	if (op[0] >= 0x58 && op[0] <= 0x5f)
		return -8;
	if (!i->rex_w || i->rex_b || (op[0] != 0x81 && op[0] != 0x83) || (op[1] != 0xec && op[1] != 0xc4))
		return 0;
	memcpy(&imm, op + 2, sizeof(imm));
	if (op[0] == 0x83)
		imm = (int8_t)op[2];
	return op[1] == 0xec ? imm : -imm;
}

/* The frame once the first instructions of the function have run, or those of them that lie before pc (its distance from
 * the function's start): registers pushed and then one subtraction, which ends what compilers call the prologue. code:
 * PPA_PROLOGUE_BYTES from the function's start. Context: signal. */
PPA_CTX_SIGNAL static inline struct ppa_frame ppa_arch_frame_entered(const uint8_t code[PPA_PROLOGUE_BYTES],
								     uintptr_t pc)
{
	struct ppa_frame f = {0, 0, 0};
	int32_t depth = 0;
	uintptr_t at = 0;

	while (at < pc && at + PPA_INSN_MAX <= PPA_PROLOGUE_BYTES) {
		struct ppa_insn i = ppa_insn_read(code + at);
		int32_t pushes = ppa_insn_pushes(&i);
		uint8_t o = *i.op;

		if (!i.len ||
		    (!i.is_0f && (o == 0xe8 || o == 0xe9 || o == 0xeb || o == 0xc3 || o == 0xc2 || o == 0xf4)))
			break;
		at += (uintptr_t)i.len;
		if (pushes > 8)
			return (struct ppa_frame){depth + pushes, f.fp_below, 0};
		if (pushes == 8 && (o < 0x50 || o > 0x57) && o != 0x83)
			break; /* an argument */
		depth += pushes;
		if (depth < 0 || depth > 1 << 20)
			return (struct ppa_frame){-1, 0, 0};
		if (ppa_insn_is_fp(&i, 0x55) && !f.fp_below)
			f.fp_below = depth;
		if (depth > f.bytes)
			f.bytes = depth;
		if (o == 0x83 && pushes == 8)
			break;
	}
	if (at >= pc)
		return (struct ppa_frame){depth, f.fp_below <= depth ? f.fp_below : 0, 0};
	return f;
}

/* The frame as the instructions ahead take it down before they return or jump to another function; bytes are -1 if they
 * do neither soon. Depth does not depend on how a place was reached, so conditional jumps are passed by. A jump through a
 * register as the very first instruction is taken for a tail call (elsewhere it is a switch as often). code:
 * PPA_PROLOGUE_BYTES from the pc. Context: signal. */
PPA_CTX_SIGNAL static inline struct ppa_frame ppa_arch_frame_left(const uint8_t code[PPA_PROLOGUE_BYTES])
{
	struct ppa_frame f = {0, 0, 0}, unknown = {-1, 0, 0};
	int32_t fp_at = -1;

	for (int at = 0; at + PPA_INSN_MAX <= PPA_PROLOGUE_BYTES;) {
		struct ppa_insn i = ppa_insn_read(code + at);
		uint8_t o = i.is_0f ? 0 : *i.op;

		if (o == 0xff && (i.op[1] >> 3 & 7) == 4)
			return at ? unknown : f;
		if (!i.len || o == 0xeb || o == 0xc9 || o == 0xf4)
			return unknown;
		at += i.len;
		if (o == 0xe9) {
			memcpy(&f.jump, i.op + 1, sizeof(f.jump));
			f.jump = (int32_t)((uint32_t)f.jump + (uint32_t)at);
		}
		if (o == 0xe9 || o == 0xc3 || o == 0xc2) {
			f.fp_below = fp_at < 0 || fp_at > f.bytes ? 0 : f.bytes - fp_at;
			return f;
		}
		if (ppa_insn_is_fp(&i, 0x5d))
			fp_at = f.bytes;
		f.bytes -= ppa_insn_pushes(&i);
		if (f.bytes < 0)
			return unknown;
	}
	return unknown;
}

/* Is there a PLT entry's jump through memory, `jmp *distance(%rip)`, with or without endbr64 or bnd before it?
 * Context: signal. */
PPA_CTX_SIGNAL static inline bool ppa_arch_is_stub(const uint8_t code[PPA_STUB_MAX])
{
	const uint8_t *p = code;

	if (p[0] == 0xf3 && p[1] == 0x0f && p[2] == 0x1e && p[3] == 0xfa)
		p += 4;
	if (p[0] == 0xf2)
		p++;
	return p[0] == 0xff && p[1] == 0x25;
}

#endif
