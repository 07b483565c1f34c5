/* SPDX-License-Identifier: Apache-2.0
 *
 * The sorted function table of one module.
 *
 * Lookup is a binary search for the last function that starts at or below the address. When that one has ended
 * already, an enclosing function may still be running (assembly with an inner entry point, a nested alias): each entry
 * knows the nearest earlier one that reached beyond its own start, and the search climbs that chain for a bounded
 * number of steps. An address behind a sized function's end belongs to nobody: a wrong name is worse than none.
 *
 * A function without a size reaches to the next function or the end of its section. Unsized labels inside a sized
 * function are dropped, they are jump targets and not functions.
 *
 * Of several names at one address the one with a size wins, then visible over local, typed over untyped, names as the
 * public knows them (fewer leading underscores: puts, not _IO_puts, though the first is weak), strong over weak, the
 * shorter, the alphabetically first: deterministic whatever the order in the file. Merge sort, because qsort of glibc
 * may take its buffer from the target's heap and a heap sort's jumps cost more than the buffer. */
#include "unwind/symtab.h"

#include <errno.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "unwind/elf_file.h"

enum {
	CHUNK_SYMBOLS = 2048,  /* symbols read at a time */
	NAMES_MAX = 1 << 30,   /* what 31 bits of offset can tell; the byte cap comes far earlier */
	SCAN_MAX = 512 << 20,  /* bytes of names looked at: a corrupt file may give a million symbols one long name */
	CLIMB_MAX = 64,	       /* enclosing functions tried */
	RUN = 8,	       /* sorted by insertion before merging */
	DEMERIT_SYNTHETIC = 1 << 30,
	DEMERIT_UNSIZED = 1 << 29,
	DEMERIT_LOCAL = 1 << 28,
	DEMERIT_UNTYPED = 1 << 27,
	DEMERIT_UNDERSCORE = 1 << 20, /* each, at most 15 */
	DEMERIT_WEAK = 1 << 16,	      /* below it: the length of the name */
};

void ppa_symtab_begin(struct ppa_symtab_builder *b)
{
	memset(b, 0, sizeof(*b));
}

void ppa_symtab_discard(struct ppa_symtab_builder *b)
{
	ppa_vheap_free(b->list);
	ppa_vheap_free(b->names);
	memset(b, 0, sizeof(*b));
}

static bool fits(const struct ppa_symtab_builder *b, uint64_t more_bytes)
{
	uint64_t have = b->n * sizeof(*b->list) + b->names_len;

	return more_bytes <= PPA_SYMTAB_MAX_BYTES && have + more_bytes <= PPA_SYMTAB_MAX_BYTES;
}

/* Room for len more bytes of names. */
static int grow_names(struct ppa_symtab_builder *b, uint64_t len)
{
	size_t want;
	char *p;

	if (!fits(b, len))
		return -EFBIG;
	want = b->names_len + (size_t)len;
	if (want <= b->names_cap)
		return 0;
	p = ppa_vheap_realloc(b->names, want + want / 8);
	if (!p)
		return -ENOMEM;
	b->names = p;
	b->names_cap = want + want / 8;
	return 0;
}

int ppa_symtab_add_names(struct ppa_symtab_builder *b, const struct ppa_elf_file *f, uint64_t offset, uint64_t len,
			 uint32_t *base)
{
	int err;

	if (offset > f->src.size || len > f->src.size - offset)
		return -EIO;
	if (len >= NAMES_MAX)
		return -EFBIG;
	err = grow_names(b, len + 1);
	if (!err)
		err = ppa_elf_read(&f->src, b->names + b->names_len, (size_t)len, offset);
	if (err)
		return err;
	*base = (uint32_t)b->names_len;
	b->names_len += (size_t)len;
	b->names[b->names_len++] = '\0';
	return 0;
}

static int push(struct ppa_symtab_builder *b, const struct ppa_symtab_candidate *c)
{
	if (b->n == b->cap) {
		size_t cap = b->cap ? b->cap * 2 : CHUNK_SYMBOLS;
		void *p;

		if (!fits(b, sizeof(*c)))
			return -EFBIG;
		p = ppa_vheap_realloc(b->list, cap * sizeof(*c));
		if (!p)
			return -ENOMEM;
		b->list = p;
		b->cap = cap;
	}
	b->list[b->n++] = *c;
	return 0;
}

/* Mangled names begin with an underscore that does not mean "internal". */
static uint32_t underscores(const char *name)
{
	uint32_t n = 0;

	if (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R' || name[1] == 'D'))
		return 0;
	while (name[n] == '_' && n < 15)
		n++;
	return n;
}

static uint32_t demerits(const Elf64_Sym *sym, const char *name, size_t len)
{
	uint32_t d = underscores(name) * DEMERIT_UNDERSCORE + (len < 0xffff ? (uint32_t)len : 0xffff);

	if (!sym->st_size)
		d += DEMERIT_UNSIZED;
	if (ELF64_ST_BIND(sym->st_info) == STB_LOCAL)
		d += DEMERIT_LOCAL;
	if (ELF64_ST_BIND(sym->st_info) == STB_WEAK)
		d += DEMERIT_WEAK;
	if (ELF64_ST_TYPE(sym->st_info) == STT_NOTYPE)
		d += DEMERIT_UNTYPED;
	return d;
}

static bool is_function(const Elf64_Sym *sym, const char *name, bool is_code)
{
	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || sym->st_shndx == SHN_COMMON || !name[0])
		return false;
	switch (ELF64_ST_TYPE(sym->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return true;
	case STT_NOTYPE:
		/* Hand-written assembly; not mapping symbols ($x) nor compilers' labels. */
		return is_code && name[0] != '$' && !(name[0] == '.' && name[1] == 'L');
	default:
		return false;
	}
}

int ppa_symtab_add_symbol(struct ppa_symtab_builder *b, const Elf64_Sym *sym, uint32_t base, uint64_t names_len,
			  uint64_t limit, bool is_code)
{
	struct ppa_symtab_candidate c;
	char *name, *version;
	size_t len;

	if (sym->st_name >= names_len || base + names_len >= b->names_len)
		return 0;
	c.name = base + sym->st_name;
	name = b->names + c.name;
	if (!is_function(sym, name, is_code))
		return 0;
	/* foo@@V1 and foo@V0 of .symtab; a name may be shared, cutting it twice does no harm. */
	len = strlen(name);
	b->scanned += len;
	if (b->scanned > SCAN_MAX)
		return -EFBIG;
	version = name[0] == '?' ? NULL : memchr(name + 1, '@', len - 1);
	if (version) {
		*version = '\0';
		len = (size_t)(version - name);
	}
	c.value = sym->st_value;
	c.size = sym->st_size;
	c.limit = limit;
	c.demerits = demerits(sym, name, len);
	return push(b, &c);
}

int ppa_symtab_add_synthetic(struct ppa_symtab_builder *b, uint64_t value, uint64_t size, const char *name)
{
	size_t len = strlen(name) + 1;
	struct ppa_symtab_candidate c = {.value = value, .size = size, .demerits = DEMERIT_SYNTHETIC};
	int err = grow_names(b, len);

	if (err)
		return err;
	c.limit = value + size;
	c.name = (uint32_t)b->names_len;
	memcpy(b->names + b->names_len, name, len);
	b->names_len += len;
	return push(b, &c);
}

static int add_symbols(struct ppa_symtab_builder *b, const struct ppa_elf_file *f, const Elf64_Sym *syms, size_t n,
		       uint32_t base, uint64_t names_len)
{
	for (size_t i = 0; i < n; i++) {
		const Elf64_Shdr *sh = NULL;
		uint64_t limit = UINT64_MAX;
		bool is_code = false;
		int err;

		if (syms[i].st_shndx < SHN_LORESERVE)
			sh = ppa_elf_section(f, syms[i].st_shndx);
		if (sh) {
			is_code = sh->sh_flags & SHF_EXECINSTR;
			if (__builtin_add_overflow(sh->sh_addr, sh->sh_size, &limit))
				limit = UINT64_MAX;
		}
		err = ppa_symtab_add_symbol(b, &syms[i], base, names_len, limit, is_code);
		if (err)
			return err;
	}
	return 0;
}

int ppa_symtab_add_section(struct ppa_symtab_builder *b, const struct ppa_elf_file *f, const Elf64_Shdr *section)
{
	const Elf64_Shdr *names = ppa_elf_section(f, section->sh_link);
	uint64_t at = section->sh_offset, left = section->sh_size / sizeof(Elf64_Sym);
	Elf64_Sym *chunk;
	uint32_t base;
	int err;

	if (section->sh_type == SHT_NOBITS || !names || names->sh_type != SHT_STRTAB ||
	    section->sh_entsize != sizeof(Elf64_Sym) || at > f->src.size || section->sh_size > f->src.size - at)
		return 0;
	err = ppa_symtab_add_names(b, f, names->sh_offset, names->sh_size, &base);
	if (err)
		return err == -EIO ? 0 : err;
	chunk = ppa_vheap_malloc(CHUNK_SYMBOLS * sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	while (left && !err) {
		size_t n = left < CHUNK_SYMBOLS ? (size_t)left : CHUNK_SYMBOLS;

		err = ppa_elf_read(&f->src, chunk, n * sizeof(*chunk), at);
		if (!err)
			err = add_symbols(b, f, chunk, n, base, names->sh_size);
		at += n * sizeof(*chunk);
		left -= n;
	}
	ppa_vheap_free(chunk);
	return err;
}

/* Does a stand before b? By address, then by merit. */
static bool before(const struct ppa_symtab_candidate *a, const struct ppa_symtab_candidate *b, const char *names)
{
	if (a->value != b->value)
		return a->value < b->value;
	if (a->demerits != b->demerits || a->name == b->name)
		return a->demerits < b->demerits;
	return strcmp(names + a->name, names + b->name) < 0;
}

static void sort_run(struct ppa_symtab_candidate *v, size_t n, const char *names)
{
	for (size_t i = 1; i < n; i++) {
		struct ppa_symtab_candidate c = v[i];
		size_t at = i;

		for (; at && before(&c, &v[at - 1], names); at--)
			v[at] = v[at - 1];
		v[at] = c;
	}
}

static void merge(const struct ppa_symtab_candidate *from, struct ppa_symtab_candidate *to, size_t middle, size_t n,
		  const char *names)
{
	size_t left = 0, right = middle;

	for (size_t i = 0; i < n; i++) {
		if (right == n || (left < middle && !before(&from[right], &from[left], names)))
			to[i] = from[left++];
		else
			to[i] = from[right++];
	}
}

/* Bottom up, with a second array as large as the list. */
static int sort(struct ppa_symtab_builder *b)
{
	struct ppa_symtab_candidate *from = b->list, *to, *swap;

	to = ppa_vheap_malloc(b->n * sizeof(*to));
	if (!to)
		return -ENOMEM;
	for (size_t i = 0; i < b->n; i += RUN)
		sort_run(from + i, b->n - i < RUN ? b->n - i : RUN, b->names);
	for (size_t width = RUN; width < b->n; width *= 2) {
		for (size_t i = 0; i < b->n; i += 2 * width) {
			size_t n = b->n - i < 2 * width ? b->n - i : 2 * width;

			merge(from + i, to + i, n < width ? n : width, n, b->names);
		}
		swap = from;
		from = to;
		to = swap;
	}
	ppa_vheap_free(to);
	b->list = from;
	b->cap = b->n; /* whichever array it is, n fit */
	return 0;
}

/* Keep the first of each address, give the unsized ones an extent, drop those that turn out empty or lie inside a
 * sized one. */
static void settle(struct ppa_symtab_builder *b)
{
	uint64_t covered = 0; /* end of the sized functions so far */
	size_t kept = 0;

	for (size_t i = 0, next; i < b->n; i = next) {
		struct ppa_symtab_candidate c = b->list[i];
		uint64_t end = c.limit;

		for (next = i + 1; next < b->n && b->list[next].value == c.value; next++)
			;
		if (c.demerits & DEMERIT_UNSIZED) {
			if (c.value < covered)
				continue;
			if (next < b->n && b->list[next].value < end)
				end = b->list[next].value;
			if (end <= c.value)
				continue;
			c.size = end - c.value;
		} else if (c.size > UINT64_MAX - c.value) {
			continue;
		} else if (c.value + c.size > covered) {
			covered = c.value + c.size;
		}
		b->list[kept++] = c;
	}
	b->n = kept;
}

/* Fill up: the climb from an entry to those before it that may enclose what follows it. */
static void link_enclosing(struct ppa_symtab *t)
{
	uint32_t top = PPA_SYMTAB_NONE;

	for (uint32_t i = 0; i < t->nentries; i++) {
		struct ppa_symtab_entry *e = &t->entries[i];

		while (top != PPA_SYMTAB_NONE && t->entries[top].value + t->entries[top].size <= e->value)
			top = t->entries[top].up;
		e->up = top;
		top = i;
	}
}

static int freeze(const struct ppa_symtab_builder *b, struct ppa_symtab *t)
{
	size_t at = 0, bytes = 0;

	for (size_t i = 0; i < b->n && bytes <= PPA_SYMTAB_MAX_BYTES; i++)
		bytes += strlen(b->names + b->list[i].name) + 1;
	if (bytes > PPA_SYMTAB_MAX_BYTES)
		return -EFBIG;
	t->entries = ppa_vheap_malloc(b->n * sizeof(*t->entries));
	t->names = ppa_vheap_malloc(bytes);
	if (!t->entries || !t->names) {
		ppa_symtab_free(t);
		return -ENOMEM;
	}
	for (size_t i = 0; i < b->n; i++) {
		const struct ppa_symtab_candidate *c = &b->list[i];
		size_t len = strlen(b->names + c->name) + 1;

		t->entries[i].value = c->value;
		t->entries[i].size = c->size > UINT32_MAX ? UINT32_MAX : (uint32_t)c->size;
		t->entries[i].has_size = !(c->demerits & DEMERIT_UNSIZED);
		t->entries[i].name = (uint32_t)at & 0x7fffffffU;
		memcpy(t->names + at, b->names + c->name, len);
		at += len;
	}
	t->nentries = (uint32_t)b->n;
	t->names_len = bytes;
	link_enclosing(t);
	return 0;
}

int ppa_symtab_finish(struct ppa_symtab_builder *b, struct ppa_symtab *t)
{
	int err = 0;

	memset(t, 0, sizeof(*t));
	if (b->n) {
		err = sort(b);
		if (!err) {
			settle(b);
			err = b->n ? freeze(b, t) : 0;
		}
	}
	ppa_symtab_discard(b);
	return err;
}

bool ppa_symtab_lookup(const struct ppa_symtab *t, uint64_t value, struct ppa_symtab_hit *hit)
{
	uint32_t lo = 0, hi = t->nentries, at;

	while (lo < hi) {
		uint32_t middle = lo + (hi - lo) / 2;

		if (t->entries[middle].value <= value)
			lo = middle + 1;
		else
			hi = middle;
	}
	at = lo ? lo - 1 : PPA_SYMTAB_NONE;
	for (int climbed = 0; at != PPA_SYMTAB_NONE && climbed < CLIMB_MAX; climbed++) {
		const struct ppa_symtab_entry *e = &t->entries[at];

		if (value - e->value < e->size) {
			hit->name = t->names + e->name;
			hit->value = e->value;
			hit->size = e->has_size ? e->size : 0;
			return true;
		}
		at = e->up;
	}
	return false;
}

size_t ppa_symtab_bytes(const struct ppa_symtab *t)
{
	return t->nentries * sizeof(*t->entries) + t->names_len;
}

void ppa_symtab_free(struct ppa_symtab *t)
{
	ppa_vheap_free(t->entries);
	ppa_vheap_free(t->names);
	memset(t, 0, sizeof(*t));
}
