/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds are those of agent/config.c. The heap's rate is taken up by each thread at its next sample point, the others at
 * the next event. */
#include "agent/snapshot/settings.h"

#include <stdbool.h>

#include "agent/heap/heap.h"
#include "agent/lock/contention.h"
#include "agent/snapshot/collect.h"

static int64_t block_io(void)
{
	return ppa_contention_wants_io();
}

static void set_block_io(int64_t value)
{
	ppa_contention_set_io(value != 0);
}

static int64_t block_rate(void)
{
	return (int64_t)ppa_contention_block_rate();
}

static void set_block_rate(int64_t value)
{
	ppa_contention_set_block_rate((uint64_t)value);
}

static int64_t cpu_hz(void)
{
	return ppa_collect_default_hz();
}

static void set_cpu_hz(int64_t value)
{
	ppa_collect_set_default_hz((int)value);
}

static int64_t heap_rate(void)
{
	return (int64_t)ppa_heap_rate();
}

static void set_heap_rate(int64_t value)
{
	ppa_heap_set_rate((uint64_t)value);
}

static int64_t mutex_fraction(void)
{
	return (int64_t)ppa_contention_mutex_fraction();
}

static void set_mutex_fraction(int64_t value)
{
	ppa_contention_set_mutex_fraction((uint64_t)value);
}

static const struct ppa_setting settings[] = {
	{"block_io", "1: calls that are no locks are in the block profile, too; 0: they are not", 0, 1, block_io,
	 set_block_io},
	{"block_rate", "nanoseconds of waiting between two samples of the block profile; 1 records every wait, 0 none",
	 0, 1000000000, block_rate, set_block_rate},
	{"cpu_hz", "CPU samples a second where a request has no hz=", PPA_CPU_HZ_MIN, PPA_CPU_HZ_MAX, cpu_hz,
	 set_cpu_hz},
	{"heap_rate", "mean bytes between two samples of the heap profile; 1 records every allocation, 0 none", 0,
	 1 << 30, heap_rate, set_heap_rate},
	{"mutex_fraction", "one in so many contended releases goes into the mutex profile; 0 none", 0, 65535,
	 mutex_fraction, set_mutex_fraction},
};

const struct ppa_setting *ppa_settings_at(size_t i)
{
	return i < PPA_ARRAY_LEN(settings) ? &settings[i] : NULL;
}
