/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/name/pool.h"

#include <stdbool.h>
#include <string.h>

#include "agent/base/vheap.h"

enum { CHUNK_BYTES = 16 << 10, TEXTS_FIRST = 256 };

struct ppa_pool_chunk {
	struct ppa_pool_chunk *next;
	size_t bytes;
	char data[];
};

static bool add_chunk(struct ppa_pool *p, size_t bytes)
{
	struct ppa_pool_chunk *c;

	bytes = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
	if (bytes > p->max_bytes - p->bytes)
		return false;
	c = ppa_vheap_malloc(sizeof(*c) + bytes);
	if (!c)
		return false;
	c->next = p->chunks;
	c->bytes = bytes;
	p->chunks = c;
	p->left = bytes;
	p->bytes += bytes;
	return true;
}

void *ppa_pool_alloc(struct ppa_pool *p, size_t bytes)
{
	bytes = (bytes + 7) & ~(size_t)7;
	if (bytes > p->left && !add_chunk(p, bytes))
		return NULL;
	p->left -= bytes;
	return p->chunks->data + (p->chunks->bytes - p->left - bytes);
}

static size_t hash(const char *text)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3ULL;
	return (size_t)(h ^ h >> 29);
}

static size_t place(const struct ppa_pool *p, const char *text)
{
	size_t at = hash(text) & (p->cap - 1);

	while (p->texts[at] && strcmp(p->texts[at], text) != 0)
		at = (at + 1) & (p->cap - 1);
	return at;
}

static bool grow(struct ppa_pool *p)
{
	size_t old_cap = p->cap, cap = old_cap ? 2 * old_cap : TEXTS_FIRST;
	const char **old = p->texts, **texts;

	if ((cap - old_cap) * sizeof(*texts) > p->max_bytes - p->bytes)
		return false;
	texts = ppa_vheap_calloc(cap, sizeof(*texts));
	if (!texts)
		return false;
	p->bytes += (cap - old_cap) * sizeof(*texts);
	p->texts = texts;
	p->cap = cap;
	for (size_t i = 0; i < old_cap; i++)
		if (old[i])
			texts[place(p, old[i])] = old[i];
	ppa_vheap_free(old);
	return true;
}

const char *ppa_pool_text(struct ppa_pool *p, const char *text)
{
	size_t at, len = strlen(text);
	char *copy;

	if (2 * (p->ntexts + 1) > p->cap && !grow(p))
		return NULL;
	at = place(p, text);
	if (p->texts[at])
		return p->texts[at];
	copy = ppa_pool_alloc(p, len + 1);
	if (!copy)
		return NULL;
	memcpy(copy, text, len + 1);
	p->texts[at] = copy;
	p->ntexts++;
	return copy;
}

void ppa_pool_free(struct ppa_pool *p)
{
	size_t max_bytes = p->max_bytes;
	struct ppa_pool_chunk *next;

	for (struct ppa_pool_chunk *c = p->chunks; c; c = next) {
		next = c->next;
		ppa_vheap_free(c);
	}
	ppa_vheap_free(p->texts);
	*p = (struct ppa_pool){.max_bytes = max_bytes};
}
