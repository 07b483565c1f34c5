/* SPDX-License-Identifier: Apache-2.0
 *
 * See jitdump.h. Each record is one read: its head and as much of what follows as names take. */
#include "unwind/jit/jitdump.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "unwind/jit/codemap.h"

#define MAGIC 0x4A695444U /* "JiTD" as a number of the writer's byte order */

enum {
	CODE_LOAD = 0,
	CODE_MOVE = 1,
	CODE_DEBUG_INFO = 2,
	HEAD_READ = 2048, /* more than any fixed part with a name of PPA_CODEMAP_NAME_MAX */
	NUMBER_MAX = 12,  /* digits of a line */
	NAME_MAX_WITH_FILE = PPA_CODEMAP_NAME_MAX - PPA_JITDUMP_FILE_MAX - NUMBER_MAX - 2,
};

struct file_head {
	uint32_t magic, version, total_size, machine, pad, pid;
	uint64_t timestamp, flags;
};

struct record {
	uint32_t id, total_size;
	uint64_t timestamp;
};

struct load {
	uint32_t pid, tid;
	uint64_t vma, address, size, index;
	/* the name, its NUL, the code */
};

struct move {
	uint32_t pid, tid;
	uint64_t vma, old_address, new_address, size, index;
};

struct debug {
	uint64_t address, nentries;
	/* entries */
};

struct debug_entry {
	uint64_t address;
	uint32_t line, discriminator;
	/* the file's name and its NUL */
} __attribute__((packed));

static int start(struct ppa_jitdump *d, int fd)
{
	struct file_head h;
	long n = ppa_sys_pread(fd, &h, sizeof(h), 0);

	if (n < 0)
		return (int)n;
	if (n < (long)sizeof(h))
		return -EAGAIN;
	if (h.magic != MAGIC || h.total_size < sizeof(h) || h.total_size > 1 << 20)
		return -ENOEXEC;
	d->at = h.total_size;
	return 0;
}

static size_t write_number(char *to, uint32_t x)
{
	char digits[NUMBER_MAX];
	size_t n = 0;

	do {
		digits[n++] = (char)('0' + x % 10);
		x /= 10;
	} while (x);
	for (size_t i = 0; i < n; i++)
		to[i] = digits[n - 1 - i];
	return n;
}

/* The name of a piece of code, with its file and line if they were told just before. */
static int take_load(struct ppa_jitdump *d, struct ppa_codemap *m, const char *body, size_t len)
{
	char note[PPA_CODEMAP_NAME_MAX];
	struct load l;
	size_t n, file_len;

	if (len < sizeof(l))
		return 0;
	memcpy(&l, body, sizeof(l));
	body += sizeof(l);
	n = strnlen(body, len - sizeof(l));
	if (!n || !d->file[0] || d->line_of != l.address)
		return ppa_codemap_add(m, l.address, l.size, body, n);
	if (n > NAME_MAX_WITH_FILE)
		n = NAME_MAX_WITH_FILE;
	memcpy(note, body, n);
	note[n++] = PPA_JITDUMP_SEPARATOR;
	file_len = strlen(d->file);
	memcpy(note + n, d->file, file_len);
	n += file_len;
	note[n++] = PPA_JITDUMP_SEPARATOR;
	n += write_number(note + n, d->line);
	return ppa_codemap_add(m, l.address, l.size, note, n);
}

static int take_move(struct ppa_codemap *m, const char *body, size_t len)
{
	struct move v;

	if (len < sizeof(v))
		return 0;
	memcpy(&v, body, sizeof(v));
	return ppa_codemap_move(m, v.old_address, v.new_address, v.size);
}

/* Where the code that is announced next comes from: its first entry's file and line. */
static void take_debug(struct ppa_jitdump *d, const char *body, size_t len)
{
	struct debug head;
	struct debug_entry e;
	size_t n;

	d->file[0] = '\0';
	if (len < sizeof(head) + sizeof(e))
		return;
	memcpy(&head, body, sizeof(head));
	memcpy(&e, body + sizeof(head), sizeof(e));
	body += sizeof(head) + sizeof(e);
	len -= sizeof(head) + sizeof(e);
	n = strnlen(body, len);
	if (!head.nentries || n == len || n > PPA_JITDUMP_FILE_MAX || body[0] == '\xff')
		return;
	memcpy(d->file, body, n + 1);
	d->line = e.line;
	d->line_of = head.address;
}

/* -EAGAIN: it is not there yet. */
static int take_record(struct ppa_jitdump *d, int fd, uint64_t size, struct ppa_codemap *m, char *buf)
{
	long n = ppa_sys_pread(fd, buf, HEAD_READ, d->at);
	struct record r;
	size_t len;
	int err = 0;

	if (n < 0)
		return (int)n;
	if (n < (long)sizeof(r))
		return -EAGAIN;
	memcpy(&r, buf, sizeof(r));
	if (r.total_size < sizeof(r))
		return r.total_size ? -ENOEXEC : -EAGAIN; /* zero: room that was made and not yet written */
	if (r.total_size > size - d->at)
		return -EAGAIN;
	len = ((size_t)n < r.total_size ? (size_t)n : r.total_size) - sizeof(r);
	if (r.id == CODE_LOAD)
		err = take_load(d, m, buf + sizeof(r), len);
	else if (r.id == CODE_MOVE)
		err = take_move(m, buf + sizeof(r), len);
	else if (r.id == CODE_DEBUG_INFO)
		take_debug(d, buf + sizeof(r), len);
	if (!err)
		d->at += r.total_size;
	return err;
}

int ppa_jitdump_read(struct ppa_jitdump *d, int fd, uint64_t size, struct ppa_codemap *m)
{
	char *buf;
	int err = 0;

	if (d->is_broken || size <= d->at)
		return 0;
	buf = ppa_vheap_malloc(HEAD_READ);
	if (!buf)
		return -ENOMEM;
	if (!d->at)
		err = start(d, fd);
	for (uint32_t i = 0; !err && d->at < size && i < PPA_JITDUMP_MAX_RECORDS; i++)
		err = take_record(d, fd, size, m, buf);
	ppa_vheap_free(buf);
	d->is_broken = err == -ENOEXEC;
	return err == -EAGAIN ? 0 : err;
}
