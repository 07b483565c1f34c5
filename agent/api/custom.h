/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles of the program's own, as Go's pprof.NewProfile: a name, and the values that are in it now, by the stacks that
 * added them. The stacks of all such profiles are sites of one table, told apart by the site's label.
 *
 * Bounded by the number of profiles, and by the budget: a value that finds no room is counted as lost; one whose stack
 * finds none is in its profile under [other stacks]. A profile stays for ever. */
#ifndef PPA_API_CUSTOM_H
#define PPA_API_CUSTOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/profile/sites.h"

enum { PPA_CUSTOM_MAX = 64, PPA_CUSTOM_NAME_BYTES = 64 };

struct ppa_custom;

/* Label of a site: the profile's number + 1. */
extern struct ppa_sites ppa_custom_sites __attribute__((visibility("hidden")));
enum { PPA_CUSTOM_ADDED, PPA_CUSTOM_REMOVED };

/* Begin to record. is_taken: does a profile or page of the agent's have this name? 0 or -ENOMEM. Context: init. */
int ppa_custom_start(bool (*is_taken)(const char *name)) PPA_CTX_INIT;

/* A new profile. NULL if the name is no part of a path (of letters, digits and . _ - / only, under
 * PPA_CUSTOM_NAME_BYTES), if it is taken, or if there are PPA_CUSTOM_MAX. May be called before start; what is added
 * before that is not recorded. Context: any, handlers of the target included, as the next two. */
struct ppa_custom *ppa_custom_new(const char *name) PPA_CTX_ANY;

/* The caller's stack adds a value; caller: return address of the function that it called, skip: frames above it to be
 * left out. 0; -EEXIST if the value is in it, -EINVAL for 0, -ENOMEM. */
int ppa_custom_add(struct ppa_custom *c, uintptr_t value, int skip, uintptr_t caller) PPA_CTX_ANY;

/* Take it out; nothing happens if it is not in it. */
void ppa_custom_remove(struct ppa_custom *c, uintptr_t value) PPA_CTX_ANY;

/* The profile of number i, NULL if there is none (yet). Numbers below PPA_CUSTOM_MAX; not all need be used.
 * Context: any. */
const struct ppa_custom *ppa_custom_at(size_t i) PPA_CTX_ANY;

/* Its name; how many values are in it; how many found no room. Context: any. */
const char *ppa_custom_name(const struct ppa_custom *c) PPA_CTX_ANY;
uint64_t ppa_custom_count(const struct ppa_custom *c) PPA_CTX_ANY;
uint64_t ppa_custom_lost(const struct ppa_custom *c) PPA_CTX_ANY;

#endif
