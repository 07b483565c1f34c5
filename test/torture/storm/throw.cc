// SPDX-License-Identifier: Apache-2.0
//
// Exceptions through frames with destructors: libgcc's unwinder runs, and ours over it.
#include "test/torture/storm/storm.h"

#include <stdexcept>
#include <string>

namespace
{
struct counted {
	int *n;
	explicit counted(int *where) : n(where)
	{
		++*n;
	}
	~counted()
	{
		--*n;
	}
};

__attribute__((noinline)) int descend(int depth, int *alive)
{
	counted c(alive);

	if (depth == 0)
		throw std::runtime_error(std::to_string(*alive));
	return descend(depth - 1, alive) + 1;
}
} // namespace

extern "C" int storm_throw_through(int depth)
{
	int alive = 0, thrown = 0;

	try {
		descend(depth, &alive);
	} catch (const std::exception &e) {
		thrown = std::stoi(e.what());
	}
	if (alive != 0 || thrown != depth + 1)
		storm_broken("an exception");
	return thrown;
}

extern "C" void storm_throw(unsigned round)
{
	for (int i = 0; i < 20; i++) {
		try {
			storm_throw_through(int(round % 30));
			throw i;
		} catch (int caught) {
			if (caught != i)
				storm_broken("an exception");
		}
	}
}
