/* SPDX-License-Identifier: Apache-2.0
 *
 * What the agent calls itself. */
#ifndef PPA_BASE_VERSION_H
#define PPA_BASE_VERSION_H

#define PPA_VERSION "0.1.0"

#endif
