/* SPDX-License-Identifier: Apache-2.0
 *
 * What a loaded ELF object says about itself in its mapped headers: where it was meant to lie, where its text is, its
 * unwind index, its build id. Read by bounded copies, since a mapping listed a moment ago may be gone. */
#ifndef PPA_UNWIND_MODULE_ELF_HEADERS_H
#define PPA_UNWIND_MODULE_ELF_HEADERS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/module/modules.h"

enum { PPA_ELF_MAX_SEGMENTS = 16 };

struct ppa_elf_segment {
	uintptr_t start, end; /* runtime addresses, whole pages */
	uint64_t offset;      /* of start in the file */
	bool readable, executable;
};

struct ppa_elf {
	uintptr_t bias;
	uintptr_t lo, hi;
	uintptr_t dynamic; /* 0 if none */
	size_t dynamic_len;
	uintptr_t eh_frame_hdr;
	size_t eh_frame_hdr_len;
	uint8_t build_id[PPA_BUILD_ID_MAX];
	size_t build_id_len;
	size_t nsegments; /* PT_LOAD; what is beyond the maximum is ignored */
	struct ppa_elf_segment segment[PPA_ELF_MAX_SEGMENTS];
};

/* Read the object whose file's first byte is mapped at header. Returns 0, -ENOEXEC if it is no 64-bit ELF object for a
 * running process, -EFAULT if it cannot be read. Context: server. */
int ppa_elf_headers_read(uintptr_t header, struct ppa_elf *out) PPA_CTX_SERVER;

#endif
