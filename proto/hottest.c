/* SPDX-License-Identifier: Apache-2.0
 *
 * Add up by frame, or by run of equal stacks; sort; take the first ones. Sums are unsigned, so that too much of a
 * collector's bug wraps instead of being undefined. */
#include "proto/hottest.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "agent/snapshot/snapshot.h"
#include "proto/order.h"
#include "proto/stacks.h"

struct sums {
	uint64_t self, total;
	uint32_t seen; /* the last sample counted in total, + 1 */
};

static int64_t amount(uint64_t sum)
{
	int64_t v = (int64_t)sum;

	return v < 0 ? (v == INT64_MIN ? INT64_MAX : -v) : v;
}

static void add_up(const struct ppa_stacks *st, uint32_t type, struct sums *sums)
{
	for (uint32_t i = 0; i < st->s->nsamples; i++) {
		uint64_t v = (uint64_t)st->s->samples[i].values[type];
		struct ppa_stack_walk w;
		uint32_t frame = st->no_stack;

		ppa_stack_begin(st, i, &w);
		while (ppa_stack_next(&w, &frame)) {
			if (sums[frame].seen != i + 1)
				sums[frame].total += v;
			sums[frame].seen = i + 1;
		}
		sums[frame].self += v;
	}
}

/* What has a self value comes first, what has none by its total. */
static int64_t key_of(const struct sums *s)
{
	return s->self ? amount(s->self) : amount(s->total) - INT64_MAX;
}

long ppa_hottest_functions(const struct ppa_stacks *st, uint32_t type, struct ppa_hot *out, size_t cap)
{
	size_t nframes = st->frames.n, n = 0;
	struct sums *sums = ppa_vheap_calloc(nframes + 1, sizeof(*sums));
	struct ppa_order *order = ppa_vheap_malloc((2 * nframes + 1) * sizeof(*order)), *sorted;

	if (!sums || !order) {
		ppa_vheap_free(sums);
		ppa_vheap_free(order);
		return -ENOMEM;
	}
	add_up(st, type, sums);
	for (size_t i = 0; i < nframes; i++)
		if (sums[i].self || sums[i].total)
			order[n++] = (struct ppa_order){key_of(&sums[i]), (uint32_t)i};
	sorted = ppa_order_sort(order, order + nframes, n);
	n = n < cap ? n : cap;
	for (size_t i = 0; i < n; i++) {
		const struct sums *s = &sums[sorted[i].index];

		out[i] = (struct ppa_hot){sorted[i].index, (int64_t)s->self, (int64_t)s->total};
	}
	ppa_vheap_free(sums);
	ppa_vheap_free(order);
	return (long)n;
}

/* The value of the stacks order[*at..), all equal to the first; moves *at to the next stack. */
static uint64_t take_run(const struct ppa_stacks *st, uint32_t type, size_t *at)
{
	uint32_t first = st->order[*at];
	uint64_t sum = 0;

	do
		sum += (uint64_t)st->s->samples[st->order[(*at)++]].values[type];
	while (*at < st->s->nsamples && ppa_stacks_are_equal(st, first, st->order[*at]));
	return sum;
}

long ppa_hottest_stacks(const struct ppa_stacks *st, uint32_t type, struct ppa_hot *out, size_t cap)
{
	size_t nsamples = st->s->nsamples, n = 0, at = 0;
	struct ppa_order *order = ppa_vheap_malloc((2 * nsamples + 1) * sizeof(*order)), *sorted;

	if (!order)
		return -ENOMEM;
	while (at < nsamples) {
		size_t first = at;
		uint64_t sum = take_run(st, type, &at);

		if (sum)
			order[n++] = (struct ppa_order){amount(sum), (uint32_t)first};
	}
	sorted = ppa_order_sort(order, order + nsamples, n);
	n = n < cap ? n : cap;
	for (size_t i = 0; i < n; i++) {
		size_t first = sorted[i].index;
		uint32_t sample = st->order[first];
		int64_t sum = (int64_t)take_run(st, type, &first);

		out[i] = (struct ppa_hot){sample, sum, sum};
	}
	ppa_vheap_free(order);
	return (long)n;
}
