/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's own file in memory. Starting, and answering a request, run through code and constants that nobody needs
 * afterwards; what the kernel mapped of them counts as the target's resident memory until it is let go of. */
#ifndef PPA_BASE_IMAGE_H
#define PPA_BASE_IMAGE_H

#include "agent/base/attr.h"

/* Take the pages of the library's read-only segments out of the page tables. They stay in the page cache: who runs
 * there next takes a minor fault for each sixteen pages. A page that somebody has written to (a static call of ours, a
 * debugger's breakpoint) stays; where that cannot be known, all do. Context: server. */
void ppa_image_release(void) PPA_CTX_SERVER;

#endif
