/* SPDX-License-Identifier: Apache-2.0
 *
 * See codemap.h. A merge of a list of n under a list of k has at most n + 2k entries: each of the newer ones stands once
 * and may cut one older in two. So a batch's buffers hold twice the batch: k pieces have 2k - 1 stretches at most. */
#include "unwind/jit/codemap.h"

#include <errno.h>
#include <string.h>

#include "agent/base/vheap.h"

enum {
	FIRST_CAP = 1024,
	NAMES_FIRST_CAP = 16 << 10,
	NAMES_MAX = INT32_MAX,
	INDEX_FIRST_CAP = 1024, /* a power of two */
	MOVE_SCAN = 256,	/* entries of the batch that a move looks through */
};

static uint64_t end_of(const struct ppa_codemap_entry *e)
{
	return e->start + e->size;
}

/* A sorted list without overlap that is being read, its next entry perhaps cut already. */
struct reading {
	const struct ppa_codemap_entry *list;
	uint32_t at, n;
	struct ppa_codemap_entry cur;
};

static void next(struct reading *r)
{
	if (++r->at < r->n)
		r->cur = r->list[r->at];
}

/* Drop what lies before address. */
static void skip_to(struct reading *r, uint64_t address)
{
	while (r->at < r->n && end_of(&r->cur) <= address)
		next(r);
	if (r->at < r->n && r->cur.start < address) {
		r->cur.size = (uint32_t)(end_of(&r->cur) - address);
		r->cur.start = address;
	}
}

/* Lay `newer` over `older`, both sorted and without overlap, into out; how many. What is nobody's is kept to be laid over
 * others, unless these are all. */
static uint32_t overlay(const struct ppa_codemap_entry *older, uint32_t nolder, const struct ppa_codemap_entry *newer,
			uint32_t nnewer, bool are_all, struct ppa_codemap_entry *out)
{
	struct reading r = {.list = older, .n = nolder};
	uint32_t n = 0;

	if (nolder)
		r.cur = older[0];
	for (uint32_t i = 0; i < nnewer; i++) {
		const struct ppa_codemap_entry *e = &newer[i];

		for (; r.at < r.n && end_of(&r.cur) <= e->start; next(&r))
			out[n++] = r.cur;
		if (r.at < r.n && r.cur.start < e->start)
			out[n++] =
				(struct ppa_codemap_entry){r.cur.start, (uint32_t)(e->start - r.cur.start), r.cur.name};
		if (e->name || !are_all)
			out[n++] = *e;
		skip_to(&r, end_of(e));
	}
	for (; r.at < r.n; next(&r))
		out[n++] = r.cur;
	return n;
}

/* The batch as one sorted list, in one of the two buffers of 2 * PPA_CODEMAP_BATCH each; how long it is. Runs stand at
 * twice the place of their first entry, which leaves room for what they may grow to. */
static uint32_t sort_batch(const struct ppa_codemap *m, struct ppa_codemap_entry *from, struct ppa_codemap_entry *to,
			   uint32_t *lengths, struct ppa_codemap_entry **sorted)
{
	struct ppa_codemap_entry *swap;

	for (uint32_t i = 0; i < m->nbatch; i++) {
		from[2 * i] = m->batch[i];
		lengths[i] = 1;
	}
	for (uint32_t width = 1; width < m->nbatch; width *= 2) {
		for (uint32_t i = 0; i < m->nbatch; i += 2 * width) {
			uint32_t second = i + width < m->nbatch ? lengths[i + width] : 0;

			lengths[i] = overlay(from + 2 * i, lengths[i], second ? from + 2 * (i + width) : NULL, second,
					     false, to + 2 * i);
		}
		swap = from;
		from = to;
		to = swap;
	}
	*sorted = from;
	return lengths[0];
}

static bool fits(const struct ppa_codemap *m, uint64_t more)
{
	return ppa_codemap_bytes(m) + more <= m->max_bytes;
}

/* The map is full: begin anew. What waits in the batch was told last and goes, too, because its names do. */
static void forget(struct ppa_codemap *m)
{
	m->forgotten += m->n + m->nbatch;
	ppa_codemap_clear(m);
}

/* Both arrays, with room for want entries. 0, -EFBIG, -ENOMEM. */
static int reserve(struct ppa_codemap *m, uint32_t want)
{
	uint32_t cap = m->cap ? m->cap : FIRST_CAP;
	struct ppa_codemap_entry *p;

	if (want <= m->cap)
		return 0;
	while (cap < want)
		cap += cap / 2;
	if (!fits(m, 2 * (uint64_t)(cap - m->cap) * sizeof(*p)))
		return -EFBIG;
	p = ppa_vheap_realloc(m->spare, cap * sizeof(*p));
	if (!p)
		return -ENOMEM;
	m->spare = p;
	p = ppa_vheap_realloc(m->entries, cap * sizeof(*p));
	if (!p)
		return -ENOMEM;
	m->entries = p;
	m->cap = cap;
	return 0;
}

int ppa_codemap_settle(struct ppa_codemap *m)
{
	struct {
		struct ppa_codemap_entry one[2 * PPA_CODEMAP_BATCH], two[2 * PPA_CODEMAP_BATCH];
		uint32_t lengths[PPA_CODEMAP_BATCH];
	} * work;
	struct ppa_codemap_entry *sorted, *merged;
	uint32_t n;
	int err;

	if (!m->nbatch)
		return 0;
	err = reserve(m, m->n + 4 * m->nbatch);
	if (err) {
		if (err == -EFBIG)
			forget(m);
		return err == -EFBIG ? 0 : err;
	}
	work = ppa_vheap_malloc(sizeof(*work));
	if (!work)
		return -ENOMEM;
	n = sort_batch(m, work->one, work->two, work->lengths, &sorted);
	merged = m->spare;
	m->n = overlay(m->entries, m->n, sorted, n, true, merged);
	m->spare = m->entries;
	m->entries = merged;
	m->nbatch = 0;
	ppa_vheap_free(work);
	return 0;
}

/* ---- names ---- */

static uint32_t hash(const char *name, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)name[i]) * 0x100000001b3ULL;
	return (uint32_t)(h ^ h >> 32);
}

static bool is_name(const struct ppa_codemap *m, uint32_t at, const char *name, size_t len)
{
	return memcmp(m->names + at, name, len) == 0 && m->names[at + len] == '\0';
}

/* The place of a name in the index, or the free one where it belongs. A name that is longer than what is left of the
 * names is none of them, and is not compared. */
static uint32_t place_of(const struct ppa_codemap *m, const char *name, size_t len)
{
	uint32_t mask = m->index_cap - 1, at = hash(name, len) & mask;

	while (m->index[at] && (m->names_len - m->index[at] <= len || !is_name(m, m->index[at], name, len)))
		at = (at + 1) & mask;
	return at;
}

static int grow_index(struct ppa_codemap *m)
{
	uint32_t cap = m->index_cap ? 2 * m->index_cap : INDEX_FIRST_CAP, *old = m->index, old_cap = m->index_cap;

	if (!fits(m, (uint64_t)cap * sizeof(*m->index)))
		return -EFBIG;
	m->index = ppa_vheap_calloc(cap, sizeof(*m->index));
	if (!m->index) {
		m->index = old;
		return -ENOMEM;
	}
	m->index_cap = cap;
	for (uint32_t i = 0; i < old_cap; i++)
		if (old[i])
			m->index[place_of(m, m->names + old[i], strlen(m->names + old[i]))] = old[i];
	ppa_vheap_free(old);
	return 0;
}

static int grow_names(struct ppa_codemap *m, size_t more)
{
	size_t cap = m->names_cap ? m->names_cap : NAMES_FIRST_CAP;
	char *p;

	while (cap < m->names_len + more)
		cap += cap / 2;
	if (cap > NAMES_MAX || !fits(m, cap - m->names_cap))
		return -EFBIG;
	p = ppa_vheap_realloc(m->names, cap);
	if (!p)
		return -ENOMEM;
	m->names = p;
	m->names_cap = cap;
	if (!m->names_len)
		m->names[m->names_len++] = '\0';
	return 0;
}

/* *at becomes the offset of a name. 0, -EFBIG, -ENOMEM. */
static int keep_name(struct ppa_codemap *m, const char *name, size_t len, uint32_t *at)
{
	uint32_t place;
	int err = 0;

	*at = 0;
	if (!len)
		return 0;
	if (2 * (m->nindex + 1) > m->index_cap)
		err = grow_index(m);
	if (!err && (!m->names || m->names_cap - m->names_len <= len))
		err = grow_names(m, len + 1);
	if (err)
		return err;
	place = place_of(m, name, len);
	if (!m->index[place]) {
		m->index[place] = (uint32_t)m->names_len;
		m->nindex++;
		memcpy(m->names + m->names_len, name, len);
		m->names_len += len;
		m->names[m->names_len++] = '\0';
	}
	*at = m->index[place];
	return 0;
}

/* ---- the rest ---- */

static int push(struct ppa_codemap *m, uint64_t start, uint64_t size, uint32_t name)
{
	if (!m->batch) {
		m->batch = ppa_vheap_malloc(PPA_CODEMAP_BATCH * sizeof(*m->batch));
		if (!m->batch)
			return -ENOMEM;
	}
	m->batch[m->nbatch++] = (struct ppa_codemap_entry){start, (uint32_t)size, name};
	return 0;
}

static bool is_possible(uint64_t start, uint64_t size)
{
	return size && size <= UINT32_MAX && start <= UINT64_MAX - size;
}

int ppa_codemap_add(struct ppa_codemap *m, uint64_t start, uint64_t size, const char *name, size_t len)
{
	uint32_t at;
	int err = 0;

	if (!is_possible(start, size))
		return 0;
	if (len > PPA_CODEMAP_NAME_MAX)
		len = PPA_CODEMAP_NAME_MAX;
	len = strnlen(name, len);
	if (m->nbatch == PPA_CODEMAP_BATCH)
		err = ppa_codemap_settle(m);
	if (!err)
		err = keep_name(m, name, len, &at);
	if (err == -EFBIG) {
		forget(m);
		err = keep_name(m, name, len, &at);
	}
	/* Not even one name fits: then it is known at least that the old one is gone. */
	if (err == -EFBIG)
		return 0;
	return err ? err : push(m, start, size, at);
}

int ppa_codemap_move(struct ppa_codemap *m, uint64_t from, uint64_t to, uint64_t size)
{
	uint32_t name = 0;
	bool is_found = false;
	int err = 0;

	if (!is_possible(from, size) || !is_possible(to, size))
		return 0;
	if (m->nbatch > MOVE_SCAN || m->nbatch + 2 > PPA_CODEMAP_BATCH)
		err = ppa_codemap_settle(m);
	if (err)
		return err;
	for (uint32_t i = m->nbatch; i-- > 0 && !is_found;) {
		is_found = from - m->batch[i].start < m->batch[i].size;
		name = is_found ? m->batch[i].name : 0;
	}
	if (!is_found) {
		uint64_t start;
		const char *known = ppa_codemap_find(m, from, &start);

		name = known ? (uint32_t)(known - m->names) : 0;
	}
	err = push(m, from, size, 0);
	return err ? err : push(m, to, size, name);
}

const char *ppa_codemap_find(const struct ppa_codemap *m, uint64_t address, uint64_t *start)
{
	uint32_t lo = 0, hi = m->n;

	while (lo < hi) {
		uint32_t middle = lo + (hi - lo) / 2;

		if (m->entries[middle].start <= address)
			lo = middle + 1;
		else
			hi = middle;
	}
	if (!lo || address - m->entries[lo - 1].start >= m->entries[lo - 1].size || !m->entries[lo - 1].name)
		return NULL;
	*start = m->entries[lo - 1].start;
	return m->names + m->entries[lo - 1].name;
}

uint64_t ppa_codemap_bytes(const struct ppa_codemap *m)
{
	return 2 * (uint64_t)m->cap * sizeof(*m->entries) + m->names_cap + m->index_cap * sizeof(*m->index) +
	       (m->batch ? PPA_CODEMAP_BATCH * sizeof(*m->batch) : 0);
}

void ppa_codemap_clear(struct ppa_codemap *m)
{
	struct ppa_codemap empty = {.max_bytes = m->max_bytes, .forgotten = m->forgotten};

	ppa_vheap_free(m->entries);
	ppa_vheap_free(m->spare);
	ppa_vheap_free(m->batch);
	ppa_vheap_free(m->names);
	ppa_vheap_free(m->index);
	*m = empty;
}
