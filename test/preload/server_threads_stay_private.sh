#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: whatever is asked of it, the agent's threads never call the target's malloc family, sigaction, names service,
# time zone, locale, environment, stdio, directory streams or anything else that has state in the target. A library
# preloaded behind the agent counts (test/preload/audit).

# How often libc may call the target's calloc for each thread the agent creates (its table of thread-local storage).
CALLS_A_THREAD=${CALLS_A_THREAD:-0}

. test/lib.sh
need gcc curl
gcc -shared -fPIC -O1 -Wall -fno-builtin -o "$TMP/audit.so" test/preload/audit/audit.c test/preload/audit/counted.c -ldl 2>"$TMP/log" ||
	fail "cannot compile the audit: $(head -5 "$TMP/log")"
gcc -O1 -Wall -o "$TMP/report" test/preload/audit/report.c 2>"$TMP/log" || fail "cannot compile the report: $(head -5 "$TMP/log")"

# ask PATH [curl options...]. What takes long if not told otherwise is broken off: that is a request, too.
# And what is refused because too much is asked at once is asked again.
ask() {
	local path=$1 code i
	shift
	for ((i = 0; i < 60; i++)); do
		code=$(curl -s -o /dev/null -w "%{http_code}" --max-time 3 "${VIA[@]}" "$@" "http://$HOST/debug/pprof/$path")
		echo "$code $path" >>"$TMP/answers"
		[ "$code" = 503 ] || break
		sleep 0.5
	done
}

# ask_everything: each page that the index names, by itself, as text, and over a second; and what is wrong or cut off.
ask_everything() {
	local page pages arguments
	# What stands after data: is the icon.
	pages=$(curl -s --max-time 10 "${VIA[@]}" "http://$HOST/debug/pprof/" | grep -oE "href=['\"]?[a-z]+" | grep -oE '[a-z]+$' | grep -vx data | sort -u)
	[ -n "$pages" ] || fail "the index names no page"
	for page in $pages; do
		for arguments in '' '?debug=1' '?debug=2' '?seconds=1'; do
			ask "$page$arguments" &
		done
	done
	ask 'profile?seconds=1&hz=1000&labels=tid' &
	ask ''
	ask '?debug=1'
	ask cmdline
	ask 'symbol?0x1234'
	ask symbol -d 0x1234+0x5678
	ask nothing
	ask 'profile?hz=x'
	ask '' -H 'If-Modified-Since: Sat, 29 Oct 1994 19:43:31 GMT'
	ask '' -X DELETE
	ask '' -H "Host: $(printf '%03000d' 1)"
	ask 'profile?seconds=5' --max-time 0.2
	wait $(jobs -p | grep -vx "$PID")
	for page in $pages; do
		grep -q "^200 $page" "$TMP/answers" || fail "$page was never answered: $(cat "$TMP/answers")"
	done
}

# audited ROUNDS ADDRESS COMMAND...
audited() {
	local rounds=$1 address=$2
	shift 2
	rm -f "$TMP/audit" "$TMP/answers"
	AGENT_ENV=("LD_PRELOAD=$LIB $TMP/audit.so" "AUDIT_FILE=$TMP/audit" "PPROF_ADDR=$address" PPROF_SETTINGS=1)
	start "$@"
	[ -n "$ADDR" ] || fail "no address: $(cat "$TMP/err")"
	case $ADDR in
	unix:*) VIA=(--unix-socket "${ADDR#unix:}") HOST=localhost ;;
	*) VIA=() HOST=$ADDR ;;
	esac
	open_gate
	while [ $((rounds--)) -gt 0 ]; do
		ask_everything
	done
	kill "$PID" 2>/dev/null
	finish
	"$TMP/report" "$TMP/audit" >"$TMP/counts" || fail "no report"
	echo "$address: $(tr '\n' ' ' <"$TMP/counts")"
	# The keeper and at least one worker.
	awk '/^created/ { exit !($2 >= 2) }' "$TMP/counts" || fail "the audit did not see the agent create threads: $(cat "$TMP/counts")"
	! grep '^bad' "$TMP/counts" || fail "$1 at $address: the agent's threads called into the target: $(grep '^bad' "$TMP/counts")"
	awk -v allowed="$CALLS_A_THREAD" '/^created/ { exit !($4 <= $2 * allowed) }' "$TMP/counts" ||
		fail "$1 at $address: more than $CALLS_A_THREAD allocations a thread: $(cat "$TMP/counts")"
}

audited 2 127.0.0.1:0 "$VICTIMS/spin" 2 0
audited 1 localhost:0 "$VICTIMS/cxxstack"
audited 1 "unix:$TMP/%e.sock" "$VICTIMS/spin" 1 0

# The audit itself can fail: a thread that looks like one of the agent's and allocates is seen.
cat >"$TMP/liar.c" <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
static void *nothing(void *arg) { return arg; }
int main(void)
{
	pthread_t t;
	prctl(PR_SET_NAME, "pprof-liar");
	free(malloc(10));
	getenv("x");
	pthread_create(&t, NULL, nothing, NULL);
	pthread_join(t, NULL);
	return 0;
}
END
gcc -O0 -fno-builtin -pthread -o "$TMP/liar" "$TMP/liar.c" && AUDIT_FILE=$TMP/audit2 LD_PRELOAD=$TMP/audit.so "$TMP/liar"
"$TMP/report" "$TMP/audit2" >"$TMP/counts"
for line in 'bad malloc 1' 'bad free 1' 'bad getenv 1' 'created 1 calls 1 '; do
	grep -q "^$line" "$TMP/counts" || fail "the audit does not see \"$line\": $(cat "$TMP/counts")"
done
