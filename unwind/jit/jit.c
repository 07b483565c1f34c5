/* SPDX-License-Identifier: Apache-2.0
 *
 * See jit.h. One lock covers the map and the reading of files: a second request waits and then finds it done. */
#include "unwind/jit/jit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "agent/base/lock.h"
#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "unwind/jit/codemap.h"
#include "unwind/jit/jitdump.h"
#include "unwind/jit/perfmap.h"
#include "unwind/module/maps.h"

enum {
	MAX_DUMPS = 4,
	PATH_CAP = 1024, /* dumps with longer paths are left out */
	DEFAULT_LIMIT = 32 << 20,
	PID_DIGITS = 12,
};

/* A file that we have begun to read; ino 0: none. */
struct source {
	uint64_t dev, ino;
	bool is_stale; /* it was replaced or cut: its names are of another time */
};

static struct {
	struct ppa_lock
		lock; /* protects everything below; files are read under it, the private heap's is taken under it */
	struct ppa_codemap map;
	struct source perf_file, dump_file[MAX_DUMPS];
	struct ppa_perfmap perf;
	struct ppa_jitdump dump[MAX_DUMPS];
	bool is_foreign;
	uint64_t read_at; /* monotonic; 0: never */
} jit = {.map.max_bytes = DEFAULT_LIMIT};

static void forget_locked(void)
{
	ppa_codemap_clear(&jit.map);
	memset(&jit.perf_file, 0, sizeof(jit.perf_file));
	memset(jit.dump_file, 0, sizeof(jit.dump_file));
	memset(&jit.perf, 0, sizeof(jit.perf));
	memset(jit.dump, 0, sizeof(jit.dump));
	jit.read_at = 0;
}

/* A descriptor, -EPERM if somebody else may have written the file, or -errno. */
static int open_own(const char *path, struct stat *st)
{
	int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW;
	int fd = (int)ppa_syscall(SYS_openat, AT_FDCWD, (long)path, flags, 0, 0, 0), err;

	if (fd < 0)
		return fd == -ELOOP ? -EPERM : fd;
	err = (int)ppa_syscall(SYS_fstat, fd, (long)st, 0, 0, 0, 0);
	if (!err && (!S_ISREG(st->st_mode) || st->st_uid != (uid_t)ppa_syscall(SYS_geteuid, 0, 0, 0, 0, 0, 0)))
		err = -EPERM;
	if (!err)
		return fd;
	ppa_sys_close(fd);
	return err;
}

/* Is it the file that was read so far up to `at`? If there was none, it is from now on. */
static void meet(struct source *s, const struct stat *st, uint64_t at)
{
	if (!s->ino) {
		s->dev = st->st_dev;
		s->ino = st->st_ino;
	}
	s->is_stale = s->dev != st->st_dev || s->ino != st->st_ino || (uint64_t)st->st_size < at;
}

/* "/tmp/perf-123.map" */
static void perf_path(char path[static 32])
{
	static const char before[] = "/tmp/perf-", after[] = ".map";
	char digits[PID_DIGITS];
	unsigned pid = (unsigned)ppa_sys_getpid();
	size_t n = 0, at = sizeof(before) - 1;

	memcpy(path, before, at);
	do {
		digits[n++] = (char)('0' + pid % 10);
		pid /= 10;
	} while (pid);
	while (n)
		path[at++] = digits[--n];
	memcpy(path + at, after, sizeof(after));
}

static void read_perf_map(void)
{
	char path[32];
	struct stat st;
	int fd;

	perf_path(path);
	fd = open_own(path, &st);
	jit.is_foreign = fd == -EPERM;
	if (fd < 0)
		return;
	meet(&jit.perf_file, &st, jit.perf.at);
	if (!jit.perf_file.is_stale)
		ppa_perfmap_read(&jit.perf, fd, (uint64_t)st.st_size, &jit.map);
	ppa_sys_close(fd);
}

/* Is it called jit-123.dump? */
static bool is_dump(const struct ppa_map *m)
{
	static const char before[] = "jit-", after[] = ".dump";
	const size_t head = sizeof(before) - 1, tail = sizeof(after) - 1;
	size_t slash = m->path_len, len;
	const char *name;

	if (!m->ino || !m->executable || m->path_len >= PATH_CAP)
		return false;
	while (slash && m->path[slash - 1] != '/')
		slash--;
	name = m->path + slash;
	len = m->path_len - slash;
	return len > head + tail && memcmp(name, before, head) == 0 && memcmp(name + len - tail, after, tail) == 0;
}

/* The place of a dump of this inode; NULL: there are too many. */
static struct source *dump_of(uint64_t ino)
{
	struct source *unused = NULL;

	for (size_t i = 0; i < MAX_DUMPS; i++) {
		if (jit.dump_file[i].ino == ino)
			return &jit.dump_file[i];
		if (!unused && !jit.dump_file[i].ino)
			unused = &jit.dump_file[i];
	}
	return unused;
}

/* What is mapped must be what is at the path. */
static void read_dump(const struct ppa_map *m)
{
	struct source *s = dump_of(m->ino);
	char path[PATH_CAP];
	struct stat st;
	int fd;

	if (!s)
		return;
	memcpy(path, m->path, m->path_len);
	path[m->path_len] = '\0';
	fd = open_own(path, &st);
	if (fd < 0)
		return;
	if (st.st_ino == m->ino) {
		struct ppa_jitdump *d = &jit.dump[s - jit.dump_file];

		meet(s, &st, d->at);
		if (!s->is_stale)
			ppa_jitdump_read(d, fd, (uint64_t)st.st_size, &jit.map);
	}
	ppa_sys_close(fd);
}

static void read_dumps(const char *text, size_t len)
{
	const char *pos = text;
	struct ppa_map m;
	size_t skipped = 0;

	while (ppa_maps_next(&pos, text + len, &m, &skipped))
		if (is_dump(&m))
			read_dump(&m);
}

static bool is_any_stale(void)
{
	bool stale = jit.perf_file.is_stale;

	for (size_t i = 0; i < MAX_DUMPS; i++)
		stale |= jit.dump_file[i].is_stale;
	return stale;
}

static void read_files(void)
{
	size_t len;
	char *text = ppa_maps_read(&len);

	for (int pass = 0; pass < 2; pass++) {
		read_perf_map();
		if (text)
			read_dumps(text, len);
		if (!is_any_stale())
			break;
		forget_locked();
	}
	ppa_codemap_settle(&jit.map);
	ppa_vheap_free(text);
}

void ppa_jit_refresh(uint64_t max_age_ns)
{
	uint64_t now = ppa_sys_clock_ns(CLOCK_MONOTONIC);

	ppa_lock(&jit.lock);
	if (!jit.read_at || now - jit.read_at >= max_age_ns) {
		read_files();
		jit.read_at = now;
	}
	ppa_unlock(&jit.lock);
}

bool ppa_jit_find(uintptr_t pc, char *buf, size_t cap, struct ppa_jit_words *out, uintptr_t *start)
{
	const char *text;
	uint64_t begin;

	ppa_lock(&jit.lock);
	text = ppa_codemap_find(&jit.map, pc, &begin);
	if (text) {
		ppa_jit_words(text, buf, cap, out);
		*start = begin;
	}
	ppa_unlock(&jit.lock);
	return text != NULL;
}

void ppa_jit_gaps(struct ppa_jit_gaps *out)
{
	ppa_lock(&jit.lock);
	*out = (struct ppa_jit_gaps){jit.map.forgotten, jit.perf.passed_over, jit.is_foreign};
	ppa_unlock(&jit.lock);
}

uint64_t ppa_jit_bytes(void)
{
	uint64_t bytes;

	ppa_lock(&jit.lock);
	bytes = ppa_codemap_bytes(&jit.map);
	ppa_unlock(&jit.lock);
	return bytes;
}

void ppa_jit_trim(void)
{
	ppa_lock(&jit.lock);
	forget_locked();
	jit.map.forgotten = 0;
	ppa_unlock(&jit.lock);
}

void ppa_jit_set_limit(uint64_t bytes)
{
	jit.map.max_bytes = bytes;
}

void ppa_jit_reset(void)
{
	uint64_t max_bytes = jit.map.max_bytes;

	/* Nothing is freed: the parent's heap is not ours. */
	memset(&jit, 0, sizeof(jit));
	ppa_lock_reset(&jit.lock);
	jit.map.max_bytes = max_bytes;
}
