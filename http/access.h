/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may ask. A page in a browser on this machine can make its own name resolve to 127.0.0.1 and then read from us as
 * if we were its origin (DNS rebinding); its requests still carry that name in Host. So a server that is bound to a
 * loopback address answers only to IP addresses, localhost, and clients that send no name. */
#ifndef PPA_HTTP_ACCESS_H
#define PPA_HTTP_ACCESS_H

#include <stdbool.h>

#include "agent/base/attr.h"

/* May a request with this Host (NULL: no such header), port included or not, be answered on a loopback address?
 * Context: any. */
bool ppa_access_host_is_allowed(const char *host) PPA_CTX_ANY;

#endif
