/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/walk/walk.c unwind/walk/quick.c unwind/walk/asleep.c unwind/walk/guess.c unwind/walk/generated.c unwind/walk/starts.c unwind/walk/libunwind.c unwind/walk/rowcache.c unwind/walk/cfi.c unwind/walk/unindexed.c unwind/walk/cfi_program.c unwind/walk/expr.c unwind/walk/memory.c agent/base/sys.c agent/base/stats.c agent/base/vheap.c agent/base/vendor.c @unwind
// flags: -fno-stack-protector
/* Promise: no registers, no stack and no unwind tables make the walker fault, read outside what it may, or not end.
 *
 * The module table is a fake: one module, whose index and records are the input's. Read in place they lie in memory of
 * exactly their size under the address sanitizer, or end at an unmapped page. The stack is a mapping between unmapped
 * pages; the code is calls, and read only as generated code. Input: flags, registers and stack words in three bytes each (what they point to and
 * where), then either a whole table or the instructions of one description. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "unwind/module/modules.h"
#include "unwind/walk/rowcache.h"
#include "unwind/walk/unwind.h"

enum { PAGE = 4096, STACK_BYTES = 4 * PAGE, CODE_BYTES = 0x1000, TABLE_BYTES = 4 * PAGE, STACK_WORDS = 64, NREGS = 17 };
enum {
	TELL_BOUNDS = 1,
	STAYS = 2,
	WHOLE_TABLE = 4,
	CACHED = 8,
	LOW_LIES = 16,
	TWICE = 32,
	OPINION = 64,
	GENERATED = 128
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	uint8_t *stack, *table; /* each followed by an unmapped page */
	uint8_t *start;		/* of this input's table, which ends where the table's mapping ends */
	uintptr_t code;
	uint8_t flags;
	uint64_t epoch;
} f;

/* ---- the module table ---- */

unsigned ppa_modules_read_begin(void)
{
	return 0;
}

void ppa_modules_read_end(unsigned token)
{
	(void)token;
}

void ppa_modules_mark(void)
{
}

struct ppa_epochs ppa_modules_epochs(void)
{
	uint64_t rest = f.flags & CACHED ? f.epoch : 0;

	return (struct ppa_epochs){.stays = 1, .rest = rest, .loader = rest};
}

bool ppa_modules_is_text(uintptr_t pc)
{
	return !(f.flags & GENERATED) && pc - f.code < CODE_BYTES;
}

bool ppa_modules_is_foreign(uintptr_t pc)
{
	return f.flags & GENERATED && pc - f.code < CODE_BYTES;
}

bool ppa_modules_find(uintptr_t pc, struct ppa_code *out)
{
	if (!ppa_modules_is_text(pc))
		return false;
	*out = (struct ppa_code){
		.lo = f.code,
		.hi = f.code + CODE_BYTES,
		.eh_frame_hdr = (uintptr_t)f.start,
		.eh_frame_hdr_len = 12,
		.cfi_lo = (uintptr_t)f.start,
		.cfi_hi = (uintptr_t)f.table + TABLE_BYTES,
		.serial = 1,
		.epoch = f.flags & CACHED ? f.epoch : 0,
		.stays = f.flags & STAYS,
	};
	return true;
}

/* ---- the input ---- */

static uint8_t *map_guarded(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + PAGE, bytes, PROT_READ | PROT_WRITE))
		abort();
	return p + PAGE;
}

static bool take(const uint8_t **data, size_t *size, void *out, size_t n)
{
	if (*size < n)
		return false;
	memcpy(out, *data, n);
	*data += n;
	*size -= n;
	return true;
}

static uintptr_t take_word(const uint8_t **data, size_t *size)
{
	uint8_t b[3] = {0};
	uintptr_t x;

	take(data, size, b, sizeof(b));
	x = b[1] | (uintptr_t)b[2] << 8;
	switch (b[0] % 6) {
	case 0:
		return (uintptr_t)f.stack + x % STACK_BYTES;
	case 1:
		return f.code + x % CODE_BYTES;
	case 2:
		return x;
	case 3:
		return (uintptr_t)(f.table + x % TABLE_BYTES);
	case 4:
		return UINTPTR_MAX - x;
	default:
		return (x << 32) + x;
	}
}

static void put32(uint8_t **p, uint32_t x)
{
	memcpy(*p, &x, 4);
	*p += 4;
}

/* An index of one entry, its common part, and a description with the input's instructions. */
static void build_table(const uint8_t *ops, size_t n)
{
	static const uint8_t head[] = {1, 0x1b, 3, 0x3b, 16, 0, 0, 0, 1, 0, 0, 0};
	static const uint8_t cie[] = {20, 0,	0,  0, 0,    0,	   0, 0, 1,    'z', 'R', 0,
				      1,  0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1,   0,	 0};
	uint8_t *p;

	n = n > TABLE_BYTES - 128 ? TABLE_BYTES - 128 : n;
	p = f.start = f.table + TABLE_BYTES - (sizeof(head) + 8 + sizeof(cie) + 17 + n);
	memcpy(p, head, sizeof(head));
	p += sizeof(head);
	put32(&p, (uint32_t)(f.code - (uintptr_t)f.start));
	put32(&p, 20 + sizeof(cie));
	memcpy(p, cie, sizeof(cie));
	p += sizeof(cie);
	put32(&p, (uint32_t)(13 + n));
	put32(&p, (uint32_t)sizeof(cie) + 4);
	put32(&p, (uint32_t)(f.code - (uintptr_t)p));
	put32(&p, CODE_BYTES / 2);
	*p++ = 0;
	memcpy(p, ops, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* One to the next instruction, one through a register, one to far away. */
	static const uint8_t calls[16] = {0xe8, 0, 0, 0, 0, 0xff, 0xd0, 0xe8, 0, 0, 0x10, 0, 0x55, 0xc3, 0x90, 0x90};
	static struct ppa_unwind_buf buf;
	struct ppa_stack_bounds bounds;
	uintptr_t words[STACK_WORDS];
	ucontext_t uc;

	if (!f.stack) {
		f.stack = map_guarded(STACK_BYTES);
		f.table = map_guarded(TABLE_BYTES);
		f.code = (uintptr_t)map_guarded(CODE_BYTES);
		for (size_t i = 0; i < CODE_BYTES; i += sizeof(calls))
			memcpy((uint8_t *)f.code + i, calls, sizeof(calls));
		if (ppa_unwind_init())
			abort();
	}
	f.epoch++;
	if (!take(&data, &size, &f.flags, 1))
		return 0;
	memset(&uc, 0, sizeof(uc));
	for (int i = 0; i < NREGS; i++)
		uc.uc_mcontext.gregs[i] = (greg_t)take_word(&data, &size);
	for (int i = 0; i < STACK_WORDS; i++)
		words[i] = take_word(&data, &size);
	for (size_t at = 0; at < STACK_BYTES; at += sizeof(words))
		memcpy(f.stack + at, words, sizeof(words));
	if (f.flags & WHOLE_TABLE) {
		size = size > TABLE_BYTES ? TABLE_BYTES : size;
		f.start = f.table + TABLE_BYTES - size;
		memcpy(f.start, data, size);
	} else {
		build_table(data, size);
	}
	bounds.lo = f.flags & LOW_LIES ? 0 : (uintptr_t)f.stack;
	bounds.hi = (uintptr_t)f.stack + STACK_BYTES;
	/* A lower bound that lies is only believed for a stack pointer that is real. */
	if (f.flags & LOW_LIES && (uintptr_t)uc.uc_mcontext.gregs[REG_RSP] < (uintptr_t)f.stack + 128)
		bounds.lo = (uintptr_t)f.stack;
	if (f.flags & OPINION) { /* our own stack, as an alternate one with room for libunwind */
		uc.uc_stack.ss_sp = (char *)__builtin_frame_address(0) - (64 << 10);
		uc.uc_stack.ss_size = 128 << 10;
	}
	ppa_unwind_context(&uc, f.flags & TELL_BOUNDS ? &bounds : NULL, &buf);
	if (!buf.npcs || buf.npcs > PPA_UNWIND_MAX_FRAMES || buf.end >= PPA_UNWIND_NENDS)
		abort();
	if (f.flags & TWICE)
		ppa_unwind_context(&uc, f.flags & TELL_BOUNDS ? &bounds : NULL, &buf);
	return 0;
}
