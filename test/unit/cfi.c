/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/walk/cfi.c unwind/walk/unindexed.c unwind/walk/cfi_program.c unwind/walk/expr.c unwind/walk/memory.c unwind/walk/rowcache.c agent/base/sys.c
/* Promise: each call frame instruction does what DWARF says, in modules read in place and by copies alike.
 * Promise: whatever bytes a table consists of, nothing is read outside it and the answer is an error or a row.
 * Promise: expressions compute what DWARF says, and end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "unwind/walk/cfi.h"
#include "unwind/walk/expr.h"
#include "unwind/walk/rowcache.h"

enum { PAGE = 4096, CODE_OFFSET = 0x10000, FUNCTION_BYTES = 0x100 };

/* A module in two pages with unmapped ones around: index, then records, ending with the last byte of the mapping. */
static struct {
	uint8_t *page, *pos;
	uint32_t cie, fde, fde_len_at;
	struct ppa_code code;
	struct ppa_unwind_buf buf;
	struct ppa_memory memory;
	struct ppa_cfi cfi;
} f;

static void put(const void *p, size_t n)
{
	memcpy(f.pos, p, n);
	f.pos += n;
}

static void put32(uint32_t x)
{
	put(&x, 4);
}

/* At any alignment. */
static void store32(void *at, uint32_t x)
{
	memcpy(at, &x, sizeof(x));
}

static uintptr_t function(void)
{
	return (uintptr_t)f.page + CODE_OFFSET;
}

/* Everything up to the instructions of one description, with the given letters and version in its common part. */
static void begin(const char *letters, uint8_t version)
{
	static const uint8_t initial[] = {0x0c, 7, 8, 0x90, 1}; /* def_cfa rsp 8; offset rip 1 */
	uint8_t *len_at;

	if (!f.page) {
		f.page = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		f.page += PAGE;
		mprotect(f.page, 2 * PAGE, PROT_READ | PROT_WRITE);
	}
	memset(f.page, 0, 2 * PAGE);
	f.pos = f.page;
	put("\x01\x1b\x03\x3b", 4);
	put32(20 - 4);	    /* pcrel: .eh_frame begins behind the index */
	put32(1);	    /* entries */
	put32(CODE_OFFSET); /* code */
	f.pos += 4;	    /* description: below */
	len_at = f.pos;
	f.cie = (uint32_t)(f.pos - f.page);
	put32(0);
	put32(0);
	put(&version, 1);
	put(letters, strlen(letters) + 1);
	put("\x01\x78\x10", 3); /* code 1, data -8, return address 16 */
	if (letters[0] == 'z')
		put("\x01\x1b", 2);
	put(initial, sizeof(initial));
	store32(len_at, (uint32_t)(f.pos - len_at - 4));
	f.fde = (uint32_t)(f.pos - f.page);
	store32(f.page + 16, f.fde);
	f.fde_len_at = f.fde;
	put32(0);
	put32((uint32_t)(f.pos - f.page) - f.cie);
	put32((uint32_t)(CODE_OFFSET - (f.pos - f.page)));
	put32(FUNCTION_BYTES);
	if (letters[0] == 'z')
		put("", 1);
}

static void finish(void)
{
	store32(f.page + f.fde_len_at, (uint32_t)(f.pos - f.page) - f.fde_len_at - 4);
	f.code = (struct ppa_code){
		.lo = function(),
		.hi = function() + FUNCTION_BYTES,
		.eh_frame_hdr = (uintptr_t)f.page,
		.cfi_lo = (uintptr_t)f.page,
		.cfi_hi = (uintptr_t)f.pos,
		.stays = true,
	};
}

/* Find offset in the function, in place; by copies the same must come out. */
static int find(uintptr_t offset)
{
	static struct ppa_cfi other;
	int err, again;

	ppa_memory_init(&f.memory, &f.buf);
	f.code.stays = false;
	again = ppa_cfi_find(&other, &f.code, &f.memory, function() + offset);
	f.code.stays = true;
	err = ppa_cfi_find(&f.cfi, &f.code, &f.memory, function() + offset);
	assert_int_equal(err, again);
	if (!err) {
		assert_memory_equal(&f.cfi.row, &other.row, sizeof(other.row));
		assert_int_equal(f.cfi.signal_frame, other.signal_frame);
	}
	return err;
}

static int with(const char *ops, size_t n, uintptr_t offset)
{
	begin("zR", 1);
	put(ops, n);
	finish();
	return find(offset);
}
#define WITH(ops, offset) with(ops, sizeof(ops) - 1, offset)

static void rule(int reg, enum ppa_rule_kind kind, int64_t value)
{
	assert_int_equal(ppa_rule_kind(f.cfi.row.rule[reg]), kind);
	assert_int_equal(ppa_rule_value(f.cfi.row.rule[reg]), value);
}

static void cfa(uint32_t reg, int64_t offset)
{
	assert_int_equal(f.cfi.row.cfa_expr, 0);
	assert_int_equal(f.cfi.row.cfa_reg, reg);
	assert_int_equal(f.cfi.row.cfa_offset, offset);
}

static void rows_change_where_they_say(void **state)
{
	static const char push_rbp[] = "\x41\x0e\x10\x86\x02\x43\x0d\x06"; /* +1 cfa 16, rbp at -16; +3 cfa by rbp */

	(void)state;
	assert_int_equal(WITH(push_rbp, 0), 0);
	cfa(7, 8);
	rule(16, PPA_RULE_AT, -8);
	rule(6, PPA_RULE_SAME, 0);
	assert_int_equal(find(1), 0);
	cfa(7, 16);
	rule(6, PPA_RULE_AT, -16);
	assert_int_equal(find(3), 0);
	cfa(7, 16);
	assert_int_equal(find(4), 0);
	cfa(6, 16);
	assert_int_equal(find(FUNCTION_BYTES - 1), 0);
	assert_int_equal(find(FUNCTION_BYTES), -ENOENT);
	assert_int_equal(find((uintptr_t)-1), -ENOENT);
}

static void every_register_rule(void **state)
{
	(void)state;
	assert_int_equal(WITH("\x05\x03\x02\x11\x0c\x7e\x14\x0d\x01\x15\x0e\x7f", 1), 0);
	rule(3, PPA_RULE_AT, -16);
	rule(12, PPA_RULE_AT, 16);
	rule(13, PPA_RULE_OFFSET, -8);
	rule(14, PPA_RULE_OFFSET, 8);
	assert_int_equal(WITH("\x07\x10\x08\x03\x09\x06\x0f\x2f\x0c\x02", 1), 0);
	rule(16, PPA_RULE_UNDEFINED, 0);
	rule(3, PPA_RULE_SAME, 0);
	rule(6, PPA_RULE_REGISTER, 15);
	rule(12, PPA_RULE_AT, 16);
	assert_int_equal(WITH("\x10\x06\x02\x76\x00\x16\x07\x02\x77\x08", 1), 0);
	assert_int_equal(ppa_rule_kind(f.cfi.row.rule[6]), PPA_RULE_AT_EXPR);
	assert_int_equal(ppa_rule_kind(f.cfi.row.rule[7]), PPA_RULE_EXPR);
	assert_int_equal(WITH("\x91\x02\xa8\x02\x2e\x10", 1), 0); /* xmm0, 40: followed by nobody; args_size */
}

static void every_way_to_say_the_cfa(void **state)
{
	(void)state;
	assert_int_equal(WITH("\x0c\x03\x20\x41\x0d\x06\x41\x0e\x80\x01\x41\x12\x07\x7d\x41\x13\x7c", 0), 0);
	cfa(3, 32);
	assert_int_equal(find(1), 0);
	cfa(6, 32);
	assert_int_equal(find(2), 0);
	cfa(6, 128);
	assert_int_equal(find(3), 0);
	cfa(7, 24);
	assert_int_equal(find(4), 0);
	cfa(7, 32);
	assert_int_equal(WITH("\x0f\x03\x76\x78\x06", 0), 0); /* *(rbp - 8) */
	assert_true(f.cfi.row.cfa_expr != 0);
}

static void states_are_remembered(void **state)
{
	(void)state;
	assert_int_equal(WITH("\x0e\x20\x86\x02\x0a\x41\x0e\x08\xc6\x41\x0b", 1), 0);
	cfa(7, 8);
	rule(6, PPA_RULE_SAME, 0);
	assert_int_equal(find(2), 0);
	cfa(7, 32);
	rule(6, PPA_RULE_AT, -16);
	assert_int_equal(WITH("\x0b", 1), -EINVAL);
	/* Seven deep is one more than is kept: lost when restored, found again one level up. */
	assert_int_equal(WITH("\x0e\x20\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0e\x28\x41\x0b\x41\x0b", 0), 0);
	cfa(7, 40);
	assert_int_equal(find(1), -E2BIG);
	assert_int_equal(find(2), 0);
	cfa(7, 32);
	/* libunwind is not to see expressions that nobody has checked. */
	assert_int_equal(WITH("\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x10\x03\x02\x76\x00\x0b", 0), -EINVAL);
}

static void long_advances(void **state)
{
	(void)state;
	assert_int_equal(WITH("\x02\x20\x0e\x10\x03\x20\x00\x0e\x18\x04\x20\x00\x00\x00\x0e\x20", 0x1f), 0);
	cfa(7, 8);
	assert_int_equal(find(0x20), 0);
	cfa(7, 16);
	assert_int_equal(find(0x40), 0);
	cfa(7, 24);
	assert_int_equal(find(0x60), 0);
	cfa(7, 32);
}

static void augmentations(void **state)
{
	(void)state;
	begin("zRS", 1);
	finish();
	assert_int_equal(find(0), 0);
	assert_true(f.cfi.signal_frame);
	begin("zR", 3);
	finish();
	assert_int_equal(find(0), 0);
	assert_false(f.cfi.signal_frame);
	begin("zR", 2);
	finish();
	assert_int_equal(find(0), -EINVAL);
	begin("zRx", 1); /* unknown, but skippable */
	finish();
	assert_int_equal(find(0), 0);
	begin("eh", 1);
	finish();
	assert_int_equal(find(0), -EINVAL);
}

static void nonsense_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(WITH("\x3f", 1), -EINVAL);	    /* no such instruction */
	assert_int_equal(WITH("\x0f\x7f\x06", 1), -EINVAL); /* block longer than the record */
	assert_int_equal(WITH("\x0c\x11\x08", 1), -EINVAL); /* no such register */
	assert_int_equal(WITH("\x0e", 1), -EINVAL);	    /* operand missing */
	assert_int_equal(WITH("\x0e\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 1), -EINVAL);
	WITH("", 0);
	f.page[0] = 2; /* version */
	assert_int_equal(find(0), -EINVAL);
	WITH("", 0);
	store32(f.page + 8, 0x7fffffff); /* entries */
	assert_int_equal(find(0), -EINVAL);
	WITH("", 0);
	store32(f.page + 16, 0x7fffffff); /* description far outside */
	assert_int_equal(find(0), -EINVAL);
	WITH("", 0);
	store32(f.page + f.fde, 0x7ffffff0); /* its length */
	assert_int_equal(find(0), -EINVAL);
	WITH("", 0);
	store32(f.page + f.fde + 4, 0x7ffffff0); /* its common part */
	assert_int_equal(find(0), -EINVAL);
}

static void without_an_index(void **state)
{
	(void)state;
	WITH("\x41\x0e\x10", 0);
	f.page[2] = f.page[3] = 0xff;
	assert_int_equal(find(1), 0);
	cfa(7, 16);
	assert_int_equal(find(FUNCTION_BYTES), -EINVAL); /* runs off the end, which has no terminator here */
	put32(0);
	f.code.cfi_hi = (uintptr_t)f.pos;
	assert_int_equal(find(FUNCTION_BYTES), -ENOENT);
}

/* Every byte of a good table in turn takes every value, with the table's end at the end of the mapping. */
static void no_byte_is_fatal(void **state)
{
	static const char ops[] =
		"\x41\x0e\x10\x86\x02\x43\x0d\x06\x10\x03\x02\x76\x00\x0a\x0b\x09\x0c\x0d\x0f\x03\x76\x78\x06";
	size_t len, tail = 2 * PAGE;
	uint8_t *copy;

	(void)state;
	WITH(ops, 8);
	len = (size_t)(f.pos - f.page);
	copy = f.page + tail - len;
	for (size_t i = 0; i < len; i++)
		for (int x = 0; x < 256; x += 5) {
			WITH(ops, 8);
			f.page[i] = (uint8_t)x;
			memmove(copy, f.page, len);
			f.code.eh_frame_hdr = f.code.cfi_lo = (uintptr_t)copy;
			f.code.cfi_hi = (uintptr_t)copy + len;
			ppa_memory_init(&f.memory, &f.buf);
			ppa_cfi_find(&f.cfi, &f.code, &f.memory, (uintptr_t)copy + CODE_OFFSET + 8);
			f.code.stays = false;
			ppa_cfi_find(&f.cfi, &f.code, &f.memory, (uintptr_t)copy + CODE_OFFSET + 8);
		}
}

/* ---- expressions ---- */

static int eval(const char *ops, size_t n, uintptr_t *out)
{
	static const struct ppa_regs regs = {.r = {[7] = 1000, [16] = 0x40100b}};
	static uint8_t block[300];
	struct ppa_view v;
	struct ppa_expr e = {&v, &f.memory, &regs};

	block[0] = (uint8_t)n;
	memcpy(block + 1, ops, n);
	ppa_memory_init(&f.memory, &f.buf);
	ppa_view_init(&v, (uintptr_t)block, (uintptr_t)block + 1 + n, NULL, NULL);
	return ppa_expr_eval(&e, (uintptr_t)block, true, 77, out);
}

#define IS(want, ops)                                                                                                  \
	do {                                                                                                           \
		uintptr_t out_ = 0;                                                                                    \
		assert_int_equal(eval(ops, sizeof(ops) - 1, &out_), 0);                                                \
		assert_int_equal(out_, (uintptr_t)(want));                                                             \
	} while (0)
#define FAILS(err, ops)                                                                                                \
	do {                                                                                                           \
		uintptr_t out_ = 0;                                                                                    \
		assert_int_equal(eval(ops, sizeof(ops) - 1, &out_), err);                                              \
	} while (0)

static void expressions_compute(void **state)
{
	(void)state;
	IS(77, "\x96"); /* the CFA is there */
	IS(255, "\x08\xff");
	IS(-1, "\x09\xff");
	IS(0x1234, "\x0a\x34\x12");
	IS(-2, "\x0b\xfe\xff");
	IS(0x80000000u, "\x0c\x00\x00\x00\x80");
	IS(INT32_MIN, "\x0d\x00\x00\x00\x80");
	IS(300, "\x10\xac\x02");
	IS(-128, "\x11\x80\x7f");
	IS(1008, "\x77\x08");					  /* breg7 8 */
	IS(1016, "\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"); /* the PLT's, pc & 15 == 11 */
	IS(154, "\x12\x22");
	IS(1, "\x31\x32\x13");			/* drop */
	IS(1, "\x31\x32\x14");			/* over */
	IS(77, "\x31\x32\x15\x02");		/* pick */
	IS(1, "\x31\x32\x16");			/* swap leaves 1 on top */
	IS(16, "\x31\x32\x33\x17\x13\x34\x24"); /* 1 2 3 rot: 3 1 2; drop; 1 << 4 */
	IS(5, "\x09\xfb\x19");
	IS(-5, "\x35\x1f");
	IS(~5ul, "\x35\x20");
	IS(2, "\x37\x33\x1b");
	IS(1, "\x37\x33\x1d");
	IS(21, "\x37\x33\x1e");
	IS(0, "\x31\x08\x40\x24"); /* shifted out */
	IS(-1, "\x09\xff\x08\x40\x26");
	IS(1, "\x09\xff\x30\x2d");	   /* -1 < 0: signed */
	IS(9, "\x31\x28\x01\x00\x37\x39"); /* bra over lit7 */
	IS(9, "\x2f\x01\x00\x37\x39");
}

static void expressions_end(void **state)
{
	uintptr_t word = 42;
	char deref[] = "\x03........\x06";

	(void)state;
	FAILS(-EINVAL, "\x2f\xfd\xff"); /* skip to itself, for ever */
	FAILS(-EINVAL, "\x2f\x20\x00"); /* out of the block */
	FAILS(-EINVAL, "\x13\x13");	/* empty */
	FAILS(-EINVAL, "\x31\x30\x1b"); /* by zero */
	FAILS(-EINVAL, "\x31\x30\x1d");
	FAILS(-EINVAL, "\x0e\x00\x00\x00\x00\x00\x00\x00\x80\x09\xff\x1b"); /* traps as an instruction */
	FAILS(-EINVAL, "\x31\x2f\xfc\xff");				    /* pushes for ever */
	FAILS(-EINVAL, "\xf0");
	FAILS(-EINVAL, "\x8f\x00"); /* breg31 */
	FAILS(-EINVAL, "\x15\x09");
	FAILS(-EINVAL, "\x0c\x01"); /* cut */
	FAILS(-EFAULT, "\x38\x06"); /* the word at 8 */
	memcpy(deref + 1, &(uintptr_t){(uintptr_t)&word}, 8);
	{
		uintptr_t out;

		assert_int_equal(eval(deref, 10, &out), 0);
		assert_int_equal(out, 42);
	}
}

/* ---- packing ---- */

static void rows_pack(void **state)
{
	struct ppa_row row;

	(void)state;
	assert_int_equal(WITH("\x0e\x40\x83\x07\x8c\x05\x8f\x02", 1), 0);
	assert_true(ppa_row_pack(&f.cfi, function() + 1, &row));
	assert_int_equal((int32_t)row.cfa, 64);
	assert_int_equal(row.saved & PPA_ROW_FIELD_MAX, 7);
	assert_int_equal(row.cfa >> PPA_ROW_DEEPEST_SHIFT & PPA_ROW_FIELD_MAX, 7);
	assert_int_equal(WITH("\x07\x10", 1), 0);
	assert_true(ppa_row_pack(&f.cfi, function(), &row) && (row.cfa & PPA_ROW_END));
	assert_int_equal(WITH("\x0f\x03\x76\x78\x06\x10\x06\x02\x76\x00\x10\x03\x02\x76\x78", 1), 0);
	assert_true(ppa_row_pack(&f.cfi, function(), &row));
	assert_true((row.cfa & PPA_ROW_DEREF) && (row.saved & PPA_ROW_BASE_FP));
	assert_int_equal(WITH("\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22", 1), 0);
	assert_true(ppa_row_pack(&f.cfi, (uintptr_t)10, &row));
	assert_int_equal((int32_t)row.cfa, 8);
	assert_true(ppa_row_pack(&f.cfi, (uintptr_t)11, &row));
	assert_int_equal((int32_t)row.cfa, 16);
	assert_int_equal(WITH("\x83\x80\x10", 1), 0); /* too deep a slot */
	assert_false(ppa_row_pack(&f.cfi, function(), &row));
	assert_int_equal(WITH("\x14\x07\x00", 1), 0); /* a rule for the stack pointer */
	assert_false(ppa_row_pack(&f.cfi, function(), &row));
	assert_int_equal(WITH("\x90\x02", 1), 0); /* the return address elsewhere */
	assert_false(ppa_row_pack(&f.cfi, function(), &row));
}

static void rows_are_remembered_by_pc_and_epoch(void **state)
{
	struct ppa_row row = {5, PPA_ROW_VALID | 9}, got;
	struct ppa_epochs both = {1, 7, 0}, unsettled = {1, 0, 0}, later = {1, 8, 0}, opened = {1, 8, 7};

	(void)state;
	assert_int_equal(ppa_row_init(), 0);
	assert_false(ppa_row_lookup(0x1234, &both, &got));
	ppa_row_store(0x1234, 7, &row);
	assert_true(ppa_row_lookup(0x1234, &both, &got) && got.saved == 5 && got.cfa == row.cfa);
	assert_false(ppa_row_lookup(0x1234, &unsettled, &got));
	assert_false(ppa_row_lookup(0x1234, &later, &got));
	assert_int_equal(ppa_row_lookup(0x1234, &opened, &got), PPA_ROW_MAY_GO);
	assert_false(ppa_row_lookup(0x1235, &both, &got));
	ppa_row_store(0x1234, 1, &row);
	assert_true(ppa_row_lookup(0x1234, &unsettled, &got));
	ppa_row_store(0x1234, 0, &(struct ppa_row){1, 1}); /* not to be remembered */
	assert_true(ppa_row_lookup(0x1234, &unsettled, &got) && got.saved == 5);
}

/* One table for the whole program, so this comes last. */
static void the_table_of_rows_grows_with_need(void **state)
{
	struct ppa_row row = {5, PPA_ROW_VALID | 9}, got;
	struct ppa_epochs now = {1, 7, 0};
	uint32_t first = atomic_load(&ppa_rows.mask);
	int found = 0;

	(void)state;
	/* A few rows, again and again: the same few pages. */
	for (int i = 0; i < 10000; i++)
		if (!ppa_row_lookup(0x1000 + i % 16, &now, &got))
			ppa_row_store(0x1000 + i % 16, 1, &row);
	assert_int_equal(atomic_load(&ppa_rows.mask), first);
	assert_true(first < 512);
	/* Many: nearly all are found. */
	for (int i = 0; i < 40000; i++)
		if (!ppa_row_lookup(0x1000 + i % 4000 * 7, &now, &got))
			ppa_row_store(0x1000 + i % 4000 * 7, 1, &row);
	for (int i = 0; i < 4000; i++)
		found += ppa_row_lookup(0x1000 + i * 7, &now, &got) != PPA_ROW_NONE;
	assert_true(found > 2800);
	/* Whatever comes, it ends. */
	for (int i = 0; i < 1000000; i++)
		ppa_row_store(0x100000 + (uintptr_t)i, 1, &row);
	assert_int_equal(atomic_load(&ppa_rows.mask), PPA_ROW_ENTRIES - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_change_where_they_say),
		cmocka_unit_test(every_register_rule),
		cmocka_unit_test(every_way_to_say_the_cfa),
		cmocka_unit_test(states_are_remembered),
		cmocka_unit_test(long_advances),
		cmocka_unit_test(augmentations),
		cmocka_unit_test(nonsense_is_an_error),
		cmocka_unit_test(without_an_index),
		cmocka_unit_test(no_byte_is_fatal),
		cmocka_unit_test(expressions_compute),
		cmocka_unit_test(expressions_end),
		cmocka_unit_test(rows_pack),
		cmocka_unit_test(rows_are_remembered_by_pc_and_epoch),
		cmocka_unit_test(the_table_of_rows_grows_with_need),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
