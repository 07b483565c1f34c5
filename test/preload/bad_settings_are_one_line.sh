#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: a bad setting is one line on standard error and the default, never a target that notices: standard output
# and status are those of a run without us.
. test/lib.sh

# attempt WORD VARIABLES...: spin with them; exactly one line of ours that is not the announcement, naming WORD.
attempt() {
	local word=$1 lines
	shift
	env LD_PRELOAD="$LIB" "$@" "$VICTIMS/spin" 2 100 >"$TMP/out" 2>"$TMP/err" </dev/null
	STATUS=$?
	compare "$*"
	lines=$(grep '^pprofagent: ' "$TMP/err" | grep -vc '^pprofagent: http://')
	[ "$lines" = 1 ] || fail "${*:1:300}: $lines lines, expected one: $(cut -c1-200 "$TMP/err")"
	grep -q -- "$word" "$TMP/err" || fail "$*: the line does not name $word: $(cat "$TMP/err")"
	env PPROF_LOG=quiet LD_PRELOAD="$LIB" "$@" "$VICTIMS/spin" 1 20 >/dev/null 2>"$TMP/err" </dev/null
	[ -s "$TMP/err" ] && fail "$*: not quiet under PPROF_LOG=quiet: $(cat "$TMP/err")"
	return 0
}

bare "$VICTIMS/spin" 2 100
long=$(printf 'x%.0s' {1..5000})
for addr in nonsense :66000 1.2.3.4.5:80 '[::1:6060' unix: :-1 'host name:80' '127.0.0.1:' ' ' "$long"; do
	attempt 'PPROF_ADDR' "PPROF_ADDR=$addr"
done
attempt 203.0.113.77 PPROF_ADDR=203.0.113.77:6060
attempt nonexistent PPROF_ADDR=unix:/nonexistent/directory/socket
for hz in banana 0 -5 1e3 100000000000000000000 '' '10 '; do
	[ -z "$hz" ] || attempt PPROF_CPU_HZ PPROF_ADDR=127.0.0.1:0 "PPROF_CPU_HZ=$hz"
done
attempt PPROF_ADDR_FILE PPROF_ADDR=127.0.0.1:0 PPROF_ADDR_FILE=/nonexistent/directory/file
attempt PPROF_ADDR_FILE PPROF_ADDR=127.0.0.1:0 PPROF_ADDR_FILE=/
