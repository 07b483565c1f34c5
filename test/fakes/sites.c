/* SPDX-License-Identifier: Apache-2.0 */
#include "test/fakes/sites.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "agent/thread/stack_here.h"

struct ppa_site fake_sites[SITES];
__thread uintptr_t fake_here;

int ppa_stack_init(void)
{
	return 0;
}

void ppa_stack_take(uintptr_t caller, struct ppa_stack_here *out)
{
	(void)caller;
	*out = (struct ppa_stack_here){.pcs = &fake_here, .npcs = 1};
}

void ppa_stack_drop(struct ppa_stack_here *s)
{
	(void)s;
}

int ppa_sites_init(struct ppa_sites *t)
{
	(void)t;
	return 0;
}

struct ppa_site *ppa_sites_find(struct ppa_sites *t, const uintptr_t *pcs, uint32_t npcs, uint64_t origin,
				uint64_t label)
{
	(void)t;
	(void)npcs;
	(void)origin;
	fake_sites[*pcs].label = label;
	return &fake_sites[*pcs];
}

void ppa_sites_each(struct ppa_sites *t, void (*visit)(const struct ppa_site *s, void *arg), void *arg)
{
	(void)t;
	for (int i = 0; i < SITES; i++)
		visit(&fake_sites[i], arg);
}

uint64_t fake_random(uint64_t below)
{
	static __thread uint64_t x;

	if (!x)
		x = 88172645463325252u + (uintptr_t)&x;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x % below;
}

struct ppa_mmap_values fake_values(int site)
{
	return ppa_mmap_read(&fake_sites[site]);
}

void fake_is(int site, int64_t maps, int64_t pages)
{
	assert_int_equal(fake_values(site).maps, maps);
	assert_int_equal(fake_values(site).bytes, pages * PAGE);
}

/* Sites and set agree; nothing was lost. */
void fake_is_sound(void)
{
	struct ppa_mmap_state st = ppa_mmap_get_state();
	int64_t maps = 0, bytes = 0;

	for (int i = 0; i < SITES; i++) {
		struct ppa_mmap_values v = fake_values(i);

		assert_true(v.maps >= 0 && v.bytes >= 0);
		maps += v.maps;
		bytes += v.bytes;
	}
	assert_int_equal(maps, st.regions);
	assert_int_equal(bytes, st.bytes);
}

char *fake_map(int site, size_t pages)
{
	char *p;

	fake_here = (uintptr_t)site;
	p = mmap(NULL, pages * PAGE, RW, ANON, -1, 0);
	assert_true(p != MAP_FAILED);
	return p;
}
