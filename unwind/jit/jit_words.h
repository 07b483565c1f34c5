/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of generated code as people want them. Runtimes put into one line what a profile has fields for:
 *
 *   JS:*middle /srv/app.js:12:17        V8: kind, tier (a mark), function, file, line, column
 *   py::Handler.get:/srv/app.py         CPython
 *   double shop.Cart.total(int)         HotSpot: type, method, parameters
 *
 * The tier goes, so that a function is one function however often it was compiled, and so do types; file and line get their
 * fields; what is not understood stays as it is. Pure. */
#ifndef PPA_UNWIND_JIT_JIT_WORDS_H
#define PPA_UNWIND_JIT_JIT_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_jit_words {
	const char *symbol; /* the whole of it, as the runtime wrote it */
	const char *name;   /* for people; not empty unless symbol is */
	const char *file;   /* "" if it is not told */
	int64_t line;	    /* 0 if it is not told */
};

/* text: a name from a code map (codemap.h), NUL terminated. The words are written into buf, cap bytes, of which as many
 * as PPA_JIT_WORDS_BYTES suffice for whole ones. Context: server. */
enum { PPA_JIT_WORDS_BYTES = 4096 };
void ppa_jit_words(const char *text, char *buf, size_t cap, struct ppa_jit_words *out) PPA_CTX_SERVER;

#endif
