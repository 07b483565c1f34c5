/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/dump/look.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/thread/parked.h"
#include "agent/thread/tasks.h"

enum { TRIES = 4, LINE_BYTES = 256, STAT_BYTES = 512, PATH_BYTES = 64 };

/* This library's own text, from the linker. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

/* "TID/NAME". A dump of a thousand threads has two or three thousand of them. */
static void put_path(char *path, pid_t tid, const char *name)
{
	char digits[12];
	int n = 0;

	do
		digits[n++] = (char)('0' + tid % 10);
	while ((tid /= 10) > 0);
	while (n)
		*path++ = digits[--n];
	*path++ = '/';
	memcpy(path, name, strlen(name) + 1);
}

long ppa_look_file(const struct ppa_look_files *f, pid_t tid, const char *name, char *buf, size_t cap)
{
	char path[PATH_BYTES];
	long n;
	int fd;

	put_path(path, tid, name);
	fd = (int)ppa_syscall(SYS_openat, f->task, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return fd;
	n = ppa_syscall(SYS_read, fd, (long)buf, (long)(cap - 1), 0, 0, 0);
	ppa_sys_close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return n;
}

char ppa_look_letter(const struct ppa_look_files *f, pid_t tid, char *name, size_t cap)
{
	char stat[STAT_BYTES];
	const char *open, *close;
	size_t len;

	if (ppa_look_file(f, tid, "stat", stat, sizeof(stat)) <= 0)
		return '?';
	open = strchr(stat, '(');
	close = strrchr(stat, ')'); /* a name may hold both */
	if (!open || !close || close < open || close[1] != ' ')
		return '?';
	if (name) {
		len = (size_t)(close - open - 1) < cap - 1 ? (size_t)(close - open - 1) : cap - 1;
		memset(name, 0, cap);
		memcpy(name, open + 1, len);
	}
	return close[2];
}

void ppa_look_channel(const struct ppa_look_files *f, pid_t tid, char out[static PPA_LOOK_CHANNEL_MAX])
{
	long n = ppa_look_file(f, tid, "wchan", out, PPA_LOOK_CHANNEL_MAX);

	if (n <= 0 || out[0] == '0')
		out[0] = '\0';
}

int ppa_look_open(struct ppa_look_files *f)
{
	f->mem = -1;
	f->reader = ppa_sys_gettid();
	f->lines = NULL;
	f->task = ppa_tasks_open();
	if (f->task < 0)
		return f->task;
	if (!ppa_sys_reads_safely()) {
		f->mem = ppa_sys_open_read("/proc/thread-self/mem");
		if (f->mem < 0) {
			ppa_look_close(f);
			return -EPERM;
		}
	}
	return 0;
}

void ppa_look_close(struct ppa_look_files *f)
{
	if (f->task >= 0)
		ppa_sys_close(f->task);
	if (f->mem >= 0)
		ppa_sys_close(f->mem);
	f->task = f->mem = -1;
}

static const char *parse_hex(const char *s, uintptr_t *out)
{
	*out = 0;
	while (*s == ' ')
		s++;
	if (s[0] == '0' && s[1] == 'x')
		s += 2;
	for (;; s++) {
		unsigned digit = *s >= '0' && *s <= '9'	  ? (unsigned)(*s - '0')
				 : *s >= 'a' && *s <= 'f' ? (unsigned)(*s - 'a') + 10
							  : 16;

		if (digit == 16)
			return s;
		*out = *out << 4 | digit;
	}
}

/* "running", "-1 SP PC", or "NUMBER ARG1 ... ARG6 SP PC"; only the number is decimal. */
static void parse(const char *s, struct ppa_look *out)
{
	uintptr_t unused;

	out->kind = PPA_LOOK_RUNNING;
	if (*s != '-' && (*s < '0' || *s > '9'))
		return;
	out->syscall_nr = *s == '-' ? -1 : 0;
	for (s += *s == '-'; *s >= '0' && *s <= '9'; s++)
		if (out->syscall_nr >= 0)
			out->syscall_nr = out->syscall_nr * 10 + (*s - '0');
	for (int i = 0; out->syscall_nr >= 0 && i < 6; i++)
		s = parse_hex(s, &unused);
	s = parse_hex(s, &out->sp);
	parse_hex(s, &out->pc);
	out->kind = out->sp && out->pc ? PPA_LOOK_ASLEEP : PPA_LOOK_UNREADABLE;
}

static void walk(const struct ppa_look_files *f, const struct ppa_look *look, const struct ppa_thread *t,
		 struct ppa_unwind_buf *buf)
{
	struct ppa_sleeper s = {
		.pc = look->pc, .sp = look->sp, .reader = f->reader, .lines = f->lines, .mem_fd = f->mem};
	struct ppa_parked_copy parked;

	if (t && ppa_parked_read(t, &parked) && parked.sp > look->sp) {
		s.anchor_sp = parked.sp;
		s.text_lo = (uintptr_t)__ehdr_start;
		s.text_hi = (uintptr_t)_end;
		memcpy(s.saved, parked.regs, sizeof(s.saved));
	}
	ppa_unwind_asleep(&s, buf);
}

/* What a thread told may have been left standing by a jump out of the wait. At least it must hang where such waits do. */
static bool is_believed(const struct ppa_look_files *f, pid_t tid, const struct ppa_thread *t)
{
	char channel[PPA_LOOK_CHANNEL_MAX];
	struct ppa_parked_copy parked;

	if (!t || !ppa_parked_read(t, &parked))
		return false;
	ppa_look_channel(f, tid, channel);
	switch (parked.kind) {
	case PPA_PARKED_IO:
	case PPA_PARKED_SLEEP:
	case PPA_PARKED_CHILD:
		return !strstr(channel, "futex");
	default:
		return !*channel || strstr(channel, "futex");
	}
}

static void look_unaided(const struct ppa_look_files *f, pid_t tid, const struct ppa_thread *t, struct ppa_look *out,
			 struct ppa_unwind_buf *buf)
{
	char letter = ppa_look_letter(f, tid, NULL, 0);

	out->kind = letter == 'R' ? PPA_LOOK_RUNNING : PPA_LOOK_UNREADABLE;
	out->is_asleep = letter != 'R' && letter != '?';
	if (letter != 'S' || !is_believed(f, tid, t))
		return;
	walk(f, out, t, buf);
	if (buf->anchored)
		out->kind = PPA_LOOK_ASLEEP;
}

static void look_once(const struct ppa_look_files *f, pid_t tid, const struct ppa_thread *t, struct ppa_look *out,
		      struct ppa_unwind_buf *buf)
{
	char line[LINE_BYTES];
	long n = ppa_look_file(f, tid, "syscall", line, sizeof(line));

	out->syscall_nr = -1;
	out->pc = out->sp = 0;
	out->is_asleep = false;
	/* Some kernels have no such file for anyone. */
	if (n == -ESRCH || (n == -ENOENT && !ppa_look_clock(tid))) {
		out->kind = PPA_LOOK_GONE;
	} else if (n <= 0) {
		look_unaided(f, tid, t, out, buf);
	} else {
		parse(line, out);
		out->is_asleep = out->kind == PPA_LOOK_ASLEEP;
		if (out->is_asleep)
			walk(f, out, t, buf);
	}
}

void ppa_look(const struct ppa_look_files *f, pid_t tid, const struct ppa_thread *t, struct ppa_look *out,
	      struct ppa_unwind_buf *buf)
{
	for (int i = 0; i < TRIES; i++) {
		out->cpu_ns = ppa_look_clock(tid);
		look_once(f, tid, t, out, buf);
		if (out->kind != PPA_LOOK_ASLEEP || ppa_look_clock(tid) == out->cpu_ns)
			return;
	}
	out->kind = PPA_LOOK_RUNNING;
}
