/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing buffer in the private heap. It doubles while growing means copying, so that writing n bytes copies at most
 * 2n; a refused growth is remembered in err, what was written before stays readable, and every later write is ignored.
 * Rejected: a list of chunks, which would spare the copies but leave each HTTP writer with two shapes of a body. */
#include "proto/sink.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/vheap.h"

enum { FIRST_BYTES = 4096 };

void ppa_sink_init(struct ppa_sink *s)
{
	memset(s, 0, sizeof(*s));
}

static bool grow(struct ppa_sink *s, size_t need)
{
	size_t cap = ppa_vheap_room_after(s->cap, FIRST_BYTES, 1);
	uint8_t *bytes;

	while (cap < need)
		cap = cap > SIZE_MAX / 2 ? need : ppa_vheap_room_after(cap, FIRST_BYTES, 1);
	bytes = ppa_vheap_realloc(s->bytes, cap);
	if (!bytes)
		return false;
	s->bytes = bytes;
	s->cap = cap;
	return true;
}

/* Is there room for len more? */
static bool has_room(struct ppa_sink *s, size_t len)
{
	if (s->err || !len)
		return false;
	if (len > SIZE_MAX - s->len || (s->len + len > s->cap && !grow(s, s->len + len))) {
		s->err = -ENOMEM;
		return false;
	}
	return true;
}

void ppa_sink_write(struct ppa_sink *s, const void *data, size_t len)
{
	if (!has_room(s, len))
		return;
	memcpy(s->bytes + s->len, data, len);
	s->len += len;
}

void ppa_sink_repeat(struct ppa_sink *s, size_t from, size_t len)
{
	/* Only then is it known where the bytes lie. */
	if (!has_room(s, len))
		return;
	memcpy(s->bytes + s->len, s->bytes + from, len);
	s->len += len;
}

void ppa_sink_free(struct ppa_sink *s)
{
	ppa_vheap_free(s->bytes);
	ppa_sink_init(s);
}
