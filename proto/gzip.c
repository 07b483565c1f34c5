/* SPDX-License-Identifier: Apache-2.0
 *
 * write -> in[] -> deflate -> out[] -> sink. The first buffer exists because an encoder writes a
 * byte or two at a time and each call into deflate costs more than that; the second because zlib
 * wants room before it knows how much.
 *
 * Everything, zlib's own state included, is one owner's: the writer's, freed by close. The level
 * weighs the CPU we take from the target, and the time somebody waits, against the bytes on the
 * wire: thorough for what most profiles have, quick for the rest of a long one. Rejected: deflating
 * straight into the sink's memory, which saves one copy of the (small) result and would tie this
 * file to the sink's growth. */
#include "proto/gzip.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#include "agent/base/vheap.h"
#include "proto/sink.h"

enum {
	LEVEL = 5,
	QUICK_LEVEL = 1,
	QUICK_AFTER_BYTES = 256 << 10,
	WINDOW_BITS = 15,
	GZIP_CONTAINER = 16, /* added to the window bits */
	MEM_LEVEL = 8,
	BUFFER_BYTES = 16 << 10,
};

struct ppa_gzip {
	z_stream z;
	struct ppa_sink *sink; /* not ours */
	size_t nin;	       /* bytes waiting in in[] */
	bool is_quick;
	int err; /* sticky */
	uint8_t in[BUFFER_BYTES];
	uint8_t out[BUFFER_BYTES];
};

static voidpf take(voidpf opaque, uInt items, uInt size)
{
	(void)opaque;
	return ppa_vheap_malloc((size_t)items * size);
}

static void give_back(voidpf opaque, voidpf p)
{
	(void)opaque;
	ppa_vheap_free(p);
}

struct ppa_gzip *ppa_gzip_open(struct ppa_sink *out)
{
	struct ppa_gzip *g = ppa_vheap_malloc(sizeof(*g));

	if (!g)
		return NULL;
	memset(&g->z, 0, sizeof(g->z));
	g->z.zalloc = take;
	g->z.zfree = give_back;
	g->sink = out;
	g->nin = 0;
	g->is_quick = false;
	g->err = 0;
	if (deflateInit2(&g->z, LEVEL, Z_DEFLATED, WINDOW_BITS + GZIP_CONTAINER, MEM_LEVEL, Z_DEFAULT_STRATEGY) !=
	    Z_OK) {
		ppa_vheap_free(g);
		return NULL;
	}
	return g;
}

/* Give what waits in in[] to zlib, and what zlib has to the sink; with Z_FINISH, to the last byte.
 */
static void push(struct ppa_gzip *g, int flush)
{
	g->z.next_in = g->in;
	g->z.avail_in = (uInt)g->nin;
	g->nin = 0;
	do {
		bool hurries = !g->is_quick && g->z.total_in >= QUICK_AFTER_BYTES && flush == Z_NO_FLUSH;
		int res;

		g->z.next_out = g->out;
		g->z.avail_out = BUFFER_BYTES;
		/* The first call compresses what is waiting by the old level; Z_BUF_ERROR: there was no room for all. */
		res = hurries ? deflateParams(&g->z, QUICK_LEVEL, Z_DEFAULT_STRATEGY) : deflate(&g->z, flush);
		if (hurries)
			g->is_quick = res == Z_OK;
		/* Z_BUF_ERROR: nothing to do, after an out[] that was filled exactly. */
		if (res != Z_OK && res != Z_STREAM_END && res != Z_BUF_ERROR) {
			g->err = -EIO;
			return;
		}
		ppa_sink_write(g->sink, g->out, BUFFER_BYTES - g->z.avail_out);
	} while (g->z.avail_out == 0);
	g->err = g->sink->err;
}

bool ppa_gzip_write(struct ppa_gzip *g, const void *data, size_t len)
{
	const uint8_t *from = data;

	while (len && !g->err) {
		size_t room = BUFFER_BYTES - g->nin;
		size_t n = len < room ? len : room;

		memcpy(g->in + g->nin, from, n);
		g->nin += n;
		from += n;
		len -= n;
		if (g->nin == BUFFER_BYTES)
			push(g, Z_NO_FLUSH);
	}
	return !g->err;
}

int ppa_gzip_close(struct ppa_gzip *g)
{
	int err;

	if (!g->err)
		push(g, Z_FINISH);
	err = g->err;
	deflateEnd(&g->z);
	ppa_vheap_free(g);
	return err;
}
