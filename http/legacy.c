/* SPDX-License-Identifier: Apache-2.0
 *
 * /pprof/...: what programs linked with gperftools or brpc serve, in the forms that google-pprof, the perl tool, can read.
 * It asks for names at /pprof/symbol, which has the same handler as ours; Go's tool reads these forms, too.
 *
 * growth is our mmap, what the program mapped itself; contention is our mutex: locks only, by whoever made others wait. */
#include <errno.h>
#include <string.h>

#include "agent/snapshot/collect.h"
#include "agent/snapshot/kinds.h"
#include "agent/snapshot/snapshot.h"
#include "http/civetweb_embed.h"
#include "http/query.h"
#include "http/reply.h"
#include "http/routes.h"
#include "proto/gperf.h"
#include "proto/sink.h"
#include "proto/text.h"

enum { DEFAULT_SECONDS = 30, SECONDS_MAX = 24 * 3600 };

static bool client_is_gone(void *web)
{
	return ppa_web_is_gone(web);
}

/* Answer with the snapshot, which is freed, or with why there is none. */
static void reply(struct ppa_request *r, int err, struct ppa_snapshot *snapshot,
		  int (*encode)(const struct ppa_snapshot *s, struct ppa_sink *out), const char *type)
{
	struct ppa_sink body;

	if (err == -ECANCELED)
		r->keeps_alive = false;
	else if (err)
		ppa_reply_error(r, 500,
				err == -EBUSY ? "Could not enable CPU profiling: cpu profiling already in use"
					      : "failed to collect profile");
	if (err)
		return;
	ppa_sink_init(&body);
	err = encode(snapshot, &body);
	/* Before sending, which may take long: others are waiting for it. */
	ppa_snapshot_free(snapshot);
	if (err)
		ppa_reply_error(r, 500, "failed to encode profile: out of memory");
	else
		ppa_reply_ok(r, type, NULL, body.bytes, body.len);
	ppa_sink_free(&body);
}

void ppa_handle_legacy_profile(struct ppa_request *r)
{
	struct ppa_cpu_request req = {.is_cancelled = client_is_gone, .arg = r->web};
	struct ppa_snapshot *snapshot = NULL;
	int64_t seconds = 0;
	int err;

	if (ppa_query_get_int(r->query, "seconds", &seconds) || seconds <= 0)
		seconds = DEFAULT_SECONDS;
	if (seconds > SECONDS_MAX) {
		ppa_reply_error(r, 400, "profile duration exceeds limit");
		return;
	}
	if (r->method == PPA_METHOD_HEAD) {
		ppa_reply_ok_head(r, PPA_TYPE_BYTES, NULL);
		return;
	}
	req.duration_ns = seconds * 1000000000;
	err = ppa_collect_cpu(&req, &snapshot);
	reply(r, err, snapshot, ppa_gperf_encode, PPA_TYPE_BYTES);
}

void ppa_handle_legacy_named(struct ppa_request *r)
{
	static const struct {
		const char *path, *kind;
	} names[] = {{"/pprof/contention", "mutex"}, {"/pprof/growth", "mmap"}, {"/pprof/heap", "heap"}};
	struct ppa_named_request req = {.is_cancelled = client_is_gone, .arg = r->web};
	struct ppa_snapshot *snapshot = NULL;
	int err;

	for (size_t i = 0; i < PPA_ARRAY_LEN(names); i++) {
		if (!strcmp(names[i].path, r->path))
			req.kind = ppa_kinds_find(names[i].kind);
	}
	if (!req.kind) {
		ppa_reply_error(r, 404, "Unknown profile");
		return;
	}
	if (r->method == PPA_METHOD_HEAD) {
		ppa_reply_ok_head(r, PPA_TYPE_TEXT, NULL);
		return;
	}
	err = ppa_collect_named(&req, &snapshot);
	reply(r, err, snapshot, ppa_text_encode_gperftools, PPA_TYPE_TEXT);
}
