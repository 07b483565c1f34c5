// link: agent/profile/tags.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: equal sets of labels have one number whatever the order and whoever made them; and a program that makes labels
 * without end uses bounded memory, keeps the sets it had, and keeps its keys. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/budget.h"
#include "agent/profile/tags.h"

static uint32_t with(uint32_t base, const char *key, const char *value)
{
	uint32_t set = UINT32_MAX;

	assert_int_equal(ppa_tags_with(base, key, value, &set), 0);
	return set;
}

/* "k=v k=v " */
static const char *text(uint32_t set)
{
	static char buf[2 * PPA_TAGS_SET_BYTES];
	size_t n = 0;
	struct ppa_tag t;

	buf[0] = '\0';
	for (uint32_t i = 0; ppa_tags_at(set, i, &t); i++)
		n += (size_t)snprintf(buf + n, sizeof(buf) - n, "%s=%s ", t.key, t.value);
	return buf;
}

static void sets_are_kept_by_content(void **state)
{
	uint32_t a = with(with(PPA_TAGS_NONE, "tenant", "a b"), "op", "get");
	uint32_t b = with(with(PPA_TAGS_NONE, "op", "get"), "tenant", "a b");

	(void)state;
	assert_int_equal(a, b);
	assert_string_equal(text(a), "op=get tenant=a b ");
	assert_int_equal(with(a, "op", "get"), a);
	assert_string_equal(text(with(a, "op", "put")), "op=put tenant=a b ");
	assert_string_equal(text(with(a, "op", NULL)), "tenant=a b ");
	assert_string_equal(text(with(a, "zone", "")), "op=get tenant=a b zone= ");
	assert_int_equal(with(with(a, "op", NULL), "tenant", NULL), PPA_TAGS_NONE);
	assert_int_equal(with(PPA_TAGS_NONE, "never", NULL), PPA_TAGS_NONE);
	assert_string_equal(text(PPA_TAGS_NONE), "");
	/* A key and value that run together differently are another set. */
	assert_int_not_equal(with(PPA_TAGS_NONE, "ab", "c"), with(PPA_TAGS_NONE, "a", "bc"));
	assert_true(ppa_tags_exists(a) && ppa_tags_exists(PPA_TAGS_NONE) && ppa_tags_exists(PPA_TAGS_LOST));
	assert_false(ppa_tags_exists(PPA_TAGS_SETS - 1) || ppa_tags_exists(UINT32_MAX));
}

static void refuse(uint32_t base, const char *key, int err)
{
	uint32_t set = 77;

	assert_int_equal(ppa_tags_with(base, key, "v", &set), err);
	assert_int_equal(set, 77);
}

static void what_cannot_be_a_label_is_refused(void **state)
{
	char key[PPA_TAGS_KEY_MAX + 2];
	char longest[1000], want[2 + PPA_TAGS_VALUE_MAX + 2];
	uint32_t set = PPA_TAGS_NONE;

	(void)state;
	memset(key, 'k', sizeof(key));
	key[sizeof(key) - 1] = '\0';
	refuse(set, key, -EINVAL);
	refuse(set, "", -EINVAL);
	refuse(set, NULL, -EINVAL);
	refuse(set, "thread", -EINVAL);
	refuse(set, "bytes", -EINVAL);
	refuse(set, "pprof::base", -EINVAL);
	/* Cut before the two-byte character that the limit would split. */
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	memcpy(longest + PPA_TAGS_VALUE_MAX - 1, "\xc3\xa9", 2);
	snprintf(want, sizeof(want), "k=%.*s ", PPA_TAGS_VALUE_MAX - 1, longest);
	assert_string_equal(text(with(PPA_TAGS_NONE, "k", longest)), want);
	/* Too many bytes, too many pairs: the set stays what it was. */
	for (int i = 0; i < 3; i++) {
		snprintf(key, sizeof(key), "long%d", i);
		set = with(set, key, longest);
	}
	memset(key, 'k', sizeof(key));
	key[PPA_TAGS_KEY_MAX] = '\0';
	set = with(set, key, "v");
	assert_int_equal(ppa_tags_with(set, "z", longest, &set), -ENOSPC);
	set = PPA_TAGS_NONE;
	for (int i = 0; i < PPA_TAGS_PAIRS; i++) {
		snprintf(key, sizeof(key), "k%02d", i);
		set = with(set, key, "v");
	}
	refuse(set, "k", -ENOSPC);
	refuse(set, "z", -ENOSPC);
	assert_int_equal(with(set, "k03", "v"), set);
}

enum { THREADS = 8, EACH = 200 };

static void *make_sets(void *ids)
{
	char value[16];

	for (int i = 0; i < EACH; i++) {
		snprintf(value, sizeof(value), "r%d", i);
		((uint32_t *)ids)[i] = with(with(PPA_TAGS_NONE, "race", value), "b", "1");
	}
	return NULL;
}

static void threads_that_race_agree(void **state)
{
	static uint32_t ids[THREADS][EACH];
	pthread_t t[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, make_sets, ids[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (int i = 1; i < THREADS; i++)
		assert_memory_equal(ids[i], ids[0], sizeof(ids[0]));
	for (int i = 0; i < EACH; i++) {
		char want[32];

		snprintf(want, sizeof(want), "b=1 race=r%d ", i);
		assert_string_equal(text(ids[0][i]), want);
	}
}

static void labels_without_end_are_bounded(void **state)
{
	uint32_t tenant = with(PPA_TAGS_NONE, "tenant", "acme"), kept = with(tenant, "request", "0"), set;
	uint64_t used;
	char value[32];

	(void)state;
	for (int i = 0; i < 3 * PPA_TAGS_SETS; i++) {
		snprintf(value, sizeof(value), "%d", i);
		set = with(tenant, "request", value);
		assert_true(set < PPA_TAGS_SETS);
	}
	used = ppa_budget_used();
	assert_true(used <= PPA_TAGS_MEMORY);
	assert_true(ppa_tags_folded() > PPA_TAGS_SETS);
	assert_string_equal(text(set), "request=[other labels] tenant=acme ");
	assert_string_equal(text(kept), "request=0 tenant=acme ");
	assert_int_equal(with(tenant, "request", "0"), kept);
	/* The other key's known value comes back when this one is taken out. */
	assert_int_equal(with(set, "request", NULL), tenant);
	/* Keys without end as well: in the end there is one set for all. */
	for (int i = 0; i < PPA_TAGS_SETS; i++) {
		snprintf(value, sizeof(value), "key%d", i);
		set = with(PPA_TAGS_NONE, value, "v");
	}
	assert_int_equal(set, PPA_TAGS_LOST);
	assert_string_equal(text(set), "labels=[other labels] ");
	assert_int_equal(with(set, "tenant", "acme"), tenant);
	assert_true(ppa_budget_used() <= PPA_TAGS_MEMORY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sets_are_kept_by_content),
		cmocka_unit_test(what_cannot_be_a_label_is_refused),
		cmocka_unit_test(threads_that_race_agree),
		cmocka_unit_test(labels_without_end_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
