/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program may tell libpprofagent about itself: labels for its samples, profiles of its own, and tasks, regions
 * and messages for its execution trace. For C99 and C++11, gcc and clang. Copy this one file into your program.
 *
 * Nothing has to be linked, -ldl included. The agent is looked up once, by a weak reference to dlsym. Where it was not
 * preloaded every function returns 0 or NULL after a load and a branch; where it is switched off nothing is kept. All
 * functions may be called by any thread at any time, and none changes errno. Strings are copied.
 *
 *	pprof_label_set("tenant", tenant);            go tool pprof -tagfocus=tenant=acme ...
 *	pool = pprof_profile_new("db.connections");   /debug/pprof/db.connections
 *	pprof_profile_add(pool, connection, 0);       who holds one?
 *
 * Programs in other languages use the table at the end of the first part: dlsym(RTLD_DEFAULT, "pprof_agent_api_v1"). */
#ifndef PPROF_AGENT_H
#define PPROF_AGENT_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what the agent offers ---- */

/* A set of labels: 0 is the empty one. Numbers hold as long as the process and its forked children. */
typedef uint32_t pprof_labels;

/* A custom profile. */
struct pprof_profile;

/* A task of the execution trace: 0 is none. */
typedef uint64_t pprof_task;

/* The agent exports one such table, pprof_agent_api_v1. Members are only ever added, at its end: those behind the first
 * `size` bytes are not there. What they do stands at the functions below. */
struct pprof_agent_api {
	size_t size;
	int (*label_set)(const char *key, const char *value);
	pprof_labels (*labels_get)(void);
	void (*labels_put)(pprof_labels labels);
	struct pprof_profile *(*profile_new)(const char *name);
	int (*profile_add)(struct pprof_profile *profile, const void *value, int skip);
	void (*profile_remove)(struct pprof_profile *profile, const void *value);
	pprof_task (*task_begin)(pprof_task parent, const char *name);
	void (*task_end)(pprof_task task);
	void (*region_begin)(pprof_task task, const char *name);
	void (*region_end)(pprof_task task, const char *name);
	void (*log)(pprof_task task, const char *category, const char *message);
};

#ifndef PPROF_AGENT_TABLE_ONLY

/* ---- finding it ---- */

#define PPROF_INLINE_ static inline __attribute__((always_inline, unused))

#ifdef __cplusplus
#define PPROF_TABLE_(p) static_cast<const struct pprof_agent_api *>(p)
#else
#define PPROF_TABLE_(p) (p)
#endif

/* dlsym, NULL in a program that has none, as one that is linked statically. By way of the global offset table: before
 * glibc 2.34 it is in a library that the program may not be linked with, but the agent is, and linkers turn all other
 * weak references of a program that is not position-independent into 0 then. */
typedef void *(*pprof_dlsym_)(void *handle, const char *name);

#if defined(__x86_64__) && defined(__LP64__)
PPROF_INLINE_ pprof_dlsym_ pprof_dlsym_address_(void)
{
	pprof_dlsym_ found;

	__asm__(".weak dlsym\n\tmovq dlsym@GOTPCREL(%%rip), %0" : "=r"(found));
	return found;
}
#elif defined(__aarch64__) && defined(__LP64__)
PPROF_INLINE_ pprof_dlsym_ pprof_dlsym_address_(void)
{
	pprof_dlsym_ found;

	__asm__(".weak dlsym\n\tadrp %0, :got:dlsym\n\tldr %0, [%0, #:got_lo12:dlsym]" : "=r"(found));
	return found;
}
#else
static void *pprof_dlsym_weak_(void *handle, const char *name) __attribute__((weakref("dlsym")));

PPROF_INLINE_ pprof_dlsym_ pprof_dlsym_address_(void)
{
	return pprof_dlsym_weak_;
}
#endif

/* The table; its own address when there is none; NULL before anybody asked. One for all files of a program or library. */
extern const void *pprof_agent_found_ __attribute__((weak, visibility("hidden")));
const void *pprof_agent_found_ __attribute__((weak, visibility("hidden"))) = NULL;

static __attribute__((noinline, cold, unused)) const void *pprof_agent_find_(void)
{
	int saved = errno;
	pprof_dlsym_ find = pprof_dlsym_address_();
	const void *found = find ? find(NULL /* RTLD_DEFAULT */, "pprof_agent_api_v1") : NULL;

	errno = saved;
	if (!found)
		found = &pprof_agent_found_;
	__atomic_store_n(&pprof_agent_found_, found, __ATOMIC_RELEASE);
	return found;
}

PPROF_INLINE_ const struct pprof_agent_api *pprof_agent_(void)
{
	const void *found = __atomic_load_n(&pprof_agent_found_, __ATOMIC_ACQUIRE);

	if (!found)
		found = pprof_agent_find_();
	return found == &pprof_agent_found_ ? NULL : PPROF_TABLE_(found);
}

/* ---- labels ----
 *
 * Every thread has a set of labels, which is in all its samples: in CPU and wall profiles, with what it allocates in the
 * heap's, with the thread itself in goroutine. A thread begins with those of its creator. A program may make some 3,800
 * different sets in its life, of 16 labels each; values that come later become "[other labels]", so do not put request
 * numbers into labels. */

/* Give the calling thread a label. A key has up to 63 bytes, a value 255 of UTF-8, longer ones are cut; NULL takes the
 * label away. 0; -EINVAL for a bad key or one that the agent's own labels have (thread, tid, bytes, age_seconds,
 * backing, and all that begin with "pprof::"); -ENOSPC for more than 16 labels or 1,024 bytes of them. */
PPROF_INLINE_ int pprof_label_set(const char *key, const char *value)
{
	const struct pprof_agent_api *agent = pprof_agent_();

	return agent ? agent->label_set(key, value) : 0;
}

PPROF_INLINE_ int pprof_label_unset(const char *key)
{
	return pprof_label_set(key, NULL);
}

/* All labels of the calling thread at once: to put back later, or to take along when a request goes on on another
 * thread. A number that is no set's is ignored. */
PPROF_INLINE_ pprof_labels pprof_labels_get(void)
{
	const struct pprof_agent_api *agent = pprof_agent_();

	return agent ? agent->labels_get() : 0;
}

PPROF_INLINE_ void pprof_labels_put(pprof_labels labels)
{
	const struct pprof_agent_api *agent = pprof_agent_();

	if (agent)
		agent->labels_put(labels);
}

/* ---- custom profiles ----
 *
 * A profile is a set of values, and tells which stacks added those that are in it now: connections taken from a pool and
 * not given back, files that are open. It is served at /debug/pprof/NAME, and stays as long as the process. */

/* A new profile: a name of up to 63 letters, digits, dots, slashes, _ and -, as in "db.connections". NULL without the
 * agent, for a bad name, one that is taken (by another profile or by a page of the agent's), or beyond 64 profiles. NULL
 * may be given to the next two, which then do nothing. */
PPROF_INLINE_ struct pprof_profile *pprof_profile_new(const char *name)
{
	const struct pprof_agent_api *agent = pprof_agent_();

	return agent ? agent->profile_new(name) : NULL;
}

/* Add a value, which is only compared, never looked into, with the stack of the caller; less the first skip frames, where
 * a wrapper adds for its own caller (inlined functions are no frames). 0; -EEXIST if it is in the profile, -EINVAL for
 * NULL, -ENOMEM when the agent's memory limit leaves no room for it. A macro, so that no function stands between the
 * caller and its stack: int pprof_profile_add(struct pprof_profile *profile, const void *value, int skip). */
#define pprof_profile_add(profile, value, skip)                                                                        \
	__extension__({                                                                                                \
		const struct pprof_agent_api *pprof_agent_here_ = pprof_agent_();                                      \
		pprof_agent_here_ ? pprof_agent_here_->profile_add((profile), (value), (skip)) : 0;                    \
	})

/* Nothing happens if the value is not in the profile. */
PPROF_INLINE_ void pprof_profile_remove(struct pprof_profile *profile, const void *value)
{
	const struct pprof_agent_api *agent = pprof_agent_();

	if (agent)
		agent->profile_remove(profile, value);
}

/* ---- the execution trace ----
 *
 * What shows in `go tool trace` of /debug/pprof/trace: a task is a piece of work that may pass through several threads (a
 * request), a region is a stretch of one thread's time, a message stands at a moment. While no trace is recorded nothing
 * is kept of them, and each costs a few instructions. Texts of more than 1,000 bytes are cut. */

/* A task begins; parent: the one that it is part of, 0 for none. What to give to all the others; 0 without the agent. */
PPROF_INLINE_ pprof_task pprof_task_begin(pprof_task parent, const char *name)
{
	const struct pprof_agent_api *agent = pprof_agent_();

	return agent ? agent->task_begin(parent, name) : 0;
}

/* It ends, on any thread, once. */
PPROF_INLINE_ void pprof_task_end(pprof_task task)
{
	const struct pprof_agent_api *agent = pprof_agent_();

	if (agent)
		agent->task_end(task);
}

/* A region of the calling thread, of a task or of none (0). It ends on the same thread, with the same task and name;
 * regions are nested, and those inside one that ends end with it. */
PPROF_INLINE_ void pprof_region_begin(pprof_task task, const char *name)
{
	const struct pprof_agent_api *agent = pprof_agent_();

	if (agent)
		agent->region_begin(task, name);
}

PPROF_INLINE_ void pprof_region_end(pprof_task task, const char *name)
{
	const struct pprof_agent_api *agent = pprof_agent_();

	if (agent)
		agent->region_end(task, name);
}

PPROF_INLINE_ void pprof_log(pprof_task task, const char *category, const char *message)
{
	const struct pprof_agent_api *agent = pprof_agent_();

	if (agent)
		agent->log(task, category, message);
}

#endif /* PPROF_AGENT_TABLE_ONLY */

#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && !defined(PPROF_AGENT_TABLE_ONLY)

/* ---- for C++ ---- */

namespace pprof
{

/* Labels for a scope: pprof::scoped_label tenant("tenant", name); All labels are at its end what they were before. */
class scoped_label
{
	pprof_labels before_;

      public:
	scoped_label(const char *key, const char *value) : before_(pprof_labels_get())
	{
		pprof_label_set(key, value);
	}
	~scoped_label()
	{
		pprof_labels_put(before_);
	}
	scoped_label(const scoped_label &) = delete;
	scoped_label &operator=(const scoped_label &) = delete;
};

/* A task that ends with the scope; pprof::region parse(request, "parse"); is a region of it, up to the end of its own. */
class task
{
	pprof_task id_;

      public:
	explicit task(const char *name, pprof_task parent = 0) : id_(pprof_task_begin(parent, name))
	{
	}
	~task()
	{
		pprof_task_end(id_);
	}
	task(const task &) = delete;
	task &operator=(const task &) = delete;
	operator pprof_task() const
	{
		return id_;
	}
};

/* The name must live as long as the region. */
class region
{
	pprof_task task_;
	const char *name_;

      public:
	region(pprof_task task, const char *name) : task_(task), name_(name)
	{
		pprof_region_begin(task, name);
	}
	~region()
	{
		pprof_region_end(task_, name_);
	}
	region(const region &) = delete;
	region &operator=(const region &) = delete;
};

} /* namespace pprof */

#endif

#endif
