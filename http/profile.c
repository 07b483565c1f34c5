/* SPDX-License-Identifier: Apache-2.0
 *
 * /debug/pprof/profile and wall: parameters in, a profile of some time out. Nothing is sent before the profile is complete, so that every
 * failure has its status. seconds follows Go to the letter: what is no positive number means 30, never an error. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "agent/snapshot/collect.h"
#include "agent/snapshot/snapshot.h"
#include "http/civetweb_embed.h"
#include "http/format.h"
#include "http/query.h"
#include "http/reply.h"
#include "http/routes.h"

enum { DEFAULT_SECONDS = 30, SECONDS_MAX = 24 * 3600 };

static bool client_is_gone(void *web)
{
	return ppa_web_is_gone(web);
}

/* The wanted duration, or 0 if it is beyond the limit. */
static int64_t seconds_of(const char *query)
{
	int64_t seconds = 0;

	if (ppa_query_get_int(query, "seconds", &seconds) || seconds <= 0)
		return DEFAULT_SECONDS;
	return seconds > SECONDS_MAX ? 0 : seconds;
}

/* 0 and *req filled, or -EINVAL with the error's text in *why. */
static int parse(const char *query, struct ppa_cpu_request *req, const char **why)
{
	int64_t seconds = seconds_of(query), hz = 0;
	char labels[16];
	int err = ppa_query_get_int(query, "hz", &hz);

	*why = "invalid value for \"hz\" - must be an integer from 1 to 1000";
	if (err != -ENOENT && (err || hz < PPA_CPU_HZ_MIN || hz > PPA_CPU_HZ_MAX))
		return -EINVAL;
	*why = "profile duration exceeds limit";
	if (seconds == 0)
		return -EINVAL;
	req->hz = (int)hz;
	req->duration_ns = seconds * 1000000000;
	req->label_tid = ppa_query_get(query, "labels", labels, sizeof(labels)) > 0 && !strcmp(labels, "tid");
	return 0;
}

static void reply_failure(struct ppa_request *r, int err)
{
	const char *text = "Could not enable CPU profiling: internal error";

	switch (err) {
	case -EBUSY:
		text = "Could not enable CPU profiling: cpu profiling already in use";
		break;
	case -ENOMEM:
		text = "Could not enable CPU profiling: out of memory";
		break;
	case -EAGAIN:
		text = "Could not enable CPU profiling: no timer available (limit on pending signals reached)";
		break;
	case -EPERM:
		text = "Could not enable CPU profiling: creating timers is not permitted";
		break;
	}
	ppa_reply_error(r, 500, text);
}

static void handle(struct ppa_request *r, const char *name, const struct ppa_value_type types[2],
		   int (*collect)(const struct ppa_cpu_request *req, struct ppa_snapshot **out))
{
	struct ppa_cpu_request req = {.is_cancelled = client_is_gone, .arg = r->web};
	struct ppa_snapshot *snapshot = NULL;
	struct ppa_form_wish wish;
	const char *why;
	int err;

	if (ppa_format_parse(r->query, types, 2, NULL, &wish, &why) || parse(r->query, &req, &why)) {
		ppa_reply_error(r, 400, why);
		return;
	}
	if (r->method == PPA_METHOD_HEAD) {
		ppa_format_reply_head(r, &wish, name);
		return;
	}
	err = collect(&req, &snapshot);
	if (err == -ECANCELED)
		r->keeps_alive = false;
	else if (err)
		reply_failure(r, err);
	else
		ppa_format_reply(r, &wish, snapshot, name);
}

void ppa_handle_profile(struct ppa_request *r)
{
	static const struct ppa_value_type types[] = PPA_SNAPSHOT_TIME_TYPES("cpu");

	handle(r, "profile", types, ppa_collect_cpu);
}

void ppa_handle_wall(struct ppa_request *r)
{
	static const struct ppa_value_type types[] = PPA_SNAPSHOT_TIME_TYPES("wall");

	handle(r, "wall", types, ppa_collect_wall);
}
