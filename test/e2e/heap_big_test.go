// SPDX-License-Identifier: Apache-2.0

// Promise: a heap profile of a process with 10 GB live in 20 million objects is served within 200 ms, and stops no thread
// for longer than 1 ms.
//
// HEAP_BIG_OBJECTS: how many of 500 bytes on average (2,000,000; 20,000,000 in the long form, cut down to what the machine
// has room for).
package e2e

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func availableBytes() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if rest, ok := strings.CutPrefix(sc.Text(), "MemAvailable:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// window is what allocbig's loop went through since the last one.
type window struct{ longest, preempted, iterations time.Duration }

func (x *target) window(nth int) window {
	x.t.Helper()
	var lines []string
	x.open()
	waitFor(x.t, time.Minute, "a window", func() bool {
		lines = strings.Split(x.out.String(), "\n")[2:]
		return len(lines) > nth+1
	}, func() string { return x.err.String() })
	f := strings.Fields(lines[nth])
	if len(f) != 4 || f[0] != "window" {
		x.t.Fatalf("%q", lines[nth])
	}
	var v [3]int64
	for i := range v {
		v[i], _ = strconv.ParseInt(f[1+i], 10, 64)
	}
	return window{time.Duration(v[0]), time.Duration(v[1]), time.Duration(v[2])}
}

func TestHeapOfTwentyMillionObjects(t *testing.T) {
	const bytesEach, spare = 530, 4 << 30
	objects := int64(number("HEAP_BIG_OBJECTS", 2e6))
	if room := (availableBytes() - spare) / bytesEach; objects > room {
		t.Logf("there is room for %d objects only", room)
		objects = room
	}
	if objects < 1e6 {
		t.Skipf("memory for %d objects is too little to say anything", objects)
	}
	rounds := int(number("HEAP_BIG_ROUNDS", 15))
	x := start(t, nil, victim("allocbig"), fmt.Sprint(objects))
	x.open()
	lines := x.truthLines(1)
	time.Sleep(300 * time.Millisecond)
	x.window(0)
	var took, quiet, scraped, quietPreempted, scrapedPreempted []time.Duration
	var first time.Duration
	var firstCPU float64
	for i := range rounds {
		// A quiet window as long as the scrape takes, with the little that asking costs; then one with a scrape.
		if len(took) > 0 {
			time.Sleep(took[len(took)-1])
		}
		w := x.window(2*i + 1)
		quiet, quietPreempted = append(quiet, w.longest), append(quietPreempted, w.preempted)
		before := 0.0
		if i == 0 {
			before = metrics(x)[`pprofagent_cpu_seconds_total`]
		}
		a := x.get("/debug/pprof/heap")
		if a.status != 200 {
			t.Fatalf("status %d", a.status)
		}
		w = x.window(2*i + 2)
		if i == 0 {
			first, firstCPU = a.took, metrics(x)[`pprofagent_cpu_seconds_total`]-before
		} else {
			took = append(took, a.took)
			scraped, scrapedPreempted = append(scraped, w.longest), append(scrapedPreempted, w.preempted)
		}
	}
	p := x.heap("heap")
	truth, got := lines[0], heapOf(p, "big_here")
	want, _ := strconv.ParseFloat(truth[4], 64)
	note(t, "%s objects, %s bytes; RSS %d MiB, %d records", truth[1], truth[2], residentBytes(x.pid())>>20, len(p.Sample))
	note(t, "served in %v (first; %.3f s of CPU), %v (median), %v (slowest)", first, firstCPU, quantile(took, 0.5), quantile(took, 1))
	note(t, "longest iteration of the allocating thread: quiet %v (median), %v (90 %%), %v; scraped %v, %v, %v", quantile(quiet, 0.5),
		quantile(quiet, 0.9), quantile(quiet, 1), quantile(scraped, 0.5), quantile(scraped, 0.9), quantile(scraped, 1))
	note(t, "when preempted: quiet %v, %v; scraped %v, %v", quantile(quietPreempted, 0.5), quantile(quietPreempted, 1),
		quantile(scrapedPreempted, 0.5), quantile(scrapedPreempted, 1))
	if off := float64(got[inuseSpace])/want - 1; off < -0.1 || off > 0.1 {
		t.Errorf("%d bytes in use, %.0f in truth", got[inuseSpace], want)
	}
	if q := quantile(took, 0.5); q > 200*time.Millisecond {
		t.Errorf("a profile takes %v", q)
	}
	// Of CPU time: one answer's wall clock says how busy the machine was.
	if firstCPU > 0.4 {
		t.Errorf("the first profile, which reads symbol tables, takes %.3f s of CPU", firstCPU)
	}
	// The 90th percentile of ten and more windows: one of them may have met another process on this machine.
	if more := quantile(scraped, 0.9) - quantile(quiet, 0.9); more > time.Millisecond {
		t.Errorf("a scrape stops the thread for %v more than it stops by itself", more)
	}
	x.gate.Close()
	<-x.ended
}
