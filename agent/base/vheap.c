/* SPDX-License-Identifier: Apache-2.0
 *
 * The private heap. Small blocks come from 64 KiB chunks, aligned to their size, each serving one size class, so that
 * a block's chunk is its address with the low bits cleared and no block carries a header. A large block is a chunk of
 * its own whose header is followed by the one block. Chunks with no live block are kept until trim: one a class, and of
 * large ones as many as KEPT_BYTES hold. Mapping and unmapping stops, for a moment, every thread of the target that has
 * a page fault or maps something; so does giving back the ends of a mapping that was made larger to be aligned, for which
 * the kernel is asked to map next to the last one first.
 *
 * Speed is of no concern: these are our server threads, a few thousand calls a request. One lock suffices.
 * Out of memory is NULL; callers fold that into "no profile", the target never learns of it. */
#include "agent/base/vheap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "agent/base/lock.h"
#include "agent/base/sys.h"

enum {
	CHUNK_BYTES = 64 << 10,
	HEADER_BYTES = 64,
	PAGE_BYTES = 4096,
	LARGEST_SMALL = 8192,
	NCLASSES = 20,
	LARGE_CLASS = 255,
	KEPT_MAX = 16,
	KEPT_BYTES = 1 << 20,
	KEPT_LARGEST = 256 << 10,
};

/* Geometric with four steps a doubling from 128 on: at most a quarter of a block is lost. */
static const uint16_t class_bytes[NCLASSES] = {16,  32,	 48,  64,  96,	 128,  160,  192,  256,	 320,
					       384, 512, 640, 768, 1024, 1536, 2048, 3072, 4096, 8192};

struct block {
	struct block *next;
};

struct chunk {
	struct chunk *prev, *next; /* in its class's list */
	struct block *free;
	size_t mapped;	   /* bytes */
	size_t bump;	   /* offset of the first byte never handed out */
	uint32_t live;	   /* blocks in use */
	uint32_t class_no; /* LARGE_CLASS: one block */
};
_Static_assert(sizeof(struct chunk) <= HEADER_BYTES, "the header fits before the first block");

static struct {
	struct ppa_lock lock; /* protects everything below; a leaf */
	struct chunk *chunks[NCLASSES];
	struct chunk *kept[KEPT_MAX]; /* large ones without a block; NULL: none here */
	size_t kept_bytes;
	_Atomic uint64_t mapped;
	_Atomic uintptr_t last; /* where the last mapping was made: a hint */
} heap;

static struct chunk *chunk_of(void *p)
{
	return (struct chunk *)((uintptr_t)p & ~(uintptr_t)(CHUNK_BYTES - 1));
}

/* Right below the last mapping, if that is free: 0 if it is not, or not there. */
static uintptr_t map_below_last(size_t bytes)
{
	uintptr_t last = atomic_load_explicit(&heap.last, memory_order_relaxed), at, got;

	if (last <= bytes)
		return 0;
	at = (last - bytes) & ~(uintptr_t)(CHUNK_BYTES - 1);
	got = (uintptr_t)ppa_syscall(SYS_mmap, (long)at, (long)bytes, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (got > -(uintptr_t)PAGE_BYTES)
		return 0;
	if (got % CHUNK_BYTES == 0)
		return got;
	ppa_sys_unmap((void *)got, bytes);
	return 0;
}

/* Anywhere: map more, give back both ends. */
static uintptr_t map_aligned(size_t bytes)
{
	size_t want = bytes + CHUNK_BYTES;
	uintptr_t raw, at;

	raw = want < bytes ? 0 : (uintptr_t)ppa_sys_map(want);
	if (!raw)
		return 0;
	at = (raw + CHUNK_BYTES - 1) & ~(uintptr_t)(CHUNK_BYTES - 1);
	if (at > raw)
		ppa_sys_unmap((void *)raw, at - raw);
	if (raw + want > at + bytes)
		ppa_sys_unmap((void *)(at + bytes), raw + want - at - bytes);
	return at;
}

/* Zeroed pages whose address is a multiple of the chunk size. */
static struct chunk *map_chunk(size_t bytes, uint32_t class_no)
{
	uintptr_t at = map_below_last(bytes);
	struct chunk *c;

	if (!at)
		at = map_aligned(bytes);
	if (!at)
		return NULL;
	atomic_store_explicit(&heap.last, at, memory_order_relaxed);
	c = (struct chunk *)at;
	c->mapped = bytes;
	c->bump = HEADER_BYTES;
	c->class_no = class_no;
	atomic_fetch_add_explicit(&heap.mapped, bytes, memory_order_relaxed);
	return c;
}

static void unmap_chunk(struct chunk *c)
{
	atomic_fetch_sub_explicit(&heap.mapped, c->mapped, memory_order_relaxed);
	ppa_sys_unmap(c, c->mapped);
}

static void list_push(struct chunk *c)
{
	c->prev = NULL;
	c->next = heap.chunks[c->class_no];
	if (c->next)
		c->next->prev = c;
	heap.chunks[c->class_no] = c;
}

static void list_remove(struct chunk *c)
{
	if (c->next)
		c->next->prev = c->prev;
	if (c->prev)
		c->prev->next = c->next;
	else
		heap.chunks[c->class_no] = c->next;
}

static bool has_room(const struct chunk *c)
{
	return c->free || c->bump + class_bytes[c->class_no] <= CHUNK_BYTES;
}

static void *alloc_small_locked(uint32_t class_no)
{
	struct chunk *c = heap.chunks[class_no];
	void *p;

	/* Chunks with room stand before full ones: see free_small_locked. */
	if (!c || !has_room(c)) {
		c = map_chunk(CHUNK_BYTES, class_no);
		if (!c)
			return NULL;
		list_push(c);
	}
	if (c->free) {
		p = c->free;
		c->free = c->free->next;
	} else {
		p = (char *)c + c->bump;
		c->bump += class_bytes[class_no];
	}
	c->live++;
	if (!has_room(c) && c->next) {
		/* A full chunk leaves the list; its first free brings it back to the front. */
		list_remove(c);
		c->prev = c->next = c;
	}
	return p;
}

static void free_small_locked(struct chunk *c, void *p)
{
	struct block *b = p;
	bool off_list = c->next == c;

	b->next = c->free;
	c->free = b;
	c->live--;
	if (off_list) {
		list_push(c);
	} else if (heap.chunks[c->class_no] != c) {
		list_remove(c);
		list_push(c);
	}
}

/* The smallest that is kept and large enough, but not twice as large. */
static struct chunk *take_kept_locked(size_t bytes)
{
	int best = -1;
	struct chunk *c;

	for (int i = 0; i < KEPT_MAX; i++)
		if (heap.kept[i] && heap.kept[i]->mapped >= bytes && heap.kept[i]->mapped / 2 <= bytes &&
		    (best < 0 || heap.kept[i]->mapped < heap.kept[best]->mapped))
			best = i;
	if (best < 0)
		return NULL;
	c = heap.kept[best];
	heap.kept[best] = NULL;
	heap.kept_bytes -= c->mapped;
	return c;
}

static bool keep_locked(struct chunk *c)
{
	if (c->mapped > KEPT_LARGEST || heap.kept_bytes + c->mapped > KEPT_BYTES)
		return false;
	for (int i = 0; i < KEPT_MAX; i++) {
		if (heap.kept[i])
			continue;
		heap.kept[i] = c;
		heap.kept_bytes += c->mapped;
		return true;
	}
	return false;
}

/* *is_zeroed: the block comes from the kernel. */
static void *alloc_large(size_t bytes, bool *is_zeroed)
{
	size_t whole = (bytes + HEADER_BYTES + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	struct chunk *c;

	if (whole < bytes)
		return NULL;
	ppa_lock(&heap.lock);
	c = take_kept_locked(whole);
	ppa_unlock(&heap.lock);
	*is_zeroed = !c;
	if (!c)
		c = map_chunk(whole, LARGE_CLASS);
	return c ? (char *)c + HEADER_BYTES : NULL;
}

static void *alloc(size_t bytes, bool *is_zeroed)
{
	uint32_t class_no = 0;
	void *p;

	*is_zeroed = false;
	if (bytes > LARGEST_SMALL) {
		p = alloc_large(bytes, is_zeroed);
	} else {
		while (class_bytes[class_no] < bytes)
			class_no++;
		ppa_lock(&heap.lock);
		p = alloc_small_locked(class_no);
		ppa_unlock(&heap.lock);
	}
	if (!p)
		errno = ENOMEM;
	return p;
}

void *ppa_vheap_malloc(size_t bytes)
{
	bool is_zeroed;

	return alloc(bytes, &is_zeroed);
}

void ppa_vheap_free(void *p)
{
	struct chunk *c;
	bool is_kept = true;

	if (!p)
		return;
	c = chunk_of(p);
	ppa_lock(&heap.lock);
	if (c->class_no == LARGE_CLASS)
		is_kept = keep_locked(c);
	else
		free_small_locked(c, p);
	ppa_unlock(&heap.lock);
	if (!is_kept)
		unmap_chunk(c);
}

void *ppa_vheap_calloc(size_t n, size_t bytes)
{
	bool is_zeroed;
	size_t total;
	void *p;

	if (__builtin_mul_overflow(n, bytes, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	p = alloc(total, &is_zeroed);
	if (p && !is_zeroed)
		memset(p, 0, total);
	return p;
}

static size_t usable_bytes(void *p)
{
	struct chunk *c = chunk_of(p);

	return c->class_no == LARGE_CLASS ? c->mapped - HEADER_BYTES : class_bytes[c->class_no];
}

/* A larger place for a very large block, to which its pages are moved, not copied: what grows step by step to megabytes
 * is never there twice. NULL: it stays where it is. */
static struct chunk *grow_large(struct chunk *c, size_t bytes)
{
	size_t old = c->mapped, whole = (bytes + HEADER_BYTES + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	struct chunk *place = whole < bytes ? NULL : map_chunk(whole, LARGE_CLASS);

	if (!place)
		return NULL;
	if (ppa_syscall(SYS_mremap, (long)c, (long)old, (long)whole, MREMAP_MAYMOVE | MREMAP_FIXED, (long)place, 0) !=
	    (long)place) {
		/* The kernel may have cleared the place before it gave up, and somebody else may have it by now: leave it. */
		atomic_fetch_sub_explicit(&heap.mapped, whole, memory_order_relaxed);
		return NULL;
	}
	/* The header came along; the old pages are gone. */
	place->mapped = whole;
	atomic_fetch_sub_explicit(&heap.mapped, old, memory_order_relaxed);
	return place;
}

void *ppa_vheap_realloc(void *p, size_t bytes)
{
	size_t have;
	void *q;

	if (!p)
		return ppa_vheap_malloc(bytes);
	if (bytes == 0) {
		ppa_vheap_free(p);
		return NULL;
	}
	have = usable_bytes(p);
	if (bytes <= have && bytes >= have / 4)
		return p;
	if (bytes > have && chunk_of(p)->class_no == LARGE_CLASS && have >= PPA_VHEAP_MOVED_BYTES - HEADER_BYTES) {
		struct chunk *grown = grow_large(chunk_of(p), bytes);

		if (grown)
			return (char *)grown + HEADER_BYTES;
	}
	q = ppa_vheap_malloc(bytes);
	if (!q)
		return NULL;
	memcpy(q, p, have < bytes ? have : bytes);
	ppa_vheap_free(p);
	return q;
}

char *ppa_vheap_strdup(const char *s)
{
	size_t n = strlen(s) + 1;
	char *p = ppa_vheap_malloc(n);

	return p ? memcpy(p, s, n) : NULL;
}

uint64_t ppa_vheap_mapped_bytes(void)
{
	return atomic_load_explicit(&heap.mapped, memory_order_relaxed);
}

void ppa_vheap_trim(void)
{
	ppa_lock(&heap.lock);
	for (int i = 0; i < KEPT_MAX; i++) {
		if (heap.kept[i])
			unmap_chunk(heap.kept[i]);
		heap.kept[i] = NULL;
	}
	heap.kept_bytes = 0;
	for (uint32_t i = 0; i < NCLASSES; i++) {
		struct chunk *next;

		for (struct chunk *c = heap.chunks[i]; c; c = next) {
			next = c->next;
			if (c->live)
				continue;
			list_remove(c);
			unmap_chunk(c);
		}
	}
	ppa_unlock(&heap.lock);
}

void ppa_vheap_reset(void)
{
	memset(heap.chunks, 0, sizeof(heap.chunks));
	memset(heap.kept, 0, sizeof(heap.kept));
	heap.kept_bytes = 0;
	atomic_store_explicit(&heap.mapped, 0, memory_order_relaxed);
	ppa_lock_reset(&heap.lock);
}
