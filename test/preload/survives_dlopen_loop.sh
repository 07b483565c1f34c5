#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: libraries may come and go under a 1000 Hz profile; and dlopen("libx.so") by a library is still resolved by
# that library's own $ORIGIN RUNPATH, not by ours.
. test/lib.sh
need gcc
plugin one 2000
plugin two 3000
mkdir "$TMP/deps"
plugin inner 1500
mv "$TMP/inner.so" "$TMP/deps/libinner_of_test.so"
cat >"$TMP/three.c" <<'EOF'
#include <dlfcn.h>
#include <stddef.h>
int plugin(int x)
{
	void *lib = dlopen("libinner_of_test.so", RTLD_NOW);
	int (*inner)(int) = lib ? (int (*)(int))dlsym(lib, "plugin") : NULL;
	int result = inner ? inner(x) : -1000000;

	if (lib)
		dlclose(lib);
	return result;
}
EOF
gcc -shared -fPIC -O2 "$TMP/three.c" -o "$TMP/three.so" "-Wl,--enable-new-dtags,-rpath,\$ORIGIN/deps" ||
	fail "cannot compile"
same dlopenloop "${ROUNDS:-3000}" "$TMP/one.so" "$TMP/two.so" "$TMP/three.so"
grep -q 'sums -' "$TMP/out" && fail "RUNPATH was not honoured even without the agent: $(cat "$TMP/out")"
exit 0
