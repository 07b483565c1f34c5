/* SPDX-License-Identifier: Apache-2.0
 *
 * libbacktrace's allocator seam on the private heap. Its own mmap.c never gives memory back and its alloc.c takes the
 * target's malloc; this one does neither. No state: a block is freed by whoever holds it. */
#include "unwind/bt_alloc.h"

#include <errno.h>

#include "agent/base/vheap.h"

static void complain(backtrace_error_callback error_callback, void *data)
{
	if (error_callback)
		error_callback(data, "no memory", ENOMEM);
}

void *backtrace_alloc(struct backtrace_state *state, size_t size, backtrace_error_callback error_callback, void *data)
{
	void *p = size <= PPA_BT_MAX_BYTES ? ppa_vheap_malloc(size) : NULL;

	(void)state;
	if (!p)
		complain(error_callback, data);
	return p;
}

void backtrace_free(struct backtrace_state *state, void *mem, size_t size, backtrace_error_callback error_callback,
		    void *data)
{
	(void)state;
	(void)size;
	(void)error_callback;
	(void)data;
	ppa_vheap_free(mem);
}

void *backtrace_vector_grow(struct backtrace_state *state, size_t size, backtrace_error_callback error_callback,
			    void *data, struct backtrace_vector *vec)
{
	char *end;

	(void)state;
	if (size > vec->alc) {
		size_t want = vec->size + size;
		void *p;

		/* Doubling, so that n grows copy at most 2n bytes. */
		want = want < 4096 ? 4096 : want * 2;
		p = size <= PPA_BT_MAX_BYTES && want <= 2UL * PPA_BT_MAX_BYTES ? ppa_vheap_realloc(vec->base, want) : NULL;
		if (!p) {
			complain(error_callback, data);
			return NULL;
		}
		vec->base = p;
		vec->alc = want - vec->size;
	}
	end = (char *)vec->base + vec->size;
	vec->size += size;
	vec->alc -= size;
	return end;
}

void *backtrace_vector_finish(struct backtrace_state *state, struct backtrace_vector *vec,
			      backtrace_error_callback error_callback, void *data)
{
	void *base;

	if (!backtrace_vector_release(state, vec, error_callback, data))
		return NULL;
	base = vec->base;
	*vec = (struct backtrace_vector){0};
	return base;
}

int backtrace_vector_release(struct backtrace_state *state, struct backtrace_vector *vec,
			     backtrace_error_callback error_callback, void *data)
{
	void *p;

	(void)state;
	vec->alc = 0;
	if (!vec->size) {
		/* realloc to nothing frees; the vector must not keep the old base. */
		ppa_vheap_free(vec->base);
		vec->base = NULL;
		return 1;
	}
	p = ppa_vheap_realloc(vec->base, vec->size);
	if (!p) {
		complain(error_callback, data);
		return 0;
	}
	vec->base = p;
	return 1;
}
