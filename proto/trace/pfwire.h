/* SPDX-License-Identifier: Apache-2.0
 *
 * The outer form of a Perfetto trace: packets of nested messages, and stacks that are sent once and named by number
 * afterwards. Field numbers from perfetto's protos/perfetto/trace/. Knows what a packet looks like, not what it means. */
#ifndef PPA_PROTO_TRACE_PFWIRE_H
#define PPA_PROTO_TRACE_PFWIRE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/snapshot/trace_input.h"
#include "proto/strtab.h"
#include "proto/trace/frames.h"
#include "proto/trace/table.h"

struct ppa_sink;

struct ppa_pfwire {
	struct ppa_sink *out;
	const struct ppa_trace_input *in;
	uint8_t *bytes; /* the packet under construction; owned */
	size_t len;
	uint32_t flags; /* of the next packet */
	struct ppa_strtab functions, paths, words;
	struct ppa_trace_table mappings, frames, stacks, sent; /* what was sent, by whose number */
	uint32_t nframes, nstacks;
	int err; /* sticky */
	struct ppa_trace_frame scratch[PPA_TRACE_MAX_FRAMES];
	uint32_t frame_ids[PPA_TRACE_MAX_FRAMES];
};

/* 0 or -ENOMEM; ppa_pfwire_free in any case. Context: server. */
int ppa_pfwire_init(struct ppa_pfwire *w, const struct ppa_trace_input *in, struct ppa_sink *out) PPA_CTX_SERVER;

/* One packet: begin, its fields, end. at_ns 0: without a time. Context: server. */
void ppa_pfwire_packet(struct ppa_pfwire *w, uint64_t at_ns) PPA_CTX_SERVER;
void ppa_pfwire_packet_end(struct ppa_pfwire *w) PPA_CTX_SERVER;

/* A message within: begin gives what end wants. Context: server. */
size_t ppa_pfwire_begin(struct ppa_pfwire *w, uint32_t field) PPA_CTX_SERVER;
void ppa_pfwire_end(struct ppa_pfwire *w, size_t mark) PPA_CTX_SERVER;

/* Fields: a varint; 8 bytes; text, cleaned and cut at 1024 bytes. Context: server. */
void ppa_pfwire_uint(struct ppa_pfwire *w, uint32_t field, uint64_t v) PPA_CTX_SERVER;
void ppa_pfwire_fixed64(struct ppa_pfwire *w, uint32_t field, uint64_t v) PPA_CTX_SERVER;
void ppa_pfwire_text(struct ppa_pfwire *w, uint32_t field, const char *text) PPA_CTX_SERVER;

/* The number of a stack (proto/trace/frames.h), sent first if it is new: not within a packet. 0: none.
 * Context: server. */
uint32_t ppa_pfwire_stack(struct ppa_pfwire *w, uint32_t stack, uint32_t root) PPA_CTX_SERVER;

/* What is repeated in events. */
enum ppa_pf_words {
	PPA_PF_CATEGORIES = 1,
	PPA_PF_EVENT_NAMES = 2,
	PPA_PF_ANNOTATION_NAMES = 3,
	PPA_PF_ANNOTATION_VALUES = 29,
};

/* The number of a text, which must live as long as w; sent first if it is new: not within a packet. 0 for NULL and "".
 * Context: server. */
uint32_t ppa_pfwire_word(struct ppa_pfwire *w, enum ppa_pf_words table, const char *text) PPA_CTX_SERVER;

/* 0, or the first error of all. Context: server. */
int ppa_pfwire_finish(struct ppa_pfwire *w) PPA_CTX_SERVER;
void ppa_pfwire_free(struct ppa_pfwire *w) PPA_CTX_SERVER;

#endif
