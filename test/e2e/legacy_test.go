// SPDX-License-Identifier: Apache-2.0

// Promise: /pprof/* is what google-pprof, gperftools' perl tool, can fetch, name and print; the totals are those of our
// own profiles, and Go's tool reads the same files.
package e2e

import (
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// googlePprof runs the perl tool in a directory of its own, to which it writes what it fetched.
func googlePprof(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(need(t, "google-pprof"), args...)
	dir := t.TempDir()
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "PPROF_TMPDIR="+dir)
	var errors buffer
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("google-pprof %s: %v\n%s%s", strings.Join(args, " "), err, out, &errors)
	}
	return string(out)
}

func TestGooglePprof(t *testing.T) {
	spin := start(t, nil, victim("spin"), "2", "0")
	heap := start(t, []string{"PPROF_HEAP_RATE=4096"}, victim("manysites"), "2000")
	heap.awaitOutput("ready")
	locks := start(t, nil, victim("lockholders"), "mutex", "50")
	locks.open()
	locks.awaitOutput("done")
	maps := start(t, nil, victim("mapper"))
	maps.open()
	maps.awaitOutput("TRUTH first")
	for _, c := range []struct {
		x     *target
		path  string
		args  []string
		names []string
	}{
		{spin, "/pprof/profile", []string{"--seconds=1"}, []string{"inner", "middle", "outer", "main"}},
		{spin, "", []string{"--seconds=1"}, []string{"inner", "main"}},
		{heap, "/pprof/heap", nil, []string{"step_", "main"}},
		{maps, "/pprof/growth", nil, []string{"main", "mmap"}},
		{locks, "/pprof/contention", nil, []string{"pthread_mutex_unlock", "hold_"}},
	} {
		for _, form := range []string{"--text", "--callgrind", "--raw"} {
			out := googlePprof(t, append(c.args, form, "http://"+c.x.addr+c.path)...)
			if form == "--text" {
				t.Logf("google-pprof --text %s\n%.800s", c.path, out)
			}
			want(t, c.path+" "+form, out, c.names...)
		}
	}
}

var heapHeadV2 = regexp.MustCompile(`^heap profile: +(\d+): +(\d+) +\[ *(\d+): +(\d+)\] @ heap_v2/4096\n`)

func TestLegacyFiles(t *testing.T) {
	x := start(t, []string{"PPROF_HEAP_RATE=4096"}, victim("manysites"), "20000")
	x.awaitOutput("ready")
	a := x.get("/pprof/heap")
	isText(t, a, "text/plain; charset=utf-8")
	if !heapHeadV2.Match(a.body) {
		t.Fatalf("%.100q", a.body)
	}
	read, err := profile.ParseData(a.body)
	if err != nil {
		t.Fatal(err)
	}
	got, truth := totals(read), totals(x.heap("heap"))
	for i := range truth {
		if math.Abs(float64(got[i]-truth[i])) > 0.01*float64(truth[i]) {
			t.Errorf("%s: %d by /pprof/heap, %d by heap", heapNames[i], got[i], truth[i])
		}
	}
	for _, path := range []string{"/pprof/growth", "/pprof/contention"} {
		isText(t, x.get(path), "text/plain; charset=utf-8")
	}
	if a := x.get("/pprof/cmdline"); string(a.body) != string(x.get(root+"cmdline").body) {
		t.Errorf("cmdline: %q", a.body)
	}
	for path, status := range map[string]int{"/pprof/": 404, "/pprof": 404, "/pprof/nope": 404, "/pprof/heap/": 404, "/pprof/symbolz": 200} {
		if a := x.get(path); a.status != status {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	isErr(t, x.get("/pprof/profile?seconds=999999999"), 400, "profile duration exceeds limit\n")

	y := start(t, nil, victim("spin"), "1", "0")
	b := y.get("/pprof/profile?seconds=1").body
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	for i, w := range []uint64{0, 3, 0, 10000, 0} {
		if word(i) != w {
			t.Fatalf("header: % x", b[:40])
		}
	}
	i, samples := 5, uint64(0)
	for word(i) != 0 {
		samples += word(i)
		i += 2 + int(word(i+1))
	}
	if word(i+1) != 1 || word(i+2) != 0 || !strings.Contains(string(b[8*(i+3):]), victim("spin")) {
		t.Errorf("trailer: % x", b[8*i:8*i+24])
	}
	p, err := profile.ParseData(b)
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Sample[0]; p.Period != 10000000 || uint64(totals(p)[0]) != samples || samples == 0 || s.Location[0].Mapping == nil {
		t.Errorf("period %d, %d samples of %s", p.Period, samples, strconv.FormatInt(totals(p)[0], 10))
	}
}
