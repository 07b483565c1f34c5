/* SPDX-License-Identifier: Apache-2.0
 *
 * The file behind the path must be the one that is mapped. The build id is the proof, where there is one: it also notices
 * a file rewritten in place. Files without one must have the mapped inode; the device is not asked, because on overlay and
 * btrfs mounts maps and fstat disagree about it. A main program that was replaced is still behind /proc/self/exe.
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

#define DEBUG_ROOT "/usr/lib/debug"

enum { MAX_LINK = 4096, CHECKSUM_CHUNK = 64 << 10, MIN_BUILD_ID = 2 };

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

static bool is_file_of(const struct ppa_module_file *o, const struct ppa_module *m)
{
	if (m->build_id_len)
		return has_build_id(&o->elf, m->build_id, m->build_id_len);
	return m->ino && o->st.st_ino == m->ino;
}

int ppa_module_file_open(const struct ppa_module *m, struct ppa_module_file *o)
{
	const char *paths[] = {m->path, m->is_main ? "/proc/self/exe" : NULL};
	int err = -ENOENT;

	for (size_t i = 0; i < PPA_ARRAY_LEN(paths) && paths[i]; i++) {
		err = open_path(paths[i], o);
		if (err == -ENOMEM || (!err && is_file_of(o, m)))
			return err;
		if (!err) {
			ppa_module_file_close(o);
			err = -ENOENT;
		}
	}
	return err;
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
