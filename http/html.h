/* SPDX-License-Identifier: Apache-2.0
 *
 * What pages are made of: markup as it is, texts escaped, values as people say them, and the way a page is sent. */
#ifndef PPA_HTTP_HTML_H
#define PPA_HTTP_HTML_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "http/request.h"
#include "proto/sink.h"

enum { PPA_HTML_VALUE_MAX = 40 };

/* Markup. Context: server. */
void ppa_html_add(struct ppa_sink *page, const char *html) PPA_CTX_SERVER;

/* Any text: markup's characters are escaped, control characters and what is not UTF-8 become '?'. Context: server. */
void ppa_html_text(struct ppa_sink *page, const char *text, size_t len) PPA_CTX_SERVER;

/* "12.3 MiB", "4.56 ms", "1,234": v in words for unit "bytes", "nanoseconds" or anything else, into buf, which is
 * returned. http/pages/flamegraph/1-values.js does the same. Context: any; pure. */
const char *ppa_html_value(char buf[PPA_HTML_VALUE_MAX], int64_t v, const char *unit) PPA_CTX_ANY;

/* The same, into the page. Context: server. */
void ppa_html_add_value(struct ppa_sink *page, int64_t v, const char *unit) PPA_CTX_SERVER;

/* "3 d 4 h", "5 min 6 s". Context: server. */
void ppa_html_add_duration(struct ppa_sink *page, uint64_t ns) PPA_CTX_SERVER;

/* Send the page, which may do what policy (Content-Security-Policy) allows; frees it. 500 if it is incomplete for want of
 * memory. Context: server. */
void ppa_html_reply(struct ppa_request *r, struct ppa_sink *page, const char *policy) PPA_CTX_SERVER;

#endif
