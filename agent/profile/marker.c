/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/profile/marker.h"

#include <stddef.h>

/* Each body differs, so that no linker folds two of them into one address. */
#define MARKER(fn, number)                                                                                             \
	__attribute__((noinline, used)) static void fn(void)                                                           \
	{                                                                                                              \
		__asm__ volatile("" : : "i"(number));                                                                  \
	}

MARKER(signals_blocked, 1)
MARKER(thread_exit, 2)
MARKER(not_sampled, 3)
MARKER(lost_samples, 4)
MARKER(other_stacks, 5)
MARKER(pprofagent, 6)
MARKER(unknown_holder, 7)
MARKER(blocking_io, 12)
MARKER(running, 8)
MARKER(no_stack, 9)
MARKER(program_start, 10)
MARKER(unknown_creator, 11)

static const struct {
	void (*fn)(void);
	const char *name;
} markers[PPA_MARKER_COUNT] = {
	[PPA_MARKER_BLOCKED] = {signals_blocked, "[signals blocked]"},
	[PPA_MARKER_EXIT] = {thread_exit, "[thread exit]"},
	[PPA_MARKER_NOT_SAMPLED] = {not_sampled, "[not sampled]"},
	[PPA_MARKER_LOST] = {lost_samples, "[lost samples]"},
	[PPA_MARKER_OTHER] = {other_stacks, "[other stacks]"},
	[PPA_MARKER_AGENT] = {pprofagent, "[pprofagent]"},
	[PPA_MARKER_UNKNOWN_HOLDER] = {unknown_holder, "[unknown holder]"},
	[PPA_MARKER_IO] = {blocking_io, "[blocking I/O]"},
	[PPA_MARKER_RUNNING] = {running, "[running]"},
	[PPA_MARKER_NO_STACK] = {no_stack, "[no stack]"},
	[PPA_MARKER_MAIN] = {program_start, "[program start]"},
	[PPA_MARKER_UNKNOWN_CREATOR] = {unknown_creator, "[unknown creator]"},
};

uintptr_t ppa_marker_address(enum ppa_marker m)
{
	return (uintptr_t)markers[m].fn;
}

const char *ppa_marker_name(uintptr_t address)
{
	for (int i = 0; i < PPA_MARKER_COUNT; i++)
		if ((uintptr_t)markers[i].fn == address)
			return markers[i].name;
	return NULL;
}
