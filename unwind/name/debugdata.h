/* SPDX-License-Identifier: Apache-2.0
 *
 * .gnu_debugdata ("mini debug info", on by default in Fedora and its kin): an xz-compressed ELF
 * file inside a stripped one, whose .symtab names the functions that .dynsym does not export.
 * Decompressed by libbacktrace. */
#ifndef PPA_UNWIND_NAME_DEBUGDATA_H
#define PPA_UNWIND_NAME_DEBUGDATA_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/name/bt_alloc.h"

struct ppa_elf_file;

enum { PPA_DEBUGDATA_MAX_PACKED = 16 << 20 }; /* unpacked: PPA_BT_MAX_BYTES */

/* The embedded ELF file. */
struct ppa_debugdata {
	unsigned char *bytes;
	size_t len;
	struct ppa_bt_arena arena; /* holds bytes */
};

/* Decompress it; on 0 *d is to be given to ppa_debugdata_free. 0, or -ENOENT when the file has no
 * such section, -EINVAL when it cannot be decompressed, -EFBIG, -ENOMEM, -EIO. Context: server. */
int ppa_debugdata_read(const struct ppa_elf_file *f, struct ppa_debugdata *d) PPA_CTX_SERVER;
void ppa_debugdata_free(struct ppa_debugdata *d) PPA_CTX_SERVER;

#endif
