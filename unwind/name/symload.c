/* SPDX-License-Identifier: Apache-2.0
 *
 * Collecting a module's symbols. What cannot be had from files (module_file.h) is read from memory: exported names only, but
 * true ones.
 *
 * .symtab names everything there is; .dynsym is added for what linkers left out of it. Without .symtab, the debug file or else
 * .gnu_debugdata stands in. A .symtab too large for the cap is passed over. Linkage stubs, which nobody lists, get their
 * names from the relocations. */
#include "unwind/name/symload.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "unwind/name/debugdata.h"
#include "unwind/name/dynsyms.h"
#include "unwind/name/elf_file.h"
#include "unwind/name/module_file.h"
#include "unwind/name/plt.h"
#include "unwind/name/symtab.h"

static int add_all(struct ppa_symtab_builder *b, const struct ppa_elf_file *f, uint32_t type)
{
	const Elf64_Shdr *section = ppa_elf_section_typed(f, type);

	return section ? ppa_symtab_add_section(b, f, section) : 0;
}

static int add_debug_file(struct ppa_symtab_builder *b, const struct ppa_module *m, const struct ppa_module_file *file)
{
	struct ppa_module_file o;
	int err = ppa_module_file_debug(m, file, &o);

	if (err)
		return err;
	err = -ENOENT;
	if (ppa_elf_section_typed(&o.elf, SHT_SYMTAB))
		err = add_all(b, &o.elf, SHT_SYMTAB);
	ppa_module_file_close(&o);
	return err;
}

static int add_debugdata(struct ppa_symtab_builder *b, const struct ppa_elf_file *f)
{
	struct ppa_elf_source source;
	struct ppa_elf_file inner;
	struct ppa_debugdata data;
	int err;

	err = ppa_debugdata_read(f, &data);
	if (err)
		return err;
	ppa_elf_source_bytes(&source, data.bytes, data.len);
	err = ppa_elf_open(&inner, &source);
	if (!err) {
		err = add_all(b, &inner, SHT_SYMTAB);
		ppa_elf_close(&inner);
	}
	ppa_debugdata_free(&data);
	return err;
}

static int add_file(struct ppa_symtab_builder *b, const struct ppa_module_file *file, const struct ppa_module *m)
{
	const struct ppa_elf_file *f = &file->elf;
	int err;

	if (ppa_elf_section_typed(f, SHT_SYMTAB)) {
		err = add_all(b, f, SHT_SYMTAB);
	} else {
		err = add_debug_file(b, m, file);
		if (err == -ENOENT)
			err = add_debugdata(b, f);
	}
	if (err == -ENOMEM)
		return err;
	if (err == -EFBIG)
		ppa_symtab_discard(b);
	/* Other failures cost the names that were to come from there. */
	err = add_all(b, f, SHT_DYNSYM);
	return err ? err : ppa_plt_add(b, f);
}

static int add_vdso(struct ppa_symtab_builder *b, const struct ppa_module *m)
{
	struct ppa_elf_source source;
	struct ppa_elf_file f;
	int err;

	ppa_elf_source_memory(&source, m->lo, m->hi - m->lo);
	err = ppa_elf_open(&f, &source);
	if (err)
		return err == -ENOMEM ? err : 0;
	err = add_all(b, &f, SHT_SYMTAB);
	if (!err)
		err = add_all(b, &f, SHT_DYNSYM);
	ppa_elf_close(&f);
	return err;
}

int ppa_symload(const struct ppa_module *m, struct ppa_symtab *out)
{
	struct ppa_symtab_builder b;
	struct ppa_module_file o;
	int err = 0, out_of_file;

	memset(out, 0, sizeof(*out));
	if (m->hi <= m->lo)
		return 0;
	ppa_symtab_begin(&b);
	if (m->path[0] == '[') {
		err = add_vdso(&b, m);
	} else {
		out_of_file = ppa_module_file_open(m, &o);
		if (!out_of_file) {
			err = add_file(&b, &o, m);
			ppa_module_file_close(&o);
		} else if (out_of_file != -ENOMEM) {
			/* The module may be gone and its debug file be there. */
			err = add_debug_file(&b, m, NULL);
			err = err == -ENOMEM || err == -EFBIG ? err : 0;
		}
	}
	if (!b.n && !err)
		err = ppa_dynsyms_add(&b, m);
	if (err == -ENOMEM || err == -EFBIG) {
		ppa_symtab_discard(&b);
		return err;
	}
	return ppa_symtab_finish(&b, out);
}

static const char *why_not_open(int err)
{
	switch (err) {
	case -ESTALE:
		return "at its path is another file by now";
	case -ENOENT:
	case -ENOTDIR:
		return "its file is gone";
	case -EACCES:
	case -EPERM:
		return "its file may not be read";
	default:
		return "its file cannot be read";
	}
}

const char *ppa_symload_gap(const struct ppa_module *m)
{
	struct ppa_module_file own, debug;
	bool has_names;
	int err;

	if (m->path[0] == '[' || m->hi <= m->lo)
		return NULL;
	err = ppa_module_file_open(m, &own);
	if (err)
		return why_not_open(err);
	has_names = ppa_elf_section_typed(&own.elf, SHT_SYMTAB) || ppa_elf_section_named(&own.elf, ".gnu_debugdata");
	if (!has_names && ppa_module_file_debug(m, &own, &debug) == 0) {
		has_names = ppa_elf_section_typed(&debug.elf, SHT_SYMTAB);
		ppa_module_file_close(&debug);
	}
	ppa_module_file_close(&own);
	return has_names ? NULL : "it is stripped, and no debug file was found";
}

int ppa_symload_section(const struct ppa_module *m, const char *name, uintptr_t *at, size_t *len)
{
	const Elf64_Shdr *section;
	struct ppa_module_file o;
	int err = -ENOENT;

	if (ppa_module_file_open(m, &o))
		return -ENOENT;
	section = ppa_elf_section_named(&o.elf, name);
	if (section && section->sh_type != SHT_NOBITS && section->sh_flags & SHF_ALLOC) {
		*at = m->bias + section->sh_addr;
		*len = section->sh_size;
		if (*at >= m->lo && *at < m->hi && *len <= m->hi - *at)
			err = 0;
	}
	ppa_module_file_close(&o);
	return err;
}
