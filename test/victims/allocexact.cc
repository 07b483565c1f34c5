/* SPDX-License-Identifier: Apache-2.0
 *
 * allocexact OPS SLOTS SEED: four threads allocate through every entry point of the allocation family, each in a
 * function of its own (entry_*) below one of two callers (via_one, via_two), and free each other's blocks. The program
 * counts what every pair of functions allocated and what of it is live, and prints it: the heap profile at
 * PPROF_HEAP_RATE=1 must say the same.
 *
 *   truth <entry> <via> <objects allocated> <bytes allocated> <objects live> <bytes live>
 *   done
 *
 * once after the first gate, with blocks in all slots, and once after the second, when four other threads have freed
 * everything. Sizes are those asked for. A realloc that succeeds frees the old block and allocates the new one; one that
 * fails does neither, as does any other failing call. The bookkeeping itself lives in static memory, and every block is
 * checked to be what its owner wrote, so that two owners of one block are found as well. */
// flags: -fno-builtin -std=gnu++17 -Wno-alloc-size-larger-than
#include <atomic>
#include <cerrno>
#include <cstring>
#include <cwchar>
#include <dlfcn.h>
#include <malloc.h>
#include <new>
#include <pthread.h>

#include "victim.h"

namespace
{

const int threads = 4, max_slots = 1 << 16;
const size_t huge = PTRDIFF_MAX;

/* How a block may be freed. */
enum kind { PLAIN, ALIGNED, ODD, NEW, NEW_ARRAY, NEW_ALIGNED, NEW_ARRAY_ALIGNED };

struct record {
	std::atomic<uint64_t> allocs, alloc_bytes, frees, free_bytes;
};

struct block {
	unsigned char *p;
	size_t size, align;
	enum kind kind;
	struct record *owner;
};

struct slot {
	std::atomic_flag busy = ATOMIC_FLAG_INIT;
	struct block block;
};

struct worker {
	pthread_t thread;
	uint64_t random;
	long ops;
	int first;
};

struct slot slots[max_slots];
long nslots;
void (*free_sized_fn)(void *, size_t);
void (*free_aligned_sized_fn)(void *, size_t, size_t);

uint64_t random_below(struct worker *w, uint64_t bound)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (w->random >> 16) % bound;
}

/* Mostly small, sometimes beyond the threshold from which libc maps blocks. */
size_t random_size(struct worker *w)
{
	uint64_t which = random_below(w, 1000);

	return 1 + random_below(w, which == 0 ? 300000 : which < 50 ? 20000 : which < 500 ? 600 : 64);
}

struct block swap(long i, struct block in)
{
	struct slot *s = &slots[i];

	while (s->busy.test_and_set(std::memory_order_acquire))
		;
	struct block out = s->block;
	s->block = in;
	s->busy.clear(std::memory_order_release);
	return out;
}

void mark(const struct block &b)
{
	if (b.size == 0)
		return;
	b.p[0] = (unsigned char)((uintptr_t)b.p >> 4);
	b.p[b.size - 1] = b.p[0];
}

void check(const struct block &b)
{
	victim_check(b.size == 0 || (b.p[0] == (unsigned char)((uintptr_t)b.p >> 4) && b.p[b.size - 1] == b.p[0]),
		     "somebody wrote into a block");
	victim_check(b.kind >= NEW || malloc_usable_size(b.p) >= b.size, "usable size");
}

void count_free(const struct block &b)
{
	b.owner->frees++;
	b.owner->free_bytes += b.size;
}

void release_plain(struct worker *w, const struct block &b)
{
	uint64_t how = random_below(w, 4);

	if (b.kind == PLAIN && how == 0 && free_sized_fn)
		free_sized_fn(b.p, b.size);
	else if (b.kind == ALIGNED && how < 2 && free_aligned_sized_fn)
		free_aligned_sized_fn(b.p, b.align, b.size);
	else
		free(b.p);
}

void release(struct worker *w, const struct block &b)
{
	if (!b.p)
		return;
	check(b);
	count_free(b);
	switch (b.kind) {
	case NEW:
		if (random_below(w, 2))
			::operator delete(b.p);
		else
			::operator delete(b.p, b.size);
		break;
	case NEW_ARRAY:
		::operator delete[](b.p);
		break;
	case NEW_ALIGNED:
		::operator delete(b.p, std::align_val_t(b.align));
		break;
	case NEW_ARRAY_ALIGNED:
		::operator delete[](b.p, std::align_val_t(b.align));
		break;
	default:
		release_plain(w, b);
	}
}

/* Enter a block in a random slot; what stood there is freed. */
void keep(struct worker *w, struct record *owner, void *p, size_t size, enum kind kind = PLAIN, size_t align = 16)
{
	struct block b = {static_cast<unsigned char *>(p), size, align, kind, owner};

	victim_check(p != nullptr, "out of memory");
	victim_check((uintptr_t)p % align == 0, "alignment");
	owner->allocs++;
	owner->alloc_bytes += size;
	mark(b);
	release(w, swap((long)random_below(w, (uint64_t)nslots), b));
}

/* Take a block that realloc may have; false if there was none. */
bool take(struct worker *w, struct block *b)
{
	for (int i = 0; i < 64; i++) {
		*b = swap((long)random_below(w, (uint64_t)nslots), {});
		if (b->p && b->kind <= ODD)
			return check(*b), true;
		release(w, *b);
	}
	return false;
}

void put_back(struct worker *w, const struct block &b)
{
	release(w, swap((long)random_below(w, (uint64_t)nslots), b));
}

void resized(struct worker *w, struct record *owner, const struct block &old, void *p, size_t size)
{
	victim_check(p != nullptr, "out of memory");
	unsigned char first = static_cast<unsigned char *>(p)[0];

	victim_check(old.size == 0 || first == (unsigned char)((uintptr_t)old.p >> 4), "realloc lost the contents");
	count_free(old);
	keep(w, owner, p, size);
}

} // namespace

#define ENTRY(name) extern "C" VICTIM_NOINLINE void entry_##name(struct worker *w, struct record *r)

ENTRY(malloc)
{
	size_t n = random_size(w);

	keep(w, r, malloc(n), n);
}

ENTRY(malloc_zero)
{
	keep(w, r, malloc(0), 0);
}

ENTRY(malloc_fails)
{
	(void)w, (void)r;
	errno = 0;
	victim_check(malloc(huge + random_below(w, 3)) == nullptr && errno == ENOMEM, "malloc of everything");
}

ENTRY(calloc)
{
	size_t n = 1 + random_below(w, 20), size = random_size(w) / 8;
	unsigned char *p = static_cast<unsigned char *>(calloc(n, size));

	for (size_t i = 0; i < n * size; i++)
		victim_check(p[i] == 0, "calloc did not clear");
	keep(w, r, p, n * size);
}

ENTRY(calloc_fails)
{
	(void)w, (void)r;
	errno = 0;
	victim_check(calloc(SIZE_MAX / 2, 3) == nullptr && errno == ENOMEM, "calloc overflow");
	victim_check(calloc(SIZE_MAX, 1) == nullptr, "calloc of everything");
}

ENTRY(realloc_null)
{
	size_t n = random_size(w);

	keep(w, r, realloc(nullptr, n), n);
}

ENTRY(realloc_grow)
{
	struct block b;

	if (!take(w, &b))
		return;
	size_t n = b.size + random_size(w);
	resized(w, r, b, realloc(b.p, n), n);
}

ENTRY(realloc_shrink)
{
	struct block b;

	if (!take(w, &b))
		return;
	size_t n = b.size > 1 ? 1 + random_below(w, b.size) : 1;
	resized(w, r, b, realloc(b.p, n), n);
}

/* In glibc this frees; where it does not, an empty block is left. */
ENTRY(realloc_zero)
{
	struct block b;

	if (!take(w, &b))
		return;
	void *p = realloc(b.p, 0);
	count_free(b);
	if (p)
		keep(w, r, p, 0);
}

ENTRY(realloc_fails)
{
	struct block b;

	(void)r;
	if (!take(w, &b))
		return;
	errno = 0;
	victim_check(realloc(b.p, huge) == nullptr && errno == ENOMEM, "realloc to everything");
	put_back(w, b);
}

ENTRY(reallocarray)
{
	struct block b;

	if (!take(w, &b))
		return;
	size_t n = 1 + random_below(w, 16), size = 1 + random_size(w) / 16;
	resized(w, r, b, reallocarray(b.p, n, size), n * size);
}

ENTRY(reallocarray_fails)
{
	struct block b;

	(void)r;
	if (!take(w, &b))
		return;
	errno = 0;
	victim_check(reallocarray(b.p, SIZE_MAX / 4, 5) == nullptr && errno == ENOMEM, "reallocarray overflow");
	put_back(w, b);
}

ENTRY(posix_memalign)
{
	size_t n = random_size(w), align = (size_t)8 << random_below(w, 8);
	void *p = nullptr;

	errno = 77;
	victim_check(posix_memalign(&p, align, n) == 0 && errno == 77, "posix_memalign");
	keep(w, r, p, n, ODD, align);
}

ENTRY(posix_memalign_fails)
{
	void *p = w;

	(void)r;
	victim_check(posix_memalign(&p, 24, 100) == EINVAL && p == w, "posix_memalign, bad alignment");
	victim_check(posix_memalign(&p, 4, 100) == EINVAL && p == w, "posix_memalign, small alignment");
	victim_check(posix_memalign(&p, 64, huge) == ENOMEM && p == w, "posix_memalign of everything");
}

ENTRY(aligned_alloc)
{
	size_t align = (size_t)16 << random_below(w, 9), n = align * (1 + random_below(w, 5));

	keep(w, r, aligned_alloc(align, n), n, ALIGNED, align);
}

ENTRY(memalign)
{
	size_t align = (size_t)8 << random_below(w, 10), n = random_size(w);

	keep(w, r, memalign(align, n), n, ODD, align);
}

ENTRY(memalign_fails)
{
	(void)w, (void)r;
	victim_check(memalign(64, huge) == nullptr && aligned_alloc(64, huge - 63) == nullptr &&
			     valloc(huge) == nullptr,
		     "memalign of everything");
}

ENTRY(valloc)
{
	size_t n = random_size(w);

	keep(w, r, valloc(n), n, ODD, 4096);
}

ENTRY(pvalloc)
{
	size_t n = random_size(w);

	keep(w, r, pvalloc(n), n, ODD, 4096);
}

ENTRY(strdup)
{
	char text[256];
	size_t n = random_below(w, sizeof(text));

	memset(text, 'x', n);
	text[n] = 0;
	keep(w, r, strdup(text), n + 1);
}

ENTRY(strndup)
{
	static const char text[] = "a text of which only the beginning is wanted";
	size_t n = random_below(w, sizeof(text) - 1);

	keep(w, r, strndup(text, n), n + 1);
}

ENTRY(wcsdup)
{
	static const wchar_t text[] = L"wide";

	keep(w, r, wcsdup(text), sizeof(text));
}

ENTRY(new)
{
	size_t n = random_size(w);

	keep(w, r, ::operator new(n), n, NEW);
}

ENTRY(new_nothrow)
{
	size_t n = random_size(w);

	keep(w, r, ::operator new(n, std::nothrow), n, NEW);
}

ENTRY(new_array)
{
	size_t n = random_size(w);

	keep(w, r, new char[n], n, NEW_ARRAY);
}

ENTRY(new_aligned)
{
	size_t align = (size_t)32 << random_below(w, 7), n = align * (1 + random_below(w, 4));

	keep(w, r, ::operator new(n, std::align_val_t(align)), n, NEW_ALIGNED, align);
}

ENTRY(new_array_aligned)
{
	struct alignas(64) line {
		char c[64];
	};
	size_t n = 1 + random_below(w, 10);

	keep(w, r, new line[n], n * sizeof(line), NEW_ARRAY_ALIGNED, 64);
}

namespace
{

typedef void (*entry_fn)(struct worker *, struct record *);

const struct {
	entry_fn fn;
	const char *name;
} entries[] = {
#define NAME(name)                                                                                                     \
	{                                                                                                              \
		entry_##name, "entry_" #name                                                                           \
	}
	NAME(malloc),
	NAME(malloc_zero),
	NAME(malloc_fails),
	NAME(calloc),
	NAME(calloc_fails),
	NAME(realloc_null),
	NAME(realloc_grow),
	NAME(realloc_shrink),
	NAME(realloc_zero),
	NAME(realloc_fails),
	NAME(reallocarray),
	NAME(reallocarray_fails),
	NAME(posix_memalign),
	NAME(posix_memalign_fails),
	NAME(aligned_alloc),
	NAME(memalign),
	NAME(memalign_fails),
	NAME(valloc),
	NAME(pvalloc),
	NAME(strdup),
	NAME(strndup),
	NAME(wcsdup),
	NAME(new),
	NAME(new_nothrow),
	NAME(new_array),
	NAME(new_aligned),
	NAME(new_array_aligned),
};
const unsigned nentries = sizeof(entries) / sizeof(*entries);
const char *const via_names[] = {"via_one", "via_two"};
struct record records[nentries][2];

} // namespace

extern "C" VICTIM_NOINLINE void via_one(struct worker *w, unsigned e)
{
	entries[e].fn(w, &records[e][0]);
	VICTIM_NO_TAIL_CALL();
}

extern "C" VICTIM_NOINLINE void via_two(struct worker *w, unsigned e)
{
	entries[e].fn(w, &records[e][1]);
	VICTIM_NO_TAIL_CALL();
}

namespace
{

void *allocate(void *arg)
{
	struct worker *w = static_cast<struct worker *>(arg);

	for (long i = 0; i < w->ops; i++) {
		unsigned e = (unsigned)random_below(w, nentries);

		if (random_below(w, 3))
			via_one(w, e);
		else
			via_two(w, e);
		if (i % 64 == 0)
			free(nullptr);
	}
	return nullptr;
}

void *release_all(void *arg)
{
	struct worker *w = static_cast<struct worker *>(arg);

	for (long i = w->first; i < nslots; i += threads)
		release(w, swap(i, {}));
	return nullptr;
}

void in_threads(void *(*routine)(void *), long ops, long seed)
{
	static struct worker workers[threads];

	for (int i = 0; i < threads; i++) {
		workers[i].random = (uint64_t)(seed * threads + i + 1) * 0x9e3779b97f4a7c15u;
		workers[i].ops = ops;
		workers[i].first = i;
		victim_check(!pthread_create(&workers[i].thread, nullptr, routine, &workers[i]), "pthread_create");
	}
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, nullptr);
}

void print_truth(void)
{
	for (unsigned e = 0; e < nentries; e++)
		for (int v = 0; v < 2; v++) {
			const struct record *r = &records[e][v];

			printf("truth %s %s %lu %lu %lu %lu\n", entries[e].name, via_names[v], (unsigned long)r->allocs,
			       (unsigned long)r->alloc_bytes, (unsigned long)(r->allocs - r->frees),
			       (unsigned long)(r->alloc_bytes - r->free_bytes));
		}
	printf("done\n");
	fflush(stdout);
}

} // namespace

int main(int argc, char **argv)
{
	long ops = victim_arg(argc, argv, 1, 20000), seed = victim_arg(argc, argv, 3, 1);
	static char out[1 << 16];

	nslots = victim_arg(argc, argv, 2, 4096);
	victim_check(nslots > 0 && nslots <= max_slots, "too many slots");
	setvbuf(stdout, out, _IOFBF, sizeof(out));
	free_sized_fn = reinterpret_cast<void (*)(void *, size_t)>(dlsym(RTLD_DEFAULT, "free_sized"));
	free_aligned_sized_fn =
		reinterpret_cast<void (*)(void *, size_t, size_t)>(dlsym(RTLD_DEFAULT, "free_aligned_sized"));
	victim_gate();
	in_threads(allocate, ops, seed);
	print_truth();
	victim_gate();
	in_threads(release_all, 0, seed);
	print_truth();
	victim_gate();
	return 0;
}
