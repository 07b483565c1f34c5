#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Promise: the one library works in programs linked against musl, too: they notice nothing, whichever way their threads
# end, and at least 99 % of their stacks are whole though Debian's musl has no unwind tables and no static names.
#
# The second half runs other tests of this directory with the victims compiled by musl-gcc. Left out are those that need
# what musl lacks (C++ here, closefrom, mallinfo2, pthread_sigqueue, pthread_attr_setsigmask_np).
. test/lib.sh
need musl-gcc go
mkdir "$TMP/musl"
for name in errnoview execloop forkstorm libccode limits loadlib dlopenloop minstack ownrt shortthreads sigpipe sleeper spawner threadways \
	wholesignals; do
	musl-gcc -O2 -g -pthread -o "$TMP/musl/$name" "test/victims/$name.c" 2>"$TMP/gcc.log" ||
		fail "musl-gcc does not compile $name: $(head -5 "$TMP/gcc.log")"
done

# whole PROGRAM: profile it; the share of whole stacks, and its functions by name.
whole() {
	local line samples truncated name seconds
	start "$1"
	[ -n "$ADDR" ] || fail "the agent told no address: $(cat "$TMP/err")"
	open_gate
	# As long as it takes: the machine may have other things to do.
	for seconds in 3 10 30; do
		fetch "/debug/pprof/profile?seconds=$seconds&hz=500" -f -o "$TMP/p.pb.gz" || fail "no profile"
		go tool pprof -symbolize=none -raw "$TMP/p.pb.gz" >"$TMP/raw" 2>/dev/null || fail "unreadable profile"
		line=$(grep -m 1 'stacks truncated' "$TMP/raw")
		samples=$(sed -E 's/.* ([0-9]+) samples.*/\1/' <<<"$line")
		[ "$samples" -lt 300 ] || break
	done
	kill "$PID"
	finish
	truncated=$(sed -E 's/.* ([0-9]+) stacks truncated.*/\1/' <<<"$line")
	echo "$(basename "$1"): $truncated of $samples stacks truncated"
	[ "$samples" -ge 300 ] || fail "only $samples samples"
	[ $((truncated * 100)) -le "$samples" ] || fail "$line"
	PPROF_BINARY_PATH=/nonexistent go tool pprof -symbolize=none -top -cum "$TMP/p.pb.gz" >"$TMP/top" 2>/dev/null
	for name in main work copies prints sorts allocates asks; do
		grep -Eq "[0-9]%  +$name\$" "$TMP/top" || fail "$name is not in the profile: $(cat "$TMP/top")"
	done
	# One thread in three is main's, and each part has a fifth of the time.
	awk '{ share[$6] = $5 + 0 }
		function within(name, lo, hi) {
			if (share[name] < lo || share[name] > hi) { print name, share[name]; bad = 1 }
		}
		END {
			within("work", 98, 100); within("main", 26, 41)
			split("copies prints sorts allocates asks", part, " ")
			for (i in part) within(part[i], 12, 28)
			exit bad
		}' "$TMP/top" || fail "shares are wrong: $(head -20 "$TMP/top")"
}

whole "$TMP/musl/libccode"
musl-gcc -O0 -g -fno-omit-frame-pointer -pthread -o "$TMP/musl/libccode-fp" test/victims/libccode.c
whole "$TMP/musl/libccode-fp"

VICTIMS=$TMP/musl
same threadways 30
plugin one 2000
plugin two 3000
same dlopenloop 1000 "$TMP/one.so" "$TMP/two.so"

export VICTIMS LIB
for test in errno_untouched handlers_run_on_target_threads min_stack_threads no_key_lost refused_threads \
	rt_signals_untouched sigpipe_untouched sleepers_not_interrupted survives_fork survives_spawning; do
	bash "test/preload/$test.sh" >"$TMP/log" 2>&1 || fail "with musl, $test: $(tail -n 5 "$TMP/log")"
done
EXECS=60 bash test/preload/survives_exec.sh >"$TMP/log" 2>&1 || fail "with musl, survives_exec: $(tail -n 5 "$TMP/log")"
