/* SPDX-License-Identifier: Apache-2.0
 *
 * Decompressing .gnu_debugdata through libbacktrace's only public decoder. It takes no state for
 * that beyond what it hands to its allocator, which is ours (unwind/name/bt_alloc.c), so none is made.
 * libbacktrace learns the unpacked size from the stream's index and allocates it at once: the
 * allocator's cap is what bounds a lying index. */
#include "unwind/name/debugdata.h"

#include <errno.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "unwind/name/elf_file.h"

/* Exported by libbacktrace for its own tests; in no header. 1 on success, 0 otherwise. */
extern int backtrace_uncompress_lzma(struct backtrace_state *state, const unsigned char *compressed,
				     size_t compressed_size, backtrace_error_callback error_callback, void *data,
				     unsigned char **uncompressed, size_t *uncompressed_size);

static void ignore_error(void *data, const char *message, int errnum)
{
	(void)data;
	(void)message;
	(void)errnum;
}

int ppa_debugdata_read(const struct ppa_elf_file *f, struct ppa_debugdata *d)
{
	const Elf64_Shdr *section = ppa_elf_section_named(f, ".gnu_debugdata");
	char *packed;
	int err;

	memset(d, 0, sizeof(*d));
	if (!section)
		return -ENOENT;
	err = ppa_elf_read_section(f, section, PPA_DEBUGDATA_MAX_PACKED, &packed);
	if (err)
		return err;
	ppa_bt_enter(&d->arena);
	if (!backtrace_uncompress_lzma(NULL, (const unsigned char *)packed, (size_t)section->sh_size, ignore_error,
				       NULL, &d->bytes, &d->len))
		err = -EINVAL;
	ppa_bt_leave();
	ppa_vheap_free(packed);
	if (err)
		ppa_debugdata_free(d);
	return err;
}

void ppa_debugdata_free(struct ppa_debugdata *d)
{
	ppa_bt_drop(&d->arena);
	memset(d, 0, sizeof(*d));
}
