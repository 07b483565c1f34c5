/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain arrays that grow, texts in blocks, and hash indices over the arrays. The indices die with the picture, the
 * rest becomes the snapshot's. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "agent/snapshot/picture_parts.h"

enum { TEXT_BLOCK_BYTES = 30 << 10, FIRST_ITEMS = 64 };

int ppa_picture_reserve(struct ppa_picture *p, struct ppa_array *a, size_t cap, size_t item_bytes)
{
	void *items = ppa_vheap_realloc(a->items, cap * item_bytes);

	if (!items)
		return p->err = -ENOMEM;
	a->items = items;
	a->cap = cap;
	return 0;
}

void *ppa_picture_add(struct ppa_picture *p, struct ppa_array *a, size_t item_bytes)
{
	/* After a refusal nothing is added any more: what belongs to the missing item would be added to another. */
	if (p->err)
		return NULL;
	if (a->n == a->cap &&
	    ppa_picture_reserve(p, a, ppa_vheap_room_after(a->cap, FIRST_ITEMS, item_bytes), item_bytes))
		return NULL;
	return memset((char *)a->items + a->n++ * item_bytes, 0, item_bytes);
}

static char *text_bytes(struct ppa_picture *p, size_t n)
{
	struct ppa_text_block *b = p->texts;
	size_t cap = n > TEXT_BLOCK_BYTES ? n : TEXT_BLOCK_BYTES;

	if (!b || b->cap - b->used < n) {
		b = ppa_vheap_malloc(sizeof(*b) + cap);
		if (!b) {
			p->err = -ENOMEM;
			return NULL;
		}
		*b = (struct ppa_text_block){.next = p->texts, .cap = cap};
		p->texts = b;
	}
	b->used += n;
	return b->bytes + b->used - n;
}

const char *ppa_picture_keep(struct ppa_picture *p, const char *s)
{
	size_t n = strlen(s) + 1;
	char *t = text_bytes(p, n);

	return t ? memcpy(t, s, n) : "";
}

const char *ppa_picture_text(struct ppa_picture *p, const char *fmt, ...)
{
	char buf[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	return ppa_picture_keep(p, buf);
}

void ppa_picture_comment(struct ppa_picture *p, const char *text)
{
	const char **c = ppa_picture_add(p, &p->comments, sizeof(*c));

	if (c)
		*c = text;
}

/* Make room for one more entry. */
int ppa_picture_index_grow(struct ppa_picture *p, struct ppa_index *x,
			   uint64_t (*hash_of)(const struct ppa_picture *, uint32_t))
{
	size_t cap = x->cap ? 2 * x->cap : 256;
	uint32_t *places;

	if (4 * (x->n + 1) <= 3 * x->cap)
		return 0;
	places = ppa_vheap_calloc(cap, sizeof(*places));
	if (!places)
		return p->err = -ENOMEM;
	for (size_t i = 0; i < x->cap; i++) {
		size_t at;

		if (!x->places[i])
			continue;
		at = hash_of(p, x->places[i] - 1) & (cap - 1);
		while (places[at])
			at = (at + 1) & (cap - 1);
		places[at] = x->places[i];
	}
	ppa_vheap_free(x->places);
	x->places = places;
	x->cap = cap;
	return 0;
}

uint64_t ppa_picture_mix(uint64_t h)
{
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
	return h ^ (h >> 31);
}
