// SPDX-License-Identifier: Apache-2.0

// Promise: the profiles that are taken at a moment keep the HTTP contract's checklist, each subtest named after its
// number there: files, texts, deltas, errors word by word, and what pprof makes of them.
package e2e

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// The kinds as the contract has them. Those that are not in the index yet are skipped.
type kind struct {
	name, types, dflt, period string
	hasDelta                  bool
}

var kinds = []kind{
	{"allocs", "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes", "alloc_space", "space/bytes", true},
	{"block", "contentions/count delay/nanoseconds", "", "contentions/count", true},
	{"goroutine", "goroutine/count", "", "goroutine/count", true},
	{"heap", "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes", "", "space/bytes", true},
	{"heap_age", "inuse_objects/count inuse_space/bytes", "", "space/bytes", false},
	{"mmap", "maps/count mapped/bytes", "", "mapped/bytes", true},
	{"mutex", "contentions/count delay/nanoseconds", "", "contentions/count", true},
	{"threadcreate", "threadcreate/count", "", "threadcreate/count", true},
}

var indexRow = regexp.MustCompile(`<tr><td>(\d+)</td><td><a href='([^']+)'>([^<]+)</a></td></tr>`)

// indexed are the kinds that x lists, with their counts.
func indexed(x *target) (have []kind, counts map[string]int) {
	counts = map[string]int{}
	for _, m := range indexRow.FindAllStringSubmatch(string(x.get(root).body), -1) {
		counts[m[3]], _ = strconv.Atoi(m[1])
	}
	for _, k := range kinds {
		if _, ok := counts[k.name]; ok {
			have = append(have, k)
		}
	}
	return have, counts
}

func isFile(t *testing.T, a *answer, name string) *profile.Profile {
	t.Helper()
	isText(t, a, "application/octet-stream")
	if got := a.header.Get("Content-Disposition"); got != `attachment; filename="`+name+`"` || a.header.Get("Content-Encoding") != "" {
		t.Errorf("Content-Disposition %q, Content-Encoding %q", got, a.header.Get("Content-Encoding"))
	}
	if len(a.body) < 2 || a.body[0] != 0x1f || a.body[1] != 0x8b {
		t.Fatalf("not gzip: %.40q", a.body)
	}
	p, err := profile.ParseData(a.body)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (k kind) check(t *testing.T, p *profile.Profile) {
	t.Helper()
	var types []string
	for _, s := range p.SampleType {
		types = append(types, s.Type+"/"+s.Unit)
	}
	if got := strings.Join(types, " "); got != k.types {
		t.Errorf("%s: types %s, not %s", k.name, got, k.types)
	}
	if got := p.PeriodType.Type + "/" + p.PeriodType.Unit; got != k.period || p.DefaultSampleType != k.dflt {
		t.Errorf("%s: period type %s, default %q", k.name, got, p.DefaultSampleType)
	}
}

func totals(p *profile.Profile) []int64 {
	sum := make([]int64, len(p.SampleType))
	for _, s := range p.Sample {
		for i, v := range s.Value {
			sum[i] += v
		}
	}
	return sum
}

func TestNamedProfiles(t *testing.T) {
	x := start(t, []string{"PPROF_HEAP_RATE=4096"}, victim("manysites"), "20000")
	x.awaitOutput("ready")
	have, counts := indexed(x)

	for _, c := range []struct {
		number string
		check  func(t *testing.T)
	}{
		{"5 counts of the index", func(t *testing.T) {
			if counts["heap"] != counts["allocs"] || counts["heap"] < 100 {
				t.Errorf("heap %d, allocs %d", counts["heap"], counts["allocs"])
			}
		}},
		{"6 names are exact", func(t *testing.T) {
			for _, name := range []string{"heap/", "Heap", "heaps", "heap/x?seconds=abc"} {
				isErr(t, x.get(root+name), 404, "Unknown profile\n")
			}
		}},
		{"16 HEAD", func(t *testing.T) {
			for _, path := range []string{"heap", "heap?debug=1", "allocs?seconds=1", "heap_age?gc=1"} {
				head, err := ask(x.addr, "HEAD", root+path, "", nil)
				if err != nil {
					t.Fatal(err)
				}
				get := x.get(root + path)
				if head.status != 200 || len(head.body) != 0 {
					t.Errorf("%s: %d, %d bytes", path, head.status, len(head.body))
				}
				for _, h := range []string{"Content-Type", "Content-Disposition", "X-Content-Type-Options", "X-Go-Pprof"} {
					if head.header.Get(h) != get.header.Get(h) {
						t.Errorf("%s: %s %q, GET has %q", path, h, head.header.Get(h), get.header.Get(h))
					}
				}
			}
			head, err := ask(x.addr, "HEAD", root+"heap?seconds=x", "", nil)
			if err != nil || head.status != 400 {
				t.Errorf("HEAD of an error: %v %v", head, err)
			}
		}},
		{"17 other methods", func(t *testing.T) {
			for _, method := range []string{"POST", "DELETE", "PUT"} {
				a, err := ask(x.addr, method, root+"heap", "", nil)
				if err != nil || a.status != 405 || a.header.Get("Allow") != "GET, HEAD" {
					t.Errorf("%s: %v %v", method, a, err)
				}
			}
		}},
		{"18, 29 files and types", func(t *testing.T) {
			for _, k := range have {
				for _, query := range []string{"", "?seconds=", "?debug=0", "?debug=abc", "?gc=1", "?gc=x&&%"} {
					k.check(t, isFile(t, x.get(root+k.name+query), k.name))
				}
				if _, err := parseStrictly(x.get(root + k.name).body); err != nil {
					t.Errorf("%s: %v", k.name, err)
				}
			}
		}},
		{"19 texts", func(t *testing.T) {
			for _, k := range have {
				for _, query := range []string{"debug=1", "debug=2", "debug=-1", "debug=%2B1", "debug=1&gc=1", "debug=99999999999999999999"} {
					a := x.get(root + k.name + "?" + query)
					isText(t, a, "text/plain; charset=utf-8")
					if a.header.Get("Content-Disposition") != "" {
						t.Errorf("%s?%s: %v", k.name, query, a.header)
					}
				}
			}
		}},
		{"20 seconds that are none", func(t *testing.T) {
			for _, k := range have {
				for _, s := range []string{"abc", "0", "-1", "1.5", "99999999999999999999", "1%00"} {
					isErr(t, x.get(root+k.name+"?seconds="+s), 400, "invalid value for \"seconds\" - must be a positive integer\n")
				}
				if !k.hasDelta {
					isErr(t, x.get(root+k.name+"?seconds=1&debug=1"), 400, "\"seconds\" parameter is not supported for this profile type\n")
				}
			}
			isErr(t, x.get(root+"heap?seconds=9000000000"), 400, "profile duration exceeds limit\n")
		}},
		{"21 seconds and debug", func(t *testing.T) {
			isErr(t, x.get(root+"heap?seconds=1&debug=1"), 400, "seconds and debug params are incompatible\n")
			isErr(t, x.get(root+"heap?seconds=x&debug=1"), 400, "invalid value for \"seconds\" - must be a positive integer\n")
		}},
		{"23 deltas", func(t *testing.T) {
			var all sync.WaitGroup
			for _, k := range have {
				if !k.hasDelta {
					continue
				}
				all.Add(1)
				go func() {
					defer all.Done()
					a, err := ask(x.addr, "GET", root+k.name+"?seconds=1&gc=1", "", nil)
					if err != nil {
						t.Error(err)
						return
					}
					p, err := profile.ParseData(a.body)
					if err != nil {
						t.Error(err)
						return
					}
					k.check(t, p)
					if a.header.Get("Content-Disposition") != `attachment; filename="`+k.name+`-delta"` {
						t.Errorf("%s: %v", k.name, a.header)
					}
					if d := time.Duration(p.DurationNanos); d < 990*time.Millisecond || d > 1300*time.Millisecond {
						t.Errorf("%s: duration %v", k.name, d)
					}
					// 1.0 to 1.5 s, and two more for a machine that is busy with other things.
					if a.took < time.Second || a.took > 3500*time.Millisecond {
						t.Errorf("%s took %v", k.name, a.took)
					}
					if len(p.Mapping) == 0 {
						t.Errorf("%s: no mappings", k.name)
					}
				}()
			}
			all.Wait()
			// Nothing happened meanwhile.
			if p := isFile(t, x.get(root+"heap?seconds=1"), "heap-delta"); len(p.Sample) > 3 {
				t.Errorf("%d samples though nothing is allocated: %v", len(p.Sample), p.Sample)
			}
		}},
		{"30, 31, 32 the strict reader", func(t *testing.T) {
			p := x.heap("heap")
			if p.Mapping[0].File != victim("manysites") || p.Mapping[0].BuildID != buildID(victim("manysites")) {
				t.Errorf("mapping 1: %v", p.Mapping[0])
			}
			if p.Period != 4096 || p.DurationNanos != 0 {
				t.Errorf("period %d, duration %d", p.Period, p.DurationNanos)
			}
			for _, s := range p.Sample {
				if len(s.NumLabel["bytes"]) != 1 {
					t.Fatalf("no label bytes: %v", s)
				}
			}
		}},
		{"34 names without files", func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "heap.pb.gz")
			os.WriteFile(file, x.get(root+"heap").body, 0o600)
			hidden, err := pprof(t, []string{"PPROF_BINARY_PATH=/nonexistent"}, "-symbolize=none", "-top", "-nodecount=5000", file)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "top", hidden, "Type: inuse_space", "step_", "main", "File: manysites")
		}},
		{"38 texts as files", func(t *testing.T) {
			for _, k := range have {
				if k.name == "heap_age" || k.name == "mmap" {
					continue // ours alone: pprof takes them for goroutines
				}
				a := x.get(root + k.name + "?debug=1")
				if !bytes.Contains(a.body, []byte(" 0x")) {
					continue // idle
				}
				file := filepath.Join(t.TempDir(), k.name+".txt")
				os.WriteFile(file, a.body, 0o600)
				out := mustPprof(t, "-top", "-nodecount=5000", file)
				want(t, k.name, out, "File: manysites")
				if strings.Contains(out, "unknown>") {
					t.Errorf("%s: nameless frames:\n%.500s", k.name, out)
				}
			}
		}},
		{"39 heap text", func(t *testing.T) {
			checkHeapText(t, x)
		}},
		{"42 bases", func(t *testing.T) {
			url := "http://" + x.addr + root + "heap"
			want(t, "diff_base", mustPprof(t, "-top", "-diff_base", url, url), "manysites")
			y := start(t, []string{"PPROF_HEAP_RATE=4096"}, victim("manysites"), "100")
			y.awaitOutput("ready")
			dir := t.TempDir()
			one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
			os.WriteFile(one, x.get(root+"heap").body, 0o600)
			os.WriteFile(two, y.get(root+"heap").body, 0o600)
			want(t, "base", mustPprof(t, "-top", "-base", two, one), "manysites")
		}},
		{"43 what the tool says", func(t *testing.T) {
			out, err := pprof(t, nil, "-top", "http://"+x.addr+root+"nope")
			if err == nil || !strings.Contains(out, "server response: 404 Not Found - Unknown profile") {
				t.Errorf("%v: %s", err, out)
			}
		}},
		{"46 five at once", func(t *testing.T) {
			var all sync.WaitGroup
			for _, path := range []string{"heap", "allocs?debug=1", "heap?seconds=1", "heap_age", "profile?seconds=1"} {
				for range 5 {
					all.Add(1)
					go func() {
						defer all.Done()
						if a, err := ask(x.addr, "GET", root+path, "", nil); err != nil || a.status != 200 {
							t.Errorf("%s: %v %v", path, a, err)
						}
					}()
				}
			}
			all.Wait()
		}},
		{"47, 50 odd requests", func(t *testing.T) {
			isFile(t, x.get(root+"heap?debug=1;seconds=1&x=%zz&unknown=3", "Accept-Encoding", "gzip"), "heap")
			isFile(t, x.get(root+"he%61p"), "heap")
		}},
	} {
		t.Run(c.number, c.check)
	}
	x.finish()
}

var heapHead = regexp.MustCompile(`^heap profile: (\d+): (\d+) \[(\d+): (\d+)\] @ heap/(\d+)\n`)

// The text's numbers, after pprof's own scaling, are the file's; its head says twice the rate.
func checkHeapText(t *testing.T, x *target) {
	text := x.get(root + "heap?debug=1").body
	head := heapHead.FindSubmatch(text)
	if head == nil || string(head[5]) != "8192" {
		t.Fatalf("head: %.100q", text)
	}
	if string(head[1]) == string(head[3]) && string(head[2]) == string(head[4]) {
		t.Errorf("equal totals: %q", head[0])
	}
	read, err := profile.ParseData(text)
	if err != nil {
		t.Fatal(err)
	}
	got, want := totals(read), totals(x.heap("heap"))
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 0.01*float64(want[i]) {
			t.Errorf("%s: %d by the text, %d by the file", heapNames[i], got[i], want[i])
		}
	}
	order := regexp.MustCompile(`(?m)^# (\w+) = `).FindAllSubmatch(text, -1)
	var keys []string
	for _, m := range order {
		keys = append(keys, string(m[1]))
	}
	if got, want := strings.Join(keys, " "), "Alloc TotalAlloc Sys Lookups Mallocs Frees HeapAlloc HeapSys HeapIdle HeapInuse "+
		"HeapReleased HeapObjects Stack MSpan MCache BuckHashSys GCSys OtherSys NextGC LastGC PauseNs PauseEnd NumGC NumForcedGC "+
		"GCCPUFraction DebugGC MaxRSS"; got != want {
		t.Errorf("MemStats: %s", got)
	}
	// 20,000 blocks of 64 bytes: sampled; and, when glibc is asked, with its 16 around each.
	for query, within := range map[string][2]int{"debug=1": {20000 * 64 * 7 / 10, 20000 * 64 * 2}, "debug=1&gc=1": {20000 * 80, 20000 * 80 * 2}} {
		alloc := regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`).FindSubmatch(x.get(root + "heap?" + query).body)
		if n, _ := strconv.Atoi(string(alloc[1])); n < within[0] || n > within[1] {
			t.Errorf("%s: HeapAlloc = %d", query, n)
		}
	}
}

// Promise: whoever hangs up while a delta is being taken gives his place to the next within 200 ms.
func TestDeltaEndsWithItsClient(t *testing.T) {
	const places = 18
	x := start(t, nil, victim("idle"))
	client, base := clientFor(x.addr)
	open := func() net.Conn {
		conn, err := net.Dial("tcp", x.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "GET %sheap?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n", root)
		return conn
	}
	conns := make([]net.Conn, places)
	for i := range conns {
		conns[i] = open()
	}
	refused := func() bool {
		client.Timeout = 300 * time.Millisecond
		resp, err := client.Get(base + root + "heap?seconds=60")
		if err != nil {
			return false // it waits
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("status %d: %s", resp.StatusCode, body)
		}
		return true
	}
	waitFor(t, 5*time.Second, "all places to be taken", refused, nil)
	if a := x.get(root + "heap"); a.status != 200 {
		t.Errorf("a snapshot is refused meanwhile: %d", a.status)
	}
	conns[3].Close()
	closed := time.Now()
	waitFor(t, 2*time.Second, "a free place", func() bool { return !refused() }, nil)
	// The first attempt may come a moment before the place is free; each takes 20 ms, and one that waits 300.
	if took := time.Since(closed); took > 200*time.Millisecond+300*time.Millisecond+100*time.Millisecond {
		t.Errorf("the place was free after %v", took)
	}
}
