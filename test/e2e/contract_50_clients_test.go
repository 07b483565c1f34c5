// SPDX-License-Identifier: Apache-2.0

// The contract, 41 to 50 and 34: what programs that fetch profiles rely on.
package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

var contractClients = []assertion{
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
		var out string // a second in which the program gets a hundredth of a CPU has one sample, of whatever
		waitFor(t, time.Minute, "a profile with its function", func() bool {
			out = googlePprof(t, "--seconds=1", "--text", "http://"+x.addr+"/pprof/profile")
			return strings.Contains(out, "work::burner")
		}, func() string { return out })
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
