#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: a program that is being traced gets every result that it gets without the agent, whether traces begin and end
# all the time or one is always recorded: of locks and other waits, of waits that are left by cancellation, a jump or an
# exception, of calls on files and sockets, of threads that end in every way, and of forks; and every trace is
# answered, in the children, too.
. test/lib.sh

# traces: one after the other, as long as somebody answers.
traces() {
	local code
	while code=$(curl -s --max-time 30 -o "$TMP/trace" -w '%{http_code}' "http://$ADDR/debug/pprof/trace?seconds=0.05"); do
		[ "$code" = 200 ] || echo "$code $(head -c 200 "$TMP/trace")" >>"$TMP/odd"
		[ "$(head -c 13 "$TMP/trace")" = "go 1.22 trace" ] || echo "no trace" >>"$TMP/odd"
		echo >>"$TMP/taken"
	done
}

# traced VICTIM ARGS...: as same, while traces are taken.
traced() {
	: >"$TMP/odd"
	: >"$TMP/taken"
	bare "$VICTIMS/$1" "${@:2}"
	start "$VICTIMS/$1" "${@:2}"
	[ -n "$ADDR" ] || fail "the agent told no address: $(cat "$TMP/err")"
	traces &
	wait_for test -s "$TMP/taken"
	open_gate
	[ -z "${SECOND_GATE:-}" ] || { wait_for grep -q '^done' "$TMP/out"; open_gate; }
	finish
	wait "$!"
	compare "$* with ${AGENT_ENV[*]} while it is traced"
	# The last may have been cut off by the end.
	[ "$(wc -l <"$TMP/odd")" -le 1 ] || fail "$*: $(sort "$TMP/odd" | uniq -c | head -5)"
}

# Hooks that are otherwise off.
AGENT_ENV=("PPROF_BLOCK_RATE=0" "PPROF_MUTEX_FRACTION=0") SECOND_GATE=1
traced lockcontract
traced iocontract

AGENT_ENV=("PPROF_TRACE_BUFFER=5s")
for way in pending arriving jump throw; do
	traced lockleave "$way"
done
SECOND_GATE=
traced threadends 20
traced forkstorm 60
