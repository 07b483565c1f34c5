#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: under test/torture/churn.c (threads that come and go without end and free each other's blocks, and forks
# from beside them) with every 16 KiB sampled, and again with every block, a process neither crashes nor hangs while its heap
# is asked for all the time and every other profile as well, with CPU time at 1000 Hz, the agent's memory does not grow,
# the CPU profiles account for all that was used, and when all is freed nothing is in use.
#
# TORTURE_SECONDS: how long (30). TORTURE_LOG: a file for the figures as well.
. test/lib.sh
need go
SECONDS_LONG=${TORTURE_SECONDS:-30}
CHURN=$OUT/torture/churn
[ -x "$CHURN" ] || fail "$CHURN was not built"

note() {
	tee -a "${TORTURE_LOG:-/dev/null}"
}

# Ask for the heap until the victim is gone. Each reply's account of the agent's memory (KiB) goes to $TMP/replies, what it
# has mapped afterwards to $TMP/memory.
heap_all_along() {
	(
		exec 9>&-
		rm -f "$TMP/memory" "$TMP/replies" "$TMP/refused"
		while kill -0 "$PID" 2>/dev/null; do
			if fetch /debug/pprof/heap -f -o "$TMP/part"; then
				mv "$TMP/part" "$TMP/heap"
				gunzip -c <"$TMP/heap" | grep -aoE 'own memory [0-9]+' | grep -oE '[0-9]+' >>"$TMP/replies"
				fetch /metrics -f | sed -nE 's/^pprofagent_memory_bytes\{use="working"\} //p' |
					awk '{ print int($1 / 1024) }' >>"$TMP/memory"
			elif kill -0 "$PID" 2>/dev/null; then
				echo refused >>"$TMP/refused"
			fi
			sleep 0.2
		done
	) >/dev/null 2>&1 &
	STARTED+=("$!")
	disown "$!"
}

# And all the while for every other profile, with CPU time at 1000 Hz; $TMP/cpu.N are kept.
the_rest_all_along() {
	(
		exec 9>&-
		n=0
		rm -f "$TMP"/cpu.*
		while kill -0 "$PID" 2>/dev/null; do
			fetch "/debug/pprof/profile?seconds=3&hz=1000" -f -o "$TMP/part.cpu" && mv "$TMP/part.cpu" "$TMP/cpu.$n" && n=$((n + 1))
			for kind in 'goroutine?debug=2' mutex block threadcreate heap_age mmap 'wall?seconds=1'; do
				fetch "/debug/pprof/$kind" -f -o "$TMP/part.other"
			done
		done
	) >/dev/null 2>&1 &
	STARTED+=("$!")
	disown "$!"
}

# What $TMP/cpu.N account for against the process's CPU time in their comments, of at most 20 of them: nothing is lost that is
# not counted. A window may begin and end within a tick of each of the threads there are.
cpu_is_whole() {
	local p
	for p in $(find "$TMP" -name 'cpu.*' | sort -t. -k3 -n | head -20); do
		go tool pprof -symbolize=none -unit=ms -top -nodecount=1 "$p" 2>/dev/null |
			sed -nE 's/.*own CPU ([0-9.]+) ms of ([0-9.]+) ms.*/\1 \2/p; s/.*Total samples = ([0-9.]+)ms.*/\1/p' | tr '\n' ' '
		echo
	done | awk 'NF == 3 { n++; own += $1; process += $2; samples += $3 }
		END {
			off = process ? samples / (process - own) - 1 : -1
			printf "%d profiles at 1000 Hz: %d ms in samples, %d ms of CPU without the agent: %+.2f %%\n", n, samples, process - own, 100 * off
			exit !(n >= 1 && off < 0.05 && off > -0.05)
		}'
}

# The largest of the last third of the lines against the largest of the second third.
replies_are_flat() {
	awk '{ m[NR] = $1 }
		END {
			for (i = int(NR / 3) + 1; i <= int(2 * NR / 3); i++) if (m[i] > a) a = m[i]
			for (i = int(2 * NR / 3) + 1; i <= NR; i++) if (m[i] > b) b = m[i]
			printf "agent memory in %d profiles: %d KiB, later %d KiB\n", NR, a, b
			exit !(NR >= 3 && b <= a + 512)
		}' "$TMP/replies"
}

# The same between replies, by the least: what is lost never comes back.
memory_is_flat() {
	awk '{ m[NR] = $1 }
		END {
			a = b = 2 ^ 40
			for (i = int(NR / 3) + 1; i <= int(2 * NR / 3); i++) if (m[i] < a) a = m[i]
			for (i = int(2 * NR / 3) + 1; i <= NR; i++) if (m[i] < b) b = m[i]
			printf "agent memory after %d profiles: %d KiB, later %d KiB\n", NR, a, b
			exit !(NR >= 3 && b <= a + 256)
		}' "$TMP/memory"
}

# objects TYPE: the storm's functions in $TMP/last that have blocks of their own, "count function".
objects() {
	go tool pprof -symbolize=none -unit=count -sample_index="$1" -top -focus='^churn_(allocate|resize)$' "$TMP/last" 2>/dev/null |
		awk '/flat%/ { on = 1; next } on && $1 + 0 > 0 { print $1, $6 }'
}

# storm RATE SECONDS
storm() {
	local i
	# Children that live for long announce themselves. Without lines: what is kept of them grows with each address that is
	# seen for the first time, up to a limit of its own.
	AGENT_ENV=("PPROF_HEAP_RATE=$1" PPROF_LOG=quiet PPROF_SYMBOLS=names)
	start nice -n 5 "$CHURN" "$2" 3 20
	[ -n "$ADDR" ] || fail "the agent told no address: $(cat "$TMP/err")"
	heap_all_along
	the_rest_all_along
	open_gate
	for ((i = 0; i < $2 * 10 + 300; i++)); do
		grep -q '^done' "$TMP/out" && break
		kill -0 "$PID" 2>/dev/null || break
		sleep 0.1
	done
	grep -q '^done' "$TMP/out" || {
		kill -0 "$PID" 2>/dev/null && fail "rate $1: it hangs: $(cat "$TMP/out" "$TMP/err")"
		finish
		fail "rate $1: status $STATUS: $(tail -n 5 "$TMP/out" "$TMP/err")"
	}
	fetch /debug/pprof/heap -f -o "$TMP/last" || fail "no profile at the end"
	open_gate
	finish
	[ "$STATUS" = 0 ] || fail "rate $1: status $STATUS: $(tail -n 5 "$TMP/out" "$TMP/err")"
	echo "rate $1: $(head -n 1 "$TMP/out")" | note
	[ ! -s "$TMP/err" ] || fail "rate $1: on standard error: $(head -5 "$TMP/err")"
	[ ! -s "$TMP/refused" ] || [ "$(wc -l <"$TMP/refused")" -le 1 ] || fail "heap profiles were refused"
	# Of what the storm allocated there must be plenty, and nothing may be left.
	objects alloc_objects >"$TMP/top"
	awk '$1 + 0 > 1000 { n++ } END { exit n < 1 }' "$TMP/top" || fail "rate $1: nothing of the storm in the profile: $(head -20 "$TMP/top")"
	objects inuse_objects >"$TMP/top"
	[ ! -s "$TMP/top" ] || fail "rate $1: all was freed and yet there are $(head -5 "$TMP/top")"
	cpu_is_whole >"$TMP/whole" || fail "rate $1: CPU time is missing: $(cat "$TMP/whole")"
	note <"$TMP/whole"
	memory_is_flat >"$TMP/flat"
	i=$?
	note <"$TMP/flat"
	[ "$i" = 0 ] || fail "rate $1: the agent's memory grew: $(tr '\n' ' ' <"$TMP/memory")"
	replies_are_flat >"$TMP/flat"
	i=$?
	note <"$TMP/flat"
	[ "$i" = 0 ] || fail "rate $1: the agent's memory in replies grew: $(tr '\n' ' ' <"$TMP/replies")"
}

storm 16384 $((SECONDS_LONG * 2 / 3))
storm 1 $((SECONDS_LONG / 3))
