// SPDX-License-Identifier: Apache-2.0

// Promise: clients that dawdle in every way, and requests that are none, keep nobody else out and leave nothing behind.
// Promise: scraped back to back by many clients, a program under load answers all of them, its counters never fall, and
// neither memory nor descriptors grow.
//
// SCRAPES: how many requests (20000 are a day's worth). What it costs redis is measured in latency_test.go.
package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// slowKind is how a client begins and, once a second, goes on; "" goes on by reading a byte.
type slowKind struct{ begin, drip string }

func slowKinds(large string) []slowKind {
	return []slowKind{
		{"GET " + root + "heap HTTP/1.1\r\nHost: localhost\r\nX-Drip: ", "x"},
		{"POST " + root + "symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n0x1", "1"},
		{"POST " + root + "symbol HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n0\r\n", "\r\n"},
		{"GET " + large + " HTTP/1.1\r\nHost: localhost\r\n\r\n", ""},
		{"", ""},
	}
}

// slowClients keeps n connections that dawdle: heads and bodies that drip, answers that nobody reads, silence.
func slowClients(ctx context.Context, t *testing.T, addr string, n int, large string) *sync.WaitGroup {
	var all, connected sync.WaitGroup
	kinds := slowKinds(large)
	for i := range n {
		all.Add(1)
		connected.Add(1)
		go func() {
			defer all.Done()
			for first := true; ctx.Err() == nil; first = false {
				conn, err := net.Dial("tcp", addr)
				if err == nil {
					conn.(*net.TCPConn).SetReadBuffer(4096)
					io.WriteString(conn, kinds[i%len(kinds)].begin)
				}
				if first {
					connected.Done()
				}
				if err != nil {
					time.Sleep(100 * time.Millisecond)
					continue
				}
				// One byte a second until the server has had enough; nothing is read.
				drip := kinds[i%len(kinds)].drip
				for ctx.Err() == nil && err == nil {
					select {
					case <-ctx.Done():
					case <-time.After(time.Second):
						_, err = io.WriteString(conn, drip)
						if drip == "" {
							err = gone(conn)
						}
					}
				}
				conn.Close()
			}
		}()
	}
	connected.Wait()
	return &all
}

// gone reads a byte now and then, and so finds the end.
func gone(conn net.Conn) error {
	conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := conn.Read(make([]byte, 1))
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		return nil
	}
	return err
}

// malformed is a request with something wrong; the seed says what.
func malformed(r *rand.Rand) string {
	parts := []string{"GET ", "POST ", "HEAD ", "PUT ", "\x00", root, root + "symbol", "heap?debug=1", "?", "&", "%", "%zz", ";", "=",
		" HTTP/1.1\r\n", " HTTP/1.0\r\n", " HTTP/9.9\r\n", "\r\n", "\n", "\r", "Host: localhost\r\n", "Content-Length: -1\r\n",
		"Content-Length: 5\r\n", "Content-Length: 99999999999999999999\r\n", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: x\r\n",
		"ffffffffffffffff\r\n", "0\r\n\r\n", "Connection: keep-alive\r\n", "Expect: 100-continue\r\n", ": \r\n", " folded\r\n", "X: \xff\xfe\r\n",
		strings.Repeat("A", 5000), strings.Repeat("a: b\r\n", 70), "\x16\x03\x01\x02\x00\x01", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}
	var b strings.Builder
	for range 1 + r.Intn(12) {
		b.WriteString(parts[r.Intn(len(parts))])
	}
	return b.String()
}

// sendMalformed sends n of them and reads what comes back, at most perSecond a second (0: as fast as it goes).
func sendMalformed(ctx context.Context, t *testing.T, addr string, n, perSecond int) int {
	var sent atomic.Int64
	var all sync.WaitGroup
	const senders = 8
	for k := range senders {
		all.Add(1)
		go func() {
			defer all.Done()
			r := rand.New(rand.NewSource(int64(k)))
			for i := k; i < n && ctx.Err() == nil; i += senders {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					t.Errorf("request %d: %v", i, err)
					return
				}
				conn.SetDeadline(time.Now().Add(30 * time.Second))
				io.WriteString(conn, malformed(r))
				conn.(*net.TCPConn).CloseWrite()
				if b, _ := io.ReadAll(conn); len(b) > 0 && !strings.HasPrefix(string(b), "HTTP/1.") {
					t.Errorf("request %d: answer %.60q", i, b)
				}
				conn.Close()
				sent.Add(1)
				if perSecond > 0 {
					time.Sleep(time.Second * senders / time.Duration(perSecond))
				}
			}
		}()
	}
	all.Wait()
	return int(sent.Load())
}

func TestHostileClients(t *testing.T) {
	const slow, bad = 200, 10000
	x := start(t, []string{"PPROF_HEAP_RATE=256"}, victim("manysites"), "20000")
	x.awaitOutput("ready")
	large := root + "heap?debug=1"
	if n := len(x.get(large).body); n < 6<<20 {
		t.Fatalf("an answer of %d bytes fits into the kernel's buffers", n)
	}
	out, fds := x.out.String(), descriptors(x.pid())
	readersHoldNoWorkers(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	all := slowClients(ctx, t, x.addr, slow, large)
	for round := range 3 {
		for _, path := range []string{"cmdline", "", "symbol?0x1", "goroutine", "profile?seconds=1"} {
			a, err := ask(x.addr, "GET", root+path, "", nil)
			if err != nil || a.status != 200 {
				t.Errorf("round %d, %s beside %d slow clients: %v %v", round, path, slow, a, err)
			} else if round == 0 {
				t.Logf("%q beside %d slow clients: %v", path, slow, a.took)
			}
		}
	}
	if n := sendMalformed(ctx, t, x.addr, bad, 0); n != bad {
		t.Errorf("%d malformed requests of %d", n, bad)
	}
	cancel()
	all.Wait()
	m := metrics(x)
	t.Logf("answers: %v 2xx, %v 4xx, %v 5xx; the agent's memory %v KiB", m[`pprofagent_http_requests_total{code="2xx"}`],
		m[`pprofagent_http_requests_total{code="4xx"}`], m[`pprofagent_http_requests_total{code="5xx"}`], m[`pprofagent_memory_bytes{use="working"}`]/1024)
	waitFor(t, 60*time.Second, "the descriptors to be as few as before", func() bool { return descriptors(x.pid()) <= fds+1 },
		func() string { return fmt.Sprint(descriptors(x.pid()), " now, before ", fds) })
	if x.out.String() != out {
		t.Errorf("output: %q", x.out)
	}
	x.finish()
}

// askAndDawdle has n clients ask and read no more of their answers than one byte, which it waits for from the first few.
func askAndDawdle(t *testing.T, socket, url string, n, first int) {
	t.Helper()
	var conns []net.Conn
	for range n {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conns = append(conns, conn)
		io.WriteString(conn, "GET "+url+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	for _, conn := range conns[:first] {
		conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
}

// Answers that are too large for the kernel's buffers but not for the agent's memory: who does not read them holds a
// worker until it is given up after 10 s, and there are twice as many such clients as workers: without a limit on slow
// readers the next client would wait for 20 s. (A socket file: loopback's buffers are larger than a network's.)
func readersHoldNoWorkers(t *testing.T) {
	const readers = 60
	path := filepath.Join(t.TempDir(), "socket")
	x := start(t, []string{"PPROF_HEAP_RATE=1", "PPROF_ADDR=unix:" + path}, victim("manysites"), "320")
	x.awaitOutput("ready")
	if n := len(x.get(root + "heap?debug=1").body); n < 500<<10 || n > 1<<20 {
		t.Fatalf("an answer of %d bytes", n)
	}
	// Until as many as there are workers have begun to get theirs.
	askAndDawdle(t, path, root+"heap?debug=1", readers, 32)
	took := x.get(root + "cmdline").took
	t.Logf("an answer beside %d who do not read theirs: %v", readers, took)
	if took > 8*time.Second {
		t.Error("they hold all workers")
	}
}

// Promise: who is being answered takes no place from who asks: sixteen collections run beside answers that nobody reads.
// (A client that has read its answer asks again before the worker that gave it does anything else.)
func TestUnreadAnswersHoldNoPlace(t *testing.T) {
	const unread, places = 6, 16
	path := filepath.Join(t.TempDir(), "socket")
	x := start(t, []string{"PPROF_HEAP_RATE=1", "PPROF_ADDR=unix:" + path}, victim("manysites"), "1500", "60")
	long := root + "allocs?seconds=1&format=folded"
	if n := len(x.get(long).body); n < 300<<10 || n > 1<<20 {
		t.Fatalf("an answer of %d bytes", n)
	}
	askAndDawdle(t, path, long, unread, unread)
	var all sync.WaitGroup
	for range places {
		all.Add(1)
		go func() {
			defer all.Done()
			if a, err := ask(x.addr, "GET", root+"profile?seconds=1", "", nil); err != nil || a.status != 200 {
				t.Errorf("%v %v", err, a)
			}
		}()
	}
	all.Wait()
}

// Promise: whatever is asked in parts, the connection lives on or says that it does not.
func TestPipelinedRequests(t *testing.T) {
	x := start(t, nil, victim("idle"))
	conn, err := net.Dial("tcp", x.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	const n = 50
	io.WriteString(conn, strings.Repeat("GET "+root+"cmdline HTTP/1.1\r\nHost: localhost\r\n\r\n", n))
	r := bufio.NewReader(conn)
	for i := range n {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || !strings.Contains(string(b), "idle") {
			t.Fatalf("answer %d: %d %q", i, resp.StatusCode, b)
		}
	}
}

// redisUnderLoad is a server with the agent, and a load that goes on.
func redisUnderLoad(t *testing.T, env ...string) (x *target, port string) {
	server, bench := need(t, "redis-server"), need(t, "redis-benchmark")
	addr := freePort(t)
	_, port, _ = strings.Cut(addr, ":")
	x = start(t, env, server, "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir(), "--io-threads", "2", "--maxmemory", "50mb",
		"--maxmemory-policy", "allkeys-random")
	x.awaitOutput("eady to accept")
	// 10,000 of each command in turn, not the 100,000 it takes by itself: where the load is slow those push for minutes, and
	// what redis then keeps in its list (20 MB) is no memory of ours.
	load := exec.Command("nice", bench, "-p", port, "-q", "-l", "-n", "10000", "-c", "4", "-r", "10000", "-d", "200", "-t", "set,get,lpush,lpop")
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { load.Process.Kill(); load.Wait() })
	return x, port
}

func TestScrapedAllDay(t *testing.T) {
	const clients = 8
	requests := int(number("SCRAPES", 400))
	x, _ := redisUnderLoad(t)
	paths := []string{"allocs", "block", "mutex", "goroutine", "profile?seconds=1"}
	var next, failed atomic.Int64
	var all sync.WaitGroup
	var lock sync.Mutex
	totalsOf := map[string][]int64{} // by cumulative kind, with the time of the request that gave them
	began := time.Now()
	for range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			// Each client sees what it asks in order; another's answer may be older.
			seen := map[string][]int64{}
			for i := next.Add(1); i <= int64(requests) && failed.Load() < 10; i = next.Add(1) {
				path := paths[i%int64(len(paths))]
				a, err := ask(x.addr, "GET", root+path, "", nil)
				if err != nil || a.status != 200 {
					failed.Add(1)
					t.Errorf("request %d, %s: %v %v", i, path, a, err)
					continue
				}
				p, err := profile.ParseData(a.body)
				if err != nil {
					failed.Add(1)
					t.Errorf("request %d, %s: %v", i, path, err)
					continue
				}
				if i%5 > 2 {
					continue
				}
				sum := totals(p)
				for k, v := range seen[path] {
					if k < 2 && sum[k] < v {
						t.Errorf("request %d, %s: %s fell from %d to %d", i, path, p.SampleType[k].Type, v, sum[k])
					}
				}
				seen[path] = sum
				lock.Lock()
				totalsOf[path] = sum
				lock.Unlock()
			}
		}()
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	var rss, own []int64
	var fds []int
	for tick := time.NewTicker(500 * time.Millisecond); ; {
		select {
		case <-tick.C:
			rss, fds = append(rss, residentBytes(x.pid())), append(fds, descriptors(x.pid()))
			if len(rss)%20 == 1 {
				own = append(own, int64(metrics(x)[`pprofagent_memory_bytes{use="working"}`]))
				note(t, "after %3.0f s and %5d requests: resident %6d KiB, the agent's %6d KiB, %d descriptors", time.Since(began).Seconds(),
					next.Load(), rss[len(rss)-1]>>10, own[len(own)-1]>>10, fds[len(fds)-1])
			}
			continue
		case <-done:
			tick.Stop()
		}
		break
	}
	took := time.Since(began)
	note(t, "%d requests by %d clients in %v: %d failed; sums at the end %v", requests, clients, took, failed.Load(), totalsOf)
	if took < 2*time.Minute {
		return // too short for more
	}
	// redis's own memory moves: what must not is the trend. The first minute is for warming up.
	minute := int(time.Minute / (500 * time.Millisecond))
	half := minute + (len(rss)-minute)/2
	note(t, "resident at most %d KiB before half-time, %d KiB after; descriptors %d, %d", slices.Max(rss[minute:half])>>10, slices.Max(rss[half:])>>10,
		slices.Max(fds[minute:half]), slices.Max(fds[half:]))
	if slices.Max(rss[half:]) > slices.Max(rss[minute:half])+scrapeRSSMayGrow {
		t.Error("memory grows")
	}
	if slices.Max(fds[half:]) > slices.Max(fds[minute:half])+clients {
		t.Error("descriptors grow")
	}
}
