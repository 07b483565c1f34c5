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

#include "unwind/walk/prologue_x86_64.h"

static int32_t entered(const uint8_t *code, uintptr_t pc)
{
	return ppa_arch_frame_entered(code, pc).bytes;
}

static int32_t left(const uint8_t *code)
{
	return ppa_arch_frame_left(code).bytes;
}

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
	assert_int_equal(entered(code, 1000), 48 + 0x1d58);
	/* On the way there it is what has run. */
	assert_int_equal(entered(code, 0), 0);
	assert_int_equal(entered(code, 2), 8);
	assert_int_equal(entered(code, 11), 32);
	assert_int_equal(entered(code, 13), 48);
	assert_int_equal(entered(code, 20), 48 + 0x1d58);
}

static void frame_without_subtraction(void **state)
{
	(void)state;
	/* push %rbx; mov; push 8(%rax) as an argument; call */
	assert_int_equal(entered(BYTES(0x53, 0x89, 0xfb, 0xff, 0x70, 8, 0xe8), 100), 8);
	/* an early return before anything is pushed is read up to */
	assert_int_equal(entered(BYTES(0x85, 0xff, 0xc3), 100), 0);
	/* sub $8,%rsp is one, not an argument */
	assert_int_equal(entered(BYTES(0x48, 0x83, 0xec, 8, 0x53, 0xe8), 100), 8);
}

static void way_to_the_return(void **state)
{
	(void)state;
	assert_int_equal(left(BYTES(0xc3)), 0);
	assert_int_equal(left(BYTES(0x5b, 0x5d, 0x41, 0x5c, 0xc3)), 24);
	assert_int_equal(left(BYTES(0x48, 0x81, 0xc4, 0x18, 1, 0, 0, 0x5b, 0xc3)), 0x118 + 8);
	/* conditional jumps are passed by, short ones end it */
	assert_int_equal(left(BYTES(0x74, 5, 0x5b, 0xc3)), 8);
	assert_int_equal(left(BYTES(0xeb, 5, 0x5b, 0xc3)), -1);
	/* a tail call through a register, and what may be a switch */
	assert_int_equal(left(BYTES(0xff, 0xe2)), 0);
	assert_int_equal(left(BYTES(0x89, 0xc0, 0xff, 0xe0)), -1);
	/* pushes on the way would give less than nothing */
	assert_int_equal(left(BYTES(0x55, 0xc3)), -1);
}

/* The caller's frame pointer lies where it was pushed, once it was and until it is popped. */
static void place_of_the_frame_pointer(void **state)
{
	/* push %r12; push %rbp; push %rbx; sub $0x10,%rsp; call */
	const uint8_t *in = BYTES(0x41, 0x54, 0x55, 0x53, 0x48, 0x83, 0xec, 0x10, 0xe8);
	/* add $0x10,%rsp; pop %rbx; pop %rbp; pop %r12; ret */
	const uint8_t *out = BYTES(0x48, 0x83, 0xc4, 0x10, 0x5b, 0x5d, 0x41, 0x5c, 0xc3);

	(void)state;
	assert_int_equal(ppa_arch_frame_entered(in, 100).fp_below, 16);
	assert_int_equal(ppa_arch_frame_entered(in, 3).fp_below, 16);
	assert_int_equal(ppa_arch_frame_entered(in, 2).fp_below, 0);
	assert_int_equal(ppa_arch_frame_left(out).bytes, 40);
	assert_int_equal(ppa_arch_frame_left(out).fp_below, 16);
	/* the second half: pop %r12; ret */
	assert_int_equal(ppa_arch_frame_left(BYTES(0x41, 0x5c, 0xc3)).fp_below, 0);
	/* push %r13 is another register; so is what was popped again before pc: push %rbp; pop %rbp; nop */
	assert_int_equal(ppa_arch_frame_entered(BYTES(0x41, 0x55, 0xe8), 100).fp_below, 0);
	assert_int_equal(ppa_arch_frame_entered(BYTES(0x55, 0x5d, 0x90), 2).fp_below, 0);
}

static void way_to_another_function(void **state)
{
	struct ppa_frame f;

	(void)state;
	/* pop %rbx; jmp 0x1000 bytes behind it */
	f = ppa_arch_frame_left(BYTES(0x5b, 0xe9, 0, 0x10, 0, 0));
	assert_int_equal(f.bytes, 8);
	assert_int_equal(f.jump, 0x1006);
	f = ppa_arch_frame_left(BYTES(0xe9, 0xf0, 0xff, 0xff, 0xff));
	assert_int_equal(f.bytes, 0);
	assert_int_equal(f.jump, -11);
	/* a return tells for sure */
	assert_int_equal(ppa_arch_frame_left(BYTES(0x5b, 0xc3)).jump, 0);
	assert_int_equal(left(BYTES(0xeb, 5, 0xc3)), -1);
}

static void entries_of_a_plt(void **state)
{
	(void)state;
	assert_true(ppa_arch_is_stub(BYTES(0xff, 0x25, 1, 2, 3, 4)));
	assert_true(ppa_arch_is_stub(BYTES(0xf2, 0xff, 0x25, 1, 2, 3, 4)));
	assert_true(ppa_arch_is_stub(BYTES(0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 1)));
	assert_true(ppa_arch_is_stub(BYTES(0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25)));
	assert_false(ppa_arch_is_stub(BYTES(0xff, 0x15, 1, 2, 3, 4))); /* call *(%rip) */
	assert_false(ppa_arch_is_stub(BYTES(0xf3, 0x0f, 0x1e, 0xfa, 0x55)));
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
		struct ppa_frame f;

		for (int i = 0; i < PPA_PROLOGUE_BYTES; i++)
			code[i] = round & 1 ? (uint8_t)rand() : likely[(size_t)rand() % sizeof(likely)];
		f = ppa_arch_frame_entered(code, (uintptr_t)rand() % 300);
		assert_true(f.bytes >= -1 && f.fp_below >= 0 && f.fp_below <= (f.bytes < 0 ? 0 : f.bytes));
		f = ppa_arch_frame_left(code);
		assert_true(f.bytes >= -1 && f.fp_below >= 0 && f.fp_below <= (f.bytes < 0 ? 0 : f.bytes));
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
		cmocka_unit_test(place_of_the_frame_pointer),
		cmocka_unit_test(way_to_another_function),
		cmocka_unit_test(entries_of_a_plt),
		cmocka_unit_test(any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
