/* SPDX-License-Identifier: Apache-2.0
 *
 * /debug/pprof/settings: GET lists name=value lines, PUT takes some of them back. A request is checked as a whole before
 * any of it counts. Off unless the program was started with PPROF_SETTINGS=1: who may look may not change. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/lock.h"
#include "agent/base/vheap.h"
#include "agent/snapshot/settings.h"
#include "http/civetweb_embed.h"
#include "http/query.h"
#include "http/reply.h"
#include "http/routes.h"
#include "proto/sink.h"

enum { BODY_MAX = 4096, SETTINGS_MAX = 16, LINE_BYTES = 256 };

static struct {
	bool is_allowed; /* set by the keeper before any worker exists */
	/* Held while a request's settings are applied: each is one request's. */
	struct ppa_lock lock;
} state;

void ppa_settings_allow(bool is_allowed)
{
	state.is_allowed = is_allowed;
	ppa_lock_reset(&state.lock);
}

struct wanted {
	bool is_set[SETTINGS_MAX];
	int64_t value[SETTINGS_MAX];
	char why[LINE_BYTES];
};

/* One line: "name=value", a comment or nothing. 0, or -EINVAL with the reason in w->why. */
static int take_line(struct wanted *w, char *line)
{
	const struct ppa_setting *s;
	char *value;
	size_t i, len = strlen(line);

	while (len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\r' || line[len - 1] == '\t'))
		line[--len] = '\0';
	line += strspn(line, " \t");
	if (*line == '#' || *line == '\0')
		return 0;
	value = strchr(line, '=');
	if (value)
		*value++ = '\0';
	for (i = 0; (s = ppa_settings_at(i)) && strcmp(s->name, line); i++)
		;
	if (!s || !value || i >= SETTINGS_MAX) {
		snprintf(w->why, sizeof(w->why), s ? "%.64s has no value" : "there is no setting %.64s", line);
		return -EINVAL;
	}
	if (ppa_query_parse_int(value, &w->value[i]) || w->value[i] < s->min || w->value[i] > s->max) {
		snprintf(w->why, sizeof(w->why), "%s must be a number from %" PRId64 " to %" PRId64, s->name, s->min,
			 s->max);
		return -EINVAL;
	}
	w->is_set[i] = true;
	return 0;
}

/* Lines, or pairs joined by '&' as forms send them. */
static int parse(char *body, struct wanted *w)
{
	int err = 0;

	while (!err && *body) {
		size_t len = strcspn(body, "\n&");
		char *next = body + len + (body[len] != '\0');

		body[len] = '\0';
		err = take_line(w, body);
		body = next;
	}
	return err;
}

static void apply(const struct wanted *w)
{
	const struct ppa_setting *s;

	ppa_lock(&state.lock);
	for (size_t i = 0; i < SETTINGS_MAX && (s = ppa_settings_at(i)); i++)
		if (w->is_set[i])
			s->set(w->value[i]);
	ppa_unlock(&state.lock);
}

static void reply_list(struct ppa_request *r)
{
	const struct ppa_setting *s;
	struct ppa_sink text;
	char line[LINE_BYTES];

	ppa_sink_init(&text);
	for (size_t i = 0; (s = ppa_settings_at(i)); i++) {
		int n = snprintf(line, sizeof(line), "# %s\n%s=%" PRId64 "\n", s->help, s->name, s->get());

		ppa_sink_write(&text, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
	}
	if (text.err)
		ppa_reply_error(r, 500, "out of memory");
	else
		ppa_reply_ok(r, PPA_TYPE_TEXT, NULL, text.bytes, text.len);
	ppa_sink_free(&text);
}

/* The body as a string into buf. 0, or the status to answer with a text in *why. */
static int read_body(struct ppa_request *r, char buf[static BODY_MAX], const char **why)
{
	size_t len = 0;
	long n = 1;

	while (len < BODY_MAX && (n = ppa_web_read_body(r->web, buf + len, BODY_MAX - len)) > 0)
		len += (size_t)n;
	*why = "request body is incomplete";
	if (n < 0)
		return 400;
	*why = "too many settings in one request";
	if (len == BODY_MAX)
		return 413;
	buf[len] = '\0';
	*why = "request body is no text";
	return strlen(buf) == len ? 0 : 400;
}

static void put(struct ppa_request *r)
{
	struct wanted w = {.why = ""};
	const char *why = w.why;
	char *body;
	int status;

	if (!ppa_request_invite_body(r)) {
		r->keeps_alive = false;
		return;
	}
	body = ppa_vheap_malloc(BODY_MAX);
	if (!body) {
		ppa_reply_error(r, 500, "out of memory");
		return;
	}
	status = read_body(r, body, &why);
	if (!status && parse(body, &w)) {
		status = 400;
		why = w.why;
	}
	ppa_vheap_free(body);
	if (status) {
		ppa_reply_error(r, status, why);
		return;
	}
	apply(&w);
	reply_list(r);
}

void ppa_handle_settings(struct ppa_request *r)
{
	if (!state.is_allowed)
		ppa_reply_error(r, 403, "settings cannot be changed: start the program with PPROF_SETTINGS=1");
	else if (r->method == PPA_METHOD_PUT)
		put(r);
	else
		reply_list(r);
}
