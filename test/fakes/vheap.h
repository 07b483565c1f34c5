/* SPDX-License-Identifier: Apache-2.0
 *
 * The private heap for tests: libc's malloc, so that sanitizers watch every block, with a count of
 * live blocks and an allocation that can be made to fail. */
#ifndef PPA_TEST_FAKES_VHEAP_H
#define PPA_TEST_FAKES_VHEAP_H

/* Blocks handed out and not yet freed. */
extern _Atomic long fake_vheap_live;

/* How many more allocations succeed; all that follow fail. Negative: no limit. */
extern _Atomic long fake_vheap_budget;

#endif
