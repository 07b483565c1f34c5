// SPDX-License-Identifier: Apache-2.0

// Promise: /metrics is what Prometheus reads, its counters only grow and count what happened.
// Promise: rates can be read and changed while the program runs, all of a request or nothing, and only where
// PPROF_SETTINGS=1 allows it.
package e2e

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var metricLine = regexp.MustCompile(`^(pprofagent_[a-z_]+)(\{[a-z]+="[^"\\]*"\})? ([0-9]+(\.[0-9]{9})?)$`)

// metrics reads the page strictly: HELP and TYPE once before the lines of each name, which follow each other; counters
// end in _total, others do not.
func metrics(x *target) map[string]float64 {
	x.t.Helper()
	a := x.get("/metrics")
	if a.status != 200 || a.header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		x.t.Fatalf("%d %v", a.status, a.header)
	}
	values, described, now := map[string]float64{}, map[string]bool{}, ""
	lines := strings.Split(strings.TrimSuffix(string(a.body), "\n"), "\n")
	for i, line := range lines {
		if help, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, text, _ := strings.Cut(help, " ")
			if described[name] || text == "" || i+1 == len(lines) || !strings.HasPrefix(lines[i+1], "# TYPE "+name+" ") {
				x.t.Errorf("line %d: %s", i+1, line)
			}
			described[name], now = true, name
			continue
		}
		if kind, ok := strings.CutPrefix(line, "# TYPE "+now+" "); ok {
			if (kind == "counter") != strings.HasSuffix(now, "_total") {
				x.t.Errorf("%s is a %s", now, kind)
			}
			continue
		}
		m := metricLine.FindStringSubmatch(line)
		if m == nil || m[1] != now {
			x.t.Errorf("line %d: %q", i+1, line)
			continue
		}
		if _, again := values[m[1]+m[2]]; again {
			x.t.Errorf("twice: %s", line)
		}
		values[m[1]+m[2]], _ = strconv.ParseFloat(m[3], 64)
	}
	return values
}

func TestMetrics(t *testing.T) {
	x := start(t, []string{"PPROF_HEAP_RATE=4096"}, victim("manysites"), "2000")
	x.awaitOutput("ready")
	before := metrics(x)
	x.profile("seconds=1&hz=1000")
	x.get(root + "nope")
	after := metrics(x)
	for name, v := range before {
		if w, ok := after[name]; !ok || strings.Contains(name, "_total") && w < v {
			t.Errorf("%s: %v, then %v", name, v, w)
		}
	}
	_, counts := indexed(x)
	for name, n := range map[string]float64{
		`pprofagent_profile_records{profile="heap"}`:      float64(counts["heap"]),
		`pprofagent_profile_records{profile="goroutine"}`: float64(counts["goroutine"]),
		`pprofagent_heap_sample_interval_bytes`:           4096,
		`pprofagent_memory_limit_bytes`:                   64 << 20,
	} {
		if after[name] != n {
			t.Errorf("%s: %v, not %v", name, after[name], n)
		}
	}
	for name, least := range map[string]float64{
		`pprofagent_threads`: 2, `pprofagent_cpu_seconds_total`: 1e-6, `pprofagent_memory_bytes{use="working"}`: 64 << 10,
		`pprofagent_memory_bytes{use="profiles"}`: 4096, `pprofagent_heap_samples_total`: 10, `pprofagent_heap_samples_live`: 10,
		`pprofagent_http_requests_total{code="2xx"}`: 2,
	} {
		if after[name] < least {
			t.Errorf("%s: %v, less than %v", name, after[name], least)
		}
	}
	if d := after[`pprofagent_http_requests_total{code="4xx"}`] - before[`pprofagent_http_requests_total{code="4xx"}`]; d != 1 {
		t.Errorf("%v errors counted", d)
	}
	// Profiles of the program's own, one of them with the longest name there is.
	y := start(t, nil, victim("pools"))
	y.awaitOutput("63 letters: new")
	waitFor(t, time.Minute, "the program's own profiles", func() bool {
		m := metrics(y)
		_, counts := indexed(y)
		longest, ok := m[`pprofagent_profile_records{profile="`+strings.Repeat("n", 63)+`"}`]
		return ok && longest == 0 && counts["db.connections"] > 0 &&
			m[`pprofagent_profile_records{profile="db.connections"}`] == float64(counts["db.connections"])
	}, nil)
	if promtool, err := exec.LookPath("promtool"); err == nil {
		cmd := exec.Command(promtool, "check", "metrics")
		cmd.Stdin = strings.NewReader(string(x.get("/metrics").body))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
}

func TestSettings(t *testing.T) {
	const path = root + "settings"
	closed := start(t, nil, victim("idle"))
	for _, method := range []string{"GET", "PUT", "HEAD"} {
		a, err := ask(closed.addr, method, path, "", []byte("cpu_hz=7"))
		if err != nil || a.status != 403 || method != "HEAD" && !strings.Contains(string(a.body), "PPROF_SETTINGS=1") {
			t.Errorf("%s without PPROF_SETTINGS: %v %v", method, a, err)
		}
	}

	x := start(t, []string{"PPROF_SETTINGS=1", "PPROF_HEAP_RATE=4096", "PPROF_BLOCK_IO=1"}, victim("manysites"), "2000")
	x.awaitOutput("ready")
	list := func() string {
		t.Helper()
		a := x.get(path)
		isText(t, a, "text/plain; charset=utf-8")
		return string(a.body)
	}
	put := func(status int, body string) string {
		t.Helper()
		a, err := ask(x.addr, "PUT", path, "", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if a.status != status {
			t.Errorf("PUT %q: %d %s", body, a.status, a.body)
		}
		if status != 200 {
			isErr(t, a, status, "")
		}
		return string(a.body)
	}
	first := list()
	want(t, "the list", first, "\nblock_io=1\n", "\nblock_rate=10000\n", "\ncpu_hz=100\n", "\nheap_rate=4096\n", "\nmutex_fraction=1\n")
	// What is read can be written back, and changes nothing.
	if got := put(200, first); got != first {
		t.Errorf("written back: %s", got)
	}
	for _, bad := range []string{"heap_rate=-1", "heap_rate=1073741825", "heap_rate=", "heap_rate", "nonsense=1", "cpu_hz=0", "cpu_hz=1001",
		"block_io=2", "heap_rate=1x", "mutex_fraction=65536", "cpu_hz=7\nheap_rate=x", "cpu_hz=7&nonsense=1", "cpu_hz=7\x00", "heap_rate = 5",
		"heap_rate=99999999999999999999"} {
		put(400, bad)
	}
	put(413, strings.Repeat("#\n", 3000))
	if got := list(); got != first {
		t.Errorf("refused, and yet changed: %s", got)
	}
	want(t, "the answer", put(200, "cpu_hz=250\r\n# a comment\n\nheap_rate=8192&block_io=0&mutex_fraction=0"),
		"\ncpu_hz=250\n", "\nheap_rate=8192\n", "block_io=0\n", "mutex_fraction=0\n")
	if p := x.profile("seconds=1"); p.Period != 4000000 {
		t.Errorf("cpu_hz=250 gives a period of %d", p.Period)
	}
	if p := x.heap("heap"); p.Period != 8192 {
		t.Errorf("heap_rate=8192 gives a period of %d", p.Period)
	}
	put(200, "heap_rate=0")
	if a := x.get(root + "heap"); a.status != 200 {
		t.Errorf("heap: %d", a.status)
	}
	put(200, "heap_rate=1073741824&block_rate=0&mutex_fraction=65535&block_io=1&cpu_hz=1000")
	put(200, fmt.Sprint("heap_rate=", 1))
	x.finish()
}

// Sampling can be switched on in a program that was started without.
func TestSettingsSwitchOn(t *testing.T) {
	off := []string{"PPROF_SETTINGS=1", "PPROF_HEAP_RATE=0", "PPROF_MUTEX_FRACTION=0", "PPROF_BLOCK_RATE=0"}
	for _, c := range []struct {
		setting, kind, name string
		command             []string
	}{
		{"block_rate=1", "block", "wait_for_semaphore", []string{victim("lockwaits"), "5"}},
		{"heap_rate=1", "heap", "keep_realloc", []string{victim("allockeep")}},
	} {
		x := start(t, off, c.command...)
		x.switchOn(c.setting, c.kind, c.name)
		x.open()
		x.awaitOutput("done")
		if !x.knows(c.kind, c.name) {
			t.Errorf("%s: %s is not seen", c.setting, c.name)
		}
		x.finish()
	}
}

// Promise: a program that was started with waiting measured is no longer measured once that is switched off, and is again
// once it is switched on.
func TestSettingsSwitchOff(t *testing.T) {
	x := start(t, []string{"PPROF_SETTINGS=1"}, victim("lockholders"), "mutex", "4000")
	x.open()
	seen := func() int64 { return waitingIn(x.waitingProfile("block"), "wait_a").contentions }
	put := func(settings string) {
		if a, err := ask(x.addr, "PUT", root+"settings", "", []byte(settings)); err != nil || a.status != 200 {
			t.Fatalf("%s: %v %v", settings, a, err)
		}
	}
	grows := func(from int64) bool {
		for i := 0; i < 100; i++ {
			if time.Sleep(20 * time.Millisecond); seen() > from+20 {
				return true
			}
		}
		return false
	}
	if !grows(0) {
		t.Fatal("nothing is measured from the start")
	}
	put("block_rate=0&mutex_fraction=0")
	time.Sleep(100 * time.Millisecond) // waits that began before
	off := seen()
	time.Sleep(300 * time.Millisecond)
	if now := seen(); now != off {
		t.Errorf("switched off, %d waits became %d", off, now)
	}
	put("block_rate=1&mutex_fraction=1")
	if !grows(off) {
		t.Error("switched on again, nothing is measured")
	}
	x.kill()
}

func (x *target) knows(kind, name string) bool {
	return strings.Contains(string(x.get(root+kind+"?debug=1").body), name)
}

func (x *target) switchOn(setting, kind, name string) {
	x.t.Helper()
	if x.knows(kind, name) {
		x.t.Errorf("%s is seen before", name)
	}
	if a, err := ask(x.addr, "PUT", root+"settings", "", []byte(setting)); err != nil || a.status != 200 {
		x.t.Fatalf("%s: %v %v", setting, a, err)
	}
}

// Promise: every thread takes heap_rate up at its next allocation but one, whatever function it allocates with, in a
// program that allocated before.
func TestSettingsSwitchOnAtOnce(t *testing.T) {
	for name, program := range map[string]string{"glibc": victim("allockeep"), "musl": compileVictim(t, "musl-gcc", "allockeep.c")} {
		t.Run(name, func(t *testing.T) {
			x := start(t, []string{"PPROF_SETTINGS=1", "PPROF_HEAP_RATE=0"}, program, "threads")
			x.awaitOutput("ready")
			x.switchOn("heap_rate=1", "heap", "keep_")
			x.open()
			lines := x.truthLines(1)
			p := x.heap("heap")
			for _, f := range lines {
				want, _ := strconv.ParseInt(f[1], 10, 64)
				// In musl's calloc there is a malloc, before which the thread has asked.
				if got := heapOf(p, f[0])[allocObjects]; got != want && got != want-1 {
					t.Errorf("%s: %d blocks in the profile, %d allocated, of which one may ask", f[0], got, want)
				}
			}
			x.finish()
		})
	}
}
