# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the tests in test/preload share. A test sources this file from the root of the tree, as its first act.
#
# A victim waits at its gate (a line on standard input) until the test says "go": by then a CPU profile is running.
# The main verb is `same`: run a victim without the agent and with it, profiled at 1000 Hz all the time, and compare
# standard output, exit status and standard error (but for the agent's one line).
#
# Environment: LIB, the library; VICTIMS, the directory of compiled victims. Exit status: 0 pass, 77 skip with the
# reason as the last line, anything else fail.

set -u
[ -x build/go/bin/go ] && PATH=$PWD/build/go/bin:$PATH
LIB=$(realpath "${LIB:-build/libpprofagent.so}")
VICTIMS=$(realpath "${VICTIMS:-build/victims}")
TMP=$(mktemp -d "${TMPDIR:-/tmp}/preload.XXXXXX")
HZ=${HZ:-1000}
unset LD_PRELOAD PPROF_ADDR PPROF_ADDR_VAR PPROF_ADDR_FILE PPROF_LOG PPROF_CPU_HZ PPROF_SKIP
STARTED=()

cleanup() {
	local pid
	# Before the gate opens: a victim that forks behind it would leave a child that nobody knows.
	for pid in "${STARTED[@]}"; do
		kill -KILL "$pid" 2>/dev/null
	done
	exec 9>&-
	wait 2>/dev/null
	rm -rf "$TMP"
}
trap cleanup EXIT

fail() {
	echo "FAIL: $*"
	exit 1
}

skip() {
	echo "$*"
	exit 77
}

need() {
	local program
	for program in "$@"; do
		command -v "$program" >/dev/null || skip "$program is not installed"
	done
}

[ -r "$LIB" ] || fail "no library at $LIB"

# start COMMAND...: run it with the agent on a free port, its gate shut. Sets PID, ADDR (host:port). Output goes to
# $TMP/out and $TMP/err. AGENT_ENV, an array, may add or override variables; WRAP, an array, is a command to run it
# under that must not itself have the agent.
start() {
	local i
	rm -f "$TMP/addr" "$TMP/in"
	mkfifo "$TMP/in"
	exec 9<>"$TMP/in"
	${WRAP[@]+"${WRAP[@]}"} env LD_PRELOAD="$LIB" PPROF_ADDR=127.0.0.1:0 PPROF_ADDR_FILE="$TMP/addr" ${AGENT_ENV[@]+"${AGENT_ENV[@]}"} \
		"$@" <"$TMP/in" >"$TMP/out" 2>"$TMP/err" 9>&- &
	PID=$!
	STARTED+=("$PID")
	ADDR=
	for ((i = 0; i < 1200; i++)); do
		[ -s "$TMP/addr" ] && ADDR=$(head -1 "$TMP/addr") && break
		kill -0 "$PID" 2>/dev/null || break
		sleep 0.05
	done
}

# open_gate: let the victim pass.
open_gate() {
	echo go >&9
}

# finish: wait for the victim; sets STATUS (as the shell tells it: 128 + signal).
finish() {
	wait "$PID"
	STATUS=$?
}

# fetch PATH [curl options...]: a request to the agent.
fetch() {
	local path=$1
	shift
	curl -sS --max-time 60 "$@" "http://$ADDR$path"
}

# The POSIX timers of the process: the agent's, as long as somebody profiles.
has_timers() {
	grep -q '^ID:' "/proc/$PID/timers" 2>/dev/null
}

# wait_for COMMAND...: until it succeeds, for at most a minute, which is patience with a busy machine and no verdict.
wait_for() {
	local i
	for ((i = 0; i < 1200; i++)); do
		"$@" && return
		sleep 0.05
	done
	return 1
}

# profile_on [SECONDS]: profile at $HZ in the background, again and again until the victim is gone, and wait until the
# first profile has armed its timers. Profiles are kept in $TMP/profile.N when complete.
profile_on() {
	[ -n "$ADDR" ] || fail "the agent told no address: $(cat "$TMP/err")"
	(
		exec 9>&-
		n=0
		while kill -0 "$PID" 2>/dev/null; do
			if fetch "/debug/pprof/profile?seconds=${1:-1}&hz=$HZ" -f -o "$TMP/part.$n"; then
				mv "$TMP/part.$n" "$TMP/profile.$n"
				n=$((n + 1))
			else
				sleep 0.05
			fi
		done
	) >/dev/null 2>&1 &
	STARTED+=("$!")
	disown "$!"
	wait_for has_timers || fail "no timer was armed within a minute of asking for a profile: $(cat "$TMP/err")"
}

# The agent's own lines are its announcement and warnings.
stranger_lines() {
	grep -v '^pprofagent: ' "$1"
}

# bare COMMAND...: run it without the agent into $TMP/bare.out, .err; sets BARE_STATUS. In the background, as start
# does it: the shell has background commands ignore SIGINT and SIGQUIT.
bare() {
	${WRAP[@]+"${WRAP[@]}"} env "$@" <<<$'go\ngo' >"$TMP/bare.out" 2>"$TMP/bare.err" &
	wait "$!"
	BARE_STATUS=$?
}

# compare: the victim that just finished against the bare run.
compare() {
	[ "$STATUS" = "$BARE_STATUS" ] ||
		fail "$1: status $STATUS with the agent, $BARE_STATUS without; $(cat "$TMP/out" "$TMP/err" | tail -n 3)"
	cmp -s "$TMP/bare.out" "$TMP/out" ||
		fail "$1: output differs (< without, > with): $(diff "$TMP/bare.out" "$TMP/out" | head -20)"
	diff <(stranger_lines "$TMP/bare.err") <(stranger_lines "$TMP/err") >"$TMP/diff" ||
		fail "$1: standard error differs: $(head -20 "$TMP/diff")"
}

# same VICTIM [ARGS...]: equal without the agent and while profiled at $HZ.
same() {
	local victim=$1
	shift
	bare "$VICTIMS/$victim" "$@"
	start "$VICTIMS/$victim" "$@"
	profile_on
	open_gate
	open_gate
	finish
	compare "$victim $*"
}

# agent_lines N: the agent wrote at most N lines to standard error.
agent_lines() {
	local n
	n=$(grep -c '^pprofagent: ' "$TMP/err")
	[ "$n" -le "$1" ] || fail "the agent wrote $n lines, at most $1 are allowed: $(cat "$TMP/err")"
}

# plugin NAME ROUNDS [GCC-OPTIONS...]: compile $TMP/NAME.so that exports int plugin(int).
plugin() {
	local name=$1 rounds=$2
	shift 2
	cat >"$TMP/$name.c" <<-EOF
		__attribute__((noinline)) static int step(int x)
		{
			for (volatile int i = 0; i < $rounds; i++)
				x = x * 31 + i;
			return x & 7;
		}
		int plugin(int x)
		{
			return step(x) + 1;
		}
	EOF
	gcc -shared -fPIC -O2 -g "$TMP/$name.c" -o "$TMP/$name.so" "$@" || fail "cannot compile a plugin"
}
