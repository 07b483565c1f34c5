/* SPDX-License-Identifier: Apache-2.0
 *
 * A set is its text: key NUL value NUL, by key. Sets hang in chains from a fixed array of heads, published as sites are
 * (sites.c): complete first, then one compare-and-swap, and the loser of a race looks again. A set's number is known
 * before it is published, so whoever finds it can use it. A number that a loser drew stays unused.
 *
 * Text is cut from chunks of the budget; the last chunk and the last numbers are kept for "[other labels]". */
#include "agent/profile/tags.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "agent/base/budget.h"

enum {
	BUCKETS = 1024,
	CHUNK_BYTES = 64 << 10,
	FOLD_SETS = 256, /* numbers that only folded sets get */
	BUDGET_SHARE = 8,
};

struct set {
	struct set *next; /* in its bucket; constant once published, as all the rest */
	uint64_t hash;
	uint32_t id;
	uint32_t bytes;
	char text[];
};

struct chunk {
	_Atomic size_t used;
	char bytes[CHUNK_BYTES - sizeof(size_t)];
};

/* A set under construction. */
struct draft {
	uint32_t npairs, bytes;
	char text[PPA_TAGS_SET_BYTES];
};

static struct {
	_Atomic(struct set *) buckets[BUCKETS];
	_Atomic(struct set *) by_id[PPA_TAGS_SETS];
	_Atomic(struct chunk *) current;
	_Atomic uint32_t nchunks;
	_Atomic uint32_t nsets; /* numbers given, from PPA_TAGS_LOST + 1 on */
	_Atomic uint64_t folded;
} tags;

static const char fold_value[] = "[other labels]";

/* ---- text ---- */

static bool is_reserved(const char *key)
{
	static const char *const own[] = {"thread", "tid", "bytes", "age_seconds", "backing"};

	for (size_t i = 0; i < PPA_ARRAY_LEN(own); i++)
		if (strcmp(key, own[i]) == 0)
			return true;
	return strncmp(key, "pprof::", 7) == 0;
}

/* The bytes of value that are kept: not half of a UTF-8 character. */
static size_t value_len(const char *value)
{
	size_t n = strnlen(value, PPA_TAGS_VALUE_MAX + 1);

	if (n <= PPA_TAGS_VALUE_MAX)
		return n;
	n = PPA_TAGS_VALUE_MAX;
	while (n && ((unsigned char)value[n] & 0xc0) == 0x80)
		n--;
	return n;
}

static int put(struct draft *d, const char *key, const char *value, size_t len)
{
	size_t key_bytes = strlen(key) + 1;

	if (d->npairs == PPA_TAGS_PAIRS || d->bytes + key_bytes + len + 1 > sizeof(d->text))
		return -ENOSPC;
	memcpy(d->text + d->bytes, key, key_bytes);
	memcpy(d->text + d->bytes + key_bytes, value, len);
	d->bytes += (uint32_t)(key_bytes + len + 1);
	d->text[d->bytes - 1] = '\0';
	d->npairs++;
	return 0;
}

static int compose(struct draft *d, uint32_t base, const char *key, const char *value)
{
	size_t len = value ? value_len(value) : 0;
	bool is_placed = !value;
	struct ppa_tag t;
	int err = 0;

	d->npairs = d->bytes = 0;
	for (uint32_t i = 0; !err && ppa_tags_at(base, i, &t); i++) {
		int order = strcmp(t.key, key);

		if (!is_placed && order >= 0) {
			err = put(d, key, value, len);
			is_placed = true;
		}
		if (!err && order != 0)
			err = put(d, t.key, t.value, strlen(t.value));
	}
	return err || is_placed ? err : put(d, key, value, len);
}

/* ---- the table ---- */

/* FNV-1a, then splitmix64's finalizer, because the low bits choose the bucket. */
static uint64_t hash_of(const struct draft *d)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (uint32_t i = 0; i < d->bytes; i++)
		h = (h ^ (unsigned char)d->text[i]) * 0x100000001b3ULL;
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
	return h ^ (h >> 31);
}

static struct set *search(struct set *from, const struct set *until, const char *text, uint32_t bytes, uint64_t hash)
{
	for (; from != until; from = from->next)
		if (from->hash == hash && from->bytes == bytes && memcmp(from->text, text, bytes) == 0)
			return from;
	return NULL;
}

static uint32_t chunks_max(void)
{
	uint64_t share = ppa_budget_limit() / BUDGET_SHARE;

	return (uint32_t)((share < PPA_TAGS_MEMORY ? share : PPA_TAGS_MEMORY) / CHUNK_BYTES);
}

/* Bytes that stay for ever, aligned for a set; NULL when there is no more. */
static void *cut(size_t n, bool is_fold)
{
	n = (n + sizeof(uint64_t) - 1) & ~(sizeof(uint64_t) - 1);
	for (;;) {
		/* acquire: the chunk's first word was written before it was published. */
		struct chunk *c = atomic_load_explicit(&tags.current, memory_order_acquire), *fresh;
		uint32_t nchunks = atomic_load_explicit(&tags.nchunks, memory_order_relaxed);
		size_t at;

		if (!is_fold && nchunks >= chunks_max())
			return NULL;
		/* A refused cut leaves used beyond the end, and the chunk closed: so room is looked for first. */
		if (c && atomic_load_explicit(&c->used, memory_order_relaxed) + n <= sizeof(c->bytes)) {
			at = atomic_fetch_add_explicit(&c->used, n, memory_order_relaxed);
			if (at + n <= sizeof(c->bytes))
				return c->bytes + at;
		}
		if (nchunks + (is_fold ? 0 : 1) >= chunks_max())
			return NULL;
		fresh = ppa_budget_map(sizeof(*fresh));
		if (!fresh)
			return NULL;
		if (!atomic_compare_exchange_strong_explicit(&tags.current, &c, fresh, memory_order_acq_rel,
							     memory_order_relaxed))
			ppa_budget_unmap(fresh, sizeof(*fresh));
		else
			atomic_fetch_add_explicit(&tags.nchunks, 1, memory_order_relaxed);
	}
}

/* A number for a set, 0 when there is none. */
static uint32_t draw_id(bool is_fold)
{
	uint32_t first = PPA_TAGS_LOST + 1, most = PPA_TAGS_SETS - first - (is_fold ? 0 : FOLD_SETS);
	uint32_t n = atomic_load_explicit(&tags.nsets, memory_order_relaxed);

	do {
		if (n >= most)
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(&tags.nsets, &n, n + 1, memory_order_relaxed,
							memory_order_relaxed));
	return first + n;
}

static struct set *make(const struct draft *d, uint64_t hash, bool is_fold)
{
	uint32_t id;
	struct set *s = cut(sizeof(*s) + d->bytes, is_fold);

	if (!s)
		return NULL;
	id = draw_id(is_fold);
	if (!id)
		return NULL;
	s->hash = hash;
	s->id = id;
	s->bytes = d->bytes;
	memcpy(s->text, d->text, d->bytes);
	/* release: the set is complete; pairs with the acquire in set_of. */
	atomic_store_explicit(&tags.by_id[id], s, memory_order_release);
	return s;
}

static uint32_t publish(struct set *s, struct set *seen)
{
	_Atomic(struct set *) *bucket = &tags.buckets[s->hash % BUCKETS];
	struct set *head = seen, *same;

	for (;;) {
		s->next = head;
		/* release: the set is complete; pairs with the acquire of whoever walks the chain. */
		if (atomic_compare_exchange_strong_explicit(bucket, &head, s, memory_order_release,
							    memory_order_acquire))
			return s->id;
		same = search(head, seen, s->text, s->bytes, s->hash);
		if (same)
			return same->id;
		seen = head;
	}
}

/* The number of this set, made if it is new; 0 when there is no room. */
static uint32_t intern(const struct draft *d, bool is_fold)
{
	uint64_t hash = hash_of(d);
	/* acquire: pairs with the release in publish. */
	struct set *head = atomic_load_explicit(&tags.buckets[hash % BUCKETS], memory_order_acquire);
	struct set *s = search(head, NULL, d->text, d->bytes, hash);

	if (s)
		return s->id;
	s = make(d, hash, is_fold);
	return s ? publish(s, head) : 0;
}

int ppa_tags_with(uint32_t base, const char *key, const char *value, uint32_t *out)
{
	struct draft d;
	uint32_t id;
	int err;

	base = base == PPA_TAGS_LOST ? PPA_TAGS_NONE : base;
	if (!key || !*key || strnlen(key, PPA_TAGS_KEY_MAX + 1) > PPA_TAGS_KEY_MAX || is_reserved(key))
		return -EINVAL;
	err = compose(&d, base, key, value);
	if (err)
		return err;
	id = d.npairs ? intern(&d, false) : PPA_TAGS_NONE;
	if (!id && d.npairs) {
		atomic_fetch_add_explicit(&tags.folded, 1, memory_order_relaxed);
		if (!compose(&d, base, key, value ? fold_value : NULL))
			id = intern(&d, true);
		if (!id)
			id = PPA_TAGS_LOST;
	}
	*out = id;
	return 0;
}

static const struct set *set_of(uint32_t id)
{
	return id < PPA_TAGS_SETS ? atomic_load_explicit(&tags.by_id[id], memory_order_acquire) : NULL;
}

bool ppa_tags_exists(uint32_t set)
{
	return set == PPA_TAGS_NONE || set == PPA_TAGS_LOST || set_of(set);
}

bool ppa_tags_at(uint32_t set, uint32_t i, struct ppa_tag *out)
{
	const struct set *s = set_of(set);
	const char *at, *end;

	if (set == PPA_TAGS_LOST && i == 0) {
		*out = (struct ppa_tag){"labels", fold_value};
		return true;
	}
	if (!s)
		return false;
	for (at = s->text, end = at + s->bytes; at < end; i--) {
		*out = (struct ppa_tag){at, at + strlen(at) + 1};
		if (i == 0)
			return true;
		at = out->value + strlen(out->value) + 1;
	}
	return false;
}

uint64_t ppa_tags_folded(void)
{
	return atomic_load_explicit(&tags.folded, memory_order_relaxed);
}
