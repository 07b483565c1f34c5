/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files a module's names and lines come from: the one that is mapped, its separate debug file, and the file that
 * several debug files share. Files are opened on our own descriptor table and read with pread, never mapped. */
#ifndef PPA_UNWIND_NAME_MODULE_FILE_H
#define PPA_UNWIND_NAME_MODULE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "agent/base/attr.h"
#include "unwind/module/modules.h"
#include "unwind/name/elf_file.h"

/* A file, to be closed. */
struct ppa_module_file {
	struct ppa_elf_file elf;
	struct stat st;
	char *path; /* in the private heap */
	int fd;
};

/* Open what is mapped as m, by its path or by what the kernel knows: 0, or -ESTALE when the path leads to another file by
 * now, -ENOENT to none, -EACCES to one that we may not read, -ENOEXEC, -ENOMEM or whatever opening says. Context: server. */
int ppa_module_file_open(const struct ppa_module *m, struct ppa_module_file *o) PPA_CTX_SERVER;

/* Open the debug file of m, by build id or else by the link in file, which is the module's own (NULL: it could not be
 * opened). 0, or -ENOENT when there is none that belongs to it. Context: server. */
int ppa_module_file_debug(const struct ppa_module *m, const struct ppa_module_file *file,
			  struct ppa_module_file *o) PPA_CTX_SERVER;

/* Open what dwz moved out of a debug file that was found at path. 0, or -ENOENT when it refers to none, or one that is
 * not there. Context: server. */
int ppa_module_file_alternate(const struct ppa_module_file *debug, struct ppa_module_file *o) PPA_CTX_SERVER;

void ppa_module_file_close(struct ppa_module_file *o) PPA_CTX_SERVER;

#endif
