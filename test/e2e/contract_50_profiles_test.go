// SPDX-License-Identifier: Apache-2.0

// The contract, 18 to 40: what each profile is, as a file and as text.
package e2e

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

var contractProfiles = []assertion{
	{18, "every named profile: octet-stream, its name as attachment, gzip, no Content-Encoding", "a", "", func(t *testing.T, x subject) {
		for _, name := range goKinds {
			isFile(t, x.ask(t, "GET", root+name, ""), name)
		}
	}},
	{19, "debug=1 is text without Content-Disposition; debug=abc is binary", "a", "", func(t *testing.T, x subject) {
		a := x.ask(t, "GET", root+"heap?debug=1", "")
		isText(t, a, "text/plain; charset=utf-8")
		if a.header.Get("Content-Disposition") != "" {
			t.Errorf("%v", a.header)
		}
		isFile(t, x.ask(t, "GET", root+"heap?debug=abc", ""), "heap")
	}},
	{20, "seconds that are no positive number are 400", "a", "", func(t *testing.T, x subject) {
		for _, s := range []string{"abc", "0", "-1", "1.5"} {
			isErr(t, x.ask(t, "GET", root+"heap?seconds="+s, ""), 400, "invalid value for \"seconds\" - must be a positive integer\n")
		}
	}},
	{21, "seconds and debug together are 400", "a", "", func(t *testing.T, x subject) {
		isErr(t, x.ask(t, "GET", root+"heap?seconds=1&debug=1", ""), 400, "seconds and debug params are incompatible\n")
	}},
	{22, "seconds= without a value is a plain snapshot", "a", "", func(t *testing.T, x subject) {
		isFile(t, x.ask(t, "GET", root+"heap?seconds=", ""), "heap")
	}},
	{23, "seconds=1 of every named profile: a delta of a second, named so", "a", "", func(t *testing.T, x subject) {
		var all sync.WaitGroup
		for _, name := range goKinds {
			all.Add(1)
			go func() {
				defer all.Done()
				a, err := ask(x.addr, "GET", root+name+"?seconds=1", "", nil)
				if err != nil || a.status != 200 {
					t.Errorf("%s: %v %v", name, a, err)
					return
				}
				took(t, name, a, time.Second, 1500*time.Millisecond)
				p, err := profile.ParseData(a.body)
				if err != nil || a.header.Get("Content-Disposition") != `attachment; filename="`+name+`-delta"` {
					t.Errorf("%s: %v, %v", name, err, a.header)
				} else if d := time.Duration(p.DurationNanos); d < 700*time.Millisecond || d > a.took {
					t.Errorf("%s: duration %v", name, d)
				}
			}()
		}
		all.Wait()
	}},
	{24, "profile?seconds=1: its types, period 10 ms; debug=1 changes nothing", "a", "", func(t *testing.T, x subject) {
		a := x.ask(t, "GET", root+"profile?seconds=1&debug=1", "")
		p := isFile(t, a, "profile")
		took(t, "profile", a, time.Second, 1500*time.Millisecond)
		if len(p.SampleType) != 2 || *p.SampleType[0] != (profile.ValueType{Type: "samples", Unit: "count"}) ||
			*p.SampleType[1] != (profile.ValueType{Type: "cpu", Unit: "nanoseconds"}) || p.DefaultSampleType != "" ||
			*p.PeriodType != (profile.ValueType{Type: "cpu", Unit: "nanoseconds"}) || p.Period != 10000000 {
			t.Errorf("%v, %v %d", p.SampleType, p.PeriodType, p.Period)
		}
		if d := time.Duration(p.DurationNanos); d < 900*time.Millisecond || d > a.took {
			t.Errorf("duration %v", d)
		}
	}},
	{25, "profile?seconds=abc runs for the default 30 s", "a", "", func(t *testing.T, x subject) {
		client, base := clientFor(x.addr)
		client.Timeout = 2 * time.Second
		if resp, err := client.Get(base + root + "profile?seconds=abc"); err == nil {
			resp.Body.Close()
			t.Errorf("ended early with %d", resp.StatusCode)
		}
	}},
	{26, "16 CPU profiles at once, each at its own rate; the 17th is refused at once", "g", "one CPU profile at a time: scrapers would keep people out", func(t *testing.T, x subject) {
		var all sync.WaitGroup
		for i := range 16 {
			all.Add(1)
			go func() {
				defer all.Done()
				hz := []int{100, 1000, 250, 50}[i%4]
				var p *profile.Profile
				var err error
				for range 20 { // the request below may have been earlier
					p, err = fetchProfile(x.addr, fmt.Sprintf("seconds=4&hz=%d", hz))
					if x.isGo || err == nil || !strings.Contains(err.Error(), "already in use") {
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
				if err != nil || p.Period != int64(time.Second)/int64(hz) || time.Duration(p.DurationNanos) < 3900*time.Millisecond {
					t.Errorf("hz=%d: %v", hz, err)
				}
			}()
		}
		var a *answer
		waitFor(t, 20*time.Second, "a refusal", func() bool {
			time.Sleep(700 * time.Millisecond) // until the 16 have begun, the one whose place this took included
			a = x.ask(t, "GET", root+"profile?seconds=1&hz=1", "")
			return a.status != 200
		}, nil)
		isErr(t, a, 500, "Could not enable CPU profiling: cpu profiling already in use\n")
		if b := x.ask(t, "GET", root+"heap", ""); b.status != 200 {
			t.Errorf("heap meanwhile: %d", b.status)
		}
		all.Wait()
	}},
	{27, "a client that goes away frees its place", "g", "", func(t *testing.T, x subject) {
		client, base := clientFor(x.addr)
		client.Timeout = 500 * time.Millisecond
		var all sync.WaitGroup
		for range 16 {
			all.Add(1)
			go func() {
				defer all.Done()
				if resp, err := client.Get(base + root + "profile?seconds=30"); err == nil {
					resp.Body.Close()
				}
			}()
		}
		all.Wait()
		waitFor(t, 3*time.Second, "a free place", func() bool { return x.ask(t, "GET", root+"profile?seconds=1", "").status == 200 }, nil)
	}},
	{28, "trace?seconds=0.2 is a Go trace; a second one meanwhile is refused", "g", "", func(t *testing.T, x subject) {
		done := make(chan *answer, 1)
		go func() {
			a, _ := ask(x.addr, "GET", root+"trace?seconds=2", "", nil)
			done <- a
		}()
		time.Sleep(time.Second)
		isErr(t, x.ask(t, "GET", root+"trace?seconds=1", ""), 500, "")
		if first := <-done; first == nil || first.status != 200 {
			t.Fatalf("%v", first)
		}
		a := x.ask(t, "GET", root+"trace?seconds=0.2", "")
		isText(t, a, "application/octet-stream")
		took(t, "trace", a, 200*time.Millisecond, time.Second)
		if a.header.Get("Content-Disposition") != `attachment; filename="trace"` || !bytes.HasPrefix(a.body, []byte("go 1.")) {
			t.Errorf("%v, %.16q", a.header, a.body)
		}
		file := filepath.Join(t.TempDir(), "trace")
		os.WriteFile(file, a.body, 0o600)
		cmd := exec.Command(need(t, "go"), "tool", "trace", "-pprof=sched", file)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go tool trace: %v %.300s", err, out)
		}
	}},
	{29, "pprof -raw shows each profile's types; allocs opens as alloc_space", "g", "", func(t *testing.T, x subject) {
		for _, k := range kinds {
			if !slices.Contains(goKinds, k.name) {
				continue
			}
			types := k.types
			if k.dflt != "" {
				types = strings.Replace(types, k.dflt+"/bytes", k.dflt+"/bytes[dflt]", 1)
			}
			want(t, k.name, mustPprof(t, "-raw", "http://"+x.addr+root+k.name), "PeriodType: "+strings.Replace(k.period, "/", " ", 1)+"\n", "\n"+types+"\n")
		}
	}},
	{30, "mapping 1 is the program with its build id; -top says so", "n", "", func(t *testing.T, x subject) {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", x.pid()))
		for _, path := range []string{"heap", "goroutine", "profile?seconds=1"} {
			if m := x.parsed(t, path).Mapping[0]; m.File != exe || m.BuildID != buildID(exe) {
				t.Errorf("%s: %s %s, not %s %s", path, m.File, m.BuildID, exe, buildID(exe))
			}
		}
		if x.isCxx {
			want(t, "-top", mustPprof(t, "-top", "http://"+x.addr+root+"heap"), "File: "+filepath.Base(exe)+"\n", "Build ID: "+buildID(exe)+"\n")
		}
	}},
	{31, "mappings with locations say that they have functions; every location has a line, every function a name", "a", "threads of unknown origin have a frame without a name", func(t *testing.T, x subject) {
		for _, path := range append([]string{"profile?seconds=1"}, goKinds...) {
			p := x.parsed(t, path)
			for _, l := range p.Location {
				if len(l.Line) == 0 || l.Line[0].Function.Name == "" || l.Mapping != nil && !l.Mapping.HasFunctions {
					t.Errorf("%s: %v", path, l)
				}
			}
		}
	}},
	{32, "addresses not 0, unique, inside their mappings; ids 1..n in order; strings begin with \"\"", "n", "", func(t *testing.T, x subject) {
		for _, path := range append([]string{"profile?seconds=1"}, goKinds...) {
			x.parsed(t, path) // the strict reader's rules
		}
	}},
	{33, "a caller's address is its return address - 1", "c", "", func(t *testing.T, x subject) {
		mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", x.pid()))
		if err != nil {
			t.Skip(err)
		}
		defer mem.Close()
		callers := 0
		for _, s := range x.parsed(t, "profile?seconds=1&hz=500").Sample {
			for i, l := range s.Location {
				if i > 0 && l.Line[len(l.Line)-1].Function.Name == "work::burn_on" {
					var code [5]byte // call rel32; its last byte is at return address - 1
					if mem.ReadAt(code[:], int64(l.Address)-4); code[0] != 0xe8 {
						t.Errorf("% x before and at %#x is no call", code, l.Address)
					}
					callers++
				}
			}
		}
		if callers == 0 {
			t.Error("no caller to look at")
		}
	}},
	{35, "without names, pprof -symbolize=remote asks once for each mapping and finds them", "g", "as 11", func(t *testing.T, x subject) {
		px, mappings := namelessProxy(t, x.addr)
		name := "work::burn_on"
		if x.isGo {
			name = "main.main.func1"
		}
		want(t, "-traces", mustPprof(t, "-traces", "-symbolize=remote", "-seconds=1", px.URL), name)
		if posts := px.seen("POST"); len(posts) != *mappings || len(posts) == 0 || posts[0] != "POST /debug/pprof/symbol" {
			t.Errorf("%d mappings, requests %q", *mappings, posts)
		}
	}},
	{36, "-list shows the source, -disasm the function; mappings are the kernel's r-x segments", "c", "", func(t *testing.T, x subject) {
		url := "http://" + x.addr + root + "profile"
		want(t, "-disasm", mustPprof(t, "-disasm=Burner.*spin", "-seconds=1", url), "spin", "ROUTINE")
		maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", x.pid()))
		for _, m := range x.parsed(t, "goroutine").Mapping {
			if !bytes.Contains(maps, []byte(fmt.Sprintf("%x-%x r-xp %08x ", m.Start, m.Limit, m.Offset))) {
				t.Errorf("the kernel has no %v", m)
			}
		}
		source := sourcesOfVictims()
		want(t, "-list", mustPprof(t, "-list=Burner.*spin", "-source_path="+source, "-seconds=1", url), "contract.cc", "step();")
	}},
	{37, "an inlined function stands above its physical caller", "c", "", func(t *testing.T, x subject) {
		p := x.parsed(t, "profile?seconds=1&hz=500")
		for _, l := range p.Location {
			if n := len(l.Line); n > 1 && strings.HasSuffix(l.Line[n-2].Function.Name, "::step") && strings.HasSuffix(l.Line[n-1].Function.Name, "::spin") {
				return
			}
		}
		t.Error("no step inlined into spin")
	}},
	{38, "the texts open as files, with names", "n", "Go's texts have no memory map, so that files have no names", func(t *testing.T, x subject) {
		for _, name := range []string{"heap", "goroutine", "block", "mutex", "threadcreate"} {
			a := x.ask(t, "GET", root+name+"?debug=1", "")
			if !bytes.Contains(a.body, []byte(" 0x")) {
				continue // idle
			}
			p, err := profile.ParseData(a.body)
			if err != nil || len(p.Mapping) == 0 || !x.isCxx {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			file := filepath.Join(t.TempDir(), name)
			os.WriteFile(file, a.body, 0o600)
			out := mustPprof(t, "-top", "-nodecount=1000", file)
			want(t, name, out, "File: contract-")
			if strings.Contains(out, "unknown>") {
				t.Errorf("%s: nameless frames:\n%.500s", name, out)
			}
		}
	}},
	{39, "heap's text says twice the rate, and its totals are the file's", "a", "", func(t *testing.T, x subject) {
		var off string
		waitFor(t, 20*time.Second, "a text and a file that agree", func() bool { // the program allocates meanwhile
			file := x.parsed(t, "heap")
			text := x.ask(t, "GET", root+"heap?debug=1", "").body
			head := heapHead.FindSubmatch(text)
			if head == nil || string(head[5]) != fmt.Sprint(2*file.Period) {
				t.Fatalf("%.80q, period %d", text, file.Period)
			}
			read, err := profile.ParseData(text)
			if err != nil {
				t.Fatal(err)
			}
			got, truth := totals(read), totals(file)
			for i := range truth {
				if math.Abs(float64(got[i]-truth[i])) > 0.01*float64(truth[i])+1 {
					// What others hold may change entirely between two requests.
					if i >= 2 && !x.isCxx && !x.isGo {
						continue
					}
					off = fmt.Sprint(got, truth)
					return false
				}
			}
			return true
		}, func() string { return off })
	}},
	{40, "goroutine debug=1 adds up to its total; debug=2 has a block for each thread", "a", "", func(t *testing.T, x subject) {
		waitFor(t, 20*time.Second, "numbers that agree", func() bool {
			text := x.ask(t, "GET", root+"goroutine?debug=1", "").body
			total, sum := regexp.MustCompile(`^goroutine profile: total (\d+)\n`).FindSubmatch(text), 0
			for _, m := range regexp.MustCompile(`(?m)^(\d+) @ 0x`).FindAllSubmatch(text, -1) {
				n, _ := strconv.Atoi(string(m[1]))
				sum += n
			}
			each := regexp.MustCompile(`(?m)^goroutine \d+ \[[^\]]+\]:$`).FindAll(x.ask(t, "GET", root+"goroutine?debug=2", "").body, -1)
			if x.isGo {
				// Connections are goroutines, too: they differ from one request to the next.
				return total != nil && string(total[1]) == strconv.Itoa(sum) && len(each) > 0
			}
			return total != nil && string(total[1]) == strconv.Itoa(sum) && len(each) == sum
		}, nil)
		if x.isCxx {
			text := string(x.ask(t, "GET", root+"goroutine?debug=1", "").body)
			if !regexp.MustCompile(`(?m)^\d+ @( 0x[0-9a-f]+)+\n# labels: \{[^\n]*\}\n#\t0x`).MatchString(text) {
				t.Errorf("labels do not precede the frames: %.300s", text)
			}
		}
	}},
}

func sourcesOfVictims() string {
	path, _ := filepath.Abs("../victims")
	return path
}
