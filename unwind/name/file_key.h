/* SPDX-License-Identifier: Apache-2.0
 *
 * What makes two modules the same file: the build id, or device and inode, or for the likes of neither the module's
 * serial. So a library that is unloaded and loaded again is read once. */
#ifndef PPA_UNWIND_NAME_FILE_KEY_H
#define PPA_UNWIND_NAME_FILE_KEY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "agent/base/attr.h"
#include "unwind/module/modules.h"

/* Unused parts are zero. */
struct ppa_file_key {
	uint8_t build_id[PPA_BUILD_ID_MAX];
	uint64_t build_id_len;
	uint64_t dev, ino, serial;
};

/* Context: server. */
static inline void ppa_file_key_of(const struct ppa_module *m, struct ppa_file_key *k)
{
	memset(k, 0, sizeof(*k));
	if (m->build_id_len && m->build_id_len <= PPA_BUILD_ID_MAX) {
		k->build_id_len = m->build_id_len;
		memcpy(k->build_id, m->build_id, m->build_id_len);
	} else if (m->ino) {
		k->dev = m->dev;
		k->ino = m->ino;
	} else {
		k->serial = m->serial;
	}
}

static inline bool ppa_file_key_is(const struct ppa_file_key *a, const struct ppa_file_key *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

#endif
