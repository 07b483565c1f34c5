/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries come and go. dlopen and dlmopen find their caller's RUNPATH and namespace by their return address, so the
 * genuine ones must be reached by a jump with the caller's frame in place (a sibling call at -O2, checked by
 * scripts/check-tailcalls). They are only marked; the next refresh of the module table finds what they brought. What a
 * dlclose takes away is looked at before and after, where stacks are remembered. */
#include <dlfcn.h>

#include "agent/base/real.h"
#include "agent/profile/unloads.h"
#include "unwind/module/modules.h"

PPA_EXPORT void *dlopen(const char *file, int mode)
{
	void *(*real)(const char *, int) = ppa_real()->dlopen;

	ppa_modules_mark();
	return real(file, mode);
}

PPA_EXPORT void *dlmopen(Lmid_t space, const char *file, int mode)
{
	void *(*real)(long, const char *, int) = ppa_real()->dlmopen;

	ppa_modules_mark();
	return real(space, file, mode);
}

PPA_EXPORT int dlclose(void *handle)
{
	int rc;

	ppa_unloads_before();
	ppa_modules_unload_begin();
	rc = ppa_real()->dlclose(handle);
	ppa_modules_unload_end();
	ppa_unloads_after();
	return rc;
}
