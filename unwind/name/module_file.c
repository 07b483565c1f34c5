/* SPDX-License-Identifier: Apache-2.0
 *
 * The file behind the path must be the one that is mapped. The build id is the proof, where there is one: it also notices
 * a file rewritten in place. Files without one must have the mapped inode; the device is not asked, because on overlay and
 * btrfs mounts maps and fstat disagree about it. Where they disagree about the inode, too, the code decides: pieces of it
 * must be the same in the file and in memory.
 *
 * A file that was deleted or replaced, or that another root or mount namespace hides, can be reached through what the kernel
 * knows of the mapping, /proc/self/map_files, by programs with the privilege for it (CAP_SYS_ADMIN, or since Linux 5.9
 * CAP_CHECKPOINT_RESTORE), and the main program by all through /proc/self/exe.
 *
 * A debug file belongs to a module if it has the module's build id, or, where one of them has none, if it has the checksum
 * that the module's link to it (.gnu_debuglink) names. It is looked for where gdb looks for it. */
#include "unwind/name/module_file.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <zlib.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "unwind/module/maps.h"

#define DEBUG_ROOT "/usr/lib/debug"

enum {
	MAX_LINK = 4096,
	CHECKSUM_CHUNK = 64 << 10,
	MIN_BUILD_ID = 2,
	PIECES = 16, /* of a segment's code that are compared */
	PIECE_BYTES = 256,
};

void ppa_module_file_close(struct ppa_module_file *o)
{
	ppa_elf_close(&o->elf);
	ppa_sys_close(o->fd);
	ppa_vheap_free(o->path);
	o->path = NULL;
}

static int open_path(const char *path, struct ppa_module_file *o)
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
	if (!err) {
		o->path = ppa_vheap_strdup(path);
		if (o->path)
			return 0;
		ppa_elf_close(&o->elf);
		err = -ENOMEM;
	}
	ppa_sys_close(o->fd);
	return err;
}

static bool has_build_id(const struct ppa_elf_file *f, const uint8_t *wanted, size_t len)
{
	uint8_t id[PPA_BUILD_ID_MAX];

	return len && ppa_elf_build_id(f, id, sizeof(id)) == len && memcmp(id, wanted, len) == 0;
}

/* Are these bytes of the file in memory, where the segment has them? */
static bool is_mapped(const struct ppa_module_file *o, const struct ppa_module *m, const Elf64_Phdr *p, uint64_t at)
{
	uint8_t there[PIECE_BYTES], here[PIECE_BYTES];
	uintptr_t address = m->bias + p->p_vaddr + at;

	return address >= m->lo && address < m->hi && m->hi - address >= PIECE_BYTES &&
	       ppa_elf_read(&o->elf.src, there, PIECE_BYTES, p->p_offset + at) == 0 &&
	       ppa_sys_read_memory(here, address, PIECE_BYTES) == PIECE_BYTES && memcmp(there, here, PIECE_BYTES) == 0;
}

/* Is what is executed what stands in the file? */
static bool has_code_of(const struct ppa_module_file *o, const struct ppa_module *m)
{
	bool has_code = false;

	for (size_t i = 0; i < o->elf.nphdrs; i++) {
		const Elf64_Phdr *p = &o->elf.phdrs[i];

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || p->p_flags & PF_W || p->p_filesz < PIECE_BYTES ||
		    p->p_filesz > (uint64_t)o->st.st_size)
			continue;
		for (uint64_t k = 0; k < PIECES; k++)
			if (!is_mapped(o, m, p, (p->p_filesz - PIECE_BYTES) * k / (PIECES - 1)))
				return false;
		has_code = true;
	}
	return has_code;
}

static bool is_file_of(const struct ppa_module_file *o, const struct ppa_module *m)
{
	if (m->build_id_len)
		return has_build_id(&o->elf, m->build_id, m->build_id_len);
	return (m->ino && o->st.st_ino == m->ino) || has_code_of(o, m);
}

/* 0, -ENOENT, -ESTALE: another file, or -errno. */
static int open_file_of(const struct ppa_module *m, const char *path, struct ppa_module_file *o)
{
	int err = open_path(path, o);

	if (err || is_file_of(o, m))
		return err;
	ppa_module_file_close(o);
	return -ESTALE;
}

/* "/proc/self/map_files/7f00-7f80" */
static void map_file_path(char path[static 64], uintptr_t start, uintptr_t end)
{
	static const char before[] = "/proc/self/map_files/";
	const uintptr_t numbers[] = {start, end};
	size_t at = sizeof(before) - 1;

	memcpy(path, before, at);
	for (int i = 0; i < 2; i++) {
		int shift = 60;

		while (shift && !(numbers[i] >> shift))
			shift -= 4;
		for (; shift >= 0; shift -= 4)
			path[at++] = "0123456789abcdef"[numbers[i] >> shift & 15];
		path[at++] = i ? '\0' : '-';
	}
}

/* Any of its mappings leads to the file; the name of one is its present bounds. */
static int open_map_file(const struct ppa_module *m, struct ppa_module_file *o)
{
	size_t len, skipped = 0;
	char *text = m->ino ? ppa_maps_read(&len) : NULL, path[64];
	const char *pos = text;
	int err = -ENOENT;
	struct ppa_map map;

	while (text && ppa_maps_next(&pos, text + len, &map, &skipped)) {
		if (map.start < m->lo || map.start >= m->hi || map.ino != m->ino)
			continue;
		map_file_path(path, map.start, map.end);
		err = open_file_of(m, path, o);
		break;
	}
	ppa_vheap_free(text);
	return err;
}

int ppa_module_file_open(const struct ppa_module *m, struct ppa_module_file *o)
{
	int err = open_file_of(m, m->path, o), other;

	if (!err || err == -ENOMEM)
		return err;
	other = m->is_main ? open_file_of(m, "/proc/thread-self/exe", o) : -ENOENT;
	if (other)
		other = open_map_file(m, o);
	/* What is wrong with the path is of more interest than that there is no other way. */
	return other && other != -ENOMEM ? err : other;
}

/* "/usr/lib/debug/.build-id/ab/cdef….debug", if it has that id. */
static int open_by_build_id(const uint8_t *id, size_t len, struct ppa_module_file *o)
{
	static const char digits[] = "0123456789abcdef";
	char path[sizeof(DEBUG_ROOT "/.build-id/") + 2 * PPA_BUILD_ID_MAX + sizeof("/.debug")] =
		DEBUG_ROOT "/.build-id/";
	size_t at = strlen(path);
	int err;

	if (len < MIN_BUILD_ID || len > PPA_BUILD_ID_MAX)
		return -ENOENT;
	for (size_t i = 0; i < len; i++) {
		if (i == 1)
			path[at++] = '/';
		path[at++] = digits[id[i] >> 4];
		path[at++] = digits[id[i] & 15];
	}
	memcpy(path + at, ".debug", sizeof(".debug"));
	err = open_path(path, o);
	if (err)
		return err;
	if (has_build_id(&o->elf, id, len))
		return 0;
	ppa_module_file_close(o);
	return -ENOENT;
}

static bool has_checksum(const struct ppa_module_file *o, uint32_t wanted)
{
	uint8_t *chunk = ppa_vheap_malloc(CHECKSUM_CHUNK);
	uint64_t at = 0, size = (uint64_t)o->st.st_size;
	uLong sum = crc32(0, NULL, 0);

	while (chunk && at < size) {
		size_t n = size - at < CHECKSUM_CHUNK ? (size_t)(size - at) : CHECKSUM_CHUNK;

		if (ppa_elf_read(&o->elf.src, chunk, n, at))
			break;
		sum = crc32(sum, chunk, (uInt)n);
		at += n;
	}
	ppa_vheap_free(chunk);
	return at == size && sum == wanted;
}

static bool is_debug_file_of(const struct ppa_module_file *o, const struct ppa_module *m, uint32_t checksum)
{
	uint8_t id[PPA_BUILD_ID_MAX];

	if (m->build_id_len && ppa_elf_build_id(&o->elf, id, sizeof(id)))
		return has_build_id(&o->elf, m->build_id, m->build_id_len);
	return has_checksum(o, checksum);
}

/* "root + directory of path + between + name", or NULL on no memory. */
static char *join(const char *root, const char *path, const char *between, const char *name)
{
	const char *slash = strrchr(path, '/');
	const char *parts[] = {root, path, between, name};
	size_t len[] = {strlen(root), slash ? (size_t)(slash - path) + 1 : 0, strlen(between), strlen(name)};
	char *p = ppa_vheap_malloc(len[0] + len[1] + len[2] + len[3] + 1), *to = p;

	for (size_t i = 0; p && i < PPA_ARRAY_LEN(parts); i++) {
		memcpy(to, parts[i], len[i]);
		to += len[i];
	}
	if (p)
		*to = '\0';
	return p;
}

/* Read a section that begins with a file name; *len is what there is. NULL if there is none. */
static char *read_link(const struct ppa_elf_file *f, const char *section, size_t *len)
{
	const Elf64_Shdr *sh = ppa_elf_section_named(f, section);
	char *link;

	if (!sh || ppa_elf_read_section(f, sh, MAX_LINK, &link))
		return NULL;
	*len = (size_t)sh->sh_size;
	return link;
}

static int open_by_link(const struct ppa_module *m, const struct ppa_module_file *file, struct ppa_module_file *o)
{
	static const struct {
		const char *root, *between;
	} places[] = {{"", ""}, {"", ".debug/"}, {DEBUG_ROOT, ""}};
	size_t len, sum_at;
	char *link = read_link(&file->elf, ".gnu_debuglink", &len), *path;
	int err = -ENOENT;
	uint32_t sum;

	if (!link)
		return -ENOENT;
	sum_at = (strlen(link) + 4) & ~(size_t)3;
	for (size_t i = 0; err && i < PPA_ARRAY_LEN(places) && sum_at + sizeof(sum) <= len; i++) {
		memcpy(&sum, link + sum_at, sizeof(sum));
		path = join(places[i].root, m->path, places[i].between, link);
		err = path ? open_path(path, o) : -ENOMEM;
		ppa_vheap_free(path);
		/* A file may name itself. */
		if (!err && (o->st.st_ino == file->st.st_ino || !is_debug_file_of(o, m, sum))) {
			ppa_module_file_close(o);
			err = -ENOENT;
		}
	}
	ppa_vheap_free(link);
	return err;
}

int ppa_module_file_debug(const struct ppa_module *m, const struct ppa_module_file *file, struct ppa_module_file *o)
{
	int err = open_by_build_id(m->build_id, m->build_id_len, o);

	return err && file ? open_by_link(m, file, o) : err;
}

int ppa_module_file_alternate(const struct ppa_module_file *debug, struct ppa_module_file *o)
{
	size_t len, name_len;
	char *link = read_link(&debug->elf, ".gnu_debugaltlink", &len), *path;
	int err = -ENOENT;

	if (!link)
		return -ENOENT;
	name_len = strlen(link) + 1;
	if (name_len < len) {
		const uint8_t *id = (const uint8_t *)link + name_len;

		path = *link == '/' ? ppa_vheap_strdup(link) : join("", debug->path, "", link);
		err = path ? open_path(path, o) : -ENOMEM;
		ppa_vheap_free(path);
		if (!err && !has_build_id(&o->elf, id, len - name_len)) {
			ppa_module_file_close(o);
			err = -ENOENT;
		}
		if (err)
			err = open_by_build_id(id, len - name_len, o);
	}
	ppa_vheap_free(link);
	return err;
}
