#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# redis under load and threads of Python's that wait for each other, read by code that reads us in production: Alloy's way
# of subtracting profiles (scrapers/main.go) and, where it is installed, Prometheus, which scrapes /metrics and whose
# promtool finds nothing to say about its style.
# The reader is Datadog's, from the Go module proxy, and is never part of this tree.
. test/suites/lib.sh
[ -x build/go/bin/go ] && PATH=$PWD/build/go/bin:$PATH
reader=gopkg.in/DataDog/dd-trace-go.v1@v1.70.0
for program in go redis-server redis-benchmark /usr/bin/python3 curl; do
	command -v $program >/dev/null || skip "$program is not installed"
done
dir=$(cd "$TMP" && GOFLAGS=-mod=mod go mod download -json $reader 2>/dev/null | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
[ -n "$dir" ] || skip "$reader cannot be had here"
mkdir "$TMP/scrapers"
cp test/suites/scrapers/main.go "$TMP/scrapers/"
cp -r "$dir"/profiler/internal/{fastdelta,pproflite,pprofutils} "$TMP/scrapers/"
chmod -R u+w "$TMP/scrapers"
find "$TMP/scrapers" -name '*_test.go' -delete
find "$TMP/scrapers" -name '*.go' -exec sed -i 's|gopkg.in/DataDog/dd-trace-go.v1/profiler/internal/|scrapers/|' {} +
{
	echo "module scrapers"
	echo "go 1.22"
	grep -E 'richardartoul/molecule |spaolacci/murmur3 |google/pprof ' "$dir/go.mod" | sed 's|^\s*|require |; s|// indirect||'
} >"$TMP/scrapers/go.mod"
(cd "$TMP/scrapers" && go mod tidy && go build -o ../scrapers.bin .) >"$KEEP/scrapers.log" 2>&1 ||
	{ echo "FAIL scrapers: cannot be built, see $KEEP/scrapers.log"; exit 1; }

"${with[@]}" PPROF_ADDR=127.0.0.1:0 PPROF_ADDR_FILE="$TMP/addr" PPROF_HEAP_RATE=4096 PPROF_BLOCK_RATE=1 \
	redis-server --port 0 --unixsocket "$TMP/redis" --save '' --dir "$TMP" --io-threads 3 >"$KEEP/scrapers-redis.log" 2>&1 &
server=$!
until [ -S "$TMP/redis" ] && [ -s "$TMP/addr" ]; do
	kill -0 $server || { echo "FAIL scrapers: redis has ended"; exit 1; }
	sleep 0.1
done
addr=$(cut -d' ' -f1 "$TMP/addr")
redis-benchmark -s "$TMP/redis" -q -l -c 20 -r 100000 -d 300 -t set,get,lpush >/dev/null 2>&1 &
load=$!
trap 'kill $load $server 2>/dev/null; wait; rm -rf "$TMP"' EXIT
timeout 120 "$TMP/scrapers.bin" "$addr" heap || { echo "FAIL scrapers: redis"; exit 1; }

# Threads that wait for each other.
"${with[@]}" PPROF_ADDR=127.0.0.1:0 PPROF_ADDR_FILE="$TMP/addr2" PPROF_BLOCK_RATE=1 /usr/bin/python3 -c '
import queue, threading
q = queue.Queue(4)
def take():
    while True:
        q.get()
for _ in range(4):
    threading.Thread(target=take, daemon=True).start()
while True:
    q.put(bytearray(3000))' >"$KEEP/scrapers-python.log" 2>&1 &
python=$!
trap 'kill $load $server $python 2>/dev/null; wait; rm -rf "$TMP"' EXIT
until [ -s "$TMP/addr2" ]; do
	kill -0 $python || { echo "FAIL scrapers: python has ended"; exit 1; }
	sleep 0.1
done
timeout 120 "$TMP/scrapers.bin" "$(cut -d' ' -f1 "$TMP/addr2")" heap block || { echo "FAIL scrapers: python"; exit 1; }
kill $python

if command -v promtool >/dev/null && command -v prometheus >/dev/null; then
	curl -sf "http://$addr/metrics" | promtool check metrics || { echo "FAIL scrapers: promtool"; exit 1; }
	echo "{global: {scrape_interval: 1s}, scrape_configs: [{job_name: agent, static_configs: [{targets: ['$addr']}]}]}" >"$TMP/prometheus.yml"
	mkdir "$TMP/tsdb"
	timeout 60 prometheus --config.file="$TMP/prometheus.yml" --storage.tsdb.path="$TMP/tsdb" --web.listen-address=127.0.0.1:29176 \
		>"$KEEP/scrapers-prometheus.log" 2>&1 &
	prometheus=$!
	for _ in $(seq 40); do
		sleep 1
		up=$(curl -s --data-urlencode 'query=up == 1 and on() count({__name__=~"pprofagent_.*"}) > 20' http://127.0.0.1:29176/api/v1/query)
		[[ $up == *'"job":"agent"'* ]] && break
	done
	kill $prometheus
	[[ $up == *'"job":"agent"'* ]] || { echo "FAIL scrapers: Prometheus says $up"; exit 1; }
	echo "Prometheus: up, its series are there, promtool has nothing to say"
else
	echo "Prometheus is not installed"
fi
echo "ok scrapers"
