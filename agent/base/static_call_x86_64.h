/* SPDX-License-Identifier: Apache-2.0
 *
 * The two forms of a static call site (static_call.h), in bytes:
 *
 *     as compiled                          patched
 *     0f 8c rel32   jcc detour             0f 8c^1 rel32   jncc genuine
 *     ff 25 rel32   jmp *pointer(%rip)     e9 rel32        jmp  detour
 *                                          cc              (nobody comes here)
 *
 *
 * and of a static entry
 *
 *     ff 25 rel32   jmp *pointer(%rip)     66 0f 1f 44 00 00   nop
 *
 * Encodings: Intel SDM volume 2, Jcc, JMP and NOP; a condition's opposite differs in its lowest bit. */
#ifndef PPA_BASE_STATIC_CALL_X86_64_H
#define PPA_BASE_STATIC_CALL_X86_64_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The end of an asm goto template that has just set the flags: go to the function's label detour if the condition
 * holds, in the long form of the jump, and make the place known. What follows must be a tail call through a pointer, to
 * which no other way leads (scripts/check-tailcalls looks at the object). */
#define PPA_ARCH_STATIC_CALL(opcode)                                                                                   \
	"\n661:\t.byte 0x0f, " opcode "\n\t.long %l[detour] - . - 4\n\t"                                               \
	".pushsection ppa_static_calls, \"a\"\n\t.balign 4\n\t.long 661b - .\n\t.popsection"
#define PPA_ARCH_IF_BELOW "0x82" /* jb: a subtraction borrowed */
#define PPA_ARCH_IF_NOT_ZERO "0x85"

/* The beginning of a function written in assembly: a jump through pointer, and when patched nothing. */
#define PPA_ARCH_STATIC_ENTRY(pointer)                                                                                 \
	"661:\tjmp *" pointer "(%rip)\n\t"                                                                             \
	".pushsection ppa_static_entries, \"a\"\n\t.balign 4\n\t.long 661b - .\n\t.popsection\n\t"

enum { PPA_ARCH_SITE_BYTES = 12, PPA_ARCH_ENTRY_BYTES = 6 };

/* The patched form of the site whose bytes are at now and which stands at address at. False if it is none, or if the
 * genuine function is out of a direct jump's reach (2 GiB). */
static inline bool ppa_arch_static_call(const uint8_t *now, uintptr_t at, uint8_t patched[PPA_ARCH_SITE_BYTES])
{
	int32_t to_detour, to_pointer, rel;
	int64_t to_genuine;

	if (now[0] != 0x0f || (now[1] & 0xf0) != 0x80 || now[6] != 0xff || now[7] != 0x25)
		return false;
	memcpy(&to_detour, now + 2, sizeof(to_detour));
	memcpy(&to_pointer, now + 8, sizeof(to_pointer));
	/* Each displacement counts from the end of its instruction. */
	to_genuine = (int64_t)(*(const uintptr_t *)(at + 12 + (uintptr_t)(intptr_t)to_pointer) - (at + 6));
	if (to_genuine != (int32_t)to_genuine)
		return false;
	patched[0] = 0x0f;
	patched[1] = now[1] ^ 1;
	rel = (int32_t)to_genuine;
	memcpy(patched + 2, &rel, sizeof(rel));
	patched[6] = 0xe9;
	rel = to_detour - 5;
	memcpy(patched + 7, &rel, sizeof(rel));
	patched[11] = 0xcc;
	return true;
}

/* The same for an entry: one instruction that does nothing. */
static inline bool ppa_arch_static_entry(const uint8_t *now, uintptr_t at, uint8_t patched[PPA_ARCH_ENTRY_BYTES])
{
	static const uint8_t nothing[PPA_ARCH_ENTRY_BYTES] = {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00};

	(void)at;
	memcpy(patched, nothing, sizeof(nothing));
	return now[0] == 0xff && now[1] == 0x25;
}

/* What this thread runs from here on was fetched after what it wrote before (Intel SDM volume 3, 8.1.3: needed where code was
 * written through another address than it runs at). */
static inline void ppa_arch_serialize(void)
{
	uint32_t a = 0, b, c = 0, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d) : : "memory");
}

#endif
