/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning where functions begin: where a direct call inside the segment goes, or a jump to what looks like a beginning;
 * what has its address taken, in code or by a relocation of data; and what a symbol names. Code is not decoded but
 * searched for the bytes of such instructions, so what is found once must also stand where functions do. It is read with
 * process_vm_readv: code that may only be executed costs the guesses their help and nothing else. */
#include <elf.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "unwind/module/elf_headers.h"
#include "unwind/module/modules.h"
#include "unwind/walk/starts.h"
#include "unwind/name/symload.h"
#include "unwind/name/symtab.h"

enum {
	TEXT_MAX = 8 << 20,
	ALIGNMENT = 16,
	CALL_BYTES = 5,
	LEA_BYTES = 7,
	HDR_BYTES = 12,		   /* of .eh_frame_hdr before its index */
	INDEX_BYTES = 8,	   /* an entry */
	MANY_BYTES_EACH = 8 << 10, /* more text than this a description: most functions have none */
};

struct text {
	uintptr_t lo, hi;
	uint64_t *bits;
};

static bool done; /* under the sampler's lock */

static size_t bits_bytes(const struct text *t)
{
	return (t->hi - t->lo + 63) / 64 * sizeof(*t->bits);
}

static void mark(struct text *t, uintptr_t at)
{
	if (at >= t->lo && at < t->hi)
		t->bits[(at - t->lo) / 64] |= UINT64_C(1) << ((at - t->lo) % 64);
}

static bool is_marked(const struct text *t, uintptr_t at)
{
	return t->bits[(at - t->lo) / 64] >> ((at - t->lo) % 64) & 1;
}

/* Length of the instruction at p if it is a call, a jump or a load of an address, with a distance at its end; else 0. */
static int refers(const uint8_t *p)
{
	if (p[0] == 0xe8 || p[0] == 0xe9)
		return CALL_BYTES;
	/* REX.W lea distance(%rip), any register */
	return (p[0] & 0xfb) == 0x48 && p[1] == 0x8d && (p[2] & 0xc7) == 0x05 ? LEA_BYTES : 0;
}

/* Is there what a function begins with, and next to nothing else? Most jumps stay inside their function. */
static bool is_prologue(const uint8_t *p)
{
	return p[0] == 0x53 || p[0] == 0x55 || (p[0] == 0x41 && p[1] >= 0x54 && p[1] <= 0x57) ||
	       (p[0] == 0xf3 && p[1] == 0x0f && p[2] == 0x1e && p[3] == 0xfa) ||
	       (p[0] == 0x48 && (p[1] == 0x81 || p[1] == 0x83) && p[2] == 0xec);
}

/* Compilers align functions; those of assembly come behind a return or padding. */
static bool is_separate(const struct text *t, const uint8_t *code, uintptr_t at)
{
	uint8_t before = at > t->lo ? code[at - t->lo - 1] : 0xc3;

	return at % ALIGNMENT == 0 || before == 0xc3 || before == 0x90 || before == 0xcc || before == 0xf4;
}

/* What is referred to once and from nowhere else may be two bytes that look like an instruction. */
static void consider(struct text *t, struct text *once, const uint8_t *code, uintptr_t at)
{
	if (is_separate(t, code, at) || is_marked(once, at))
		mark(t, at);
	mark(once, at);
}

static void mark_referred(struct text *t)
{
	size_t len = t->hi - t->lo;
	uint8_t *code = ppa_vheap_malloc(len);
	struct text once = {t->lo, t->hi, ppa_vheap_calloc(1, bits_bytes(t))};

	if (!code || !once.bits || ppa_sys_read_memory(code, t->lo, len) != (long)len)
		goto out;
	for (size_t i = 0; i + LEA_BYTES <= len; i++) {
		int n = refers(code + i);
		int32_t distance;
		uintptr_t to;

		if (!n)
			continue;
		memcpy(&distance, code + i + n - 4, sizeof(distance));
		to = t->lo + i + (size_t)n + (uintptr_t)(intptr_t)distance;
		if (to < t->lo || to + LEA_BYTES > t->hi || (code[i] == 0xe9 && !is_prologue(code + (to - t->lo))))
			continue;
		consider(t, &once, code, to);
	}
out:
	ppa_vheap_free(code);
	ppa_vheap_free(once.bits);
}

/* The value of a tag of the dynamic section, 0 if it has none. */
static uint64_t dynamic_value(const struct ppa_elf *elf, int64_t tag)
{
	Elf64_Dyn d;

	for (size_t i = 0; (i + 1) * sizeof(d) <= elf->dynamic_len; i++) {
		if (ppa_sys_read_memory(&d, elf->dynamic + i * sizeof(d), sizeof(d)) != sizeof(d) || d.d_tag == DT_NULL)
			break;
		if (d.d_tag == tag)
			return d.d_un.d_val;
	}
	return 0;
}

/* Pointers in data that the loader moves with the module. */
static void mark_relocated(struct text *t, const struct ppa_module *m)
{
	struct ppa_elf elf;
	uint64_t table, bytes;
	Elf64_Rela r[16];

	if (ppa_elf_headers_read(m->lo, &elf))
		return;
	table = dynamic_value(&elf, DT_RELA);
	bytes = dynamic_value(&elf, DT_RELASZ);
	if (table < m->lo) /* glibc makes it an address, others leave it as it is in the file */
		table += m->bias;
	if (table < m->lo || table >= m->hi || bytes > m->hi - table)
		return;
	for (uint64_t at = 0; at < bytes; at += sizeof(r)) {
		size_t n = bytes - at < sizeof(r) ? bytes - at : sizeof(r);

		if (ppa_sys_read_memory(r, table + at, n) != (long)n)
			return;
		for (size_t i = 0; i < n / sizeof(*r); i++)
			if (ELF64_R_TYPE(r[i].r_info) == R_X86_64_RELATIVE)
				mark(t, m->bias + (uintptr_t)r[i].r_addend);
	}
}

static void mark_listed(struct text *t, const struct ppa_module *m)
{
	struct ppa_symtab table;

	if (ppa_symload(m, &table))
		return;
	for (uint32_t i = 0; i < table.nentries; i++)
		mark(t, m->bias + table.entries[i].value);
	ppa_symtab_free(&table);
}

static bool lacks_tables(const struct ppa_text_segment *s)
{
	const struct ppa_module *m = s->module;
	size_t entries = m->eh_frame_hdr_len > HDR_BYTES ? (m->eh_frame_hdr_len - HDR_BYTES) / INDEX_BYTES : 0;

	return m->at_startup && s->end - s->start <= TEXT_MAX && (s->end - s->start) / (entries + 1) > MANY_BYTES_EACH;
}

static void learn(const struct ppa_text_segment *s)
{
	struct text t = {s->start, s->end, NULL};

	t.bits = ppa_sys_map(bits_bytes(&t));
	if (!t.bits)
		return;
	mark_referred(&t);
	mark_relocated(&t, s->module);
	mark_listed(&t, s->module);
	if (!ppa_starts_add(t.lo, t.hi, t.bits))
		ppa_sys_unmap(t.bits, bits_bytes(&t));
}

void ppa_starts_learn(void)
{
	const struct ppa_module_table *table;

	if (done)
		return;
	done = true;
	table = ppa_modules_hold();
	for (size_t i = 0; i < table->nsegs; i++) {
		const struct ppa_text_segment *s = table->segs + i;

		if (s->module->is_agent)
			ppa_starts_set_agent(s->start, s->end);
		else if (lacks_tables(s))
			learn(s);
	}
	ppa_modules_release(table);
}
