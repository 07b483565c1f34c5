/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/base/stats.h"

_Atomic uint64_t ppa_stats[PPA_STAT_COUNT];
