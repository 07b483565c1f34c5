/* SPDX-License-Identifier: Apache-2.0
 *
 * allocnew: a known number of blocks through operator new in its forms, and through malloc; half of them are freed again.
 * Prints what test/victims/allockeep.c prints. With an argument, a new that fails is part of it (mimalloc's aborts). */
// flags: -fno-builtin -std=gnu++17
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "victim.h"

namespace
{
const int count = 1000;
struct alignas(64) line {
	char c[64];
};
void *blocks[4][count];
} // namespace

extern "C" VICTIM_NOINLINE void keep_new(int i)
{
	blocks[0][i] = ::operator new(100);
}

extern "C" VICTIM_NOINLINE void keep_new_array(int i)
{
	blocks[1][i] = new char[700];
}

extern "C" VICTIM_NOINLINE void keep_new_aligned(int i)
{
	blocks[2][i] = new line[3];
}

extern "C" VICTIM_NOINLINE void keep_malloc(int i)
{
	blocks[3][i] = malloc(50);
	VICTIM_NO_TAIL_CALL();
}

static void drop(int f, int i)
{
	if (f == 0)
		::operator delete(blocks[f][i]);
	else if (f == 1)
		delete[] static_cast<char *>(blocks[f][i]);
	else if (f == 2)
		delete[] static_cast<line *>(blocks[f][i]);
	else
		free(blocks[f][i]);
}

/* What C++ programs do all day: strings, vectors, exceptions, a new that fails. */
static int ordinary(bool fails)
{
	std::vector<std::string> v;
	int caught = 0;

	for (int i = 0; i < 2000; i++) {
		v.push_back(std::string((size_t)i % 100, 'x'));
		try {
			if (i % 100 == 0)
				throw std::runtime_error(v.back());
		} catch (const std::exception &e) {
			caught++;
		}
	}
	try {
		if (!fails)
			return caught;
		static volatile size_t all = PTRDIFF_MAX;

		::operator delete(::operator new(all));
	} catch (const std::bad_alloc &) {
		caught++;
	}
	return caught;
}

int main(int argc, char **)
{
	void (*const keep[4])(int) = {keep_new, keep_new_array, keep_new_aligned, keep_malloc};
	const char *const names[4] = {"keep_new", "keep_new_array", "keep_new_aligned", "keep_malloc"};
	const int sizes[4] = {100, 700, 192, 50};

	victim_gate();
	for (int i = 0; i < count; i++)
		for (int f = 0; f < 4; f++) {
			keep[f](i);
			victim_check(blocks[f][i] != nullptr, names[f]);
		}
	for (int f = 0; f < 4; f++) {
		for (int i = 0; i < count; i += 2)
			drop(f, i);
		printf("truth %s %d %d %d %d\n", names[f], count, count * sizes[f], count / 2, count / 2 * sizes[f]);
	}
	printf("caught %d\ndone\n", ordinary(argc > 1));
	fflush(stdout);
	victim_gate();
	return 0;
}
