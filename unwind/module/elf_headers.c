/* SPDX-License-Identifier: Apache-2.0
 *
 * Program headers and notes from mapped memory. Every number comes from a file that anybody may have written: counts
 * and lengths are capped, addresses are only ever given to the bounded copy. */
#include "unwind/module/elf_headers.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "agent/base/sys.h"

enum {
	MAX_HEADERS = 256,
	HEADERS_A_READ = 8,
	MAX_NOTE_BYTES = 64 << 10,
	MAX_NOTES = 64,
	PAGE = 4096,
};

static int copy(void *dst, uintptr_t src, size_t len)
{
	return ppa_sys_read_memory(dst, src, len) == (long)len ? 0 : -EFAULT;
}

static uintptr_t align_up(uintptr_t x, uintptr_t a)
{
	return (x + a - 1) & ~(a - 1);
}

/* Find the build id in a PT_NOTE segment. */
static void read_notes(uintptr_t addr, uint64_t len, uint64_t align, struct ppa_elf *out)
{
	uintptr_t end = addr + (len < MAX_NOTE_BYTES ? len : MAX_NOTE_BYTES), step = align == 8 ? 8 : 4;

	for (int i = 0; i < MAX_NOTES && !out->build_id_len && end - addr >= sizeof(Elf64_Nhdr) && addr < end; i++) {
		Elf64_Nhdr n;
		uintptr_t desc;
		char name[4];

		if (copy(&n, addr, sizeof(n)) || n.n_namesz > MAX_NOTE_BYTES || n.n_descsz > MAX_NOTE_BYTES)
			return;
		desc = align_up(addr + sizeof(n) + n.n_namesz, step);
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == sizeof(name) && n.n_descsz &&
		    n.n_descsz <= PPA_BUILD_ID_MAX && desc + n.n_descsz <= end &&
		    !copy(name, addr + sizeof(n), sizeof(name)) && !memcmp(name, "GNU", sizeof(name)) &&
		    !copy(out->build_id, desc, n.n_descsz))
			out->build_id_len = n.n_descsz;
		addr = align_up(desc + n.n_descsz, step);
	}
}

/* The bias comes from the segment that maps the file's first byte. */
static void first_pass(const Elf64_Phdr *p, uintptr_t header, struct ppa_elf *out, bool *have_bias)
{
	if (p->p_type != PT_LOAD || *have_bias || p->p_offset >= PAGE)
		return;
	out->bias = header - (p->p_vaddr - p->p_offset);
	*have_bias = true;
}

static void add_load(const Elf64_Phdr *p, struct ppa_elf *out)
{
	uintptr_t in_page = p->p_vaddr & (PAGE - 1), start = out->bias + p->p_vaddr - in_page;
	uintptr_t end = align_up(out->bias + p->p_vaddr + p->p_memsz, PAGE);

	if (end <= start || p->p_offset < in_page)
		return;
	out->lo = start < out->lo ? start : out->lo;
	out->hi = end > out->hi ? end : out->hi;
	if (out->nsegments == PPA_ELF_MAX_SEGMENTS)
		return;
	out->segment[out->nsegments++] = (struct ppa_elf_segment){
		.start = start,
		.end = end,
		.offset = p->p_offset - in_page,
		.readable = p->p_flags & PF_R,
		.executable = p->p_flags & PF_X,
	};
}

static void second_pass(const Elf64_Phdr *p, struct ppa_elf *out)
{
	switch (p->p_type) {
	case PT_LOAD:
		add_load(p, out);
		break;
	case PT_GNU_EH_FRAME:
		out->eh_frame_hdr = out->bias + p->p_vaddr;
		out->eh_frame_hdr_len = p->p_memsz;
		break;
	case PT_DYNAMIC:
		out->dynamic = out->bias + p->p_vaddr;
		out->dynamic_len = p->p_memsz;
		break;
	case PT_NOTE:
		read_notes(out->bias + p->p_vaddr, p->p_memsz, p->p_align, out);
		break;
	default:
		break;
	}
}

static int each_header(uintptr_t header, const Elf64_Ehdr *e, struct ppa_elf *out, bool *have_bias, bool second)
{
	Elf64_Phdr p[HEADERS_A_READ];

	for (unsigned i = 0; i < e->e_phnum; i += HEADERS_A_READ) {
		unsigned n = e->e_phnum - i < HEADERS_A_READ ? e->e_phnum - i : HEADERS_A_READ;

		if (copy(p, header + e->e_phoff + i * sizeof(*p), n * sizeof(*p)))
			return -EFAULT;
		for (unsigned k = 0; k < n; k++) {
			if (second)
				second_pass(&p[k], out);
			else
				first_pass(&p[k], header, out, have_bias);
		}
	}
	return 0;
}

int ppa_elf_headers_read(uintptr_t header, struct ppa_elf *out)
{
	bool have_bias = false;
	Elf64_Ehdr e;

	memset(out, 0, sizeof(*out));
	out->lo = UINTPTR_MAX;
	if (copy(&e, header, sizeof(e)))
		return -EFAULT;
	if (memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64 ||
	    (e.e_type != ET_EXEC && e.e_type != ET_DYN) || e.e_phentsize != sizeof(Elf64_Phdr) || !e.e_phnum ||
	    e.e_phnum > MAX_HEADERS)
		return -ENOEXEC;
	if (each_header(header, &e, out, &have_bias, false))
		return -EFAULT;
	if (!have_bias)
		return -ENOEXEC;
	if (each_header(header, &e, out, &have_bias, true))
		return -EFAULT;
	if (!out->nsegments)
		return -ENOEXEC;
	if (out->eh_frame_hdr < out->lo || out->eh_frame_hdr >= out->hi)
		out->eh_frame_hdr = out->eh_frame_hdr_len = 0;
	else if (out->eh_frame_hdr_len > out->hi - out->eh_frame_hdr)
		out->eh_frame_hdr_len = out->hi - out->eh_frame_hdr;
	return 0;
}
