#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# stress-ng's memory stressors, which check what they get back: no failure with the agent sampling at 1 KiB.
# SUITE_SECONDS: how long (60).
. test/suites/lib.sh
command -v stress-ng >/dev/null || skip "stress-ng is not installed"
scrape_all_along
"${with[@]}" stress-ng --malloc 2 --mmap 2 --brk 2 --malloc-bytes 128M --mmap-bytes 128M --verify --temp-path "$TMP" \
	-t "${SUITE_SECONDS:-60}" --metrics-brief >"$KEEP/stress-ng.log" 2>&1
status=$?
touch "$TMP/over"
wait
cat "$TMP/scraped"
grep -E 'malloc|mmap|brk|passed|failed|successful' "$KEEP/stress-ng.log"
[ $status = 0 ] || { echo "FAIL stress-ng: status $status"; exit 1; }
! grep -qiE '(fail|corrupt)[a-z]*:' "$KEEP/stress-ng.log" || { echo "FAIL stress-ng: $(grep -iE 'fail|corrupt' "$KEEP/stress-ng.log" | head -5)"; exit 1; }
echo "ok stress-ng"
