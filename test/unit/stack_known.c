/* SPDX-License-Identifier: Apache-2.0 */
// link: agent/thread/stack_known.c agent/profile/random.c @walker @unwind @backtrace @iberty @zlib
/* Promise: a stack that is taken for a known one is the one that a walk would find, whatever the thread called, returned
 * from and left on its stack in between; and one that did not change is known.
 * Promise: what is known of code that may go ends with the first unload. */
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/thread/stack_known.h"
#include "unwind/module/modules.h"
#include "unwind/walk/rowcache.h"
#include "unwind/walk/unwind.h"

#define NOINLINE __attribute__((noinline))
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")

/* What stands for a site: the stack that it was made for. */
struct record {
	struct record *next;
	uint32_t npcs;
	uintptr_t pcs[];
};
static _Atomic(struct record *) records; /* all that there are: the table itself holds them where nobody frees them */

struct asker {
	struct ppa_stack_bounds bounds;
	uint64_t random;
	unsigned asked, known, wrong, unkept;
	struct ppa_unwind_buf buf;
	struct ppa_unwind_trail trail;
};
static __thread struct asker *asker;
static struct ppa_sites *const tables[] = {(struct ppa_sites *)0x1000, (struct ppa_sites *)0x2000};

static bool is_of(const struct ppa_stack_want *want)
{
	const struct record *r = (const struct record *)want->site;
	const struct ppa_unwind_buf *b = &asker->buf;

	return r->npcs == b->npcs && !memcmp(r->pcs, b->pcs, b->npcs * sizeof(*b->pcs));
}

/* The leaf of every stack: is it known, and if so, rightly? */
static NOINLINE void ask(void)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	struct ppa_stack_key key = {frame, asker->bounds.hi - frame, 1, 2};
	struct ppa_stack_want want = {.table = tables[0]};
	bool is_known = ppa_stack_known_find(&key, &want, 1);
	struct record *r;

	asker->trail.floor = frame;
	ppa_unwind_here_trailed(&asker->bounds, &asker->buf, &asker->trail);
	asker->asked++;
	asker->known += is_known;
	asker->wrong += is_known && !is_of(&want);
	asker->unkept += !asker->trail.holds;
	if (is_known || !asker->trail.holds)
		return;
	r = malloc(sizeof(*r) + asker->buf.npcs * sizeof(*r->pcs));
	r->next = records;
	while (!atomic_compare_exchange_weak(&records, &r->next, r))
		;
	r->npcs = asker->buf.npcs;
	memcpy(r->pcs, asker->buf.pcs, r->npcs * sizeof(*r->pcs));
	want.site = (struct ppa_site *)r;
	ppa_stack_known_keep(&key, &asker->trail, false, &want, 1);
}

/* ---- ways to the leaf ---- */

static void go_on(const uint8_t *way);

static NOINLINE void by_one(const uint8_t *way)
{
	go_on(way);
	NO_TAIL_CALL();
}

static NOINLINE void by_another(const uint8_t *way)
{
	go_on(way);
	NO_TAIL_CALL();
	NO_TAIL_CALL();
}

/* The frame is found by its frame pointer alone; what it makes room for keeps what others left there. */
static NOINLINE void by_room(const uint8_t *way)
{
	char *room = alloca((size_t)(*way + 1) * 32);

	__asm__ volatile("" : : "r"(room) : "memory");
	go_on(way + 1);
	NO_TAIL_CALL();
}

static NOINLINE void by_room_twice(const uint8_t *way)
{
	char *room = alloca((size_t)(*way + 1) * 32);

	__asm__ volatile("" : : "r"(room) : "memory");
	go_on(way + 1);
	NO_TAIL_CALL();
	go_on(way + 1);
	NO_TAIL_CALL();
}

enum { END, ONE, ANOTHER, ROOM, TWICE, WAYS, ROOMS = 4, STEPS = 5 };

static NOINLINE void go_on(const uint8_t *way)
{
	switch (*way) {
	case END:
		ask();
		break;
	case ONE:
		by_one(way + 1);
		break;
	case ANOTHER:
		by_another(way + 1);
		break;
	case ROOM:
		by_room(way + 1);
		break;
	default:
		by_room_twice(way + 1);
	}
	NO_TAIL_CALL();
}

static unsigned draw(unsigned n)
{
	uint64_t *x = &asker->random;

	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return (unsigned)(*x >> 33) % n;
}

static NOINLINE void wander(int times)
{
	uint8_t way[2 * STEPS + 1];

	for (int i = 0; i < times; i++) {
		unsigned n = draw(STEPS + 1), at = 0;

		while (n--) {
			way[at] = (uint8_t)(1 + draw(WAYS - 1));
			if (way[at++] >= ROOM)
				way[at++] = (uint8_t)draw(ROOMS);
		}
		way[at] = END;
		go_on(way);
	}
}

static void begin(struct asker *a, uintptr_t hi, uint64_t seed)
{
	*a = (struct asker){.bounds = {hi - (256 << 10), hi}, .random = seed};
	asker = a;
}

static struct asker mine;

static void knows_what_it_met(void **state)
{
	static const uint8_t deep[] = {ONE, ROOM, 2, ANOTHER, ROOM, 0, ONE, ANOTHER, ONE, END};

	(void)state;
	begin(&mine, (uintptr_t)environ, 1);
	for (int i = 0; i < 10; i++)
		go_on(deep);
	/* The first walk learns the code, the second leaves the trail. */
	assert_int_equal(mine.known, 8);
	assert_int_equal(mine.wrong, 0);
}

static void is_never_wrong(void **state)
{
	(void)state;
	begin(&mine, (uintptr_t)environ, 88172645463325252u);
	wander(20000);
	assert_int_equal(mine.wrong, 0);
	/* All code is known after a few hundred; of stacks that differ and end at one place the last one is
	 * known (an eighth of those here; fewer under sanitizers, whose frames are larger). */
	assert_true(mine.unkept < 1000);
	assert_true(mine.known > mine.asked / 100);
}

/* The leaf stands where it stood, and where the return addresses were they still are: but one frame is now elsewhere,
 * and its own return address, below, another one. */
static void old_words_do_not_deceive(void **state)
{
	static const uint8_t one[] = {ROOM, 0, ROOM, 3, END}, other[] = {ROOM, 3, ROOM, 0, END};

	(void)state;
	begin(&mine, (uintptr_t)environ, 1);
	for (int i = 0; i < 20; i++) {
		go_on(one);
		go_on(other);
	}
	assert_int_equal(mine.asked, 40);
	assert_int_equal(mine.wrong, 0);
}

static void *wander_alone(void *seed)
{
	struct asker *a = malloc(sizeof(*a));

	/* Less than all of it, which does no harm: such a stack leaves no trail. More would. */
	begin(a, (uintptr_t)__builtin_frame_address(0), (uintptr_t)seed);
	a->bounds.hi += 64;
	wander(3000);
	return a;
}

static void threads_do_not_mix(void **state)
{
	enum { N = 4 };
	pthread_t t[N];
	void *a;

	(void)state;
	for (uintptr_t i = 0; i < N; i++)
		assert_int_equal(pthread_create(&t[i], NULL, wander_alone, (void *)(i * 1000003 + 17)), 0);
	for (int i = 0; i < N; i++) {
		assert_int_equal(pthread_join(t[i], &a), 0);
		assert_int_equal(((struct asker *)a)->wrong, 0);
		free(a);
	}
}

/* ---- the entry ---- */

static struct ppa_unwind_trail one_word(const uintptr_t *place, uintptr_t floor)
{
	struct ppa_unwind_trail t = {.floor = floor, .holds = true, .n = 1};
	unsigned token = ppa_modules_read_begin();
	struct ppa_epochs now = ppa_modules_epochs();

	ppa_modules_read_end(token);
	t.word[0] = *place;
	t.at[0] = (uint32_t)((uintptr_t)place - floor);
	t.epochs[0] = now.rest;
	t.epochs[1] = now.loader;
	return t;
}

static void one_word_is_enough(void **state)
{
	uintptr_t words[4] = {1, 2, 3, 4};
	struct ppa_unwind_trail t = one_word(&words[3], (uintptr_t)words);
	struct ppa_stack_key key = {(uintptr_t)words, sizeof(words), 3, 4}, shorter = key;
	struct ppa_stack_want want = {.table = tables[0], .site = (struct ppa_site *)words},
			      other = {.table = tables[1]};

	(void)state;
	assert_false(ppa_stack_known_find(&key, &want, 1));
	want.site = (struct ppa_site *)words;
	ppa_stack_known_keep(&key, &t, false, &want, 1);
	want.site = NULL;
	assert_true(ppa_stack_known_find(&key, &want, 1));
	assert_ptr_equal(want.site, words);
	assert_false(ppa_stack_known_find(&key, &other, 1));
	other.table = tables[0];
	other.above = 5;
	assert_false(ppa_stack_known_find(&key, &other, 1));
	shorter.room = sizeof(words) - 1;
	assert_false(ppa_stack_known_find(&shorter, &want, 1));
	words[3]++;
	assert_false(ppa_stack_known_find(&key, &want, 1));
	words[3]--;
	assert_true(ppa_stack_known_find(&key, &want, 1));
}

static void unloading_ends_it(void **state)
{
	uintptr_t word = 1;
	struct ppa_unwind_trail t = one_word(&word, (uintptr_t)&word);
	struct ppa_stack_key key = {(uintptr_t)&word, sizeof(word), 5, 6};
	struct ppa_stack_want want = {.table = tables[0], .site = (struct ppa_site *)&word};

	(void)state;
	ppa_stack_known_keep(&key, &t, true, &want, 1);
	assert_true(ppa_stack_known_find(&key, &want, 1));
	ppa_modules_unload_begin();
	assert_false(ppa_stack_known_find(&key, &want, 1));
	ppa_modules_unload_end();
	assert_false(ppa_stack_known_find(&key, &want, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_what_it_met),	    cmocka_unit_test(is_never_wrong),
		cmocka_unit_test(old_words_do_not_deceive), cmocka_unit_test(threads_do_not_mix),
		cmocka_unit_test(one_word_is_enough),	    cmocka_unit_test(unloading_ends_it),
	};

	int failed;

	/* All of the table: in the part of it that a program begins with two frames of a walk may share an entry. */
	atomic_store(&ppa_rows.mask, PPA_ROW_ENTRIES - 1);
	ppa_stack_known_init();
	if (ppa_modules_refresh(true) || ppa_unwind_init())
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	for (struct record *r = records, *next; r; r = next) {
		next = r->next;
		free(r);
	}
	return failed;
}
