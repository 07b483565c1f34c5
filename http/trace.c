/* SPDX-License-Identifier: Apache-2.0
 *
 * /debug/pprof/trace: parameters in, an execution trace out, complete before its first byte is sent: a file that was cut off
 * opens nowhere. seconds is a float and follows Go to the letter: what is no positive number means 1, never an error. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "agent/snapshot/trace_collect.h"
#include "http/civetweb_embed.h"
#include "http/query.h"
#include "http/reply.h"
#include "http/routes.h"
#include "proto/gotrace.h"
#include "proto/perfetto.h"
#include "proto/sink.h"

static const int64_t default_ns = 1000000000, max_ns = 24 * 3600 * 1000000000LL;

static bool client_is_gone(void *web)
{
	return ppa_web_is_gone(web);
}

/* 0 and *req and *is_perfetto, or -EINVAL with the error's text in *why. */
static int parse(const char *query, struct ppa_trace_request *req, bool *is_perfetto, const char **why)
{
	int64_t ns = 0;
	char format[16];
	int n = ppa_query_get(query, "format", format, sizeof(format)), err;

	*is_perfetto = n > 0 && !strcmp(format, "perfetto");
	*why = "invalid value for \"format\" - must be go or perfetto";
	if (n != -ENOENT && !*is_perfetto && (n < 0 || strcmp(format, "go") != 0))
		return -EINVAL;
	err = ppa_query_get_seconds(query, "last", &ns);
	req->is_past = err != -ENOENT;
	*why = "invalid value for \"last\" - must be a positive number";
	if (req->is_past && (err == -EINVAL || (!err && ns <= 0)))
		return -EINVAL;
	if (!req->is_past)
		err = ppa_query_get_seconds(query, "seconds", &ns);
	if (err == -EINVAL || err == -ENOENT || (!err && ns <= 0)) {
		err = 0;
		ns = default_ns;
	}
	*why = "profile duration exceeds limit";
	if (err || ns > max_ns)
		return -EINVAL;
	req->duration_ns = ns;
	return 0;
}

static void reply_failure(struct ppa_request *r, int err)
{
	switch (err) {
	case -EBUSY:
		ppa_reply_error(r, 500, "Could not enable tracing: runtime error: tracing is already enabled");
		break;
	case -ENOTSUP:
		ppa_reply_error(r, 400, "\"last\" needs the setting PPROF_TRACE_BUFFER");
		break;
	case -ENOMEM:
		ppa_reply_error(r, 500, "Could not enable tracing: out of memory");
		break;
	default:
		ppa_reply_error(r, 500, "Could not enable tracing: internal error");
	}
}

static void reply_trace(struct ppa_request *r, const struct ppa_trace_input *in, bool is_perfetto, const char *name)
{
	struct ppa_sink file;
	int err;

	ppa_sink_init(&file);
	err = is_perfetto ? ppa_perfetto_encode(in, &file) : ppa_gotrace_encode(in, NULL, &file);
	ppa_trace_free(in);
	if (err)
		ppa_reply_error(r, 500,
				err == -ENOMEM ? "failed to encode trace: out of memory" : "failed to encode trace");
	else
		ppa_reply_ok(r, PPA_TYPE_BYTES, name, file.bytes, file.len);
	ppa_sink_free(&file);
}

void ppa_handle_trace(struct ppa_request *r)
{
	struct ppa_trace_request req = {.is_cancelled = client_is_gone, .arg = r->web};
	const struct ppa_trace_input *in = NULL;
	const char *why, *name;
	bool is_perfetto;
	int err;

	if (parse(r->query, &req, &is_perfetto, &why)) {
		ppa_reply_error(r, 400, why);
		return;
	}
	name = is_perfetto ? "trace.pftrace" : "trace";
	if (r->method == PPA_METHOD_HEAD) {
		ppa_reply_ok_head(r, PPA_TYPE_BYTES, name);
		return;
	}
	err = ppa_collect_trace(&req, &in);
	if (err == -ECANCELED)
		r->keeps_alive = false;
	else if (err)
		reply_failure(r, err);
	else
		reply_trace(r, in, is_perfetto, name);
}
