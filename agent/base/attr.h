/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes and context tags. A leaf: no state, includes nothing of ours, everyone may include it.
 *
 * A context tag ends every prototype and says what may be running when the function is entered. The tags form a
 * ladder; a function may call only its own rung or a stricter one (higher in this list):
 *
 *   signal  inside our handler, over any instruction of the target, even inside malloc or the loader.
 *           No lock, no allocation, no stdio, no TLS that may allocate, no unbounded loop, frames under 2 KiB.
 *           errno is kept by the entry point.
 *   malloc  inside an interposed allocator. No allocation, no blocking, leaf locks only.
 *   any     any thread of the target in ordinary code; our own initialisation may not have run yet.
 *   server  our own threads only (every signal blocked, private descriptor table).
 *   init    our constructor, under the loader lock.
 *   child   the child of a fork, before fork returns to the target.
 *
 * The first two put the function into a section of its own, so that scripts/check-context can prove from the
 * relocations of each object that no call leaves the rung. The others are promises to the reader. */
#ifndef PPA_BASE_ATTR_H
#define PPA_BASE_ATTR_H

#define PPA_CTX_SIGNAL __attribute__((section(".text.ctx_signal")))
#define PPA_CTX_MALLOC __attribute__((section(".text.ctx_malloc")))
#define PPA_CTX_ANY
#define PPA_CTX_SERVER
#define PPA_CTX_INIT
#define PPA_CTX_CHILD

#define PPA_EXPORT __attribute__((visibility("default")))
#define PPA_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

#define ppa_likely(x) __builtin_expect(!!(x), 1)
#define ppa_unlikely(x) __builtin_expect(!!(x), 0)
#define PPA_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
