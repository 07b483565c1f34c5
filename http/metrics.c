/* SPDX-License-Identifier: Apache-2.0
 *
 * /metrics: the agent's meters in Prometheus' text format, version 0.0.4. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/snapshot/meters.h"
#include "http/reply.h"
#include "http/routes.h"
#include "proto/sink.h"

struct page {
	struct ppa_sink text;
	const char *last; /* name of the meter before */
};

static void PPA_PRINTF(2, 3) put(struct page *p, const char *fmt, ...)
{
	char line[256];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n > 0 && n < (int)sizeof(line))
		ppa_sink_write(&p->text, line, (size_t)n);
	else
		p->text.err = -1;
}

static void put_meter(const struct ppa_meter *m, void *arg)
{
	struct page *p = arg;

	if (!p->last || strcmp(p->last, m->name))
		put(p, "# HELP pprofagent_%s %s\n# TYPE pprofagent_%s %s\n", m->name, m->help, m->name,
		    m->is_counter ? "counter" : "gauge");
	p->last = m->name;
	put(p, "pprofagent_%s", m->name);
	if (m->labels)
		put(p, "{%s}", m->labels);
	if (m->is_ns)
		put(p, " %" PRIu64 ".%09" PRIu64 "\n", m->value / 1000000000, m->value % 1000000000);
	else
		put(p, " %" PRIu64 "\n", m->value);
}

static void put_requests(struct page *p)
{
	for (int class = 2; class <= 5; class ++) {
		char labels[16];
		struct ppa_meter m = {
			.name = "http_requests_total",
			.labels = labels,
			.help = "Requests answered, by class of the status.",
			.is_counter = true,
			.value = ppa_reply_count(class),
		};

		snprintf(labels, sizeof(labels), "code=\"%dxx\"", class);
		put_meter(&m, p);
	}
}

void ppa_handle_metrics(struct ppa_request *r)
{
	struct page p = {.last = NULL};

	ppa_sink_init(&p.text);
	ppa_meters_each(put_meter, &p);
	put_requests(&p);
	if (p.text.err)
		ppa_reply_error(r, 500, "out of memory");
	else
		ppa_reply_ok(r, "text/plain; version=0.0.4; charset=utf-8", NULL, p.text.bytes, p.text.len);
	ppa_sink_free(&p.text);
}
