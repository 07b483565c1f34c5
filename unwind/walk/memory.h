/* SPDX-License-Identifier: Apache-2.0
 *
 * How the walker reads: two kinds of memory, neither of which may fault.
 *
 * The stack (struct ppa_memory). Inside the thread's proven bounds a word is loaded directly. Elsewhere (a fiber, an
 * alternate stack, a garbage pointer) a window is copied by the kernel into the caller's buffer and words come from
 * there. Each walk has a budget of copies; when it is spent, reads fail.
 *
 * Code tables (struct ppa_view): bytes of .eh_frame and its index. Modules that can never be unloaded are read in
 * place, inside the extent that was mapped when the table was built; others through copies of CFI_COPY bytes, because
 * nothing proves that they are still mapped. Errors are sticky: a failed read gives 0 and sets bad; parsers check at the
 * end of a record. */
#ifndef PPA_UNWIND_WALK_MEMORY_H
#define PPA_UNWIND_WALK_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "agent/base/attr.h"
#include "unwind/walk/unwind.h"

struct ppa_memory {
	uintptr_t lo, hi; /* load directly in [lo, hi); hi == 0: nowhere */
	uintptr_t sp;	  /* of the current frame: a hint where the window should begin */
	struct ppa_unwind_buf *buf;
	int mem_fd;		      /* /proc/self/mem for reads of another thread's stack; -1: process_vm_readv */
	pid_t reader;		      /* of ppa_sys_read_memory_as */
	uint32_t window_bytes;	      /* to be copied next */
	struct ppa_text_lines *lines; /* code that was read before, or NULL */
	uint32_t copies_left;	      /* system calls this walk may still make, for both kinds */
};

/* Prepare for a walk; nothing is readable directly yet. Context: signal. */
void ppa_memory_init(struct ppa_memory *m, struct ppa_unwind_buf *buf) PPA_CTX_SIGNAL;

/* Its stack is s's, from now on. Context: signal. */
void ppa_memory_read_sleeper(struct ppa_memory *m, const struct ppa_sleeper *s) PPA_CTX_SIGNAL;

/* Allow direct loads in [sp - red zone, bounds->hi) if sp lies in the bounds. here: an address known to be on the
 * current stack (our own frame), or 0; when it is not below sp in the same bounds, one copy proves that sp is mapped.
 * Context: signal. */
void ppa_memory_enter(struct ppa_memory *m, const struct ppa_stack_bounds *bounds, uintptr_t sp,
		      uintptr_t here) PPA_CTX_SIGNAL;

/* The word at addr by the window or a copy of its own. Context: signal. */
bool ppa_memory_read_far(struct ppa_memory *m, uintptr_t addr, uintptr_t *out) PPA_CTX_SIGNAL;

/* Copy exactly len bytes from anywhere. Context: signal. */
bool ppa_memory_copy(struct ppa_memory *m, void *dst, uintptr_t addr, size_t len) PPA_CTX_SIGNAL;

/* Copy exactly len bytes of code, which nobody expects to change between two walks that share their lines.
 * Context: signal. */
bool ppa_memory_code(struct ppa_memory *m, void *dst, uintptr_t addr, size_t len) PPA_CTX_SIGNAL;

struct ppa_memory_word {
	uintptr_t x;
} __attribute__((packed, may_alias));

/* A word of somebody's stack, which need not be aligned. Sanitizers must not look: to them it is out of bounds. */
PPA_CTX_SIGNAL static inline __attribute__((no_sanitize("address", "thread"))) uintptr_t ppa_memory_load(uintptr_t addr)
{
	const struct ppa_memory_word *w = (const struct ppa_memory_word *)addr;

	return w->x; /* NOLINT(clang-analyzer-core.NullDereference): callers checked */
}

/* The word at addr, which need not be aligned; false if it cannot be read. Context: signal. */
PPA_CTX_SIGNAL static inline bool ppa_memory_read(struct ppa_memory *m, uintptr_t addr, uintptr_t *out)
{
	if (ppa_likely(addr >= m->lo && addr < m->hi && m->hi - addr >= sizeof(*out))) {
		*out = ppa_memory_load(addr);
		return true;
	}
	return ppa_memory_read_far(m, addr, out);
}

enum { PPA_VIEW_COPY = 512 };

struct ppa_view {
	const uint8_t *bytes; /* what is at hand: address lo + i is bytes[i], i < len */
	uintptr_t lo;
	size_t len;
	uintptr_t limit_lo, limit_hi; /* nothing outside may be asked for */
	struct ppa_memory *memory;    /* NULL: all of it is at hand */
	uint8_t *copy;		      /* PPA_VIEW_COPY bytes, or NULL */
	bool bad;
};

/* See [lo, hi), in place or, given a memory and a buffer, by copies. Context: signal. */
void ppa_view_init(struct ppa_view *v, uintptr_t lo, uintptr_t hi, struct ppa_memory *m, uint8_t *copy) PPA_CTX_SIGNAL;

/* Bring n bytes from addr to hand; false (and bad) if they cannot be had. Context: signal. */
bool ppa_view_fetch(struct ppa_view *v, uintptr_t addr, size_t n) PPA_CTX_SIGNAL;

PPA_CTX_SIGNAL static inline bool ppa_view_at_hand(const struct ppa_view *v, uintptr_t addr, size_t n)
{
	return addr - v->lo < v->len && v->len - (addr - v->lo) >= n;
}

PPA_CTX_SIGNAL static inline bool ppa_view_has(struct ppa_view *v, uintptr_t addr, size_t n)
{
	return ppa_likely(ppa_view_at_hand(v, addr, n)) || ppa_view_fetch(v, addr, n);
}

/* Little-endian numbers at *pos, which moves on. bytes is a constant, 1 to 8, in every call. Context: signal. */
PPA_CTX_SIGNAL static inline __attribute__((always_inline)) uint64_t ppa_view_uint(struct ppa_view *v, uintptr_t *pos,
										   unsigned bytes)
{
	uint64_t x = 0;

	if (ppa_view_has(v, *pos, bytes))
		memcpy(&x, v->bytes + (*pos - v->lo), bytes);
	*pos += bytes;
	return x;
}

PPA_CTX_SIGNAL static inline __attribute__((always_inline)) int64_t ppa_view_sint(struct ppa_view *v, uintptr_t *pos,
										  unsigned bytes)
{
	unsigned spare = 64 - 8 * bytes;

	return (int64_t)(ppa_view_uint(v, pos, bytes) << spare) >> spare;
}

PPA_CTX_SIGNAL static inline uint8_t ppa_view_u8(struct ppa_view *v, uintptr_t *pos)
{
	return (uint8_t)ppa_view_uint(v, pos, 1);
}

/* LEB128 of more than one byte. Context: signal. */
uint64_t ppa_view_long_uleb(struct ppa_view *v, uintptr_t *pos) PPA_CTX_SIGNAL;

PPA_CTX_SIGNAL static inline uint64_t ppa_view_uleb(struct ppa_view *v, uintptr_t *pos)
{
	if (ppa_likely(ppa_view_at_hand(v, *pos, 1))) {
		uint8_t byte = v->bytes[*pos - v->lo];

		if (ppa_likely(byte < 0x80)) {
			*pos += 1;
			return byte;
		}
	}
	return ppa_view_long_uleb(v, pos);
}

int64_t ppa_view_sleb(struct ppa_view *v, uintptr_t *pos) PPA_CTX_SIGNAL;

/* Any encoding but the common one. Context: signal. */
uintptr_t ppa_view_encoded_any(struct ppa_view *v, uintptr_t *pos, uint8_t encoding,
			       uintptr_t data_base) PPA_CTX_SIGNAL;

enum { PPA_PE_PCREL_SDATA4 = 0x1b }; /* what compilers write nearly everywhere */

/* A pointer in one of the DW_EH_PE encodings (no indirect ones); data_base is what datarel counts from.
 * Context: signal. */
PPA_CTX_SIGNAL static inline uintptr_t ppa_view_encoded(struct ppa_view *v, uintptr_t *pos, uint8_t encoding,
							uintptr_t data_base)
{
	if (ppa_likely(encoding == PPA_PE_PCREL_SDATA4)) {
		uintptr_t here = *pos;

		return here + (uintptr_t)ppa_view_sint(v, pos, 4);
	}
	return ppa_view_encoded_any(v, pos, encoding, data_base);
}

#endif
