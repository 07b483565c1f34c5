/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/thread/renamed.h"

_Atomic uint32_t ppa_renamed;
