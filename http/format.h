/* SPDX-License-Identifier: Apache-2.0
 *
 * In which form a profile of stacks is answered: format= and, for forms that show one sample type, type= (or pprof's
 * word for it, sample_index=). One place for all profiles. */
#ifndef PPA_HTTP_FORMAT_H
#define PPA_HTTP_FORMAT_H

#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/snapshot/snapshot.h"
#include "http/request.h"

enum ppa_format {
	PPA_FORMAT_PPROF, /* the file for pprof */
	PPA_FORMAT_FOLDED,
	PPA_FORMAT_FLAMEGRAPH,
};

struct ppa_form_wish {
	enum ppa_format format;
	uint32_t type; /* index of the sample type; 0 for PPA_FORMAT_PPROF, which has them all */
};

/* What query asks for, of a profile with these sample types; without a wish the type is default_type, or the last one if
 * that is NULL, as in pprof. 0, or -EINVAL with the error's text in *why. Context: any; pure. */
int ppa_format_parse(const char *query, const struct ppa_value_type *types, uint32_t ntypes, const char *default_type,
		     struct ppa_form_wish *wish, const char **why) PPA_CTX_ANY;

/* The head of a 200 in this form, for HEAD; file is the name of the file for pprof. Context: server. */
void ppa_format_reply_head(struct ppa_request *r, const struct ppa_form_wish *wish, const char *file) PPA_CTX_SERVER;

/* Encode, free the snapshot, and send: in this order, because sending may take long and others may be waiting for the
 * snapshot to be freed. Context: server. */
void ppa_format_reply(struct ppa_request *r, const struct ppa_form_wish *wish, struct ppa_snapshot *snapshot,
		      const char *file) PPA_CTX_SERVER;

#endif
