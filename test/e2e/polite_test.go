// SPDX-License-Identifier: Apache-2.0

// Promise: our threads leave the CPU to the program's: they are batch threads, wake up for many requests at a time when
// many come, none of them waits for a client that has its answer, and rubbish wakes one of them only. The library's own
// pages go when all is quiet.
package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// thread is a thread as /proc shows it.
type thread struct {
	dir, name string
}

func threadsOf(t *testing.T, pid int) (ours, others []thread) {
	t.Helper()
	dirs, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*"))
	for _, dir := range dirs {
		name, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil {
			continue // ended
		}
		if x := (thread{dir, strings.TrimSpace(string(name))}); strings.HasPrefix(x.name, "pprof-") {
			ours = append(ours, x)
		} else {
			others = append(others, x)
		}
	}
	return ours, others
}

// policy is field 41 of stat: 0 SCHED_OTHER, 2 SCHED_RR, 3 SCHED_BATCH, 5 SCHED_IDLE; "" for a thread that has ended.
func (x thread) policy() string {
	stat, _ := os.ReadFile(filepath.Join(x.dir, "stat"))
	_, fields, _ := strings.Cut(string(stat), ") ")
	if f := strings.Fields(fields); len(f) > 38 {
		return f[38]
	}
	return ""
}

// Other policies are inherited: they were chosen for the whole program.
func TestOurThreadsAreBatchThreads(t *testing.T) {
	for _, c := range []struct {
		policy       []string
		ours, theirs string
	}{
		{nil, "3", "0"},
		{[]string{"--batch", "0"}, "3", "3"},
		{[]string{"--rr", "1"}, "2", "2"},
	} {
		var command []string
		if c.policy != nil {
			wrap := append([]string{need(t, "chrt")}, c.policy...)
			if err := exec.Command(wrap[0], append(wrap[1:], "true")...).Run(); err != nil {
				t.Logf("%v is not permitted here", c.policy)
				continue
			}
			// chrt itself goes without the agent; env is one of the programs that are left alone.
			command = append(append([]string{"env", "-u", "LD_PRELOAD"}, wrap...), "env", "LD_PRELOAD="+library)
		}
		x := start(t, nil, append(command, victim("idle"))...)
		x.get(root + "cmdline")
		ours, others := threadsOf(t, x.pid())
		if len(ours) < 2 || len(others) < 1 {
			t.Errorf("%v: threads %v, %v", c.policy, ours, others)
		}
		for _, a := range ours {
			if p := a.policy(); p != c.ours && p != "" {
				t.Errorf("%v: %s has policy %s, not %s", c.policy, a.name, p, c.ours)
			}
		}
		for _, a := range others {
			if p := a.policy(); p != c.theirs && p != "" {
				t.Errorf("%v: the program's %s has policy %s, not %s", c.policy, a.name, p, c.theirs)
			}
		}
		x.finish()
	}
}

// What is no request is told so as soon as that shows, by the keeper: no worker is started, or woken up, for it.
func TestRubbishWakesNoWorker(t *testing.T) {
	x := start(t, nil, victim("idle"))
	say := func(what string, parts ...string) {
		t.Helper()
		conn, err := net.Dial("tcp", x.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(8 * time.Second)) // who is not understood is closed after 10 s
		for _, part := range parts {
			io.WriteString(conn, part)
			time.Sleep(50 * time.Millisecond)
		}
		answer := make([]byte, 12)
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 "+what {
			t.Errorf("%.40q: %q %v, expected %s", parts, answer, err, what)
		}
	}
	workers := func() (n int) {
		ours, _ := threadsOf(t, x.pid())
		for _, a := range ours {
			if a.name == "pprof-http" {
				n++
			}
		}
		return n
	}
	const ask = "GET " + root + "cmdline HTTP/1.1\r\nHost: localhost\r\n\r\n"
	say("400", "\x16\x03\x01\x02\x00\x01\x00\x01") // a TLS client, which waits for an answer
	say("400", "GET\r\n\r\n")
	say("400", "GET "+root+" HTTP/1.1\r\n", "Content-Length: x\r\n\r\n")
	say("505", "GET / HT", "TP/9.9\r\n", "\r\n")
	say("431", "GET /"+strings.Repeat("a", 20000), strings.Repeat("b", 20000))
	for range 20 {
		say("400", "\x00")
	}
	if n := workers(); n != 0 {
		t.Errorf("%d workers for what is no request", n)
	}
	say("200", ask[:20], ask[20:])
	if n := workers(); n != 1 {
		t.Errorf("%d workers after one request", n)
	}
	say("200", ask[:len(ask)-1], "\n\x01") // the rubbish is the next request
	x.finish()
}

// In a program that has no memory left, the server says so. (Before: a reset.)
func TestNoMemoryIsSaid(t *testing.T) {
	x := start(t, nil, victim("idle"))
	limit := func(address string) {
		t.Helper()
		out, err := exec.Command(need(t, "prlimit"), "--pid", strconv.Itoa(x.pid()), "--as="+address).CombinedOutput()
		if err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	limit("4096:unlimited")
	for range 3 {
		a := x.get(root + "heap")
		if a.status != 503 || a.header.Get("X-Go-Pprof") != "1" || !strings.Contains(string(a.body), "memory") {
			t.Errorf("%d %v %q", a.status, a.header, a.body)
		}
	}
	limit("unlimited:unlimited")
	if a := x.get(root + "heap"); a.status != 200 {
		t.Errorf("%d with memory again: %s", a.status, a.body)
	}
	x.finish()
}

// Who was refused may send on and on. Before, a worker listened for 300 ms, and a hundred such clients a second held all.
func TestTheRefusedHoldNoWorker(t *testing.T) {
	const ppoll = "271" // the number of the system call
	x := start(t, nil, victim("idle"))
	before := descriptors(x.pid())
	var conns []net.Conn
	for i := range 64 {
		conn, err := net.Dial("tcp", x.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute))
		conns = append(conns, conn)
		request := "POST " + root + "heap HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n" // 405, its body not read
		if i%2 == 1 {
			request = "GET / HTTP/9.9\r\n\r\n"
		}
		io.WriteString(conn, request)
	}
	for i, conn := range conns {
		answer := make([]byte, 12)
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != []string{"HTTP/1.1 405", "HTTP/1.1 505"}[i%2] {
			t.Fatalf("client %d: %q %v", i, answer, err)
		}
	}
	ours, _ := threadsOf(t, x.pid())
	for _, a := range ours {
		call, _ := os.ReadFile(filepath.Join(a.dir, "syscall"))
		if strings.HasPrefix(string(call), ppoll+" ") {
			t.Errorf("%s waits for a client: %s", a.name, call)
		}
	}
	// They are let go, also if they never go themselves.
	waitFor(t, time.Minute, "the descriptors to be as few as before", func() bool { return descriptors(x.pid()) <= before },
		func() string { return fmt.Sprint(descriptors(x.pid()), " now, before ", before) })
	x.finish()
}

// ownPages is how much of the library's read-only segments is in the program's page tables, in KiB.
func ownPages(t *testing.T, pid int) (kib int) {
	smaps, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps"))
	if err != nil {
		t.Fatal(err)
	}
	isOurs := false
	for _, line := range strings.Split(string(smaps), "\n") {
		f := strings.Fields(line)
		if len(f) > 4 && !strings.HasSuffix(f[0], ":") {
			isOurs = strings.HasSuffix(line, "/libpprofagent.so") && f[1][1] == '-'
		} else if isOurs && len(f) > 1 && f[0] == "Rss:" {
			n, _ := strconv.Atoi(f[1])
			kib += n
		}
	}
	return kib
}

// The library's pages are let go of when nothing has come for a second, and not after every request: the next would fault
// them in again, and so would the program's threads in our hooks.
func TestOwnPagesGoWhenAllIsQuiet(t *testing.T) {
	x := start(t, nil, victim("idle"))
	const some = 450 // KiB: sleeping needs half of that, a dump a half more
	small := func() bool { return ownPages(t, x.pid()) < some }
	isSmall := func() {
		t.Helper()
		waitFor(t, 20*time.Second, "the library's pages to go", small, func() string { return fmt.Sprint(ownPages(t, x.pid()), " KiB") })
	}
	isSmall()
	// Requests that follow one another: a machine that stands still for half a second says nothing.
	for round := range 20 {
		asked := time.Now()
		x.get(root + "goroutine")
		time.Sleep(100 * time.Millisecond)
		kib := ownPages(t, x.pid())
		if took := time.Since(asked); took > 500*time.Millisecond {
			t.Logf("round %d took %v", round, took)
		} else if kib < some {
			t.Errorf("round %d: %d KiB %v after a request", round, kib, took)
		}
	}
	t.Logf("%d KiB between requests", ownPages(t, x.pid()))
	isSmall()
	t.Logf("%d KiB at rest", ownPages(t, x.pid()))
	x.finish()
}

// A round of the keeper is a wake-up, a nap another, and now and then it meets a worker at a lock. Without naps four
// clients make some 10,000 rounds a second of an idle machine.
func TestManyRequestsAreFewWakeUps(t *testing.T) {
	const clients, each, roundsAtOnce, roundsASecond, napsASecond, perRound = 4, 500, 50, 100, 200, 3
	x := start(t, nil, victim("idle"))
	x.get(root + "cmdline")
	switches := func() (n float64) {
		ours, _ := threadsOf(t, x.pid())
		for _, a := range ours {
			if a.name != "pprof-keeper" {
				continue
			}
			status, _ := os.ReadFile(filepath.Join(a.dir, "status"))
			_, rest, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
			fmt.Sscan(rest, &n)
		}
		return n
	}
	before, began := switches(), time.Now()
	var all sync.WaitGroup
	for range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			for range each {
				if a, err := ask(x.addr, "GET", root+"cmdline", "", nil, "Connection", "close"); err != nil || a.status != 200 {
					t.Errorf("%v %v", a, err)
					return
				}
			}
		}()
	}
	all.Wait()
	n, took := switches()-before, time.Since(began)
	t.Logf("%d requests in %v: the keeper slept %.0f times", clients*each, took, n)
	if most := perRound * (roundsAtOnce + (roundsASecond+napsASecond)*took.Seconds()); n == 0 || n > most {
		t.Errorf("more than %.0f times", most)
	}
	x.finish()
}
