/* SPDX-License-Identifier: Apache-2.0
 *
 * A snapshot as data for the flame graph page (http/pages/flamegraph, which is its only reader): one JSON object.
 *
 *   types     [[name, unit], ...]; selected is the index of the one shown first
 *   main      the program's module
 *   strings   all texts; what follows names them by index
 *   frames    [name, module, file, name, ...]: three for each frame
 *   labels    [[key, text], ...], a label's number being told as text
 *   stacks    numbers, for each stack in turn: how many frames it shares with the one before, counted from the root;
 *             how many more follow, and these; how many entries follow, each being the number of its labels, these, and a
 *             value for each type
 *
 * Neighbours share most of their frames, so a stack takes a few numbers whatever its depth. */
#ifndef PPA_PROTO_FLAME_H
#define PPA_PROTO_FLAME_H

#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_sink;
struct ppa_stacks;

enum {
	PPA_FLAME_STACKS_MAX = 40000,	   /* more are not to be seen anyway: */
	PPA_FLAME_FRAMES_MAX = 40000 * 40, /* the smallest are added up under one frame, [smaller stacks] */
};

/* Append the object to *out; strings may be added to st. 0, or -ENOMEM (also sticky in the sink). Context: server. */
int ppa_flame_encode(struct ppa_stacks *st, uint32_t type, struct ppa_sink *out) PPA_CTX_SERVER;

#endif
