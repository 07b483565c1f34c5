/* SPDX-License-Identifier: Apache-2.0
 *
 * Collecting a module's symbols.
 *
 * The file behind the path must be the one that is mapped. The build id is the proof, where there
 * is one: it also notices a file rewritten in place. Files without one must have the mapped inode;
 * the device is not asked, because on overlay and btrfs mounts maps and fstat disagree about it. A
 * main program that was replaced is still behind /proc/self/exe. Everything else that is gone is
 * read from memory: exported names only, but true ones.
 *
 * .symtab names everything there is; .dynsym is added for what linkers left out of it. Without
 * .symtab, the debug file under /usr/lib/debug or else .gnu_debugdata stands in. A .symtab too
 * large for the cap is passed over. Linkage stubs, which nobody lists, get their names from the
 * relocations. */
#include "unwind/name/symload.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "agent/base/sys.h"
#include "unwind/name/debugdata.h"
#include "unwind/name/dynsyms.h"
#include "unwind/name/elf_file.h"
#include "unwind/name/plt.h"
#include "unwind/name/symtab.h"

#define DEBUG_ROOT "/usr/lib/debug/.build-id/"

struct opened {
	struct ppa_elf_file elf;
	struct stat st;
	int fd;
};

static void close_file(struct opened *o)
{
	ppa_elf_close(&o->elf);
	ppa_sys_close(o->fd);
}

static int open_file(const char *path, struct opened *o)
{
	struct ppa_elf_source source;
	int err;

	o->fd = ppa_sys_open_read(path);
	if (o->fd < 0)
		return o->fd;
	err = (int)ppa_syscall(SYS_fstat, o->fd, (long)&o->st, 0, 0, 0, 0);
	if (!err && (!S_ISREG(o->st.st_mode) || o->st.st_size <= 0))
		err = -ENOEXEC;
	if (!err) {
		ppa_elf_source_file(&source, o->fd, (uint64_t)o->st.st_size);
		err = ppa_elf_open(&o->elf, &source);
	}
	if (err)
		ppa_sys_close(o->fd);
	return err;
}

static bool has_build_id_of(const struct ppa_elf_file *f, const struct ppa_module *m)
{
	uint8_t id[PPA_BUILD_ID_MAX];

	return m->build_id_len && ppa_elf_build_id(f, id, sizeof(id)) == m->build_id_len &&
	       memcmp(id, m->build_id, m->build_id_len) == 0;
}

static bool is_file_of(const struct opened *o, const struct ppa_module *m)
{
	if (m->build_id_len)
		return has_build_id_of(&o->elf, m);
	return m->ino && o->st.st_ino == m->ino;
}

/* Open what is mapped as m. */
static int open_module(const struct ppa_module *m, struct opened *o)
{
	const char *paths[] = {m->path, m->is_main ? "/proc/self/exe" : NULL};
	int err = -ENOENT;

	for (size_t i = 0; i < PPA_ARRAY_LEN(paths) && paths[i]; i++) {
		err = open_file(paths[i], o);
		if (err == -ENOMEM || (!err && is_file_of(o, m)))
			return err;
		if (!err) {
			close_file(o);
			err = -ENOENT;
		}
	}
	return err;
}

static int add_all(struct ppa_symtab_builder *b, const struct ppa_elf_file *f, uint32_t type)
{
	const Elf64_Shdr *section = ppa_elf_section_typed(f, type);

	return section ? ppa_symtab_add_section(b, f, section) : 0;
}

/* "/usr/lib/debug/.build-id/ab/cdef….debug" */
static int add_debug_file(struct ppa_symtab_builder *b, const struct ppa_module *m)
{
	static const char digits[] = "0123456789abcdef";
	char path[sizeof(DEBUG_ROOT) + 2 * PPA_BUILD_ID_MAX + sizeof("/.debug")];
	struct opened o;
	size_t at = sizeof(DEBUG_ROOT) - 1;
	int err;

	if (m->build_id_len < 2 || m->build_id_len > PPA_BUILD_ID_MAX)
		return -ENOENT;
	memcpy(path, DEBUG_ROOT, at);
	for (size_t i = 0; i < m->build_id_len; i++) {
		if (i == 1)
			path[at++] = '/';
		path[at++] = digits[m->build_id[i] >> 4];
		path[at++] = digits[m->build_id[i] & 15];
	}
	memcpy(path + at, ".debug", sizeof(".debug"));
	err = open_file(path, &o);
	if (err)
		return err;
	err = -ENOENT;
	if (has_build_id_of(&o.elf, m) && ppa_elf_section_typed(&o.elf, SHT_SYMTAB))
		err = add_all(b, &o.elf, SHT_SYMTAB);
	close_file(&o);
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

static int add_file(struct ppa_symtab_builder *b, const struct ppa_elf_file *f, const struct ppa_module *m)
{
	int err;

	if (ppa_elf_section_typed(f, SHT_SYMTAB)) {
		err = add_all(b, f, SHT_SYMTAB);
	} else {
		err = add_debug_file(b, m);
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
	struct opened o;
	int err = 0;

	memset(out, 0, sizeof(*out));
	if (m->hi <= m->lo)
		return 0;
	ppa_symtab_begin(&b);
	if (m->path[0] == '[') {
		err = add_vdso(&b, m);
	} else if (open_module(m, &o) == 0) {
		err = add_file(&b, &o.elf, m);
		close_file(&o);
	}
	if (!b.n && !err)
		err = ppa_dynsyms_add(&b, m);
	if (err == -ENOMEM || err == -EFBIG) {
		ppa_symtab_discard(&b);
		return err;
	}
	return ppa_symtab_finish(&b, out);
}

int ppa_symload_section(const struct ppa_module *m, const char *name, uintptr_t *at, size_t *len)
{
	const Elf64_Shdr *section;
	struct opened o;
	int err = -ENOENT;

	if (open_module(m, &o))
		return -ENOENT;
	section = ppa_elf_section_named(&o.elf, name);
	if (section && section->sh_type != SHT_NOBITS && section->sh_flags & SHF_ALLOC) {
		*at = m->bias + section->sh_addr;
		*len = section->sh_size;
		if (*at >= m->lo && *at < m->hi && *len <= m->hi - *at)
			err = 0;
	}
	close_file(&o);
	return err;
}
