/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/snapshot/build.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "agent/base/stats.h"
#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "agent/snapshot/picture.h"
#include "agent/cpu/session.h"
#include "unwind/module/modules.h"
#include "unwind/name/symbols.h"

struct drawing {
	struct ppa_picture *p;
	const struct ppa_session *s;
};

static void draw(const struct ppa_stack *st, void *arg)
{
	const struct drawing *d = arg;
	int64_t values[2] = {st->count, st->count * (int64_t)d->s->period_ns};

	ppa_picture_sample(d->p, values);
	ppa_picture_frames(d->p, ppa_session_table(d->s, st->layout), st->pcs, st->npcs, 0);
	if (st->label < d->s->labels.n) {
		struct ppa_label l = {.key = "thread",
				      .str = ppa_picture_text(d->p, "%s", d->s->labels.values[st->label])};

		ppa_picture_label(d->p, &l);
	}
	if (st->tid) {
		struct ppa_label l = {.key = "tid", .num = st->tid};

		ppa_picture_label(d->p, &l);
	}
	ppa_picture_tags(d->p, st->tags);
}

static uint64_t grown(const struct ppa_session *s, enum ppa_stat which)
{
	return s->stats_end[which] - s->stats_begin[which];
}

/* What the reader must know to trust the figures. Counters are the process's, not this session's alone. */
static void comment(struct ppa_picture *p, const struct ppa_session *s)
{
	uint64_t samples = grown(s, PPA_STAT_SAMPLES), cut = grown(s, PPA_STAT_TRUNCATED);

	if (ppa_picture_is_empty(p))
		ppa_picture_comment(p, "no CPU was used; try goroutine or wall");
	ppa_picture_comment(
		p, ppa_picture_text(p,
				    "pprofagent: %" PRIu64 " samples, %" PRIu64 " lost (%" PRIu64 " ring full, %" PRIu64
				    " no buffer), %" PRIu64 " stacks truncated, %" PRIu64 " deeper than %d frames",
				    samples, grown(s, PPA_STAT_LOST_RING_FULL) + grown(s, PPA_STAT_LOST_NO_BUFFER),
				    grown(s, PPA_STAT_LOST_RING_FULL), grown(s, PPA_STAT_LOST_NO_BUFFER), cut,
				    grown(s, PPA_STAT_TOO_DEEP), PPA_UNWIND_MAX_FRAMES));
	if (grown(s, PPA_STAT_BLOCKED_NS))
		ppa_picture_comment(p, ppa_picture_text(p, "pprofagent: %" PRIu64 " ms of CPU with signals blocked",
							grown(s, PPA_STAT_BLOCKED_NS) / 1000000));
	ppa_picture_comment_tags(p);
	if (ppa_stat_get(PPA_STAT_TIMER_FAILED))
		ppa_picture_comment(p, ppa_picture_text(p,
							"pprofagent: %" PRIu64 " times a thread got no timer "
							"(RLIMIT_SIGPENDING); its CPU is under [not sampled]",
							ppa_stat_get(PPA_STAT_TIMER_FAILED)));
	ppa_picture_comment(p, ppa_picture_text(p,
						"pprofagent: own CPU %" PRIu64 ".%03" PRIu64 " ms of %" PRIu64
						" ms, own memory %" PRIu64 " KiB",
						s->agent_cpu_ns / 1000000, s->agent_cpu_ns / 1000 % 1000,
						s->process_cpu_ns / 1000000, ppa_vheap_mapped_bytes() / 1024));
}

int ppa_build_cpu(const struct ppa_session *s, struct ppa_snapshot **out)
{
	const struct ppa_module_table *last = ppa_session_table(s, UINT64_MAX);
	struct drawing d = {ppa_picture_new(last), s};
	static const struct ppa_value_type types[] = PPA_SNAPSHOT_TIME_TYPES("cpu");
	struct ppa_snapshot *head;

	if (!d.p)
		return -ENOMEM;
	head = ppa_picture_head(d.p);
	head->name = "profile";
	memcpy(head->sample_types, types, sizeof(types));
	head->nsample_types = PPA_ARRAY_LEN(types);
	head->period_type = (struct ppa_value_type){"cpu", "nanoseconds"};
	head->period = (int64_t)s->period_ns;
	head->time_ns = s->begin_utc_ns;
	head->duration_ns = (int64_t)(s->end_ns - s->begin_ns);
	ppa_stacktab_each(&s->stacks, draw, &d);
	comment(d.p, s);
	return ppa_picture_finish(d.p, out);
}
