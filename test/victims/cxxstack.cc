// flags: -std=c++17
/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks of ordinary C++ at -O2 without frame pointers: virtual calls, templates, lambdas in std::sort, std::function,
 * std::map and strings, exceptions thrown through many frames, std::thread. Gate, then burn until killed. */
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "victim.h"

namespace shop
{
struct Shape {
	virtual ~Shape() = default;
	virtual double area(int depth) const = 0;
};

template <typename T> struct Box : Shape {
	T side;
	explicit Box(T s) : side(s)
	{
	}
	VICTIM_NOINLINE double area(int depth) const override
	{
		victim_spin(2000);
		double below = depth ? Box<T>(side + 1).area(depth - 1) : 0;
		return below + static_cast<double>(side);
	}
};

template <typename K, typename V> VICTIM_NOINLINE V tally(const std::vector<K> &keys)
{
	std::map<K, V> counts;
	for (const K &k : keys)
		counts[k] += static_cast<V>(k.size());
	return std::accumulate(counts.begin(), counts.end(), V(),
			       [](V sum, const auto &kv) { return sum + kv.second; });
}

VICTIM_NOINLINE static int thrower(int depth)
{
	std::string local(static_cast<size_t>(depth) + 20, 'x');
	if (depth == 0)
		throw std::runtime_error(local);
	return thrower(depth - 1) + static_cast<int>(local.size());
}

VICTIM_NOINLINE static int catcher()
{
	try {
		return thrower(15);
	} catch (const std::exception &e) {
		return static_cast<int>(std::string(e.what()).size());
	}
}

VICTIM_NOINLINE static long sorter(std::vector<std::string> &words)
{
	std::sort(words.begin(), words.end(), [](const std::string &a, const std::string &b) {
		return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend());
	});
	std::sort(words.begin(), words.end());
	return static_cast<long>(words[0].size());
}

VICTIM_NOINLINE static long once(const std::function<double(int)> &f)
{
	std::vector<std::string> words;
	for (int i = 0; i < 300; i++)
		words.push_back(std::to_string(i * 7919 % 1000) + "-word-that-is-not-small");
	return tally<std::string, long>(words) + sorter(words) + catcher() + static_cast<long>(f(12));
}
} // namespace shop

int main()
{
	std::unique_ptr<shop::Shape> shape(new shop::Box<long>(3));
	auto forever = [&shape] {
		volatile long sink = 0;
		for (;;)
			sink = sink + shop::once([&shape](int depth) { return shape->area(depth); });
	};

	victim_gate();
	std::thread a(forever);
	forever();
	a.join();
	return 0;
}
