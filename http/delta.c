/* SPDX-License-Identifier: Apache-2.0
 *
 * /debug/pprof/delta_heap, delta_block and delta_mutex: what was added since the last request for the same, as Grafana's
 * godeltaprof serves it. Meant for one scraper: two would each get a part. Not in the index, whose readers would take
 * something from it. Parameters that scrapers add to everything (seconds, debug, format) mean nothing here. */
#include <errno.h>

#include "agent/snapshot/collect.h"
#include "agent/snapshot/kinds.h"
#include "agent/snapshot/snapshot.h"
#include "http/format.h"
#include "http/reply.h"
#include "http/routes.h"

void ppa_handle_delta(struct ppa_request *r)
{
	static const struct ppa_form_wish file = {.format = PPA_FORMAT_PPROF};
	const char *name = r->path + sizeof(PPA_ROUTES_PREFIX) - 1;
	struct ppa_named_request req = {.kind = ppa_kinds_find(name + sizeof("delta_") - 1), .is_since_last = true};
	struct ppa_snapshot *snapshot;

	if (r->method == PPA_METHOD_HEAD)
		ppa_format_reply_head(r, &file, name);
	else if (ppa_collect_named(&req, &snapshot))
		ppa_reply_error(r, 500, "failed to collect profile");
	else
		ppa_format_reply(r, &file, snapshot, name);
}
