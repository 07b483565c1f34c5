# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the suites share. A suite is somebody else's test program, run from the root of the tree without the agent and with
# it, every test's result compared. Tests that differ are run again, both ways, and only what differs every time is held
# against the agent: suites are full of tests that depend on time.
#
# Environment: LIB, the library; SUITE_RATE (1024), bytes between samples; SUITE_KEEP, a directory where logs stay.

set -u
LIB=$(realpath "${LIB:-build/libpprofagent.so}")
RATE=${SUITE_RATE:-1024}
TMP=$(mktemp -d "${TMPDIR:-/tmp}/suite.XXXXXX")
KEEP=${SUITE_KEEP:-build/suites}
mkdir -p "$KEEP"
KEEP=$(realpath "$KEEP")
unset LD_PRELOAD PPROF_ADDR PPROF_ADDR_VAR PPROF_ADDR_FILE PPROF_LOG PPROF_CPU_HZ PPROF_SKIP PPROF_HEAP_RATE
trap 'rm -rf "$TMP"' EXIT

skip() {
	echo "skip $(basename "$0" .sh): $*"
	exit 77
}

# The agent listens in every process, at a socket of its own, and says nothing. Signals as a person's shell leaves them.
bare=(env --default-signal=INT,QUIT)
with=(env --default-signal=INT,QUIT "LD_PRELOAD=$LIB" "PPROF_ADDR=unix:$TMP/s-%p" PPROF_LOG=quiet "PPROF_HEAP_RATE=$RATE")

# scrape_all_along: until the suite is over ($TMP/over exists), ask whichever process is there for its heap.
scrape_all_along() {
	(
		n=0
		while [ ! -e "$TMP/over" ]; do
			for s in "$TMP"/s-*; do
				[ -S "$s" ] && curl -sf --max-time 5 --unix-socket "$s" http://localhost/debug/pprof/heap -o "$TMP/part" && n=$((n + 1))
				[ -e "$TMP/over" ] && break
			done
			sleep 0.5
		done
		echo "$n heap profiles were taken meanwhile" >"$TMP/scraped"
	) 2>/dev/null &
}

# differences BARE WITH: lines "name result" of two files that are not in both.
differences() {
	diff <(sort -u "$1") <(sort -u "$2") | grep '^[<>]'
}
