#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: functions, inlined calls, files and lines of a program are the same before and after dwz moved what two programs share
# into a file of its own (.gnu_debugaltlink, as Debian's -dbgsym packages have it): of every address. Without that file lines
# are the same, and names and directories that were in it are missing (a short one may take a linker name's place), but none is wrong.
#
# Beside others: it compiles and compares, and measures no time.
. test/lib.sh
need dwz g++ objdump readelf
TOOL=${OUT:-build}/preload/lines_of
[ -x "$TOOL" ] || fail "no $TOOL"
for i in 1 2; do
	cat >"$TMP/part$i.cc" <<END2
#include <algorithm>
#include <map>
#include <string>
#include <vector>
struct shape {
	int side;
	int area() const { return side * side; }
	bool operator<(const shape &o) const { return area() < o.area(); }
};
static int only_$i(std::map<shape, std::string> &m, int n) { return m[shape{n}].size() + $i; }
int main(int argc, char **argv)
{
	std::map<shape, std::string> m;
	std::vector<shape> v;
	for (int i = 0; i < argc; i++) {
		m[shape{i}] = argv[i];
		v.push_back(shape{i * $i});
	}
	std::sort(v.begin(), v.end());
	return only_$i(m, v[0].area());
}
END2
done
# lines FILE: what the reader says of every instruction
lines() {
	objdump -d -j .text --no-show-raw-insn "$1" | sed -n 's/^ *\([0-9a-f]*\):.*/\1/p' | "$TOOL" "$1" 2>"$TMP/told" || {
		cat "$TMP/told"
		fail "cannot read $1"
	}
}
for version in 4 5; do
	for i in 1 2; do
		(cd "$TMP" && g++ -O2 -g -gdwarf-$version -o "program$i" "part$i.cc") || fail "does not compile"
		lines "$TMP/program$i" >"$TMP/before$i"
	done
	(cd "$TMP" && dwz -m shared -M "$TMP/shared" program1 program2) || fail "dwz"
	for i in 1 2; do
		readelf -SW "$TMP/program$i" | grep -q gnu_debugaltlink || fail "DWARF $version: dwz moved nothing"
		lines "$TMP/program$i" >"$TMP/after$i"
		n=$(grep -c "^[^	]*	.*part$i.cc:" "$TMP/after$i")
		inlined=$(grep -c "4area\|_ZNK5shape" "$TMP/after$i")
		[ "$n" -gt 100 ] && [ "$inlined" -gt 10 ] || fail "DWARF $version: only $n frames of part$i.cc, $inlined of an inlined function"
		cmp <(cut -f1,2 "$TMP/before$i") <(cut -f1,2 "$TMP/after$i") || {
			diff "$TMP/before$i" "$TMP/after$i" | head -20
			fail "DWARF $version: dwz changed what program$i's lines are"
		}
		# The line where a function begins is known only if its declaration is in the same unit: true or unknown.
		paste <(cut -f3 "$TMP/before$i") <(cut -f3 "$TMP/after$i") | awk '$1 != $2 && $2 != 0 { bad = 1 } END { exit bad }' ||
			fail "DWARF $version: a function begins elsewhere"
	done
	mv "$TMP/shared" "$TMP/elsewhere"
	lines "$TMP/program1" >"$TMP/without"
	mv "$TMP/elsewhere" "$TMP/shared"
	# Directories were in it, too.
	cmp <(cut -f2 "$TMP/before1" | sed 's#.*/##') <(cut -f2 "$TMP/without" | sed 's#.*/##') ||
		fail "DWARF $version: without the shared file, lines are others"
	paste <(cut -f1 "$TMP/before1") <(cut -f1 "$TMP/without") | awk -F'\t' '$1 != $2 && $2 != "??" && !index($1, $2) { print; bad = 1 } $1 != $2 { n++ } END { exit bad || !n }' ||
		fail "DWARF $version: without the shared file names are others, or none is missing"
	echo "DWARF $version: $(grep -c '^[0-9a-f]*$' "$TMP/after1") addresses agree"
done
