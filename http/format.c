/* SPDX-License-Identifier: Apache-2.0
 *
 * One row for each form: its name in the query, what it is on the wire, and its encoder. The file for pprof is what is
 * meant without format=, and the only form that is downloaded. */
#include "http/format.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "agent/snapshot/collect.h"
#include "http/flamegraph.h"
#include "http/query.h"
#include "http/reply.h"
#include "proto/folded.h"
#include "proto/pprof.h"
#include "proto/sink.h"

enum { NAME_MAX_BYTES = 32 };

static int encode_pprof(const struct ppa_snapshot *s, uint32_t type, struct ppa_sink *out)
{
	(void)type;
	return ppa_pprof_encode(s, out);
}

static const struct {
	const char *name, *content_type;
	const char *policy; /* Content-Security-Policy */
	bool is_file;
	int (*encode)(const struct ppa_snapshot *s, uint32_t type, struct ppa_sink *out);
} forms[] = {
	[PPA_FORMAT_PPROF] = {"pprof", PPA_TYPE_BYTES, NULL, true, encode_pprof},
	[PPA_FORMAT_FOLDED] = {"folded", PPA_TYPE_TEXT, NULL, false, ppa_folded_encode},
	[PPA_FORMAT_FLAMEGRAPH] = {"flamegraph", PPA_TYPE_HTML, ppa_flamegraph_policy, false, ppa_flamegraph_build},
};

static uint32_t type_named(const struct ppa_value_type *types, uint32_t n, const char *name)
{
	uint32_t i = 0;

	while (i < n && strcmp(types[i].type, name) != 0)
		i++;
	return i;
}

/* As pprof's -sample_index: a name or a number. */
static bool parse_type(const char *text, const struct ppa_value_type *types, uint32_t ntypes, uint32_t *out)
{
	int64_t number;

	*out = type_named(types, ntypes, text);
	if (*out == ntypes && !ppa_query_parse_int(text, &number) && number >= 0 && number < ntypes)
		*out = (uint32_t)number;
	return *out < ntypes;
}

int ppa_format_parse(const char *query, const struct ppa_value_type *types, uint32_t ntypes, const char *default_type,
		     struct ppa_form_wish *wish, const char **why)
{
	char text[NAME_MAX_BYTES];
	int n = ppa_query_get(query, "format", text, sizeof(text));
	size_t i = 0;

	*wish = (struct ppa_form_wish){PPA_FORMAT_PPROF, 0};
	if (n == -ENOENT)
		return 0;
	*why = "invalid value for \"format\" - must be pprof, folded or flamegraph";
	while (n > 0 && i < PPA_ARRAY_LEN(forms) && strcmp(text, forms[i].name) != 0)
		i++;
	if (n < 0 || i == PPA_ARRAY_LEN(forms))
		return -EINVAL;
	wish->format = (enum ppa_format)i;
	if (wish->format == PPA_FORMAT_PPROF)
		return 0;
	wish->type = default_type ? type_named(types, ntypes, default_type) : ntypes - 1;
	n = ppa_query_get(query, "type", text, sizeof(text));
	if (n == -ENOENT)
		n = ppa_query_get(query, "sample_index", text, sizeof(text));
	*why = "invalid value for \"type\" - this profile has no such sample type";
	if (n != -ENOENT && (n < 0 || !parse_type(text, types, ntypes, &wish->type)))
		return -EINVAL;
	return 0;
}

static struct ppa_reply reply_of(const struct ppa_form_wish *wish, const char *file)
{
	return (struct ppa_reply){
		.status = 200,
		.type = forms[wish->format].content_type,
		.attachment = forms[wish->format].is_file ? file : NULL,
		.policy = forms[wish->format].policy,
	};
}

void ppa_format_reply_head(struct ppa_request *r, const struct ppa_form_wish *wish, const char *file)
{
	struct ppa_reply h = reply_of(wish, file);

	ppa_reply_send_head(r, &h);
}

void ppa_format_reply(struct ppa_request *r, const struct ppa_form_wish *wish, struct ppa_snapshot *snapshot,
		      const char *file)
{
	struct ppa_reply h = reply_of(wish, file);
	struct ppa_sink body;
	int err;

	ppa_sink_init(&body);
	err = forms[wish->format].encode(snapshot, wish->type, &body);
	ppa_snapshot_free(snapshot);
	if (err)
		ppa_reply_error(r, 500, "failed to encode profile: out of memory");
	else
		ppa_reply_send(r, &h, body.bytes, body.len);
	ppa_sink_free(&body);
}
