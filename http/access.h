/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may ask. A page in a browser on this machine can make its own name resolve to 127.0.0.1 and then read from us as
 * if we were its origin (DNS rebinding); its requests still carry that name in Host. So a server that is bound to a
 * loopback address answers only to IP addresses, localhost, and clients that send no name.
 *
 * Any other page can at least make the browser ask, though it cannot read the answer: a profile would be taken, a setting
 * changed. Browsers say who is behind a request, and what another origin is behind is refused on every address. */
#ifndef PPA_HTTP_ACCESS_H
#define PPA_HTTP_ACCESS_H

#include <stdbool.h>

#include "agent/base/attr.h"

/* May a request with this Host (NULL: no such header), port included or not, be answered on a loopback address?
 * Context: any. */
bool ppa_access_host_is_allowed(const char *host) PPA_CTX_ANY;

/* Was the request made by a page of ours, by the user himself or by no browser at all? From the headers Sec-Fetch-Site,
 * which decides where it is sent (it holds behind proxies, too), Origin and Host; NULL where there is none.
 * Context: any. */
bool ppa_access_origin_is_allowed(const char *fetch_site, const char *origin, const char *host) PPA_CTX_ANY;

#endif
