/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads that cannot fault; see memory.h for the two kinds. Every loop is bounded by the width of what it reads. */
#include "unwind/walk/memory.h"

#include <sys/syscall.h>

#include "agent/base/sys.h"
#include "unwind/walk/arch.h"

enum {
	MAX_COPIES = 512,   /* a system call costs 0.3 to 1.5 us: at worst well under a millisecond a walk */
	WINDOW_BELOW = 256, /* saved registers lie below the return address that is asked for first */
	WINDOW_FIRST =
		2048, /* of a sleeper: most stacks are not deeper, and copying cold memory costs more than asking */
	PAGE = 4096,
};

enum { /* DW_EH_PE_*: pointer encodings of the Linux Standard Base, 10.5.1 */
       PE_ABSPTR = 0x00,
       PE_ULEB = 0x01,
       PE_UDATA2 = 0x02,
       PE_UDATA4 = 0x03,
       PE_UDATA8 = 0x04,
       PE_SLEB = 0x09,
       PE_SDATA2 = 0x0a,
       PE_SDATA4 = 0x0b,
       PE_SDATA8 = 0x0c,
       PE_FORMAT = 0x0f,
       PE_PCREL = 0x10,
       PE_DATAREL = 0x30,
       PE_APPLICATION = 0x70,
       PE_INDIRECT = 0x80,
};

void ppa_memory_init(struct ppa_memory *m, struct ppa_unwind_buf *buf)
{
	m->lo = m->hi = m->sp = 0;
	m->buf = buf;
	m->copies_left = MAX_COPIES;
	m->mem_fd = -1;
	m->reader = 0;
	m->lines = NULL;
	m->window_bytes = sizeof(buf->window);
	buf->window_base = 0;
	buf->window_len = 0;
}

void ppa_memory_enter(struct ppa_memory *m, const struct ppa_stack_bounds *bounds, uintptr_t sp, uintptr_t here)
{
	uintptr_t probe;

	m->sp = sp;
	if (!bounds || sp < bounds->lo || sp >= bounds->hi || sp < PPA_RED_ZONE)
		return;
	/* A handler that runs further down the same stack proves the rest mapped. On an alternate stack sp could be a
	 * number that assembly keeps in the register; the part of a main thread's bounds below its stack is not mapped. */
	if (!(here >= bounds->lo && here < sp) && !ppa_memory_copy(m, &probe, sp & ~(uintptr_t)7, sizeof(probe)))
		return;
	m->lo = sp - PPA_RED_ZONE > bounds->lo ? sp - PPA_RED_ZONE : bounds->lo;
	m->hi = bounds->hi;
}

PPA_CTX_SIGNAL static long read_bytes(const struct ppa_memory *m, void *dst, uintptr_t addr, size_t len)
{
	/* The second choice of ppa_sys_read_memory trusts that nobody unmaps what it just probed: so do not others' stacks. */
	if (ppa_unlikely(m->mem_fd >= 0))
		return ppa_syscall(SYS_pread64, m->mem_fd, (long)dst, (long)len, (long)addr, 0, 0);
	return ppa_sys_read_memory_as(m->reader, dst, addr, len);
}

void ppa_memory_read_sleeper(struct ppa_memory *m, const struct ppa_sleeper *s)
{
	m->mem_fd = s->mem_fd;
	m->reader = s->reader;
	m->lines = s->lines;
	m->window_bytes = WINDOW_FIRST;
}

bool ppa_memory_copy(struct ppa_memory *m, void *dst, uintptr_t addr, size_t len)
{
	if (!m->copies_left)
		return false;
	m->copies_left--;
	return read_bytes(m, dst, addr, len) == (long)len;
}

bool ppa_memory_code(struct ppa_memory *m, void *dst, uintptr_t addr, size_t len)
{
	struct ppa_text_lines *l = m->lines;
	uint8_t *to = dst;

	if (!l)
		return ppa_memory_copy(m, dst, addr, len);
	while (len) {
		size_t at = addr % PPA_TEXT_LINE_BYTES,
		       n = PPA_TEXT_LINE_BYTES - at < len ? PPA_TEXT_LINE_BYTES - at : len;
		uintptr_t line = addr - at;
		size_t place = line / PPA_TEXT_LINE_BYTES % PPA_TEXT_LINES;

		if (l->at[place] != line) {
			l->at[place] = 0;
			if (!ppa_memory_copy(m, l->bytes[place], line, PPA_TEXT_LINE_BYTES))
				return false;
			l->at[place] = line;
		}
		memcpy(to, l->bytes[place] + at, n);
		to += n;
		addr += n;
		len -= n;
	}
	return true;
}

PPA_CTX_SIGNAL static bool in_window(const struct ppa_unwind_buf *b, uintptr_t addr, uintptr_t *out)
{
	if (addr < b->window_base || addr - b->window_base >= b->window_len ||
	    b->window_len - (addr - b->window_base) < sizeof(*out))
		return false;
	memcpy(out, b->window + (addr - b->window_base), sizeof(*out));
	return true;
}

/* Copy a window that begins at base; what the kernel could not read is cut off. */
PPA_CTX_SIGNAL static bool fill_window(struct ppa_memory *m, uintptr_t base)
{
	long n;

	if (!m->copies_left)
		return false;
	m->copies_left--;
	n = read_bytes(m, m->buf->window, base, m->window_bytes);
	m->window_bytes = sizeof(m->buf->window);
	m->buf->window_base = base;
	m->buf->window_len = n > 0 ? (size_t)n : 0;
	return n > 0;
}

bool ppa_memory_read_far(struct ppa_memory *m, uintptr_t addr, uintptr_t *out)
{
	uintptr_t first = addr - WINDOW_BELOW;

	if (in_window(m->buf, addr, out))
		return true;
	/* A register that nobody knows, for one, is no reason to ask the kernel, nor to lose the window. */
	if (addr >> PPA_USER_ADDRESS_BITS)
		return false;
	/* Words far from the stack (an expression that reads a table) must not cost us the window. */
	if (addr < m->sp - WINDOW_BELOW && m->sp > WINDOW_BELOW)
		return ppa_memory_copy(m, out, addr, sizeof(*out));
	if (addr - m->sp < m->window_bytes / 2)
		first = m->sp - PPA_RED_ZONE;
	if (addr >= WINDOW_BELOW && fill_window(m, first & ~(uintptr_t)15) && in_window(m->buf, addr, out))
		return true;
	/* The page below may be a guard page: begin with the word's own. */
	return (addr & ~(uintptr_t)(PAGE - 1)) != (first & ~(uintptr_t)(PAGE - 1)) &&
	       fill_window(m, addr & ~(uintptr_t)(PAGE - 1)) && in_window(m->buf, addr, out);
}

void ppa_view_init(struct ppa_view *v, uintptr_t lo, uintptr_t hi, struct ppa_memory *m, uint8_t *copy)
{
	v->bytes = m ? copy : (const uint8_t *)lo;
	v->lo = lo;
	v->len = m || hi < lo ? 0 : hi - lo;
	v->limit_lo = lo;
	v->limit_hi = hi;
	v->memory = m;
	v->copy = copy;
	v->bad = false;
}

bool ppa_view_fetch(struct ppa_view *v, uintptr_t addr, size_t n)
{
	size_t len;

	if (v->bad || addr < v->limit_lo || addr >= v->limit_hi || v->limit_hi - addr < n || !v->memory)
		goto bad;
	len = v->limit_hi - addr < PPA_VIEW_COPY ? v->limit_hi - addr : PPA_VIEW_COPY;
	/* Tables end at the end of a mapping: a part that covers what was asked for will do. */
	if (!ppa_memory_copy(v->memory, v->copy, addr, len)) {
		len = PAGE - (addr & (PAGE - 1)) < len ? PAGE - (addr & (PAGE - 1)) : len;
		len = len < n ? n : len;
		if (!ppa_memory_copy(v->memory, v->copy, addr, len))
			goto bad;
	}
	v->bytes = v->copy;
	v->lo = addr;
	v->len = len;
	return true;
bad:
	v->bad = true;
	return false;
}

uint64_t ppa_view_long_uleb(struct ppa_view *v, uintptr_t *pos)
{
	uint64_t x = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte = ppa_view_u8(v, pos);

		x |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return x;
	}
	v->bad = true;
	return 0;
}

int64_t ppa_view_sleb(struct ppa_view *v, uintptr_t *pos)
{
	uint64_t x = 0;

	for (unsigned shift = 0; shift < 64;) {
		uint8_t byte = ppa_view_u8(v, pos);

		x |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if ((byte & 0x40) && shift < 64)
			x |= ~(uint64_t)0 << shift;
		return (int64_t)x;
	}
	v->bad = true;
	return 0;
}

PPA_CTX_SIGNAL static uint64_t encoded_value(struct ppa_view *v, uintptr_t *pos, uint8_t format)
{
	switch (format) {
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		return ppa_view_uint(v, pos, 8);
	case PE_UDATA2:
		return ppa_view_uint(v, pos, 2);
	case PE_UDATA4:
		return ppa_view_uint(v, pos, 4);
	case PE_SDATA2:
		return (uint64_t)ppa_view_sint(v, pos, 2);
	case PE_SDATA4:
		return (uint64_t)ppa_view_sint(v, pos, 4);
	case PE_ULEB:
		return ppa_view_uleb(v, pos);
	case PE_SLEB:
		return (uint64_t)ppa_view_sleb(v, pos);
	default:
		v->bad = true;
		return 0;
	}
}

uintptr_t ppa_view_encoded_any(struct ppa_view *v, uintptr_t *pos, uint8_t encoding, uintptr_t data_base)
{
	uintptr_t here = *pos;
	uint64_t x = encoded_value(v, pos, encoding & PE_FORMAT);

	switch (encoding & (PE_APPLICATION | PE_INDIRECT)) {
	case 0:
		return x;
	case PE_PCREL:
		return here + x;
	case PE_DATAREL:
		return data_base + x;
	default: /* textrel, funcrel, aligned, indirect: not used for the pointers we need on Linux */
		v->bad = true;
		return 0;
	}
}
