/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/snapshot/trace_parts.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "agent/dump/dump.h"
#include "agent/profile/sites.h"
#include "agent/snapshot/collect.h"
#include "agent/snapshot/picture.h"
#include "agent/snapshot/rows.h"

enum { FIRST = 64 };

/* Room for one more item; NULL on no memory. */
static void *room(struct ppa_trace_build *b, void *items, size_t n, size_t *cap, size_t item_bytes)
{
	size_t want = ppa_vheap_room_after(*cap, FIRST, item_bytes);
	void *p;

	if (n < *cap)
		return items;
	p = ppa_vheap_realloc(items, want * item_bytes);
	if (!p) {
		b->err = -ENOMEM;
		return NULL;
	}
	*cap = want;
	return p;
}

/* splitmix64's finalizer */
static uint64_t mix(uint64_t h)
{
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
	return h ^ (h >> 31);
}

/* ---- threads ---- */

struct ppa_trace_entry *ppa_trace_entry_new(struct ppa_trace_build *b, uint32_t tid, uint64_t key)
{
	struct ppa_trace_entry **list = room(b, b->entries, b->nentries, &b->entries_cap, sizeof(*list));
	struct ppa_trace_entry *e = list ? ppa_vheap_calloc(1, sizeof(*e)) : NULL;
	uint32_t *chain;

	if (list)
		b->entries = list;
	if (!e) {
		b->err = -ENOMEM;
		return NULL;
	}
	b->entries[b->nentries++] = e;
	e->out.tid = tid;
	e->key = key;
	e->first_ns = UINT64_MAX;
	chain = &b->by_tid[mix(tid) % PPA_TRACE_BUCKETS];
	e->next_of_tid = *chain;
	*chain = (uint32_t)b->nentries;
	if (key == UINT64_MAX)
		return e;
	chain = &b->by_key[mix(key) % PPA_TRACE_BUCKETS];
	e->next_of_key = *chain;
	*chain = (uint32_t)b->nentries;
	return e;
}

struct ppa_trace_entry *ppa_trace_entry_of_key(const struct ppa_trace_build *b, uint64_t key)
{
	uint32_t i = key == UINT64_MAX ? 0 : b->by_key[mix(key) % PPA_TRACE_BUCKETS];

	while (i && b->entries[i - 1]->key != key)
		i = b->entries[i - 1]->next_of_key;
	return i ? b->entries[i - 1] : NULL;
}

/* One of this tid for which is_it says so. */
static struct ppa_trace_entry *find(const struct ppa_trace_build *b, uint32_t tid,
				    bool (*is_it)(const struct ppa_trace_entry *e, uint64_t arg), uint64_t arg)
{
	uint32_t i = b->by_tid[mix(tid) % PPA_TRACE_BUCKETS];

	while (i && !(b->entries[i - 1]->out.tid == tid && is_it(b->entries[i - 1], arg)))
		i = b->entries[i - 1]->next_of_tid;
	return i ? b->entries[i - 1] : NULL;
}

static bool is_from_before(const struct ppa_trace_entry *e, uint64_t unused)
{
	(void)unused;
	return !e->out.start_ns;
}

static bool is_still_there(const struct ppa_trace_entry *e, uint64_t unused)
{
	(void)unused;
	return !e->out.exit_ns;
}

static bool lives_at(const struct ppa_trace_entry *e, uint64_t at_ns)
{
	return e->out.start_ns <= at_ns && (!e->out.exit_ns || at_ns <= e->out.exit_ns);
}

struct ppa_trace_entry *ppa_trace_entry_first(const struct ppa_trace_build *b, uint32_t tid)
{
	return find(b, tid, is_from_before, 0);
}

static bool ended_after(const struct ppa_trace_entry *e, uint64_t at_ns)
{
	return e->out.exit_ns > at_ns;
}

struct ppa_trace_entry *ppa_trace_entry_last(const struct ppa_trace_build *b, uint32_t tid)
{
	struct ppa_trace_entry *last = find(b, tid, is_still_there, 0), *e = last;

	if (!e)
		while ((e = find(b, tid, ended_after, last ? last->out.exit_ns : 0)))
			last = e;
	return last;
}

struct ppa_trace_entry *ppa_trace_entry_of(struct ppa_trace_build *b, uint32_t tid, uint64_t key, uint64_t at_ns)
{
	struct ppa_trace_entry *e = ppa_trace_entry_of_key(b, key);

	if (!e)
		e = find(b, tid, lives_at, at_ns);
	return e ? e : ppa_trace_entry_new(b, tid, key);
}

/* ---- what is added ---- */

void ppa_trace_add_record(struct ppa_trace_build *b, struct ppa_trace_entry *e, const struct ppa_trace_record *r)
{
	struct ppa_trace_record *list = room(b, e->records, e->n, &e->cap, sizeof(*list));

	if (!list) {
		e->out.lost++;
		return;
	}
	e->records = list;
	list[e->n++] = *r;
}

void ppa_trace_add_birth(struct ppa_trace_build *b, const struct ppa_trace_birth *birth)
{
	struct ppa_trace_birth *list = room(b, b->births, b->nbirths, &b->births_cap, sizeof(*list));

	if (!list)
		return;
	b->births = list;
	list[b->nbirths++] = *birth;
}

void ppa_trace_add_wake(struct ppa_trace_build *b, const struct ppa_trace_wake *w)
{
	struct ppa_trace_wake *list = room(b, b->wakes, b->nwakes, &b->wakes_cap, sizeof(*list));

	if (!list)
		return;
	b->wakes = list;
	list[b->nwakes++] = *w;
}

void ppa_trace_add_want(struct ppa_trace_build *b, const struct ppa_trace_want *w, const struct ppa_trace_entry *e,
			size_t record)
{
	struct ppa_trace_want *list = room(b, b->wants, b->nwants, &b->wants_cap, sizeof(*list));
	struct ppa_trace_place *places;
	uint32_t index = 0;

	if (!list)
		return;
	b->wants = list;
	places = room(b, b->places, b->nwants, &b->places_cap, sizeof(*places));
	if (!places)
		return;
	b->places = places;
	/* It is among the last: tracks come one after the other. */
	for (index = (uint32_t)b->nentries; index && b->entries[index - 1] != e; index--)
		;
	places[b->nwants] = (struct ppa_trace_place){index - 1, (uint32_t)record};
	list[b->nwants++] = *w;
}

void ppa_trace_match_all(struct ppa_trace_build *b,
			 void (*found)(void *place, uint64_t at_ns, uint32_t tid, uint32_t stack))
{
	for (size_t i = 0; i < b->nwants; i++)
		b->wants[i].record = &b->places[i];
	ppa_trace_match(b->wakes, b->nwakes, b->wants, b->nwants, found);
}

/* ---- stacks ---- */

/* A stack's frames go into the picture as a sample; its number is the stack's. */
static uint32_t put_stack(struct ppa_trace_build *b, const struct ppa_module_table *t, const uintptr_t *pcs,
			  uint32_t npcs, unsigned flags)
{
	static const int64_t none[1];

	ppa_picture_sample(b->picture, none);
	ppa_picture_frames(b->picture, t, pcs, npcs, flags);
	return ++b->nstacks;
}

uint32_t ppa_trace_stack_of_pcs(struct ppa_trace_build *b, const uintptr_t *pcs, uint32_t npcs)
{
	return npcs ? put_stack(b, b->past.n ? b->past.eras[0].table : NULL, pcs, npcs, 0) : 0;
}

static uint32_t put_site(struct ppa_trace_build *b, const struct ppa_site *s)
{
	struct ppa_row row = {.pcs = s->pcs, .npcs = s->npcs, .born = s->born, .origin = s->origin};
	const struct ppa_module_table *t;
	bool is_gone;

	t = ppa_past_choose(&b->past, &row, &is_gone);
	return put_stack(b, t, s->pcs, s->npcs, is_gone ? PPA_FRAMES_GONE : 0);
}

static struct ppa_trace_stack_memo *memo_place(const struct ppa_trace_build *b, const struct ppa_site *s)
{
	size_t at = mix((uintptr_t)s) & (b->memos_cap - 1);

	while (b->memos[at].site && b->memos[at].site != s)
		at = (at + 1) & (b->memos_cap - 1);
	return &b->memos[at];
}

static bool grow_memos(struct ppa_trace_build *b)
{
	struct ppa_trace_stack_memo *old = b->memos, *m;
	size_t old_cap = b->memos_cap, cap = old_cap ? 2 * old_cap : 1024;

	m = ppa_vheap_calloc(cap, sizeof(*m));
	if (!m) {
		b->err = -ENOMEM;
		return false;
	}
	b->memos = m;
	b->memos_cap = cap;
	for (size_t i = 0; i < old_cap; i++)
		if (old[i].site)
			*memo_place(b, old[i].site) = old[i];
	ppa_vheap_free(old);
	return true;
}

uint32_t ppa_trace_stack_of_site(struct ppa_trace_build *b, const struct ppa_site *s)
{
	struct ppa_trace_stack_memo *m;

	if (!s || (2 * (b->nmemos + 1) > b->memos_cap && !grow_memos(b)))
		return 0;
	m = memo_place(b, s);
	if (!m->site) {
		*m = (struct ppa_trace_stack_memo){s, put_site(b, s)};
		b->nmemos++;
	}
	return m->stack;
}

/* ---- texts ---- */

/* FNV-1a */
static uint64_t hash_text(const char *text)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3ULL;
	return mix(h);
}

static uint32_t *text_place(const struct ppa_trace_build *b, const char *text)
{
	size_t at = hash_text(text) & (b->text_places_cap - 1);

	while (b->text_places[at] && strcmp(b->texts[b->text_places[at] - 1], text) != 0)
		at = (at + 1) & (b->text_places_cap - 1);
	return &b->text_places[at];
}

static bool grow_texts(struct ppa_trace_build *b)
{
	size_t cap = b->text_places_cap ? 2 * b->text_places_cap : 256;
	uint32_t *places = ppa_vheap_calloc(cap, sizeof(*places));

	if (!places) {
		b->err = -ENOMEM;
		return false;
	}
	ppa_vheap_free(b->text_places);
	b->text_places = places;
	b->text_places_cap = cap;
	for (size_t i = 0; i < b->ntexts; i++)
		*text_place(b, b->texts[i]) = (uint32_t)i + 1;
	return true;
}

uint32_t ppa_trace_parts_text(struct ppa_trace_build *b, const char *text)
{
	uint32_t *place;
	char **list;

	if (2 * (b->ntexts + 1) > b->text_places_cap && !grow_texts(b))
		return 0;
	place = text_place(b, text);
	if (*place)
		return *place - 1;
	list = room(b, b->texts, b->ntexts, &b->texts_cap, sizeof(*list));
	if (!list)
		return 0;
	b->texts = list;
	list[b->ntexts] = ppa_vheap_strdup(text);
	if (!list[b->ntexts]) {
		b->err = -ENOMEM;
		return 0;
	}
	*place = (uint32_t)++b->ntexts;
	return *place - 1;
}

/* ---- the whole ---- */

/* The file's name of the main program. */
static const char *program_of(const struct ppa_past *past)
{
	const struct ppa_module_table *t = past->n ? past->eras[0].table : NULL;

	for (size_t i = 0; t && i < t->nsegs; i++) {
		const char *path = t->segs[i].module->path, *slash = strrchr(path, '/');

		if (t->segs[i].module->is_main)
			return slash ? slash + 1 : path;
	}
	return "";
}

struct ppa_trace_build *ppa_trace_parts_new(const struct ppa_trace_window *w)
{
	struct ppa_trace_build *b = ppa_vheap_calloc(1, sizeof(*b));
	uint64_t now = ppa_sys_clock_ns(CLOCK_MONOTONIC);

	if (!b)
		return NULL;
	ppa_past_hold(&b->past);
	b->picture = ppa_picture_new(b->past.n ? b->past.eras[0].table : NULL);
	if (!b->picture) {
		ppa_trace_parts_free(b);
		return NULL;
	}
	ppa_picture_set_past(b->picture, &b->past);
	ppa_picture_head(b->picture)->name = "trace";
	ppa_picture_head(b->picture)->sample_types[0] = (struct ppa_value_type){"trace", "count"};
	ppa_picture_head(b->picture)->nsample_types = 1;
	b->window = w;
	b->input.start_ns = w->start_ns;
	b->input.stop_ns = w->stop_ns;
	b->input.start_utc_ns = (int64_t)(ppa_sys_clock_ns(CLOCK_REALTIME) - (now - w->start_ns));
	b->input.pid = (uint32_t)ppa_sys_getpid();
	b->input.agent_tid = (uint32_t)ppa_sys_gettid();
	b->input.program = program_of(&b->past);
	ppa_trace_parts_text(b, "");
	return b;
}

int ppa_trace_parts_finish(struct ppa_trace_build *b)
{
	struct ppa_picture *picture = b->picture;
	int err;

	b->picture = NULL;
	err = ppa_picture_finish(picture, &b->snapshot);
	if (err || b->err)
		return err ? err : b->err;
	b->threads = ppa_vheap_calloc(b->nentries + 1, sizeof(*b->threads));
	if (!b->threads)
		return -ENOMEM;
	for (size_t i = 0; i < b->nentries; i++) {
		struct ppa_trace_entry *e = b->entries[i];

		e->piece = (struct ppa_trace_piece){e->records, e->n};
		e->out.name = e->name;
		e->out.pieces = &e->piece;
		e->out.npieces = 1;
		b->threads[i] = e->out;
	}
	b->counters = ppa_vheap_malloc((b->window->ncounters + 1) * sizeof(*b->counters));
	if (!b->counters)
		return -ENOMEM;
	if (b->window->ncounters)
		memcpy(b->counters, b->window->counters, b->window->ncounters * sizeof(*b->counters));
	b->input.counters = b->counters;
	b->input.ncounters = b->window->ncounters;
	b->input.lost = b->window->lost;
	b->input.threads = b->threads;
	b->input.nthreads = b->nentries;
	b->input.texts = (const char *const *)b->texts;
	b->input.ntexts = b->ntexts;
	b->input.stacks = b->snapshot;
	return 0;
}

void ppa_trace_parts_free(struct ppa_trace_build *b)
{
	struct ppa_snapshot *unfinished = NULL;

	if (!b)
		return;
	if (b->picture && ppa_picture_finish(b->picture, &unfinished) == 0)
		ppa_snapshot_free(unfinished);
	ppa_snapshot_free(b->snapshot);
	ppa_past_release(&b->past);
	for (size_t i = 0; i < b->nentries; i++) {
		ppa_vheap_free(b->entries[i]->records);
		ppa_vheap_free(b->entries[i]);
	}
	for (size_t i = 0; i < b->ntexts; i++)
		ppa_vheap_free(b->texts[i]);
	ppa_vheap_free(b->entries);
	ppa_vheap_free(b->threads);
	ppa_vheap_free(b->counters);
	ppa_vheap_free(b->births);
	ppa_vheap_free(b->wakes);
	ppa_vheap_free(b->wants);
	ppa_vheap_free(b->places);
	ppa_vheap_free(b->texts);
	ppa_vheap_free(b->text_places);
	ppa_vheap_free(b->memos);
	ppa_vheap_free(b);
}
