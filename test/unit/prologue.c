/* SPDX-License-Identifier: Apache-2.0 */
// link: agent/base/sys.c
/* Promise: lengths of the instructions compilers put at the begin and the end of functions are known; a frame's size is
 * read from what pushes and pops; whatever the bytes are, nothing is read beyond them and the answer is sane. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "unwind/prologue_x86_64.h"

#define BYTES(...) ((const uint8_t[PPA_PROLOGUE_BYTES]){__VA_ARGS__})

static void lengths(void **state)
{
	static const struct {
		uint8_t bytes[16];
		int len;
	} known[] = {
		{{0x55}, 1},					     /* push %rbp */
		{{0x41, 0x57}, 2},				     /* push %r15 */
		{{0x48, 0x89, 0xe5}, 3},			     /* mov %rsp,%rbp */
		{{0x48, 0x83, 0xec, 0x18}, 4},			     /* sub $0x18,%rsp */
		{{0x48, 0x81, 0xec, 0x58, 0x1d, 0, 0}, 7},	     /* sub $0x1d58,%rsp */
		{{0xc7, 0x44, 0x24, 0x5c, 0, 0, 0, 0}, 8},	     /* movl $0,0x5c(%rsp) */
		{{0x66, 0xc7, 0x44, 0x24, 0x5c, 0, 0}, 7},	     /* movw $0,0x5c(%rsp) */
		{{0x64, 0x48, 0x8b, 4, 0x25, 0x28, 0, 0, 0}, 9},     /* mov %fs:0x28,%rax */
		{{0xff, 0xb4, 0x24, 0x98, 0x1d, 0, 0}, 7},	     /* push 0x1d98(%rsp) */
		{{0x48, 0x8d, 0x05, 1, 2, 3, 4}, 7},		     /* lea (%rip),%rax */
		{{0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8}, 10},	     /* movabs */
		{{0xb8, 1, 2, 3, 4}, 5},			     /* mov $,%eax */
		{{0x0f, 0x84, 1, 2, 3, 4}, 6},			     /* je */
		{{0xf3, 0x0f, 0x1e, 0xfa}, 4},			     /* endbr64 */
		{{0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, 10}, /* nopw */
		{{0x0f, 0x29, 0x44, 0x24, 0x10}, 5},		     /* movaps %xmm0,0x10(%rsp) */
		{{0xf6, 0xc1, 0x01}, 3},			     /* test $1,%cl */
		{{0xf7, 0xd8}, 2},				     /* neg %eax */
		{{0xe8, 0, 0, 0, 0}, 5},			     /* call */
		{{0xc3}, 1},					     /* ret */
		{{0xdb, 0xac, 0x24}, 0},			     /* x87: unknown */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (ppa_insn_read(known[i].bytes).len != known[i].len)
			fail_msg("number %zu: %d", i, ppa_insn_read(known[i].bytes).len);
}

/* musl's fmt_fp: six registers with a move between, one subtraction, then arguments that do not count. */
static void frame_of_pushes_and_one_subtraction(void **state)
{
	const uint8_t *code = BYTES(0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54, 0x41, 0x89, 0xd4, 0x55, 0x53, 0x48,
				    0x81, 0xec, 0x58, 0x1d, 0, 0, 0xff, 0xb4, 0x24, 0x98, 0x1d, 0, 0);

	(void)state;
	assert_int_equal(ppa_arch_frame_bytes(code, 1000), 48 + 0x1d58);
	/* On the way there it is what has run. */
	assert_int_equal(ppa_arch_frame_bytes(code, 0), 0);
	assert_int_equal(ppa_arch_frame_bytes(code, 2), 8);
	assert_int_equal(ppa_arch_frame_bytes(code, 11), 32);
	assert_int_equal(ppa_arch_frame_bytes(code, 13), 48);
	assert_int_equal(ppa_arch_frame_bytes(code, 20), 48 + 0x1d58);
}

static void frame_without_subtraction(void **state)
{
	(void)state;
	/* push %rbx; mov; push 8(%rax) as an argument; call */
	assert_int_equal(ppa_arch_frame_bytes(BYTES(0x53, 0x89, 0xfb, 0xff, 0x70, 8, 0xe8), 100), 8);
	/* an early return before anything is pushed is read up to */
	assert_int_equal(ppa_arch_frame_bytes(BYTES(0x85, 0xff, 0xc3), 100), 0);
	/* sub $8,%rsp is one, not an argument */
	assert_int_equal(ppa_arch_frame_bytes(BYTES(0x48, 0x83, 0xec, 8, 0x53, 0xe8), 100), 8);
}

static void way_to_the_return(void **state)
{
	(void)state;
	assert_int_equal(ppa_arch_bytes_to_return(BYTES(0xc3)), 0);
	assert_int_equal(ppa_arch_bytes_to_return(BYTES(0x5b, 0x5d, 0x41, 0x5c, 0xc3)), 24);
	assert_int_equal(ppa_arch_bytes_to_return(BYTES(0x48, 0x81, 0xc4, 0x18, 1, 0, 0, 0x5b, 0xc3)), 0x118 + 8);
	/* conditional jumps are passed by, others end it */
	assert_int_equal(ppa_arch_bytes_to_return(BYTES(0x74, 5, 0x5b, 0xc3)), 8);
	assert_int_equal(ppa_arch_bytes_to_return(BYTES(0xeb, 5, 0x5b, 0xc3)), -1);
	assert_int_equal(ppa_arch_bytes_to_return(BYTES(0xe9, 0, 0, 0, 0, 0xc3)), -1);
	/* a tail call through a register, and what may be a switch */
	assert_int_equal(ppa_arch_bytes_to_return(BYTES(0xff, 0xe2)), 0);
	assert_int_equal(ppa_arch_bytes_to_return(BYTES(0x89, 0xc0, 0xff, 0xe0)), -1);
	/* pushes on the way would give less than nothing */
	assert_int_equal(ppa_arch_bytes_to_return(BYTES(0x55, 0xc3)), -1);
}

/* The bytes end at a page that cannot be read. */
static void any_bytes(void **state)
{
	uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *code;

	(void)state;
	assert_true(pages != MAP_FAILED && !mprotect(pages + 4096, 4096, PROT_NONE));
	code = pages + 4096 - PPA_PROLOGUE_BYTES;
	srand(20260101);
	for (int round = 0; round < 300000; round++) {
		/* half of them of bytes that are read as something */
		static const uint8_t likely[] = {0x48, 0x41, 0x55, 0x83, 0x81, 0xec, 0xc4, 0xff, 0x24, 0x04, 0x05,
						 0x66, 0xf2, 0x0f, 0x84, 0x5b, 0xf7, 0x64, 0x2e, 0x74, 0x00, 0x90};
		int32_t bytes;

		for (int i = 0; i < PPA_PROLOGUE_BYTES; i++)
			code[i] = round & 1 ? (uint8_t)rand() : likely[(size_t)rand() % sizeof(likely)];
		bytes = ppa_arch_frame_bytes(code, (uintptr_t)rand() % 300);
		assert_true(bytes >= -1);
		bytes = ppa_arch_bytes_to_return(code);
		assert_true(bytes >= -1);
	}
	munmap(pages, 8192);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths),
		cmocka_unit_test(frame_of_pushes_and_one_subtraction),
		cmocka_unit_test(frame_without_subtraction),
		cmocka_unit_test(way_to_the_return),
		cmocka_unit_test(any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
