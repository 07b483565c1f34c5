#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: the child of a fork has its parent's labels and what is in its parent's own profiles, and goes on with both
# without changing the parent's.
. test/lib.sh
need gcc curl
cat >"$TMP/forker.c" <<'EOC'
#include "pprof_agent.h"
#include <sys/wait.h>
#include <unistd.h>
static char values[3];

int main(void)
{
	struct pprof_profile *pool = pprof_profile_new("pool");
	char c;

	pprof_label_set("op", "parent");
	pprof_profile_add(pool, &values[0], 0);
	pprof_profile_add(pool, &values[1], 0);
	if (fork() == 0) {
		pprof_label_set("where", "child");
		pprof_profile_add(pool, &values[2], 0);
		pprof_profile_remove(pool, &values[0]);
		pprof_profile_remove(pool, &values[1]);
		return read(0, &c, 1) < 0;
	}
	return read(0, &c, 1) < 0 || wait(NULL) < 0;
}
EOC
gcc -O1 -Iagent/api "$TMP/forker.c" -o "$TMP/forker" || fail "forker.c does not compile"
mkfifo "$TMP/gate"
LD_PRELOAD=$LIB PPROF_ADDR="unix:$TMP/%p.sock" PPROF_LOG=quiet "$TMP/forker" <>"$TMP/gate" &
PARENT=$!
STARTED+=("$PARENT")
for ((i = 0; i < 400; i++)); do
	CHILD=$(pgrep -P "$PARENT" | head -n 1)
	[ -n "$CHILD" ] && [ -S "$TMP/$CHILD.sock" ] && [ -S "$TMP/$PARENT.sock" ] && break
	sleep 0.05
done
[ -n "$CHILD" ] || fail "no child"
STARTED+=("$CHILD")

# has PID PATH TEXT: the answer of one of the two has this text.
has() {
	local i
	for ((i = 0; i < 100; i++)); do
		curl -sS --max-time 30 --unix-socket "$TMP/$1.sock" "http://localhost/debug/pprof/$2?debug=1" >"$TMP/answer" 2>"$TMP/err" &&
			grep -qF "$3" "$TMP/answer" && return
		sleep 0.1
	done
	fail "$2 of $([ "$1" = "$CHILD" ] && echo the child || echo the parent) has no $3: $(head -n 5 "$TMP/answer" "$TMP/err")"
}
has "$CHILD" goroutine '# labels: {"op":"parent", "thread":"forker", "where":"child"}'
has "$CHILD" pool 'pool profile: total 1'
has "$PARENT" goroutine '# labels: {"op":"parent", "thread":"forker"}'
has "$PARENT" pool 'pool profile: total 2'
