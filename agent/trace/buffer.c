/* SPDX-License-Identifier: Apache-2.0
 *
 * The arena stays mapped once it was needed, because a thread may have been stopped anywhere with an address in it; only
 * its pages are given back. If a writer does not come to an end (it was left by a jump), the whole arena is left to it,
 * empty, and the next recording gets another. */
#include "agent/trace/buffer.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/local_x86_64.h"
#include "agent/base/self.h"
#include "agent/base/sys.h"
#include "agent/thread/threads.h"

enum {
	HEADER_BYTES = 64,
	CHUNK_WORDS = (PPA_TRACE_CHUNK_BYTES - HEADER_BYTES) / 8,
	TRACK_TRIES = 64,
	ARENAS_MAX = 8,
	CLOSE_WAIT_NS = 100000000,
	CLOSE_STEP_NS = 1000000,
	STUCK_NS = 2000000000,
	SHORT_SHARE = 4, /* less than one part in so many free: take back what is newer, too */
	AHEAD_MIN = 32,	 /* chunks: 256 KiB */
	AHEAD_MAX = 1024,
};

struct ppa_trace_chunk {
	_Atomic(struct ppa_trace_chunk *) next; /* in its track */
	_Atomic uint64_t full_ns;		/* when the thread went on to the next; 0: not yet */
	_Atomic uint32_t writers;
	_Atomic uint32_t used;	    /* words */
	_Atomic uint32_t next_free; /* index + 1 */
	_Alignas(HEADER_BYTES) _Atomic uint64_t words[CHUNK_WORDS];
};
_Static_assert(sizeof(struct ppa_trace_chunk) == PPA_TRACE_CHUNK_BYTES, "chunks fill the arena");

static struct {
	/* set by open */
	struct ppa_trace_chunk *chunks;
	struct ppa_trace_track *tracks;
	uint32_t nchunks;
	int narenas;
	uint32_t ntouched, taken_before;	      /* chunks; the server's */
	uint64_t scratch[PPA_TRACE_RECORD_WORDS_MAX]; /* the reader's */
	/* any thread */
	_Atomic bool is_open;	     /* may tracks be made? */
	_Atomic int32_t makers;	     /* threads that are about it */
	_Atomic uint32_t bump;	     /* chunks ever taken */
	_Atomic uint64_t free_head;  /* counter << 32 | index + 1: given back */
	_Atomic uint32_t nfree;	     /* of these */
	_Atomic uint32_t next_track; /* where to look */
	_Atomic uint64_t lost;
} buffer;

/* ---- chunks ---- */

PPA_CTX_MALLOC static struct ppa_trace_chunk *take_chunk(void)
{
	uint64_t head = atomic_load_explicit(&buffer.free_head, memory_order_acquire), next;
	struct ppa_trace_chunk *c = NULL;
	uint32_t i;

	while ((uint32_t)head) {
		c = &buffer.chunks[(uint32_t)head - 1];
		next = ((head >> 32) + 1) << 32 | atomic_load_explicit(&c->next_free, memory_order_relaxed);
		/* acquire: it was emptied before it was given back; pairs with the release in give_chunk. */
		if (atomic_compare_exchange_weak_explicit(&buffer.free_head, &head, next, memory_order_acquire,
							  memory_order_acquire)) {
			atomic_fetch_sub_explicit(&buffer.nfree, 1, memory_order_relaxed);
			return c;
		}
	}
	if (atomic_load_explicit(&buffer.bump, memory_order_relaxed) >= buffer.nchunks)
		return NULL;
	i = atomic_fetch_add_explicit(&buffer.bump, 1, memory_order_relaxed);
	return i < buffer.nchunks ? &buffer.chunks[i] : NULL;
}

/* c is empty, as it was when it was taken. */
PPA_CTX_MALLOC static void give_chunk(struct ppa_trace_chunk *c)
{
	uint64_t head = atomic_load_explicit(&buffer.free_head, memory_order_relaxed), next;
	uint32_t index = (uint32_t)(c - buffer.chunks);

	do {
		atomic_store_explicit(&c->next_free, (uint32_t)head, memory_order_relaxed);
		next = ((head >> 32) + 1) << 32 | (index + 1);
	} while (!atomic_compare_exchange_weak_explicit(&buffer.free_head, &head, next, memory_order_release,
							memory_order_relaxed));
	atomic_fetch_add_explicit(&buffer.nfree, 1, memory_order_relaxed);
}

/* Let the track go on in another chunk than c. A handler may come in between and do it first. */
PPA_CTX_MALLOC static bool append_chunk(struct ppa_trace_track *t, struct ppa_trace_chunk *c, uint64_t now)
{
	struct ppa_trace_chunk *next = atomic_load_explicit(&c->next, memory_order_acquire), *was = c;

	if (!next) {
		struct ppa_trace_chunk *fresh = take_chunk();

		if (!fresh)
			return false;
		if (atomic_compare_exchange_strong_explicit(&c->next, &next, fresh, memory_order_release,
							    memory_order_acquire))
			next = fresh;
		else
			give_chunk(fresh);
	}
	atomic_store_explicit(&c->full_ns, now ? now : 1, memory_order_relaxed);
	/* release: the server sees next and full_ns of what is no longer current. Closed tracks stay closed. */
	atomic_compare_exchange_strong_explicit(&t->current, &was, next, memory_order_seq_cst, memory_order_relaxed);
	return true;
}

/* ---- tracks ---- */

PPA_CTX_MALLOC static struct ppa_trace_track *claim_track(void)
{
	for (int i = 0; i < TRACK_TRIES; i++) {
		uint32_t at = atomic_fetch_add_explicit(&buffer.next_track, 1, memory_order_relaxed);
		struct ppa_trace_track *t = &buffer.tracks[at % PPA_TRACE_TRACKS_MAX];
		uint32_t zero = 0;

		/* acquire: pairs with the release of whoever freed it. */
		if (!atomic_load_explicit(&t->is_used, memory_order_relaxed) &&
		    atomic_compare_exchange_strong_explicit(&t->is_used, &zero, 1, memory_order_acquire,
							    memory_order_relaxed))
			return t;
	}
	return NULL;
}

PPA_CTX_MALLOC static void describe(struct ppa_trace_track *t, struct ppa_trace_chunk *c)
{
	const struct ppa_thread *slot = ppa_self.slot;

	t->slot = slot;
	t->key = UINT64_MAX;
	t->start_routine = 0;
	t->is_main = false;
	t->tid = slot ? atomic_load_explicit(&slot->tid, memory_order_relaxed) : 0;
	if (slot) {
		t->key = ppa_threads_key(ppa_threads_index(slot),
					 atomic_load_explicit(&slot->generation, memory_order_relaxed));
		t->start_routine = slot->start_routine;
		t->is_main = slot->is_main;
	}
	if (!t->tid)
		t->tid = ppa_sys_gettid();
	t->self = (uintptr_t)pthread_self();
	t->begin_ns = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	t->cpu_ns = ppa_sys_clock_ns(ppa_sys_thread_clock(t->tid));
	t->first = c;
	atomic_store_explicit(&t->born_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&t->ended_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&t->lost, 0, memory_order_relaxed);
	atomic_store_explicit(&t->short_left_out, 0, memory_order_relaxed);
	atomic_store_explicit(&t->short_left_out_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&t->short_period_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&t->short_recorded, 0, memory_order_relaxed);
}

PPA_CTX_MALLOC static bool is_mine(const struct ppa_trace_track *t)
{
	return t && atomic_load_explicit(&t->owner, memory_order_relaxed) == &ppa_self;
}

PPA_CTX_MALLOC static struct ppa_trace_track *make_track(void)
{
	struct ppa_trace_track *t = claim_track();
	struct ppa_trace_chunk *c = t ? take_chunk() : NULL;

	if (!c) {
		if (t)
			atomic_store_explicit(&t->is_used, 0, memory_order_release);
		atomic_fetch_add_explicit(&buffer.lost, 1, memory_order_relaxed);
		return NULL;
	}
	describe(t, c);
	/* A handler has been here meanwhile. */
	if (is_mine(ppa_self.track)) {
		give_chunk(c);
		atomic_store_explicit(&t->is_used, 0, memory_order_release);
		return ppa_self.track;
	}
	atomic_store_explicit(&t->owner, &ppa_self, memory_order_relaxed);
	atomic_store_explicit(&t->current, c, memory_order_seq_cst);
	ppa_self.track = t;
	/* release: it is described; pairs with the acquire in ppa_trace_each_track. */
	atomic_store_explicit(&t->is_published, 1, memory_order_release);
	return t;
}

/* Who was told to record may come late: the recording it was told of may be over, and another begun or none. */
PPA_CTX_MALLOC static struct ppa_trace_track *make_track_if_open(void)
{
	struct ppa_trace_track *t = NULL;

	/* seq_cst, both: either whoever closes sees us, or we see that it is closed. */
	atomic_fetch_add_explicit(&buffer.makers, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&buffer.is_open, memory_order_seq_cst))
		t = make_track();
	atomic_fetch_sub_explicit(&buffer.makers, 1, memory_order_release);
	return t;
}

struct ppa_trace_track *ppa_trace_track_mine(void)
{
	struct ppa_trace_track *t = ppa_self.track;

	if (ppa_unlikely(!is_mine(t)))
		t = make_track_if_open();
	if (t && ppa_unlikely(atomic_load_explicit(&t->ended_ns, memory_order_relaxed)))
		return NULL;
	return t;
}

/* ---- records ---- */

static inline uint64_t word_of(struct ppa_trace_head head)
{
	uint64_t w;

	memcpy(&w, &head, sizeof(w));
	return w;
}

PPA_CTX_MALLOC static void fill(_Atomic uint64_t *place, struct ppa_trace_head head, const uint64_t *words)
{
	/* First its length, so that a reader gets past it whatever happens to us. */
	atomic_store_explicit(&place[0], word_of(ppa_trace_head_of(head.nwords, PPA_ENTRY_NONE, 0, 0, 0)),
			      memory_order_relaxed);
	for (uint32_t i = 1; i < head.nwords; i++)
		atomic_store_explicit(&place[i], words[i - 1], memory_order_relaxed);
	/* release: the record is whole; pairs with the acquire in read_chunk. */
	atomic_store_explicit(&place[0], word_of(head), memory_order_release);
}

/* The chunk to write in; NULL if the track is closed or another thread's by now. A thread without a slot has announced
 * itself in it. */
PPA_CTX_MALLOC static struct ppa_trace_chunk *enter_chunk(struct ppa_trace_track *t, bool has_slot)
{
	struct ppa_trace_chunk *c;

	for (;;) {
		c = atomic_load_explicit(&t->current, memory_order_seq_cst);
		if (!c || !is_mine(t))
			return NULL;
		if (has_slot)
			return c;
		/* seq_cst, both: either whoever takes chunks back sees us, or we see that it is not current. */
		atomic_fetch_add_explicit(&c->writers, 1, memory_order_seq_cst);
		if (atomic_load_explicit(&t->current, memory_order_seq_cst) == c && is_mine(t))
			return c;
		atomic_fetch_sub_explicit(&c->writers, 1, memory_order_release);
	}
}

PPA_CTX_MALLOC static void append(struct ppa_trace_track *t, struct ppa_trace_head head, const uint64_t *words,
				  bool has_slot)
{
	bool is_done = false, is_full = false;

	while (!is_done && !is_full) {
		struct ppa_trace_chunk *c = enter_chunk(t, has_slot);
		uint32_t at = CHUNK_WORDS;

		if (!c) {
			if (!is_mine(t))
				return;
			break;
		}
		if (atomic_load_explicit(&c->used, memory_order_relaxed) + head.nwords <= CHUNK_WORDS)
			at = ppa_arch_local_fetch_add(&c->used, head.nwords);
		is_done = at + head.nwords <= CHUNK_WORDS;
		if (is_done)
			fill(&c->words[at], head, words);
		else
			is_full = !append_chunk(t, c, words[0]);
		if (!has_slot)
			atomic_fetch_sub_explicit(&c->writers, 1, memory_order_release);
	}
	if (!is_done)
		atomic_fetch_add_explicit(&t->lost, 1, memory_order_relaxed);
}

void ppa_trace_put(struct ppa_trace_track *t, struct ppa_trace_head head, const uint64_t *words)
{
	struct ppa_thread *slot = ppa_self.slot;
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0), outer;

	if (ppa_unlikely(!slot)) {
		append(t, head, words, false);
		return;
	}
	outer = atomic_load_explicit(&slot->recording, memory_order_relaxed);
	/* Who is further down the stack than we are has been left by a jump. */
	if (ppa_unlikely(outer && outer <= frame))
		outer = 0;
	atomic_store_explicit(&slot->recording, frame, memory_order_relaxed);
	ppa_arch_local_announce();
	append(t, head, words, true);
	/* release: the record is written; pairs with the acquire in is_recording. */
	atomic_store_explicit(&slot->recording, outer, memory_order_release);
}

/* ---- the server's side ---- */

static int map_arena(uint64_t bytes)
{
	if (!buffer.tracks)
		buffer.tracks = ppa_sys_map(PPA_TRACE_TRACKS_MAX * sizeof(*buffer.tracks));
	if (!buffer.tracks || buffer.narenas == ARENAS_MAX)
		return -ENOMEM;
	buffer.chunks = ppa_sys_map(bytes);
	if (!buffer.chunks)
		return -ENOMEM;
	buffer.narenas++;
	buffer.nchunks = (uint32_t)(bytes / PPA_TRACE_CHUNK_BYTES);
	return 0;
}

static uint32_t taken_chunks(void)
{
	uint32_t n = atomic_load_explicit(&buffer.bump, memory_order_relaxed);

	return n < buffer.nchunks ? n : buffer.nchunks;
}

/* Whoever has it by now loses nothing. */
static void touch(struct ppa_trace_chunk *c)
{
	enum { SECOND_PAGE = (4096 - HEADER_BYTES) / 8 };

	_Static_assert(PPA_TRACE_CHUNK_BYTES == 2 * 4096, "a chunk has two pages");
	atomic_fetch_or_explicit(&c->next_free, 0, memory_order_relaxed);
	atomic_fetch_or_explicit(&c->words[SECOND_PAGE], 0, memory_order_relaxed);
}

void ppa_trace_buffer_touch(void)
{
	uint32_t taken = taken_chunks(), ahead = 2 * (taken - buffer.taken_before);

	ahead = ahead < AHEAD_MIN ? AHEAD_MIN : ahead > AHEAD_MAX ? AHEAD_MAX : ahead;
	buffer.taken_before = taken;
	if (buffer.ntouched < taken)
		buffer.ntouched = taken;
	while (buffer.ntouched < taken + ahead && buffer.ntouched < buffer.nchunks)
		touch(&buffer.chunks[buffer.ntouched++]);
}

int ppa_trace_buffer_open(uint64_t bytes)
{
	if (!buffer.chunks && map_arena(bytes))
		return -ENOMEM;
	atomic_store_explicit(&buffer.bump, 0, memory_order_relaxed);
	atomic_store_explicit(&buffer.free_head, 0, memory_order_relaxed);
	atomic_store_explicit(&buffer.nfree, 0, memory_order_relaxed);
	atomic_store_explicit(&buffer.next_track, 0, memory_order_relaxed);
	atomic_store_explicit(&buffer.lost, 0, memory_order_relaxed);
	buffer.ntouched = buffer.taken_before = 0;
	ppa_trace_buffer_touch();
	/* release: pairs with the look of whoever makes a track. */
	atomic_store_explicit(&buffer.is_open, true, memory_order_release);
	return 0;
}

static uint32_t used_tracks(void)
{
	uint32_t n = atomic_load_explicit(&buffer.next_track, memory_order_relaxed);

	return n < PPA_TRACE_TRACKS_MAX ? n : PPA_TRACE_TRACKS_MAX;
}

static bool has_makers(void)
{
	return atomic_load_explicit(&buffer.makers, memory_order_seq_cst) > 0;
}

/* Asked PPA_LOCAL_DRAIN_NS after t's current chunk was changed. */
static bool is_recording(const struct ppa_trace_track *t)
{
	return t->slot && atomic_load_explicit(&t->slot->recording, memory_order_acquire);
}

static bool has_writers(void)
{
	for (uint32_t i = 0; i < used_tracks(); i++)
		if (is_recording(&buffer.tracks[i]))
			return true;
	for (uint32_t i = 0, n = taken_chunks(); i < n; i++)
		if (atomic_load_explicit(&buffer.chunks[i].writers, memory_order_seq_cst))
			return true;
	return false;
}

static void sleep_ns(long ns)
{
	struct timespec step = {0, ns};

	ppa_syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&step, 0, 0, 0);
}

static bool wait_for_none(bool (*has_some)(void))
{
	for (int waited = 0; has_some(); waited += CLOSE_STEP_NS) {
		if (waited >= CLOSE_WAIT_NS)
			return false;
		sleep_ns(CLOSE_STEP_NS);
	}
	return true;
}

static void close_track(struct ppa_trace_track *t)
{
	atomic_store_explicit(&t->is_published, 0, memory_order_relaxed);
	atomic_store_explicit(&t->owner, NULL, memory_order_seq_cst);
	atomic_store_explicit(&t->current, NULL, memory_order_seq_cst);
}

void ppa_trace_buffer_close(void)
{
	bool is_quiet;

	if (!buffer.chunks)
		return;
	atomic_store_explicit(&buffer.is_open, false, memory_order_seq_cst);
	is_quiet = wait_for_none(has_makers);
	for (uint32_t i = 0; i < used_tracks(); i++)
		close_track(&buffer.tracks[i]);
	sleep_ns(PPA_LOCAL_DRAIN_NS);
	is_quiet &= wait_for_none(has_writers);
	ppa_syscall(SYS_madvise, (long)buffer.chunks, (long)buffer.nchunks * PPA_TRACE_CHUNK_BYTES, MADV_DONTNEED, 0, 0,
		    0);
	if (!is_quiet) {
		buffer.chunks = NULL;
		atomic_store_explicit(&buffer.makers, 0, memory_order_relaxed);
	}
	for (uint32_t i = 0; i < used_tracks(); i++)
		atomic_store_explicit(&buffer.tracks[i].is_used, 0, memory_order_release);
}

void ppa_trace_each_track(void (*visit)(struct ppa_trace_track *t, void *arg), void *arg)
{
	for (uint32_t i = 0, n = used_tracks(); i < n; i++)
		if (atomic_load_explicit(&buffer.tracks[i].is_published, memory_order_acquire))
			visit(&buffer.tracks[i], arg);
}

static void read_chunk(const struct ppa_trace_chunk *c,
		       void (*visit)(const struct ppa_trace_head *head, const uint64_t *words, void *arg), void *arg)
{
	uint32_t at = 0, used = atomic_load_explicit(&c->used, memory_order_relaxed);
	uint64_t *words = buffer.scratch;
	struct ppa_trace_head head;

	while (at < used && at < CHUNK_WORDS) {
		/* acquire: pairs with the release in fill. */
		uint64_t first = atomic_load_explicit(&c->words[at], memory_order_acquire);

		memcpy(&head, &first, sizeof(head));
		if (!head.nwords || head.nwords > PPA_TRACE_RECORD_WORDS_MAX || at + head.nwords > CHUNK_WORDS)
			return;
		if (head.kind != PPA_ENTRY_NONE) {
			for (uint32_t i = 1; i < head.nwords; i++)
				words[i - 1] = atomic_load_explicit(&c->words[at + i], memory_order_relaxed);
			visit(&head, words, arg);
		}
		at += head.nwords;
	}
}

void ppa_trace_each_record(const struct ppa_trace_track *t,
			   void (*visit)(const struct ppa_trace_head *head, const uint64_t *words, void *arg),
			   void *arg)
{
	for (const struct ppa_trace_chunk *c = t->first; c; c = atomic_load_explicit(&c->next, memory_order_acquire))
		read_chunk(c, visit, arg);
}

/* Empty a chunk that no track has any more. One with a writer after all this time is left to it for good. */
static void take_back(struct ppa_trace_chunk *c)
{
	uint32_t used = atomic_load_explicit(&c->used, memory_order_relaxed);

	if (atomic_load_explicit(&c->writers, memory_order_seq_cst))
		return;
	memset((void *)c->words, 0, (used < CHUNK_WORDS ? used : CHUNK_WORDS) * sizeof(c->words[0]));
	atomic_store_explicit(&c->used, 0, memory_order_relaxed);
	atomic_store_explicit(&c->full_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&c->next, NULL, memory_order_relaxed);
	give_chunk(c);
}

/* Both only grow nearer: full chunks come first. */
static bool is_old(struct ppa_trace_track *t, uint64_t before_ns)
{
	uint64_t full, now;

	if (t->first == atomic_load_explicit(&t->current, memory_order_seq_cst))
		return false;
	full = atomic_load_explicit(&t->first->full_ns, memory_order_relaxed);
	if (!full || full >= before_ns)
		return false;
	now = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	/* Seen once not to write after the chunk was left, the thread will not write in it again: who asks a second time
	 * may meet it at another record. While it does write, it is asked again next time. */
	if (t->slot)
		return full + PPA_LOCAL_DRAIN_NS <= now && !is_recording(t);
	/* The thread may be on its way to the next chunk; or it has left by a jump, and never will be. */
	return !atomic_load_explicit(&t->first->writers, memory_order_seq_cst) || full + STUCK_NS < now;
}

static void recycle_track(struct ppa_trace_track *t, uint64_t before_ns, bool (*is_alive)(pid_t tid))
{
	uint64_t ended = atomic_load_explicit(&t->ended_ns, memory_order_relaxed);
	struct ppa_trace_chunk *next;

	while (is_old(t, before_ns)) {
		next = atomic_load_explicit(&t->first->next, memory_order_acquire);
		take_back(t->first);
		t->first = next;
	}
	if (t->begin_ns >= before_ns || (ended ? ended >= before_ns : is_alive(t->tid)))
		return;
	close_track(t);
	for (struct ppa_trace_chunk *c = t->first; c; c = next) {
		next = atomic_load_explicit(&c->next, memory_order_acquire);
		take_back(c);
	}
	atomic_store_explicit(&t->is_used, 0, memory_order_release);
}

static uint64_t oldest_full(void)
{
	uint64_t oldest = UINT64_MAX, full;

	for (uint32_t i = 0, n = taken_chunks(); i < n; i++) {
		full = atomic_load_explicit(&buffer.chunks[i].full_ns, memory_order_relaxed);
		if (full && full < oldest)
			oldest = full;
	}
	return oldest;
}

bool ppa_trace_is_short(void)
{
	uint32_t nfree = buffer.nchunks - taken_chunks() + atomic_load_explicit(&buffer.nfree, memory_order_relaxed);

	return nfree < buffer.nchunks / SHORT_SHARE;
}

uint64_t ppa_trace_recycle(uint64_t before_ns, bool (*is_alive)(pid_t tid))
{
	uint64_t now = ppa_sys_clock_ns(CLOCK_MONOTONIC), oldest, missing = before_ns;

	if (ppa_trace_is_short() && (oldest = oldest_full()) < now) {
		uint64_t half = oldest + (now - oldest) / 2;

		missing = half > before_ns ? half : before_ns;
	}
	for (uint32_t i = 0, n = used_tracks(); i < n; i++)
		if (atomic_load_explicit(&buffer.tracks[i].is_published, memory_order_acquire))
			recycle_track(&buffer.tracks[i], missing, is_alive);
	return missing;
}

uint64_t ppa_trace_lost(void)
{
	return atomic_load_explicit(&buffer.lost, memory_order_relaxed);
}

void ppa_trace_buffer_reset(void)
{
	ppa_self.track = NULL;
	if (ppa_self.slot)
		atomic_store_explicit(&ppa_self.slot->recording, 0, memory_order_relaxed);
	atomic_store_explicit(&buffer.is_open, false, memory_order_relaxed);
	atomic_store_explicit(&buffer.makers, 0, memory_order_relaxed);
	/* The parent's arena is left as it is: pages are copied only if somebody writes. */
	buffer.chunks = NULL;
	buffer.narenas = 0;
	for (uint32_t i = 0; buffer.tracks && i < used_tracks(); i++) {
		close_track(&buffer.tracks[i]);
		atomic_store_explicit(&buffer.tracks[i].is_used, 0, memory_order_relaxed);
	}
	atomic_store_explicit(&buffer.next_track, 0, memory_order_relaxed);
}
