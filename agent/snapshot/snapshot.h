/* SPDX-License-Identifier: Apache-2.0
 *
 * The waist: everything an encoder needs, as plain immutable data. Collectors build one, encoders read it, nobody
 * keeps a pointer into it. Ids are indices: location i has profile.proto id i + 1, and so on. Order is the order of
 * first use, so ids are dense and sequential, as Parca demands. */
#ifndef PPA_SNAPSHOT_SNAPSHOT_H
#define PPA_SNAPSHOT_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum { PPA_SNAPSHOT_MAX_VALUES = 4, PPA_SNAPSHOT_NO_MAPPING = UINT32_MAX };

struct ppa_value_type {
	const char *type; /* "cpu" */
	const char *unit; /* "nanoseconds" */
};

/* clang-format off */
/* The sample types of profiles of time, an initialiser of struct ppa_value_type[2]; clock is "cpu" or "wall". */
#define PPA_SNAPSHOT_TIME_TYPES(clock) {{"samples", "count"}, {clock, "nanoseconds"}}
/* clang-format on */

/* One executable (r-x) segment as /proc/self/maps shows it. Mapping 0 is always the main executable's. */
struct ppa_mapping {
	uint64_t start;	      /* address of the first byte */
	uint64_t limit;	      /* one past the last byte */
	uint64_t offset;      /* in the file, bytes */
	const char *filename; /* never NULL */
	const char *build_id; /* lower-case hex, "" if the file has none */
	bool has_functions, has_filenames, has_line_numbers, has_inline_frames;
};

struct ppa_function {
	const char *name;	 /* for people; never empty */
	const char *system_name; /* linker symbol; "" if none */
	const char *filename;	 /* absolute, "" if unknown */
	int64_t start_line;	 /* 0 if unknown */
};

struct ppa_line {
	uint32_t function; /* index into functions */
	int64_t line;	   /* 0 if unknown */
};

/* address: exact for an interrupted pc, return address - 1 for a caller; unique, non-zero, inside its mapping. */
struct ppa_location {
	uint64_t address;
	uint32_t mapping;    /* index into mappings or PPA_SNAPSHOT_NO_MAPPING */
	uint32_t first_line; /* index into lines; innermost inlined function first */
	uint32_t nlines;     /* at least 1 */
	uint64_t entry;	     /* first byte of the function that owns the code, 0 if unknown */
};

struct ppa_label {
	const char *key;
	const char *str; /* NULL: numeric */
	int64_t num;
	const char *num_unit; /* NULL or "": the key is the unit */
};

struct ppa_snap_sample {
	uint32_t first_loc; /* index into stack_locs, leaf first */
	uint32_t nlocs;
	uint32_t first_label; /* index into labels */
	uint32_t nlabels;
	int64_t values[PPA_SNAPSHOT_MAX_VALUES];
};

/* What debug=1 looks like. */
enum ppa_form {
	PPA_FORM_NONE,	     /* there is no text */
	PPA_FORM_COUNT,	     /* "threadcreate profile: total 7", a count for each stack */
	PPA_FORM_HEAP,	     /* "heap profile: 1: 2 [3: 4] @ heap/1048576"; inuse and alloc, sampled values */
	PPA_FORM_THREADS,    /* "goroutine 22 [sleep]:", each by itself; see proto/threads.h */
	PPA_FORM_CONTENTION, /* "--- contention:", nanoseconds and counts */
};

struct ppa_snapshot {
	const char *name; /* "profile", "heap": the endpoint */
	enum ppa_form form;
	const char *text_tail; /* what debug=1 appends, whole lines; NULL: nothing */
	struct ppa_value_type sample_types[PPA_SNAPSHOT_MAX_VALUES];
	uint32_t nsample_types;
	const char *default_sample_type; /* NULL: unset */
	struct ppa_value_type period_type;
	int64_t period;
	int64_t time_ns;     /* UTC, start of collection */
	int64_t duration_ns; /* 0 for a snapshot */

	const struct ppa_mapping *mappings;
	size_t nmappings;
	const struct ppa_function *functions;
	size_t nfunctions;
	const struct ppa_line *lines;
	size_t nlines;
	const struct ppa_location *locations;
	size_t nlocations;
	const uint32_t *stack_locs; /* indices into locations */
	size_t nstack_locs;
	const struct ppa_label *labels;
	size_t nlabels;
	const struct ppa_snap_sample *samples;
	size_t nsamples;
	const char *const *comments;
	size_t ncomments;
};

#endif
