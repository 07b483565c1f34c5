/* SPDX-License-Identifier: Apache-2.0
 *
 * .gnu_debugdata ("mini debug info", on by default in Fedora and its kin): an xz-compressed ELF file inside a stripped
 * one, whose .symtab names the functions that .dynsym does not export. Decompressed by libbacktrace. */
#ifndef PPA_UNWIND_DEBUGDATA_H
#define PPA_UNWIND_DEBUGDATA_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_elf_file;

enum { PPA_DEBUGDATA_MAX_PACKED = 16 << 20, PPA_DEBUGDATA_MAX_BYTES = 64 << 20 };

/* The embedded ELF file, in the private heap: the caller frees *out with ppa_vheap_free. 0, or -ENOENT when the file
 * has no such section, -EINVAL when it cannot be decompressed, -EFBIG, -ENOMEM, -EIO. Context: server. */
int ppa_debugdata_read(const struct ppa_elf_file *f, uint8_t **out, size_t *len) PPA_CTX_SERVER;

#endif
