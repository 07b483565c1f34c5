/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that are missing, and why: a reader of a profile should not have to guess whether to install a debug package, to
 * restart a program whose binary was replaced, or to switch on its runtime's perf map. */
#include <inttypes.h>
#include <string.h>

#include "agent/snapshot/picture_parts.h"
#include "unwind/jit/jit.h"
#include "unwind/module/modules.h"
#include "unwind/name/symbols.h"
#include "unwind/name/symload.h"

void ppa_picture_note_gap(struct ppa_picture *p, const struct ppa_module *m)
{
	for (size_t i = 0; i < PPA_PICTURE_GAPS; i++) {
		struct ppa_gap *g = &p->gaps[i];

		if (g->module && g->module->serial != m->serial)
			continue;
		g->module = m;
		g->naddresses++;
		return;
	}
}

static void tell_of_module(struct ppa_picture *p, const struct ppa_gap *g)
{
	const char *why = ppa_symload_gap(g->module);

	if (why)
		ppa_picture_comment(p, ppa_picture_text(p, "pprofagent: %" PRIu32 " addresses in %s have no name: %s",
							g->naddresses, g->module->path, why));
}

static void tell_of_generated(struct ppa_picture *p)
{
	struct ppa_jit_gaps gaps;

	ppa_jit_gaps(&gaps);
	if (gaps.is_foreign)
		ppa_picture_comment(p,
				    "pprofagent: the perf map in /tmp is not used: it is no regular file of our user");
	if (gaps.forgotten)
		ppa_picture_comment(p, ppa_picture_text(p,
							"pprofagent: %" PRIu64
							" names of generated code were forgotten for want of room",
							gaps.forgotten));
	if (gaps.passed_over)
		ppa_picture_comment(p, ppa_picture_text(p,
							"pprofagent: the perf map is too large; its first %" PRIu64
							" MiB were not read",
							gaps.passed_over >> 20));
}

void ppa_picture_tell_gaps(struct ppa_picture *p)
{
	if (!ppa_symbols_are_on())
		return;
	for (size_t i = 0; i < PPA_PICTURE_GAPS && p->gaps[i].module && !p->err; i++)
		tell_of_module(p, &p->gaps[i]);
	if (p->is_jit_fresh)
		tell_of_generated(p);
}
