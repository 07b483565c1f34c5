/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading x86-64 linkage stubs: all of them, lazy or not, with or without endbr64 and bnd, come
 * down to one indirect jump through the global offset table. */
#ifndef PPA_UNWIND_NAME_PLT_X86_64_H
#define PPA_UNWIND_NAME_PLT_X86_64_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agent/base/attr.h"

enum { PPA_ARCH_STUB_BYTES = 16, PPA_ARCH_GLOB_DAT = R_X86_64_GLOB_DAT, PPA_ARCH_JUMP_SLOT = R_X86_64_JUMP_SLOT };

/* The slot that the stub at link address `address` jumps through; false if it is no stub. Context: server. */
static inline bool ppa_arch_stub_slot(const uint8_t *code, size_t len, uint64_t address, uint64_t *slot)
{
	enum { JUMP_BYTES = 6 }; /* ff 25 and a displacement from the next instruction */
	int32_t displacement;

	for (size_t i = 0; i + JUMP_BYTES <= len; i++) {
		if (code[i] != 0xff || code[i + 1] != 0x25)
			continue;
		memcpy(&displacement, code + i + 2, sizeof(displacement));
		*slot = address + i + JUMP_BYTES + (uint64_t)(int64_t)displacement;
		return true;
	}
	return false;
}

#endif
