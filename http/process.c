/* SPDX-License-Identifier: Apache-2.0
 *
 * /proc/self/exe, stat and status, each read once. Times in stat count from the machine's start, suspended time
 * included, in ticks of 10 ms on every architecture that we run on. */
#include "http/process.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/sys.h"

enum { TEXT_MAX = 2048, TICK_NS = 10000000 };

/* Fields of /proc/PID/stat by their numbers in proc(5). */
enum { STAT_UTIME = 14, STAT_STIME = 15, STAT_STARTTIME = 22 };

static uint64_t number_at(const char *p)
{
	uint64_t n = 0;

	p += strspn(p, " \t");
	for (; *p >= '0' && *p <= '9'; p++)
		n = n * 10 + (uint64_t)(*p - '0');
	return n;
}

uint64_t ppa_process_status_number(const char *status, const char *key)
{
	size_t len = strlen(key);
	const char *line = status;

	while (line && strncmp(line, key, len) != 0) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return line ? number_at(line + len) : 0;
}

uint64_t ppa_process_stat_field(const char *stat, int n)
{
	const char *p = strrchr(stat, ')');

	for (int field = 2; p && field < n; field++) {
		p = strchr(p, ' ');
		p = p ? p + 1 : NULL;
	}
	return p ? number_at(p) : 0;
}

static void read_text(const char *path, char text[TEXT_MAX])
{
	int fd = ppa_sys_open_read(path);
	long n = fd >= 0 ? ppa_sys_pread(fd, text, TEXT_MAX - 1, 0) : 0;

	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		ppa_sys_close(fd);
}

static void look_at_path(struct ppa_process *p)
{
	static const char deleted[] = " (deleted)";
	long n =
		ppa_syscall(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)p->path, sizeof(p->path) - 1, 0, 0);
	size_t len = n > 0 ? (size_t)n : 0;
	const char *slash;

	p->path[len] = '\0';
	if (len >= sizeof(deleted) && !strcmp(p->path + len - (sizeof(deleted) - 1), deleted))
		p->path[len - (sizeof(deleted) - 1)] = '\0';
	slash = strrchr(p->path, '/');
	p->program = slash && slash[1] ? slash + 1 : "?";
}

void ppa_process_look(struct ppa_process *p)
{
	uint64_t now = ppa_sys_clock_ns(CLOCK_BOOTTIME), began;
	char text[TEXT_MAX];

	look_at_path(p);
	p->pid = (int)ppa_sys_getpid();
	read_text("/proc/self/stat", text);
	began = ppa_process_stat_field(text, STAT_STARTTIME) * TICK_NS;
	p->uptime_ns = began && now > began ? now - began : 0;
	p->cpu_ns = (ppa_process_stat_field(text, STAT_UTIME) + ppa_process_stat_field(text, STAT_STIME)) * TICK_NS;
	read_text("/proc/self/status", text);
	p->rss_bytes = ppa_process_status_number(text, "VmRSS:") * 1024;
	p->rss_peak_bytes = ppa_process_status_number(text, "VmHWM:") * 1024;
}
