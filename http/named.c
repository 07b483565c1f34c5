/* SPDX-License-Identifier: Apache-2.0
 *
 * Every profile of the kinds' table: /debug/pprof/heap, allocs and their like. debug= chooses between the file for
 * pprof and Go's text, format= between that file and other forms (format.h), seconds= between what is and what changed. Checks come in Go's order with Go's words; the answer
 * begins when it is complete. gc= stops the world in Go. Here there is no collector, and it only allows what could make
 * threads of the target wait, which nothing else may. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/snapshot/collect.h"
#include "agent/snapshot/kinds.h"
#include "agent/snapshot/snapshot.h"
#include "http/civetweb_embed.h"
#include "http/format.h"
#include "http/query.h"
#include "http/reply.h"
#include "http/routes.h"
#include "proto/sink.h"
#include "proto/text.h"

enum { SECONDS_MAX = 24 * 3600, FILE_NAME_MAX = 80 };

/* A text that is being made. */
struct text {
	struct ppa_request *r;
	struct ppa_sink body;
};

static bool client_is_gone(void *arg)
{
	return ppa_web_is_gone(((struct text *)arg)->r->web);
}

static void write_first_part(void *arg, const struct ppa_snapshot *part)
{
	ppa_text_encode(part, &((struct text *)arg)->body);
}

/* debug=: what is no number is 0; a number beyond 64 bits is one all the same. */
static int64_t debug_level(const char *query)
{
	int64_t debug = 0;
	int err = ppa_query_get_int(query, "debug", &debug);

	return err == -ERANGE ? INT64_MAX : err ? 0 : debug;
}

/* 0 and *req filled, or -EINVAL with the error's text in *why. */
static int parse(const char *query, struct ppa_named_request *req, struct ppa_form_wish *wish, const char **why)
{
	const struct ppa_kind *kind = req->kind;
	int64_t seconds = 0, gc = 0;
	int err;

	if (ppa_format_parse(query, kind->types, kind->ntypes, kind->default_type, wish, why))
		return -EINVAL;
	err = ppa_query_get_int(query, "seconds", &seconds);
	req->wants_text = debug_level(query) != 0;
	req->wants_each = debug_level(query) >= 2;
	req->may_pause = !ppa_query_get_int(query, "gc", &gc) && gc > 0;
	*why = "format and debug params are incompatible";
	if (req->wants_text && wish->format != PPA_FORMAT_PPROF)
		return -EINVAL;
	if (err == -ENOENT)
		return 0;
	*why = "invalid value for \"seconds\" - must be a positive integer";
	if (err || seconds <= 0)
		return -EINVAL;
	*why = "\"seconds\" parameter is not supported for this profile type";
	if (!kind->has_delta)
		return -EINVAL;
	*why = "profile duration exceeds limit";
	if (seconds > SECONDS_MAX)
		return -EINVAL;
	*why = "seconds and debug params are incompatible";
	if (req->wants_text)
		return -EINVAL;
	req->delta_ns = seconds * 1000000000;
	return 0;
}

/* debug=1 and 2. */
static void reply_text(struct text *t, struct ppa_snapshot *snapshot)
{
	int err = ppa_text_encode(snapshot, &t->body);

	/* Before sending, which may take long: others are waiting for it. */
	ppa_snapshot_free(snapshot);
	if (err)
		ppa_reply_error(t->r, 500, "failed to encode profile: out of memory");
	else
		ppa_reply_ok(t->r, PPA_TYPE_TEXT, NULL, t->body.bytes, t->body.len);
}

void ppa_handle_named(struct ppa_request *r)
{
	struct text text = {.r = r};
	struct ppa_named_request req = {
		.kind = ppa_kinds_find(r->path + sizeof(PPA_ROUTES_PREFIX) - 1),
		.first_part = write_first_part,
		.is_cancelled = client_is_gone,
		.arg = &text,
	};
	struct ppa_snapshot *snapshot = NULL;
	char name[FILE_NAME_MAX];
	struct ppa_form_wish wish;
	const char *why;
	int err;

	if (parse(r->query, &req, &wish, &why)) {
		ppa_reply_error(r, 400, why);
		return;
	}
	snprintf(name, sizeof(name), "%s%s", req.kind->name, req.delta_ns ? "-delta" : "");
	if (r->method == PPA_METHOD_HEAD && req.wants_text) {
		ppa_reply_ok_head(r, PPA_TYPE_TEXT, NULL);
		return;
	}
	if (r->method == PPA_METHOD_HEAD) {
		ppa_format_reply_head(r, &wish, name);
		return;
	}
	ppa_sink_init(&text.body);
	err = ppa_collect_named(&req, &snapshot);
	if (err == -ECANCELED)
		r->keeps_alive = false;
	else if (err)
		ppa_reply_error(r, 500, "failed to collect profile");
	else if (req.wants_text)
		reply_text(&text, snapshot);
	else
		ppa_format_reply(r, &wish, snapshot, name);
	ppa_sink_free(&text.body);
}
