// link: unwind/walk/walk.c unwind/walk/quick.c unwind/walk/asleep.c unwind/walk/guess.c unwind/walk/generated.c unwind/walk/starts.c unwind/walk/libunwind.c unwind/walk/rowcache.c unwind/walk/cfi.c unwind/walk/unindexed.c unwind/walk/cfi_program.c unwind/walk/expr.c unwind/walk/memory.c unwind/module/modules.c unwind/module/module_table.c unwind/module/module_stays.c unwind/module/module_scan.c unwind/module/maps.c unwind/module/maps_read.c unwind/module/elf_headers.c agent/base/sys.c agent/base/stats.c agent/base/vheap.c agent/base/vendor.c @unwind -lpthread
// flags: -O0 -fno-omit-frame-pointer -fno-stack-protector
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: from the pc and the stack pointer of a sleeper alone its whole stack is found, though every function here
 * counts from a frame pointer that nobody tells: one of fixed size, one whose size only the run knows, one with stale
 * frames of another call below the true one; and what an anchor says is taken only where its frame is. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "unwind/module/modules.h"
#include "unwind/walk/unwind.h"

enum { NEAR = 256 }; /* no function here is larger */

#define NOINLINE __attribute__((noinline, noclone, aligned(256)))

static int pipes[2];
static volatile int tid;

/* Sleeps in read, which libc's wrapper calls for it. */
NOINLINE static long sleep_fixed(long n)
{
	char byte;

	return read(pipes[0], &byte, 1) + n;
}

NOINLINE static long sleep_alloca(long n)
{
	volatile char *room = __builtin_alloca((size_t)n * 40 + 16);
	char byte;

	room[n] = 1;
	return read(pipes[0], &byte, 1) + room[n];
}

/* Leaves frames behind: of itself, and of whom it called. */
NOINLINE static long leave_frames(long depth)
{
	volatile long here[4] = {depth};

	if (depth)
		here[1] = leave_frames(depth - 1);
	return here[0] + here[1];
}

NOINLINE static long sleep_over_old(long n)
{
	volatile char room[6000]; /* not written: what leave_frames left shows */
	char byte;
	long got = read(pipes[0], &byte, 1);

	return got + n + (long)sizeof(room);
}

/* As a libc would that keeps frame pointers: the system call itself stands in such a frame, after pushes and with locals. */
NOINLINE static long sleep_raw(long n)
{
	volatile long room[20] = {n};
	char byte;
	long got;

	__asm__ volatile("syscall"
			 : "=a"(got)
			 : "a"((long)SYS_read), "D"((long)pipes[0]), "S"(&byte), "d"(1L)
			 : "rcx", "r11", "rbx", "r12", "r13", "memory");
	return got + room[0];
}

static long (*volatile sleeps[])(long) = {sleep_fixed, sleep_alloca, sleep_over_old, sleep_raw};

NOINLINE static long outer(long which)
{
	volatile long old = leave_frames(40);

	return sleeps[which](which + 3) + old;
}

NOINLINE static void *thread(void *arg)
{
	tid = (int)syscall(SYS_gettid);
	outer((long)(intptr_t)arg);
	return NULL;
}

/* Where the thread sleeps, as the kernel says it. */
static void look(struct ppa_sleeper *s)
{
	char path[64], line[256];
	unsigned long sp, pc;
	int fd, n;

	memset(s, 0, sizeof(*s));
	s->mem_fd = -1;
	for (int i = 0; i < 2000; i++) {
		usleep(1000);
		snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
		fd = open(path, O_RDONLY);
		if (fd < 0)
			continue;
		n = (int)read(fd, line, sizeof(line) - 1);
		close(fd);
		line[n > 0 ? n : 0] = '\0';
		if (sscanf(line, "0 %*s %*s %*s %*s %*s %*s %lx %lx", &sp, &pc) == 2) { /* read */
			s->sp = sp;
			s->pc = pc;
			return;
		}
	}
	fail_msg("the thread does not sleep in read: %s", line);
}

static int position(const struct ppa_unwind_buf *w, uintptr_t start, size_t len)
{
	for (uint32_t i = 0; i < w->npcs; i++)
		if (w->pcs[i] >= start && w->pcs[i] < start + len)
			return (int)i;
	return -1;
}

static pthread_t sleep_in(long which, struct ppa_sleeper *s)
{
	pthread_t t;

	tid = 0;
	assert_int_equal(pthread_create(&t, NULL, thread, (void *)(intptr_t)which), 0);
	while (!tid)
		usleep(100);
	look(s);
	return t;
}

static void wake(pthread_t t)
{
	assert_int_equal(write(pipes[1], "x", 1), 1);
	pthread_join(t, NULL);
}

static void a_frame_pointer_is_found(long which)
{
	static struct ppa_unwind_buf w;
	struct ppa_sleeper s;
	pthread_t t = sleep_in(which, &s);
	int inner, out;

	ppa_unwind_asleep(&s, &w);
	wake(t);
	inner = position(&w, (uintptr_t)sleeps[which], NEAR);
	out = position(&w, (uintptr_t)outer, NEAR);
	assert_int_equal(w.end, PPA_UNWIND_COMPLETE);
	/* Behind read, perhaps in two parts; or itself the leaf. */
	assert_true(which == 3 ? inner == 0 : inner == 1 || inner == 2);
	assert_int_equal(out, inner + 1);
	assert_int_equal(position(&w, (uintptr_t)thread, NEAR), inner + 2);
	assert_false(w.anchored);
}

static void of_a_frame_of_fixed_size(void **state)
{
	(void)state;
	a_frame_pointer_is_found(0);
}

static void of_a_frame_of_unknown_size(void **state)
{
	(void)state;
	a_frame_pointer_is_found(1);
}

static void above_frames_of_old_calls(void **state)
{
	(void)state;
	a_frame_pointer_is_found(2);
}

static void of_the_frame_that_makes_the_call(void **state)
{
	(void)state;
	a_frame_pointer_is_found(3);
}

static void an_anchor_elsewhere_is_not_believed(void **state)
{
	static struct ppa_unwind_buf w, plain;
	struct ppa_sleeper s;
	pthread_t t = sleep_in(0, &s);

	(void)state;
	ppa_unwind_asleep(&s, &plain);
	/* Some place of the stack, in text that holds no frame there. */
	s.anchor_sp = s.sp + 8;
	s.text_lo = (uintptr_t)outer;
	s.text_hi = s.text_lo + NEAR;
	memset(s.saved, 0x11, sizeof(s.saved));
	ppa_unwind_asleep(&s, &w);
	wake(t);
	assert_false(w.anchored);
	assert_int_equal(w.npcs, plain.npcs);
	assert_memory_equal(w.pcs, plain.pcs, w.npcs * sizeof(*w.pcs));
}

static int prepare(void **state)
{
	(void)state;
	return pipe(pipes) || ppa_unwind_init() || ppa_modules_refresh(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_a_frame_of_fixed_size),
		cmocka_unit_test(of_a_frame_of_unknown_size),
		cmocka_unit_test(above_frames_of_old_calls),
		cmocka_unit_test(of_the_frame_that_makes_the_call),
		cmocka_unit_test(an_anchor_elsewhere_is_not_believed),
	};

	return cmocka_run_group_tests(tests, prepare, NULL);
}
