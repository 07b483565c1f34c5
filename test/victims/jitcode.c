/* SPDX-License-Identifier: Apache-2.0
 *
 * A runtime that generates code and announces it to perf: outer calls middle, which calls leaf a hundred times, which
 * counts to a thousand and calls back into native_burn. All frames but native_burn's keep a frame pointer and have no
 * unwind table.
 *
 * jitcode map DIRECTORY: announce in /tmp/perf-PID.map. jitcode dump DIRECTORY: in DIRECTORY/jit-PID.dump.
 * Runs from the beginning; at the gate it announces the functions under other names (and says "renamed"), with a dump leaf moves as
 * well; at the next gate it ends. Nothing else is printed. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "victim.h"

enum { OUTER = 0, MIDDLE = 64, LEAF = 128, MOVED = 4096 + 128, FUNCTION_BYTES = 64, CODE_BYTES = 8192 };

static unsigned char *code;
static _Atomic int stage;
static int file = -1;
static char path[4096];

VICTIM_NOINLINE static void native_burn(void)
{
	victim_spin(1000);
	VICTIM_NO_TAIL_CALL();
}

static void *other_side(void *arg)
{
	victim_gate();
	stage = 1;
	victim_gate();
	stage = 2;
	return arg;
}

static void put_leaf(unsigned at)
{
	static const unsigned char leaf[] = {0x55, 0x48, 0x89, 0xe5,	/* push rbp; mov rbp, rsp */
					     0xb9, 0xe8, 3,    0,    0, /* mov ecx, 1000 */
					     0xff, 0xc9, 0x75, 0xfc,	/* dec ecx; jnz */
					     0xff, 0xd7, 0x5d, 0xc3};	/* call rdi; pop rbp; ret */

	memcpy(code + at, leaf, sizeof(leaf));
}

static void put_middle(unsigned leaf_at)
{
	static const unsigned char middle[] = {
		0x55, 0x48, 0x89, 0xe5, 0x53, 0x57,		/* push rbp; mov rbp, rsp; push rbx; push rdi */
		0xbb, 100,  0,	  0,	0,			/* mov ebx, 100 */
		0x48, 0x8b, 0x7d, 0xf0,				/* mov rdi, [rbp - 16] */
		0x48, 0xb8, 0,	  0,	0,    0,    0, 0, 0, 0, /* mov rax, leaf */
		0xff, 0xd0, 0xff, 0xcb, 0x75, 0xec,		/* call rax; dec ebx; jnz */
		0x5f, 0x5b, 0x5d, 0xc3};			/* pop rdi; pop rbx; pop rbp; ret */
	const unsigned char *leaf = code + leaf_at;

	memcpy(code + MIDDLE, middle, sizeof(middle));
	memcpy(code + MIDDLE + 17, &leaf, sizeof(leaf));
}

static void generate(void)
{
	static const unsigned char outer[] = {0x55, 0x48, 0x89, 0xe5,			/* push rbp; mov rbp, rsp */
					      0x48, 0xb8, 0,	0,    0, 0, 0, 0, 0, 0, /* mov rax, middle */
					      0xff, 0xd0, 0x5d, 0xc3};			/* call rax; pop rbp; ret */
	const unsigned char *middle;

	code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	victim_check(code != MAP_FAILED, "mmap");
	middle = code + MIDDLE;
	memcpy(code + OUTER, outer, sizeof(outer));
	memcpy(code + OUTER + 6, &middle, sizeof(middle));
	put_leaf(LEAF);
	put_leaf(MOVED);
	put_middle(LEAF);
	victim_check(mprotect(code, CODE_BYTES, PROT_READ | PROT_EXEC) == 0, "mprotect");
}

static void out(const void *bytes, size_t len)
{
	victim_check(write(file, bytes, len) == (ssize_t)len, "write");
}

static void announce(int is_dump, unsigned at, const char *name)
{
	uint64_t address = (uint64_t)(uintptr_t)(code + at);
	char line[256];
	int n;
	struct {
		uint32_t id, total;
		uint64_t time;
		uint32_t pid, tid;
		uint64_t vma, address, size, index;
	} load = {0, 0, 0, (uint32_t)getpid(), (uint32_t)getpid(), address, address, FUNCTION_BYTES, at};

	if (is_dump) {
		load.total = (uint32_t)(sizeof(load) + strlen(name) + 1 + FUNCTION_BYTES);
		out(&load, sizeof(load));
		out(name, strlen(name) + 1);
		out(code + at, FUNCTION_BYTES);
		return;
	}
	n = snprintf(line, sizeof(line), "%llx %x %s\n", (unsigned long long)address, FUNCTION_BYTES, name);
	out(line, (size_t)n);
}

static void announce_move(unsigned from, unsigned to)
{
	struct {
		uint32_t id, total;
		uint64_t time;
		uint32_t pid, tid;
		uint64_t vma, from, to, size, index;
	} move = {1,
		  sizeof(move),
		  0,
		  (uint32_t)getpid(),
		  (uint32_t)getpid(),
		  (uint64_t)(uintptr_t)(code + to),
		  (uint64_t)(uintptr_t)(code + from),
		  (uint64_t)(uintptr_t)(code + to),
		  FUNCTION_BYTES,
		  from};

	out(&move, sizeof(move));
}

static void open_file(int is_dump, const char *directory)
{
	struct {
		uint32_t magic, version, total, machine, pad, pid;
		uint64_t time, flags;
	} head = {0x4A695444, 1, sizeof(head), 62, 0, (uint32_t)getpid(), 0, 0};

	if (is_dump)
		snprintf(path, sizeof(path), "%s/jit-%d.dump", directory, (int)getpid());
	else
		snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	file = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);
	victim_check(file >= 0, "open");
	if (!is_dump)
		return;
	out(&head, sizeof(head));
	victim_check(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) != MAP_FAILED, "mmap of the dump");
}

static void rename_all(int is_dump)
{
	announce(is_dump, OUTER, "JS:*laterOuter /srv/app.js:10:1");
	announce(is_dump, MIDDLE, "py::laterMiddle:/srv/app.py");
	if (is_dump) {
		announce_move(LEAF, MOVED);
		victim_check(mprotect(code, CODE_BYTES, PROT_READ | PROT_WRITE) == 0, "mprotect");
		put_middle(MOVED);
		victim_check(mprotect(code, CODE_BYTES, PROT_READ | PROT_EXEC) == 0, "mprotect");
	}
	puts("renamed");
	fflush(stdout);
}

VICTIM_NOINLINE static void run_generated(void)
{
	((void (*)(void (*)(void)))(uintptr_t)(code + OUTER))(native_burn);
	VICTIM_NO_TAIL_CALL();
}

int main(int argc, char **argv)
{
	int is_dump = argc > 1 && strcmp(argv[1], "dump") == 0, is_renamed = 0;
	pthread_t thread;

	victim_check(argc > 2, "usage");
	generate();
	open_file(is_dump, argv[2]);
	announce(is_dump, OUTER, "JS:*jitOuter /srv/app.js:10:1");
	announce(is_dump, MIDDLE, "py::jitMiddle:/srv/app.py");
	announce(is_dump, LEAF, "jit leaf");
	pthread_create(&thread, NULL, other_side, NULL);
	while (stage < 2) {
		run_generated();
		if (stage == 1 && !is_renamed++)
			rename_all(is_dump);
	}
	pthread_join(thread, NULL);
	unlink(path);
	return 0;
}
