#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# redis' own tests (Debian's source package) against Debian's redis-server, without and with the agent.
# SUITE_UNITS: which units; SUITE_LIMIT: seconds that each run may take (900); SUITE_REUSE: keep the results without the agent;
# SUITE_REDIS_SOURCE: the unpacked source (fetched through a private list of package sources).
. test/suites/lib.sh
command -v redis-server >/dev/null || skip "redis-server is not installed"
command -v tclsh >/dev/null || skip "tclsh is not installed"
UNITS=${SUITE_UNITS:-unit/type/string unit/type/incr unit/type/stream-cgroups unit/keyspace unit/scan unit/info unit/auth
	unit/protocol unit/expire unit/dump unit/multi unit/pubsub unit/sort unit/functions unit/geo unit/hyperloglog
	unit/memefficiency unit/lazyfree unit/introspection unit/introspection-2 unit/slowlog unit/limits unit/tracking
	unit/aofrw unit/acl unit/other unit/shutdown}
VERSION=$(redis-server --version | sed -E 's/.*v=([0-9.]+).*/\1/')
SOURCE=${SUITE_REDIS_SOURCE:-$KEEP/redis-$VERSION}

fetch_source() {
	local apt=(-qq -o "Dir::Etc::SourceList=$TMP/apt/list" -o Dir::Etc::SourceParts=/nonexistent -o "Dir::State::Lists=$TMP/apt/lists"
		-o "Dir::Cache=$TMP/apt/cache" -o APT::Sandbox::User=)
	mkdir -p "$TMP/apt/lists/partial" "$TMP/apt/cache/archives/partial"
	for s in 'http://deb.debian.org/debian bookworm' 'http://deb.debian.org/debian-security bookworm-security'; do
		echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $s main"
	done >"$TMP/apt/list"
	(cd "$TMP/apt" && apt-get "${apt[@]}" update && apt-get "${apt[@]}" source --download-only redis) >"$KEEP/redis-source.log" 2>&1 || return 1
	tar -C "$KEEP" -xf "$TMP"/apt/redis_"$VERSION".orig.tar.gz
}

[ -d "$SOURCE/tests" ] || fetch_source || skip "the source of redis $VERSION cannot be fetched (see $KEEP/redis-source.log)"
for program in redis-server redis-cli redis-benchmark redis-check-aof redis-check-rdb redis-sentinel; do
	command -v $program >/dev/null && ln -sf "$(command -v $program)" "$SOURCE/src/$program"
done

# units NAME COMMAND...: run $UNITS; "unit/name result" lines go to $KEEP/redis.NAME, the log beside.
units() {
	local name=$1 only=()
	shift
	for u in $UNITS; do
		only+=(--single "$u")
	done
	(cd "$SOURCE" && "$@" timeout --kill-after=5 "${SUITE_LIMIT:-900}" ./runtest --clients 2 --skipfile /dev/null --tags -needs:config-maxmemory "${only[@]}") >"$KEEP/redis.$name.log" 2>&1
	sed -E 's/\x1b\[[0-9;]*m//g' "$KEEP/redis.$name.log" | sed -nE 's/^\[(ok|err|exception|skip|ignore)\]: (.*)$/\2 \1/p' |
		sed -E 's/ \([0-9]+ ms\)//; s/ in tests\/.*/ /' | grep -vE '^(Test|Check) .*[0-9]+ ms' >"$KEEP/redis.$name"
}

[ -n "${SUITE_REUSE:-}" ] && [ -s "$KEEP/redis.bare" ] || units bare "${bare[@]}"
scrape_all_along
units agent "${with[@]}"
touch "$TMP/over"
wait
cat "$TMP/scraped"
echo "redis: $(wc -l <"$KEEP/redis.bare") results without, $(wc -l <"$KEEP/redis.agent") with the agent; $(grep -c ' ok$' "$KEEP/redis.agent") ok"
if [ "$(wc -l <"$KEEP/redis.agent")" -lt 100 ]; then
	tail -n 20 "$KEEP/redis.agent.log"
	echo "FAIL redis: the suite did not run"
	exit 1
fi
differences "$KEEP/redis.bare" "$KEEP/redis.agent" >"$KEEP/redis.diff"
[ ! -s "$KEEP/redis.diff" ] || { cat "$KEEP/redis.diff"; echo "FAIL redis: results differ (< without, > with the agent)"; exit 1; }
echo "ok redis"
