/* SPDX-License-Identifier: Apache-2.0
 *
 * libbacktrace's allocator seam on the private heap. Its own mmap.c never gives memory back and its
 * alloc.c takes the target's malloc; this one does neither. Every block is in the list of the arena
 * that libbacktrace was entered with; which one that is cannot be told from its calls (the state it
 * passes is made by these very functions), so one thread at a time may be inside. Outside of that
 * there is no memory to be had. */
#include "unwind/name/bt_alloc.h"

#include <errno.h>
#include <string.h>

#include "agent/base/lock.h"
#include "agent/base/vheap.h"

struct ppa_bt_block {
	struct ppa_bt_block *prev, *next;
	size_t bytes;
	size_t pad; /* keeps the payload aligned to 16 */
};

static struct {
	struct ppa_lock lock; /* held from enter to leave; protects arena and its blocks. Above the private heap's */
	struct ppa_bt_arena *arena;
} inside;

void ppa_bt_enter(struct ppa_bt_arena *a)
{
	ppa_lock(&inside.lock);
	inside.arena = a;
}

void ppa_bt_leave(void)
{
	inside.arena = NULL;
	ppa_unlock(&inside.lock);
}

void ppa_bt_drop(struct ppa_bt_arena *a)
{
	struct ppa_bt_block *b, *next;

	for (b = a->blocks; b; b = next) {
		next = b->next;
		ppa_vheap_free(b);
	}
	a->blocks = NULL;
}

void ppa_bt_reset(void)
{
	ppa_lock_reset(&inside.lock);
	inside.arena = NULL;
}

static void *complain(backtrace_error_callback error_callback, void *data)
{
	if (error_callback)
		error_callback(data, "no memory", ENOMEM);
	return NULL;
}

void *backtrace_alloc(struct backtrace_state *state, size_t size, backtrace_error_callback error_callback, void *data)
{
	struct ppa_bt_block *b = NULL;

	(void)state;
	if (inside.arena && size <= PPA_BT_MAX_BYTES)
		b = ppa_vheap_malloc(sizeof(*b) + size);
	if (!b)
		return complain(error_callback, data);
	b->bytes = size;
	b->prev = NULL;
	b->next = inside.arena->blocks;
	if (b->next)
		b->next->prev = b;
	inside.arena->blocks = b;
	return b + 1;
}

void backtrace_free(struct backtrace_state *state, void *mem, size_t size, backtrace_error_callback error_callback,
		    void *data)
{
	struct ppa_bt_block *b = (struct ppa_bt_block *)mem - 1;

	(void)state;
	(void)size;
	(void)error_callback;
	(void)data;
	if (!mem || !inside.arena)
		return;
	if (b->next)
		b->next->prev = b->prev;
	if (b->prev)
		b->prev->next = b->next;
	else
		inside.arena->blocks = b->next;
	ppa_vheap_free(b);
}

/* Move a vector's bytes to a block of that many. */
static int resize(struct backtrace_state *state, struct backtrace_vector *vec, size_t bytes,
		  backtrace_error_callback error_callback, void *data)
{
	void *p = backtrace_alloc(state, bytes, error_callback, data);

	if (!p)
		return 0;
	if (vec->size)
		memcpy(p, vec->base, vec->size);
	backtrace_free(state, vec->base, vec->size + vec->alc, error_callback, data);
	vec->base = p;
	vec->alc = bytes - vec->size;
	return 1;
}

void *backtrace_vector_grow(struct backtrace_state *state, size_t size, backtrace_error_callback error_callback,
			    void *data, struct backtrace_vector *vec)
{
	char *end;

	if (size > PPA_BT_MAX_BYTES)
		return complain(error_callback, data);
	/* Doubling, so that n grows copy at most 2n bytes. */
	if (size > vec->alc && !resize(state, vec, (vec->size + size) * 2 + 512, error_callback, data))
		return NULL;
	end = (char *)vec->base + vec->size;
	vec->size += size;
	vec->alc -= size;
	return end;
}

int backtrace_vector_release(struct backtrace_state *state, struct backtrace_vector *vec,
			     backtrace_error_callback error_callback, void *data)
{
	if (vec->alc && !resize(state, vec, vec->size, error_callback, data))
		return 0;
	vec->alc = 0;
	return 1;
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
