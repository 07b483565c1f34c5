// SPDX-License-Identifier: Apache-2.0

// Promise: `go tool pprof` as installed here works on a bare http://host:port, and on a saved profile where the
// binaries are not: names come with the profile, nobody needs to ask for them.
package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/pprof/profile"
)

// pprof runs the tool; its temporary files go to a directory of the test. env is added.
func pprof(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(need(t, "go"), append([]string{"tool", "pprof"}, args...)...)
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir(), "PPROF_BINARY_PATH=/nonexistent")
	cmd.Env = append(cmd.Env, env...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func mustPprof(t *testing.T, args ...string) string {
	t.Helper()
	out, err := pprof(t, nil, args...)
	if err != nil {
		t.Fatalf("go tool pprof %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// proxy stands before an agent and writes down what is asked of it.
type proxy struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string
}

func newProxy(t *testing.T, addr string, change func(*http.Response) error) *proxy {
	t.Helper()
	px := &proxy{}
	rp := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	director := rp.Director
	rp.Director = func(r *http.Request) {
		director(r)
		r.Host = addr
		r.Header["X-Forwarded-For"] = nil
	}
	rp.ModifyResponse = change
	px.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		px.mu.Lock()
		px.requests = append(px.requests, r.Method+" "+r.URL.RequestURI())
		px.mu.Unlock()
		rp.ServeHTTP(w, r)
	}))
	t.Cleanup(px.Close)
	return px
}

func (px *proxy) seen(method string) []string {
	px.mu.Lock()
	defer px.mu.Unlock()
	var out []string
	for _, r := range px.requests {
		if strings.HasPrefix(r, method+" ") {
			out = append(out, r)
		}
	}
	return out
}

func want(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s lacks %q:\n%.3000s", what, p, text)
		}
	}
}

func TestGoToolOnABareAddress(t *testing.T) {
	x := start(t, nil, victim("spin"), "2", "0")
	px := newProxy(t, x.addr, nil)

	out := mustPprof(t, "-top", "-seconds=1", px.URL)
	want(t, "-top", out, "File: spin", "Build ID: "+buildID(victim("spin")), "Type: cpu", "inner", "Duration: 1")
	if got := px.seen("GET"); len(got) != 1 || got[0] != "GET /debug/pprof/profile?seconds=1" {
		t.Errorf("requests: %q", got)
	}
	want(t, "-traces", mustPprof(t, "-traces", "-seconds=1", px.URL), "inner\n", "middle\n", "outer\n", "main\n")
	raw := mustPprof(t, "-raw", "-seconds=1", px.URL)
	want(t, "-raw", raw, "PeriodType: cpu nanoseconds\nPeriod: 10000000\n", "samples/count cpu/nanoseconds\n", "Mappings\n1: ")
	_, mappings, _ := strings.Cut(raw, "Mappings\n1: ")
	first, _, _ := strings.Cut(mappings, "\n")
	want(t, "mapping 1", first, victim("spin"), buildID(victim("spin")), "[FN")
	if posts := px.seen("POST"); len(posts) != 0 {
		t.Errorf("names were asked for: %q", posts)
	}

	host := strings.TrimPrefix(px.URL, "http://")
	want(t, "host:port", mustPprof(t, "-top", "-seconds=1", host), "inner")
	want(t, "a trailing slash", mustPprof(t, "-top", "-seconds=1", px.URL+"/"), "inner")
	want(t, "-disasm", mustPprof(t, "-disasm=inner", "-seconds=1", px.URL), "= inner\n")
}

// Where the binaries are out of reach, the same names come out, and where they are within reach too.
func TestGoToolOnASavedFileElsewhere(t *testing.T) {
	copied := filepath.Join(t.TempDir(), "a-name-nobody-else-has")
	b, err := os.ReadFile(victim("cxxstack"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, b, 0o755); err != nil {
		t.Fatal(err)
	}
	x := start(t, nil, copied)
	x.open()
	px := newProxy(t, x.addr, nil)
	resp, err := http.Get(px.URL + "/debug/pprof/profile?seconds=1&hz=250")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	saved := filepath.Join(t.TempDir(), "saved.pb.gz")
	os.WriteFile(saved, body, 0o644)

	names := func(out string) string {
		var b strings.Builder
		_, rows, _ := strings.Cut(out, "flat%")
		for _, line := range strings.Split(rows, "\n")[1:] {
			if f := strings.Fields(line); len(f) > 5 {
				b.WriteString(strings.Join(f[5:], " ") + "\n")
			}
		}
		return b.String()
	}
	near := names(mustPprof(t, "-top", "-nodecount=100", saved))
	want(t, "-top near the binary", near, "main", "shop::Box<long>::area", "shop::sorter")
	x.kill()
	if err := os.Rename(copied, copied+".hidden"); err != nil {
		t.Fatal(err)
	}
	far := names(mustPprof(t, "-top", "-nodecount=100", saved))
	if near != far {
		t.Errorf("names near the binary:\n%s\nand far from it:\n%s", near, far)
	}
	if posts := px.seen("POST"); len(posts) != 0 {
		t.Errorf("names were asked for: %q", posts)
	}
}

// namelessProxy takes the names out of CPU profiles on their way, and says how many mappings it did that to.
func namelessProxy(t *testing.T, addr string) (*proxy, *int) {
	t.Helper()
	mappings := 0
	px := newProxy(t, addr, func(r *http.Response) error {
		if !strings.Contains(r.Request.URL.Path, "/profile") {
			return nil
		}
		p, err := profile.Parse(r.Body)
		if err != nil {
			return err
		}
		used := map[uint64]bool{}
		for _, l := range p.Location {
			// Whether the vdso is asked about differs between versions of Go: leave its names alone.
			if l.Mapping != nil && !strings.HasPrefix(l.Mapping.File, "[") {
				l.Line = nil
				used[l.Mapping.ID] = true
			}
		}
		mappings = len(used)
		for _, m := range p.Mapping {
			if strings.HasPrefix(m.File, "[") {
				continue
			}
			m.HasFunctions, m.HasFilenames, m.HasLineNumbers, m.HasInlineFrames = false, false, false, false
		}
		var out bytes.Buffer
		if err := p.Write(&out); err != nil {
			return err
		}
		r.Body = io.NopCloser(&out)
		r.ContentLength = int64(out.Len())
		r.Header.Set("Content-Length", fmt.Sprint(out.Len()))
		return nil
	})
	return px, &mappings
}

// A profile whose names were taken out on the way: the tool asks the agent's /symbol, once for each mapping.
func TestGoToolSymbolizesRemotely(t *testing.T) {
	copied := filepath.Join(t.TempDir(), "a-name-nobody-else-has")
	b, err := os.ReadFile(victim("spin"))
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(copied, b, 0o755)
	x := start(t, nil, copied, "2", "0")
	px, mappings := namelessProxy(t, x.addr)
	out := mustPprof(t, "-traces", "-symbolize=remote", "-seconds=1", px.URL)
	want(t, "-traces", out, "inner\n", "middle\n", "main\n")
	posts := px.seen("POST")
	if len(posts) != *mappings || *mappings == 0 {
		t.Errorf("%d mappings, requests %q", *mappings, posts)
	}
	for _, p := range posts {
		if p != "POST /debug/pprof/symbol" {
			t.Errorf("asked %q", p)
		}
	}
}

func TestGoToolShowsOurErrors(t *testing.T) {
	x := start(t, nil, victim("idle"))
	out, err := pprof(t, nil, "-top", "http://"+x.addr+"/debug/pprof/nope")
	if err == nil {
		t.Error("an unknown profile is no error")
	}
	want(t, "the message", out, "server response: 404 Not Found - Unknown profile")
}

// Two concurrent fetches of one process, as -diff_base makes them.
func TestGoToolDiffsTwoWindows(t *testing.T) {
	x := start(t, nil, victim("spin"), "1", "0")
	u := "http://" + x.addr + "/debug/pprof/profile"
	want(t, "-diff_base", mustPprof(t, "-top", "-seconds=1", "-diff_base="+u, u), "Type: cpu")
}
