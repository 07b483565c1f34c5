/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache of function tables and the lookup in it.
 *
 * One table a file, found by its build id, or by device and inode, or for the likes of neither by
 * the module's serial: a library that is unloaded and loaded again costs nothing. Tables are only
 * ever added; trim drops them all at once. A module that cannot be read has an empty table, so that
 * it is tried once and not once a frame. One lock covers lookup and loading alike: a second reader
 * waits for the few milliseconds a table takes and then finds it there. */
#include "unwind/name/symbols.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/lock.h"
#include "agent/base/slice.h"
#include "agent/base/vheap.h"
#include "unwind/name/bt_alloc.h"
#include "unwind/name/demangle.h"
#include "unwind/name/file_key.h"
#include "unwind/name/symload.h"
#include "unwind/name/symtab.h"

enum { NRECENT = 64 };

/* Immutable once in the list. */
struct table {
	struct table *next;
	struct ppa_file_key key;
	struct ppa_symtab symbols;
	int err; /* of loading: 0 or -errno */
};

static struct {
	struct ppa_lock lock; /* protects everything below; the private heap's and no other lock is taken under it */
	struct table *tables;
	uint64_t bytes;
	struct {
		uint64_t serial;
		const struct table *table;
	} recent[NRECENT]; /* by serial: spares the walk over the list */
} cache;

static struct table *load_locked(const struct ppa_module *m, const struct ppa_file_key *k)
{
	struct table *t = ppa_vheap_calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->key = *k;
	/* What follows is of a size that only the file knows, and so are its lines. */
	if (ppa_slice_longest())
		ppa_slice_give_turn();
	t->err = ppa_symload(m, &t->symbols);
	t->next = cache.tables;
	cache.tables = t;
	cache.bytes += sizeof(*t) + ppa_symtab_bytes(&t->symbols);
	return t;
}

static const struct table *table_locked(const struct ppa_module *m)
{
	size_t slot = m->serial % NRECENT;
	const struct table *t = cache.recent[slot].table;
	struct ppa_file_key k;

	if (t && cache.recent[slot].serial == m->serial)
		return t;
	ppa_file_key_of(m, &k);
	for (t = cache.tables; t && !ppa_file_key_is(&t->key, &k); t = t->next)
		;
	if (!t)
		t = load_locked(m, &k);
	cache.recent[slot].serial = m->serial;
	cache.recent[slot].table = t;
	return t;
}

static _Atomic bool is_off;

void ppa_symbols_set_on(bool on)
{
	is_off = !on;
}

bool ppa_symbols_are_on(void)
{
	return !is_off;
}

int ppa_symbols_lookup(const struct ppa_module *m, uintptr_t pc, struct ppa_symbol *out)
{
	const struct table *t;
	struct ppa_symtab_hit hit;
	int err = -ENOMEM;

	if (is_off)
		return -ENOENT;
	ppa_lock(&cache.lock);
	t = table_locked(m);
	if (t)
		err = t->err;
	ppa_unlock(&cache.lock);
	if (err)
		return err;
	/* Tables in the list do not change, and trim is for when nobody looks up. */
	if (!ppa_symtab_lookup(&t->symbols, pc - m->bias, &hit))
		return -ENOENT;
	out->name = hit.name;
	out->address = (uintptr_t)hit.value + m->bias;
	out->size = hit.size;
	return 0;
}

/* Append while leaving room for the NUL. */
static size_t append(char *buf, size_t cap, size_t at, const char *text, size_t len)
{
	size_t room = cap - 1 - at;

	if (len > room)
		len = room;
	memcpy(buf + at, text, len);
	return at + len;
}

size_t ppa_symbols_fallback(const struct ppa_module *m, uintptr_t pc, char *buf, size_t cap)
{
	const char *slash = strrchr(m->path, '/');
	const char *base = slash && slash[1] ? slash + 1 : m->path;
	uintptr_t value = pc - m->bias;
	char hex[2 + 2 * sizeof(value)];
	size_t at = sizeof(hex), len;

	if (!cap)
		return 0;
	do {
		hex[--at] = "0123456789abcdef"[value & 15];
		value >>= 4;
	} while (value);
	hex[--at] = 'x';
	hex[--at] = '0';
	len = append(buf, cap, 0, base, strlen(base));
	len = append(buf, cap, len, "+", 1);
	len = append(buf, cap, len, hex + at, sizeof(hex) - at);
	buf[len] = '\0';
	return len;
}

uint64_t ppa_symbols_cached_bytes(void)
{
	uint64_t bytes;

	ppa_lock(&cache.lock);
	bytes = cache.bytes;
	ppa_unlock(&cache.lock);
	return bytes;
}

static void forget_locked(void)
{
	cache.tables = NULL;
	cache.bytes = 0;
	memset(cache.recent, 0, sizeof(cache.recent));
}

void ppa_symbols_trim(void)
{
	struct table *t, *next;

	ppa_lock(&cache.lock);
	for (t = cache.tables; t; t = next) {
		next = t->next;
		ppa_symtab_free(&t->symbols);
		ppa_vheap_free(t);
	}
	forget_locked();
	ppa_unlock(&cache.lock);
	ppa_demangle_trim();
}

void ppa_symbols_reset(void)
{
	ppa_lock_reset(&cache.lock);
	forget_locked();
	ppa_demangle_reset();
	ppa_bt_reset();
}
