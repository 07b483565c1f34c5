/* SPDX-License-Identifier: Apache-2.0
 *
 * In place of stacks and their sites, for tests of what hooks record: a site is a number that the test chooses before
 * it acts. And what tests of mmap share. */
#ifndef TEST_FAKES_SITES_H
#define TEST_FAKES_SITES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "agent/heap/mmap.h"
#include "agent/profile/sites.h"

enum { SITES = 64 };

extern struct ppa_site fake_sites[SITES];
extern __thread uintptr_t fake_here; /* number of the site that acts on this thread */

enum { PAGE = 4096, ANON = MAP_PRIVATE | MAP_ANONYMOUS, RW = PROT_READ | PROT_WRITE };

uint64_t fake_random(uint64_t below);

/* What a site of ppa_mmap_sites has; fail unless it is that. */
struct ppa_mmap_values fake_values(int site);
void fake_is(int site, int64_t maps, int64_t pages);

/* Fail unless sites and regions agree. */
void fake_is_sound(void);

/* Map so many pages for a site. */
char *fake_map(int site, size_t pages);

#endif
