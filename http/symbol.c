/* SPDX-License-Identifier: Apache-2.0
 *
 * /debug/pprof/symbol: which function is at these addresses? A client that has a profile without names posts all
 * addresses of a mapping, tens of thousands at a time; GET takes them in the raw query, where a decoder would turn the
 * separating '+' into blanks.
 *
 * The body streams through a small buffer; only the answer is kept, up to a limit. Every line of it ends in a newline,
 * because pprof throws away an unfinished last one. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "agent/snapshot/collect.h"
#include "http/civetweb_embed.h"
#include "http/reply.h"
#include "http/routes.h"
#include "http/symbol_words.h"
#include "proto/sink.h"

enum {
	NAME_MAX_BYTES = 16 << 10, /* C++ symbols of this length exist, and a cut one cannot be demangled */
	PIECE_BYTES = 16 << 10,
	BODY_MAX = 16 << 20,
	ANSWER_MAX = 32 << 20,
	CHECK_CLIENT_EVERY = 1024, /* words */
};

struct answer {
	struct ppa_sink text;
	struct ppa_symbol_words words;
	struct ppa_web *web;
	char *name;  /* NAME_MAX_BYTES */
	char *piece; /* PIECE_BYTES */
	unsigned nwords;
};

static int add_line(struct answer *a, uint64_t address)
{
	char prefix[32];
	int len = ppa_collect_symbol(address, a->name, NAME_MAX_BYTES), n;

	if (++a->nwords % CHECK_CLIENT_EVERY == 0 && ppa_web_is_gone(a->web))
		return -ECANCELED;
	if (len <= 0)
		return 0;
	/* A symbol table may contain anything; a line may not contain a line end. */
	for (int i = 0; i < len; i++) {
		if ((unsigned char)a->name[i] < ' ')
			a->name[i] = '?';
	}
	n = snprintf(prefix, sizeof(prefix), "0x%llx ", (unsigned long long)address);
	ppa_sink_write(&a->text, prefix, (size_t)n);
	ppa_sink_write(&a->text, a->name, (size_t)len);
	ppa_sink_write(&a->text, "\n", 1);
	if (a->text.len > ANSWER_MAX)
		return -E2BIG;
	return a->text.err;
}

static int add_piece(struct answer *a, const char *at, const char *end)
{
	uint64_t address;
	int err = 0;

	while (!err && ppa_symbol_words_next(&a->words, &at, end, &address))
		err = add_line(a, address);
	return err;
}

static int add_last(struct answer *a)
{
	uint64_t address;

	return ppa_symbol_words_last(&a->words, &address) ? add_line(a, address) : 0;
}

static int read_body(struct answer *a)
{
	size_t total = 0;
	int err = 0;

	while (!err) {
		long n = ppa_web_read_body(a->web, a->piece, PIECE_BYTES);

		if (n <= 0)
			return (int)n;
		total += (size_t)n;
		err = total > BODY_MAX ? -E2BIG : add_piece(a, a->piece, a->piece + n);
	}
	return err;
}

static int build(struct ppa_request *r, struct answer *a)
{
	static const char first_line[] = "num_symbols: 1\n"; /* more than 0: there are symbols */
	int err = 0;

	if (!a->name || !a->piece)
		return -ENOMEM;
	ppa_sink_write(&a->text, first_line, sizeof(first_line) - 1);
	if (r->method == PPA_METHOD_POST)
		err = read_body(a);
	else if (r->query)
		err = add_piece(a, r->query, r->query + strlen(r->query));
	return err ? err : add_last(a);
}

void ppa_handle_symbol(struct ppa_request *r)
{
	struct answer a = {.web = r->web};
	int err;

	if (r->method == PPA_METHOD_POST && !ppa_request_invite_body(r)) {
		r->keeps_alive = false;
		return;
	}
	ppa_sink_init(&a.text);
	a.name = ppa_vheap_malloc(NAME_MAX_BYTES);
	a.piece = ppa_vheap_malloc(PIECE_BYTES);
	err = build(r, &a);
	ppa_vheap_free(a.name);
	ppa_vheap_free(a.piece);
	if (!err)
		ppa_reply_ok(r, PPA_TYPE_TEXT, NULL, a.text.bytes, a.text.len);
	else if (err == -ECANCELED)
		r->keeps_alive = false;
	else if (err == -E2BIG)
		ppa_reply_error(r, 413, "too many addresses in one request");
	else if (err == -EIO)
		ppa_reply_error(r, 400, "request body is incomplete");
	else
		ppa_reply_error(r, 500, "out of memory");
	ppa_sink_free(&a.text);
}
