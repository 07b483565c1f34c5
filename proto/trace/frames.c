/* SPDX-License-Identifier: Apache-2.0
 *
 * Go's viewer takes the outermost function for a thread's name and groups threads by it; that is what all the care
 * about roots is for. A program counter is a key there: the first function seen with one is shown for all, so that an
 * inlined function gets the counter of its caller with its depth in the top byte. */
#include "proto/trace/frames.h"

#include <string.h>

#include "proto/sound.h"
#include "proto/trace/lives.h"

enum { DEPTH_SHIFT = 56, KEPT_INNER = PPA_TRACE_MAX_FRAMES - 2 };

/* Frames of nobody's code. Their counters are no addresses of this machine. */
#define NOBODYS(n, name, where)                                                                                        \
	{                                                                                                              \
		(UINT64_C(1) << 55) + (n), name, where, 1, PPA_SNAPSHOT_NO_MAPPING                                     \
	}
static const struct ppa_trace_frame agent_frame = NOBODYS(0, "runtime.pprofagent", "pprofagent");
static const struct ppa_trace_frame unknown_frame = NOBODYS(1, "[unknown start routine]", "[unknown]");
static const struct ppa_trace_frame truncated_frame = NOBODYS(2, "[truncated]", "[unknown]");

static const struct ppa_snap_sample *sample_of(const struct ppa_trace_input *in, uint32_t stack)
{
	const struct ppa_snapshot *s = in->stacks;

	return s && stack && stack <= s->nsamples && s->samples[stack - 1].nlocs ? &s->samples[stack - 1] : NULL;
}

static uint32_t location_at(const struct ppa_trace_input *in, const struct ppa_snap_sample *of, size_t i)
{
	return in->stacks->stack_locs[of->first_loc + i];
}

/* The function whose code it is: what is inlined comes before it. */
static const struct ppa_function *function_of(const struct ppa_trace_input *in, uint32_t location)
{
	const struct ppa_location *loc = &in->stacks->locations[location];

	return &in->stacks->functions[in->stacks->lines[loc->first_line + loc->nlines - 1].function];
}

static const char *file_of(const struct ppa_trace_input *in, const struct ppa_location *loc)
{
	const char *name = loc->mapping < in->stacks->nmappings ? in->stacks->mappings[loc->mapping].filename : NULL;

	return name && *name ? name : "[unknown]";
}

static struct ppa_trace_frame frame_of(const struct ppa_trace_input *in, uint32_t location, uint32_t k)
{
	const struct ppa_location *loc = &in->stacks->locations[location];
	const struct ppa_line *line = &in->stacks->lines[loc->first_line + k];
	const struct ppa_function *f = &in->stacks->functions[line->function];
	uint64_t depth = loc->nlines - 1 - k;

	return (struct ppa_trace_frame){
		.pc = (loc->address ^ depth << DEPTH_SHIFT) ? loc->address ^ depth << DEPTH_SHIFT : 1,
		.function = f->name && *f->name ? f->name : "[unknown]",
		.file = f->filename && *f->filename ? f->filename : file_of(in, loc),
		.line = line->line > 0 ? (uint64_t)line->line : 1,
		.mapping = loc->mapping,
	};
}

/* Is this frame one that every thread of every program begins with? */
static bool is_foundation(const struct ppa_trace_input *in, uint32_t location)
{
	static const char *const functions[] = {"_start", "start_thread", "clone", "clone3", "__clone"};
	static const char *const files[] = {"libc.so", "libc-2.", "libc.musl-", "ld-musl-", "libpthread"};
	const char *name = function_of(in, location)->name;
	const char *file = file_of(in, &in->stacks->locations[location]), *slash = strrchr(file, '/');

	for (size_t i = 0; name && i < PPA_ARRAY_LEN(functions); i++)
		if (strcmp(name, functions[i]) == 0)
			return true;
	for (size_t i = 0; i < PPA_ARRAY_LEN(files); i++)
		if (strncmp(slash ? slash + 1 : file, files[i], strlen(files[i])) == 0)
			return true;
	return false;
}

/* How many locations of the stack are worth showing. *is_rooted: the last of them is the start routine's. */
static size_t trim(const struct ppa_trace_input *in, const struct ppa_snap_sample *of, const struct ppa_function *root,
		   bool *is_rooted)
{
	size_t n = of->nlocs;

	*is_rooted = false;
	for (size_t i = n; root && i > 0; i--)
		if (function_of(in, location_at(in, of, i - 1)) == root) {
			*is_rooted = true;
			return i;
		}
	while (n && is_foundation(in, location_at(in, of, n - 1)))
		n--;
	return n ? n : of->nlocs;
}

size_t ppa_trace_frames(const struct ppa_trace_input *in, uint32_t stack, uint32_t root, struct ppa_trace_frame *frames)
{
	const struct ppa_snap_sample *of = sample_of(in, stack), *base = sample_of(in, root);
	uint32_t root_location = base ? location_at(in, base, 0) : 0;
	size_t n = 0, nlocs;
	bool is_rooted, is_whole = true;

	if (stack == PPA_TRACE_STACK_AGENT || stack == PPA_TRACE_STACK_UNKNOWN)
		return frames[0] = stack == PPA_TRACE_STACK_AGENT ? agent_frame : unknown_frame, 1;
	if (!of)
		return 0;
	nlocs = trim(in, of, base ? function_of(in, root_location) : NULL, &is_rooted);
	for (size_t i = 0; i < nlocs; i++) {
		uint32_t location = location_at(in, of, i), nlines = in->stacks->locations[location].nlines;

		for (uint32_t k = 0; k < nlines; k++) {
			is_whole = n < PPA_TRACE_MAX_FRAMES;
			if (!is_whole) /* what is outermost takes the last place, time and again */
				n = PPA_TRACE_MAX_FRAMES - 1;
			frames[n++] = frame_of(in, location, k);
		}
	}
	if (base && !is_rooted) {
		is_whole = is_whole && n < PPA_TRACE_MAX_FRAMES;
		n -= n == PPA_TRACE_MAX_FRAMES;
		frames[n++] = frame_of(in, root_location, in->stacks->locations[root_location].nlines - 1);
	}
	if (!is_whole)
		frames[KEPT_INNER] = truncated_frame;
	return n;
}

size_t ppa_trace_frames_root(const struct ppa_trace_input *in, uint32_t stack, uint32_t root,
			     struct ppa_trace_frame *frames)
{
	const struct ppa_snap_sample *base = sample_of(in, root);
	size_t n;

	if (base) {
		uint32_t location = location_at(in, base, 0);

		frames[0] = frame_of(in, location, in->stacks->locations[location].nlines - 1);
		return 1;
	}
	n = ppa_trace_frames(in, stack, 0, frames);
	if (n > 1)
		frames[0] = frames[n - 1];
	return n ? 1 : 0;
}

bool ppa_trace_is_sound(const struct ppa_trace_input *in)
{
	struct ppa_snapshot s;

	if (!in->start_ns || in->stop_ns <= in->start_ns + 4 * PPA_TRACE_SETTLE_NS)
		return false;
	if (!in->stacks)
		return true;
	s = *in->stacks;
	s.nsample_types = 1;
	for (size_t i = 0; i < s.nlocations; i++)
		if (!s.locations[i].nlines)
			return false;
	return ppa_sound_check(&s);
}
