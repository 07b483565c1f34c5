// SPDX-License-Identifier: Apache-2.0

// Promise: the HTTP contract, assertion by assertion, for a C++ program, and as far as they apply for Rust, Python and
// redis; and Go's own net/http/pprof is asked the same, so that each difference is one that we know and can explain. The
// list is printed: number, text, and how each target did.
package e2e

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
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

// subject is a target that is asked.
type subject struct {
	*target
	isGo, isCxx bool
}

type assertion struct {
	number int
	text   string
	on     string // who is asked: a all and Go, n native programs, c the C++ program alone, g that and Go
	goDoes string // what Go does instead, and is meant to
	check  func(t *testing.T, x subject)
}

// goServer is a program with net/http/pprof.
const goServer = `package main

import (
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
	"sync"
	"time"
)

var mu sync.Mutex
var kept [][]byte

func contend() {
	for {
		mu.Lock()
		time.Sleep(200 * time.Microsecond)
		mu.Unlock()
	}
}

func main() {
	runtime.SetBlockProfileRate(1)
	runtime.SetMutexProfileFraction(1)
	for i := 0; i < 500; i++ {
		kept = append(kept, make([]byte, 10000+i))
	}
	go contend()
	go contend()
	go func() {
		for {
		}
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	os.WriteFile(os.Getenv("PPROF_ADDR_FILE")+".new", []byte(l.Addr().String()), 0o600)
	os.Rename(os.Getenv("PPROF_ADDR_FILE")+".new", os.Getenv("PPROF_ADDR_FILE"))
	http.Serve(l, nil)
}
`

func startGo(t *testing.T) subject {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "main.go"), []byte(goServer), 0o600)
	os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module gopprof\n\ngo 1.22\n"), 0o600)
	build := exec.Command(need(t, "go"), "build", "-o", "gopprof", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return subject{target: start(t, []string{"LD_PRELOAD=", "GODEBUG="}, filepath.Join(dir, "gopprof")), isGo: true}
}

// startCxx starts a copy whose name nobody else has, so that it can be taken away.
func startCxx(t *testing.T) subject {
	path := filepath.Join(t.TempDir(), "contract-"+strconv.Itoa(os.Getpid()))
	b, err := os.ReadFile(victim("contract"))
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(path, b, 0o755)
	x := start(t, []string{"PPROF_HEAP_RATE=16384", "PPROF_BLOCK_RATE=1000"}, path)
	x.awaitOutput("ready")
	return subject{target: x, isCxx: true}
}

func startRedis(t *testing.T) subject {
	sock := filepath.Join(t.TempDir(), "redis")
	x := start(t, []string{"PPROF_HEAP_RATE=16384"}, need(t, "redis-server"), "--port", "0", "--unixsocket", sock, "--save", "", "--dir", t.TempDir())
	x.awaitOutput("eady to accept")
	load := exec.Command(need(t, "redis-benchmark"), "-s", sock, "-q", "-l", "-c", "5", "-t", "set,lpush", "-d", "500")
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { load.Process.Kill(); load.Wait() })
	return subject{target: x}
}

func (x subject) ask(t *testing.T, method, path string, body string, header ...string) *answer {
	t.Helper()
	a, err := ask(x.addr, method, path, "", []byte(body), header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// parsed is a profile that passes; of Go's only what everybody's must.
func (x subject) parsed(t *testing.T, path string) *profile.Profile {
	t.Helper()
	a := x.ask(t, "GET", root+path, "")
	if a.status != 200 {
		t.Fatalf("%s: %d %.100s", path, a.status, a.body)
	}
	if x.isGo {
		p, err := profile.ParseData(a.body)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p, err := parseStrictly(a.body)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return p
}

// functions are two addresses in functions with names, and the names.
func (x subject) functions(t *testing.T) (words [2]uint64, names [2]string) {
	t.Helper()
	n := 0
	for _, l := range x.parsed(t, "goroutine").Location {
		if f := l.Line[len(l.Line)-1].Function; n < 2 && l.Mapping != nil && !strings.HasPrefix(l.Mapping.File, "[") &&
			!strings.ContainsAny(f.Name, "[+") && len(l.Line) == 1 && (n == 0 || f.SystemName != names[0]) {
			words[n], names[n] = l.Address, f.SystemName
			n++
		}
	}
	if n < 2 {
		t.Fatal("no two functions")
	}
	return words, names
}

var goKinds = []string{"allocs", "block", "goroutine", "heap", "mutex", "threadcreate"}

func took(t *testing.T, what string, a *answer, least, most time.Duration) {
	t.Helper()
	// Two seconds more than the contract's for a machine that is busy with other things.
	if a.took < least || a.took > most+2*time.Second {
		t.Errorf("%s took %v", what, a.took)
	}
}

var assertions = []assertion{
	{1, "GET /debug/pprof redirects to /debug/pprof/, the query preserved", "a", "", func(t *testing.T, x subject) {
		a := x.ask(t, "GET", "/debug/pprof?x=1&y=2", "")
		if (a.status != 301 && a.status != 307 && a.status != 308) || a.header.Get("Location") != root+"?x=1&y=2" {
			t.Errorf("%d to %q", a.status, a.header.Get("Location"))
		}
	}},
	{2, "the index is HTML with its title", "a", "", func(t *testing.T, x subject) {
		a := x.ask(t, "GET", root, "")
		isText(t, a, "text/html; charset=utf-8")
		want(t, "index", string(a.body), "<title>"+root+"</title>")
	}},
	{3, "the index has a row for each profile, sorted, in the shape that tools scrape", "a", "", func(t *testing.T, x subject) {
		var names []string
		for _, m := range indexRow.FindAllStringSubmatch(string(x.ask(t, "GET", root, "").body), -1) {
			names = append(names, m[3])
			if m[2] != m[3]+"?debug=1" {
				t.Errorf("%s links to %s", m[3], m[2])
			}
		}
		if !slices.IsSorted(names) {
			t.Errorf("not sorted: %q", names)
		}
		for _, name := range append([]string{"cmdline", "profile", "trace"}, goKinds...) {
			if !slices.Contains(names, name) {
				t.Errorf("no %s in %q", name, names)
			}
		}
	}},
	{4, "the index links the full goroutine stack dump", "a", "", func(t *testing.T, x subject) {
		want(t, "index", string(x.ask(t, "GET", root, "").body), `<a href="goroutine?debug=2">full goroutine stack dump</a>`)
	}},
	{5, "counts: allocs = heap >= 1; goroutine = threads less the agent's = the text's total", "n", "", func(t *testing.T, x subject) {
		var counts map[string]int
		waitFor(t, 20*time.Second, "counts that agree", func() bool { // threads come and go
			_, counts = indexed(x.target)
			total := regexp.MustCompile(`^goroutine profile: total (\d+)\n`).FindSubmatch(x.get(root + "goroutine?debug=1").body)
			names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", x.pid()))
			threads := 0
			for _, name := range names {
				if b, err := os.ReadFile(name); err == nil && !bytes.HasPrefix(b, []byte("pprof-")) {
					threads++
				}
			}
			return total != nil && string(total[1]) == strconv.Itoa(threads) && counts["goroutine"] == threads
		}, func() string { return fmt.Sprint(counts) })
		if counts["heap"] != counts["allocs"] || counts["heap"] < 1 {
			t.Errorf("heap %d, allocs %d", counts["heap"], counts["allocs"])
		}
	}},
	{6, "unknown names are 404 Unknown profile, whatever the parameters", "a", "", func(t *testing.T, x subject) {
		for _, name := range []string{"nope", "heap/", "Heap", "nope?seconds=1", "nope?seconds=abc", "cmdline/"} {
			isErr(t, x.ask(t, "GET", root+name, ""), 404, "Unknown profile\n")
		}
	}},
	{7, "nosniff on every 200 and every error", "a", "", func(t *testing.T, x subject) {
		for _, path := range []string{"", "heap", "heap?debug=1", "cmdline", "symbol", "nope", "heap?seconds=x", "profile?seconds=1"} {
			if a := x.ask(t, "GET", root+path, ""); a.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %v", path, a.header)
			}
		}
	}},
	{8, "no X-Go-Pprof on a 200", "a", "", func(t *testing.T, x subject) {
		for _, path := range []string{"", "heap", "heap?debug=1", "cmdline", "symbol", "goroutine?debug=2"} {
			if a := x.ask(t, "GET", root+path, ""); a.status != 200 || a.header.Get("X-Go-Pprof") != "" {
				t.Errorf("%s: %d %v", path, a.status, a.header)
			}
		}
	}},
	{9, "cmdline is the kernel's, less the final NUL", "a", "", func(t *testing.T, x subject) {
		a := x.ask(t, "GET", root+"cmdline?debug=1", "")
		isText(t, a, "text/plain; charset=utf-8")
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", x.pid()))
		if !bytes.Equal(a.body, bytes.TrimSuffix(b, []byte{0})) {
			t.Errorf("%q, the kernel says %q", a.body, b)
		}
	}},
	{10, "symbol's first line is num_symbols: N, N >= 1", "a", "", func(t *testing.T, x subject) {
		a := x.ask(t, "GET", root+"symbol", "")
		isText(t, a, "text/plain; charset=utf-8")
		if !regexp.MustCompile(`^num_symbols: [1-9]\d*\n$`).Match(a.body) {
			t.Errorf("%q", a.body)
		}
	}},
	{11, "symbol by GET and by POST: the same, both functions named", "a", "POST is 405 since Go 1.22, which makes pprof give up", func(t *testing.T, x subject) {
		words, names := x.functions(t)
		both := fmt.Sprintf("%#x+%#x", words[0], words[1])
		get, post := x.ask(t, "GET", root+"symbol?"+both, ""), x.ask(t, "POST", root+"symbol", both)
		isText(t, get, "text/plain; charset=utf-8")
		isText(t, post, "text/plain; charset=utf-8")
		if !bytes.Equal(get.body, post.body) {
			t.Errorf("GET %q, POST %q", get.body, post.body)
		}
		want(t, "symbols", string(get.body), fmt.Sprintf("\n%#x %s\n", words[0], names[0]), fmt.Sprintf("\n%#x %s\n", words[1], names[1]))
	}},
	{12, "symbol by POST does not care for the content type", "a", "as 11", func(t *testing.T, x subject) {
		words, names := x.functions(t)
		both := fmt.Sprintf("%#x+%#x", words[0], words[1])
		for _, contentType := range []string{"application/x-www-form-urlencoded", "application/octet-stream"} {
			a, err := ask(x.addr, "POST", root+"symbol", contentType, []byte(both))
			if err != nil || a.status != 200 || !strings.Contains(string(a.body), names[0]) || !strings.Contains(string(a.body), names[1]) {
				t.Errorf("%s: %v %v", contentType, a, err)
			}
		}
	}},
	{13, "words that name nothing give no line and 200", "a", "", func(t *testing.T, x subject) {
		for _, words := range []string{"0", "0x0", "garbage", "0x", "debug=1", "-5", "+++", "0x1", "0xffffffffffffffffffff"} {
			a := x.ask(t, "GET", root+"symbol?"+words, "")
			if a.status != 200 || string(a.body) != "num_symbols: 1\n" {
				t.Errorf("%q: %d %q", words, a.status, a.body)
			}
		}
	}},
	{14, "symbol ends with a newline; a zero-padded address comes back equal", "a", "", func(t *testing.T, x subject) {
		words, names := x.functions(t)
		a := x.ask(t, "GET", fmt.Sprintf("%ssymbol?0x%016x", root, words[0]), "")
		if string(a.body) != fmt.Sprintf("num_symbols: 1\n%#x %s\n", words[0], names[0]) {
			t.Errorf("%q", a.body)
		}
	}},
	{15, "20,000 addresses in one POST, with Expect: 100-continue", "a", "as 11", func(t *testing.T, x subject) {
		words, _ := x.functions(t)
		body := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%#x+", words[0]), 20000), "+")
		a := x.ask(t, "POST", root+"symbol", body, "Expect", "100-continue")
		if n := bytes.Count(a.body, []byte("\n")); a.status != 200 || n != 20001 {
			t.Errorf("%d, %d lines", a.status, n)
		}
	}},
	{16, "HEAD: the headers of GET and no body", "a", "", func(t *testing.T, x subject) {
		for _, path := range []string{"symbol", "heap", "heap?debug=1", "cmdline", ""} {
			head, get := x.ask(t, "HEAD", root+path, ""), x.ask(t, "GET", root+path, "")
			if head.status != 200 || len(head.body) != 0 {
				t.Errorf("%s: %d, %d bytes", path, head.status, len(head.body))
			}
			for _, h := range []string{"Content-Type", "Content-Disposition", "X-Content-Type-Options", "X-Go-Pprof"} {
				if head.header.Get(h) != get.header.Get(h) {
					t.Errorf("%s: %s is %q, by GET %q", path, h, head.header.Get(h), get.header.Get(h))
				}
			}
		}
	}},
	{17, "POST elsewhere is 405 with Allow", "a", "", func(t *testing.T, x subject) {
		a := x.ask(t, "POST", root+"heap", "")
		if a.status != 200 && (a.status != 405 || a.header.Get("Allow") != "GET, HEAD") {
			t.Errorf("%d, Allow %q", a.status, a.header.Get("Allow"))
		}
	}},
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
	{41, "pprof with a bare address takes a CPU profile; -seconds is passed on", "g", "", func(t *testing.T, x subject) {
		px := newProxy(t, x.addr, nil)
		want(t, "-top", mustPprof(t, "-top", "-seconds=1", px.URL), "Type: cpu")
		if got := px.seen("GET"); len(got) != 1 || got[0] != "GET /debug/pprof/profile?seconds=1" {
			t.Errorf("requests: %q", got)
		}
	}},
	{42, "-diff_base of one process, -base of two with different addresses", "g", "", func(t *testing.T, x subject) {
		url := "http://" + x.addr + root + "heap"
		want(t, "-diff_base", mustPprof(t, "-top", "-diff_base", url, url), "Type: inuse_space")
		var y subject
		if x.isGo {
			y = startGo(t)
		} else {
			y = startCxx(t)
		}
		dir := t.TempDir()
		one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
		os.WriteFile(one, x.ask(t, "GET", root+"heap", "").body, 0o600)
		os.WriteFile(two, y.ask(t, "GET", root+"heap", "").body, 0o600)
		want(t, "-base", mustPprof(t, "-top", "-base", two, one), "Type: inuse_space")
	}},
	{43, "pprof shows the words of a 404", "g", "", func(t *testing.T, x subject) {
		out, err := pprof(t, nil, "-top", "http://"+x.addr+root+"nope")
		if err == nil || !strings.Contains(out, "server response: 404 Not Found - Unknown profile") {
			t.Errorf("%v: %s", err, out)
		}
	}},
	{44, "what Alloy and Parca check", "n", "", func(t *testing.T, x subject) {
		for _, path := range []string{"allocs", "block", "mutex", "goroutine", "profile?seconds=2"} {
			a := x.ask(t, "GET", root+path, "", "User-Agent", "Alloy/1.0", "Accept-Encoding", "gzip")
			if !strings.HasPrefix(a.header.Get("Content-Type"), "application/octet-stream") || len(a.body) < 3 {
				t.Errorf("%s: %v", path, a.header)
			}
			if _, err := parseStrictly(a.body); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}},
	{45, "allocs, block, mutex never fall, stack by stack; time goes on", "a", "", func(t *testing.T, x subject) {
		for _, name := range []string{"allocs", "block", "mutex"} {
			cumulative := func() (map[string][2]int64, int64) {
				values := map[string][2]int64{}
				p := x.parsed(t, name)
				for _, s := range p.Sample {
					key := fmt.Sprint(s.Label, s.NumLabel)
					for _, l := range s.Location {
						key += fmt.Sprintf(" %x", l.Address)
					}
					v := values[key]
					values[key] = [2]int64{v[0] + s.Value[0], v[1] + s.Value[1]}
				}
				return values, p.TimeNanos
			}
			before, began := cumulative()
			after, ended := cumulative()
			if began == 0 || ended <= began {
				t.Errorf("%s: time %d, then %d", name, began, ended)
			}
			for key, v := range before {
				if w := after[key]; w[0] < v[0] || w[1] < v[1] {
					t.Errorf("%s: %v, then %v:%s", name, v, w, key)
				}
			}
		}
	}},
	{46, "five clients and a CPU profile at once: all 200, the program's output as it was", "a", "", func(t *testing.T, x subject) {
		out := x.out.String()
		var all sync.WaitGroup
		for _, path := range []string{"heap", "goroutine", "heap?seconds=1", "profile?seconds=1"} {
			for range 5 {
				all.Add(1)
				go func() {
					defer all.Done()
					if a, err := ask(x.addr, "GET", root+path, "", nil); err != nil || a.status != 200 {
						t.Errorf("%s: %v %v", path, a, err)
					}
				}()
				if strings.HasPrefix(path, "profile") {
					break
				}
			}
		}
		all.Wait()
		if x.out.String() != out {
			t.Errorf("output: %q", x.out)
		}
	}},
	{47, "HTTP/1.0, keep-alive and Accept-Encoding: gzip give whole profiles", "a", "", func(t *testing.T, x subject) {
		reply := talk(t, x.addr, "GET "+root+"heap HTTP/1.0\r\nHost: localhost\r\n\r\n")
		head, body, _ := strings.Cut(reply, "\r\n\r\n")
		if _, err := profile.ParseData([]byte(body)); err != nil || strings.Contains(head, "chunked") {
			t.Errorf("HTTP/1.0: %v %s", err, head)
		}
		isFile(t, x.ask(t, "GET", root+"heap", "", "Accept-Encoding", "gzip"), "heap")
		client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
		defer client.CloseIdleConnections()
		for range 3 {
			resp, err := client.Get("http://" + x.addr + root + "heap")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := profile.Parse(resp.Body); err != nil {
				t.Error(err)
			}
			resp.Body.Close()
		}
	}},
	{48, "google-pprof --text of profile, heap, growth and contention", "c", "", func(t *testing.T, x subject) {
		want(t, "profile", googlePprof(t, "--seconds=1", "--text", "http://"+x.addr+"/pprof/profile"), "work::burner")
		want(t, "heap", googlePprof(t, "--text", "http://"+x.addr+"/pprof/heap"), "work::keep")
		want(t, "contention", googlePprof(t, "--text", "http://"+x.addr+"/pprof/contention"), "work::contend")
		googlePprof(t, "--text", "http://"+x.addr+"/pprof/growth")
	}},
	{50, "junk in the query is passed over", "a", "", func(t *testing.T, x subject) {
		for _, query := range []string{"debug=1;seconds=1", "x=%zz", "unknown=3&&=&%", "seconds=&x=;"} {
			isFile(t, x.ask(t, "GET", root+"heap?"+query, ""), "heap")
		}
	}},
	// Last: the program's file goes away.
	{34, "-top shows the same names with the binary at hand and without, and asks for none", "c", "", func(t *testing.T, x subject) {
		px := newProxy(t, x.addr, nil)
		resp, err := http.Get(px.URL + root + "profile?seconds=1&hz=500")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var saved bytes.Buffer
		saved.ReadFrom(resp.Body)
		file := filepath.Join(t.TempDir(), "saved.pb.gz")
		os.WriteFile(file, saved.Bytes(), 0o600)
		near := mustPprof(t, "-top", "-nodecount=100", file)
		exe := x.cmd.Path
		if err := os.Rename(exe, exe+".hidden"); err != nil {
			t.Fatal(err)
		}
		if far := mustPprof(t, "-top", "-nodecount=100", file); far != near || !strings.Contains(far, "work::burn") {
			t.Errorf("near:\n%s\nfar:\n%s", near, far)
		}
		if posts := px.seen("POST"); len(posts) != 0 {
			t.Errorf("asked for names: %q", posts)
		}
	}},
}

func sourcesOfVictims() string {
	path, _ := filepath.Abs("../victims")
	return path
}

const contractGo = "PPROF_CONTRACT_GO"

// applies: to whom, as letters say; isGo alone is asked what Go may know.
func (a assertion) applies(x subject) bool {
	return a.on == "a" || a.on == "n" && !x.isGo || a.on == "c" && x.isCxx || a.on == "g" && (x.isCxx || x.isGo)
}

func runAssertions(t *testing.T, x subject, passed map[int]string) {
	for _, a := range assertions {
		if a.applies(x) {
			verdict := "FAIL"
			if t.Run(fmt.Sprintf("%02d", a.number), func(t *testing.T) {
				defer func() {
					if t.Skipped() {
						verdict = "skip"
					}
				}()
				a.check(t, x)
			}) && verdict == "FAIL" {
				verdict = "ok"
			}
			passed[a.number] = verdict
		}
	}
}

// askGo lets a process of its own ask Go's server, so that what it may do otherwise is no failure here.
func askGo(t *testing.T) map[int]string {
	cmd := exec.Command(os.Args[0], "-test.run=^TestContract50$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), contractGo+"=1")
	out, _ := cmd.CombinedOutput()
	passed := map[int]string{}
	for _, m := range regexp.MustCompile(`(?m)^ *--- (PASS|FAIL): TestContract50/(\d+)`).FindAllSubmatch(out, -1) {
		n, _ := strconv.Atoi(string(m[2]))
		passed[n] = map[string]string{"PASS": "ok", "FAIL": "FAIL"}[string(m[1])]
	}
	if len(passed) == 0 {
		t.Fatalf("Go's server was not asked:\n%.2000s", out)
	}
	for _, a := range assertions {
		if passed[a.number] == "FAIL" && a.goDoes == "" {
			t.Errorf("Go's own server does not keep %d: %s\n%s", a.number, a.text,
				regexp.MustCompile(fmt.Sprintf(`(?s)=== RUN   TestContract50/%02d\n.*?(=== RUN|$)`, a.number)).Find(out))
		}
	}
	return passed
}

func TestContract50(t *testing.T) {
	if os.Getenv(contractGo) != "" {
		runAssertions(t, startGo(t), map[int]string{})
		return
	}
	names := []string{"c++", "rust", "python", "redis"}
	passed := map[string]map[int]string{}
	var lock sync.Mutex
	t.Run("targets", func(t *testing.T) {
		for _, name := range append(names, "go") {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				mine := map[int]string{}
				lock.Lock()
				passed[name] = mine
				lock.Unlock()
				switch name {
				case "c++":
					runAssertions(t, startCxx(t), mine)
				case "rust":
					x := subject{target: start(t, []string{"PPROF_HEAP_RATE=16384"}, victim("ruststack"))}
					x.open()
					runAssertions(t, x, mine)
				case "python":
					runAssertions(t, subject{target: start(t, []string{"PPROF_HEAP_RATE=16384"}, need(t, "/usr/bin/python3"), "-c",
						"while True: [str(i) * 30 for i in range(3000)]")}, mine)
				case "redis":
					runAssertions(t, startRedis(t), mine)
				case "go":
					got := askGo(t)
					lock.Lock()
					passed[name] = got
					lock.Unlock()
				}
			})
		}
	})
	byNumber := slices.Clone(assertions)
	slices.SortFunc(byNumber, func(a, b assertion) int { return a.number - b.number })
	for _, a := range byNumber {
		line, verdict := "", "ok"
		for _, name := range append(names, "go") {
			switch got := passed[name][a.number]; {
			case got == "":
			case got == "ok":
				line += " " + name
			case name == "go":
				line += "; Go: " + a.goDoes
			default:
				verdict = got
				line += " " + name + ":" + got
			}
		}
		fmt.Printf("contract %02d %s %s (%s)\n", a.number, verdict, a.text, strings.TrimSpace(line))
	}
	fmt.Println("contract 49 -- TLS: not inside the program; a sidecar or the port-forward brings it")
}
