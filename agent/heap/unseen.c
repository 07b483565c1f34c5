/* SPDX-License-Identifier: Apache-2.0
 *
 * What the hooks of this process do not see, found out by asking the loader whose functions the program really calls.
 *
 * Two things can be missing: everything, when another library's malloc comes before ours; and operator new, and
 * jemalloc's mallocx, when the allocator defines them and so need not call malloc. We do not define these ourselves:
 * programs recognise jemalloc by such names, and a name that exists only because of us would lead them astray.
 *
 * An allocator inside the program itself looks like the first case, but so does a non-PIE program that takes malloc's
 * address: the loader answers with a stub of the program's. There it counts whether a hook was ever entered. */
#include "agent/heap/heap.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/lock.h"
#include "agent/heap/allocator.h"
#include "unwind/module/modules.h"

enum { TEXT_BYTES = 256 };

static struct {
	struct ppa_lock lock;
	char text[TEXT_BYTES];
} unseen;

static const char *module_of(const struct ppa_module_table *t, uintptr_t address, bool *is_main)
{
	const struct ppa_text_segment *s = address ? ppa_modules_lookup(t, address) : NULL;
	const char *slash;

	if (!s)
		return NULL;
	*is_main = s->module->is_main;
	slash = strrchr(s->module->path, '/');
	return slash ? slash + 1 : s->module->path;
}

static bool is_libc(const char *module)
{
	return strncmp(module, "libc.so", 7) == 0 || strncmp(module, "libc-", 5) == 0 ||
	       strncmp(module, "ld-musl", 7) == 0;
}

static void find_out(const struct ppa_module_table *t)
{
	uintptr_t used = (uintptr_t)dlsym(RTLD_DEFAULT, "malloc"), new = (uintptr_t)dlsym(RTLD_DEFAULT, "_Znwm");
	bool is_main = false;
	const char *owner = module_of(t, used, &is_main), *allocator, *new_owner;

	unseen.text[0] = '\0';
	if (owner && used != ppa_heap_hook_address() && !(is_main && ppa_heap_is_entered())) {
		/* Behind the program's own name may stand its own malloc, or its stub for a library's. */
		if (is_main)
			snprintf(unseen.text, TEXT_BYTES,
				 "allocations are not seen: the program's malloc is its own, or of a library that was "
				 "preloaded before the agent");
		else
			snprintf(unseen.text, TEXT_BYTES,
				 "allocations are not seen: malloc belongs to %.100s, which comes before the agent; "
				 "preload the agent first",
				 owner);
		return;
	}
	allocator = module_of(t, ppa_heap_allocator_address(), &is_main);
	new_owner = module_of(t, new, &is_main);
	if (allocator && new_owner && strcmp(allocator, new_owner) == 0 && !is_libc(allocator))
		snprintf(unseen.text, TEXT_BYTES,
			 "operator new%s of %.100s is not seen: it does not call malloc (malloc and its family are "
			 "seen)",
			 dlsym(RTLD_DEFAULT, "mallocx") ? " (and mallocx)" : "", allocator);
}

const char *ppa_heap_unseen(void)
{
	const struct ppa_module_table *t = ppa_modules_hold();
	const char *text;

	if (!t)
		return NULL;
	ppa_lock(&unseen.lock);
	find_out(t);
	text = unseen.text[0] ? unseen.text : NULL;
	ppa_unlock(&unseen.lock);
	ppa_modules_release(t);
	return text;
}

void ppa_heap_unseen_reset(void)
{
	ppa_lock_reset(&unseen.lock);
}
