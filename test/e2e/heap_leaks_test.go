// SPDX-License-Identifier: Apache-2.0

// Promise: a leak in a real program is the first thing one sees: at the top of -inuse_space, of heap_age among what is old,
// and of the difference between two snapshots.
//
// In an interpreter "who allocates" is C: the leak is a path of C functions, and being at the top means that the function
// with the largest flat value got most of it by way of that path, and that no other path holds as much. (In redis that
// function is its own malloc, zmalloc_usable, which serves everybody.)
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// largestBy is what of p has the largest value: key groups samples.
func largestBy(p *profile.Profile, value int, key func(*profile.Sample) string) (string, int64) {
	sums := map[string]int64{}
	best := ""
	for _, s := range p.Sample {
		k := key(s)
		if sums[k] += s.Value[value]; best == "" || sums[k] > sums[best] {
			best = k
		}
	}
	// A later addition may have raised another: look again.
	for k, v := range sums {
		if v > sums[best] {
			best = k
		}
	}
	return best, sums[best]
}

func leafOf(s *profile.Sample) string {
	if names := stack(s); len(names) > 0 {
		return names[0]
	}
	return ""
}

// leakIsTop: with value i, the largest whole stack goes through path, and the function that is largest by itself has more
// than half of its value by way of it; bytes is what leaked.
func leakIsTop(t *testing.T, what string, p *profile.Profile, i int, path string, bytes int64) {
	t.Helper()
	whole, most := largestBy(p, i, func(s *profile.Sample) string { return strings.Join(stack(s), " < ") })
	if !strings.Contains(whole, path) {
		t.Errorf("%s: at the top are %d bytes of %s", what, most, whole)
	}
	leaf, flat := largestBy(p, i, leafOf)
	var byLeak, all int64
	for _, s := range p.Sample {
		if contains(s, named(path)) {
			all += s.Value[i]
			if leafOf(s) == leaf {
				byLeak += s.Value[i]
			}
		}
	}
	t.Logf("%s: flat top %s %d KiB, of it %d KiB by way of %s, which has %d of %d KiB", what, leaf, flat>>10, byLeak>>10, path, all>>10, bytes>>10)
	if byLeak <= flat/2 {
		t.Errorf("%s: the flat top is %s with %d bytes, of which %d by way of %s", what, leaf, flat, byLeak, path)
	}
	// Sampled at 64 KiB and more than 60 MB: 4.5 sigma are 15 %.
	if all < bytes*85/100 || all > bytes*115/100 {
		t.Errorf("%s: %d bytes by way of %s, %d leaked", what, all, path, bytes)
	}
}

// toolTop is the first function that go tool pprof -top prints.
func toolTop(t *testing.T, args ...string) string {
	t.Helper()
	out := mustPprof(t, append([]string{"-symbolize=none", "-top", "-nodecount=5"}, args...)...)
	lines := strings.Split(out, "\n")
	for i, line := range lines {
		if strings.Contains(line, "flat%") && i+1 < len(lines) {
			f := strings.Fields(lines[i+1])
			if len(f) >= 6 {
				return strings.Join(f[5:], " ")
			}
		}
	}
	t.Fatalf("pprof %v printed %s", args, out)
	return ""
}

// save writes a profile's bytes where go tool pprof can read them.
func (x *target) save(path, name string) string {
	x.t.Helper()
	a := x.get("/debug/pprof/" + path)
	if a.status != 200 {
		x.t.Fatalf("%s: status %d %s", path, a.status, a.body)
	}
	file := filepath.Join(x.t.TempDir(), name)
	if err := os.WriteFile(file, a.body, 0o644); err != nil {
		x.t.Fatal(err)
	}
	return file
}

func readProfile(t *testing.T, file string) *profile.Profile {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parseStrictly(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// seenEverywhere: before and after are snapshots around the leak of so many bytes by way of path.
func seenEverywhere(t *testing.T, x *target, before, after, path string, bytes int64) {
	t.Helper()
	p := readProfile(t, after)
	leakIsTop(t, "inuse_space", p, inuseSpace, path, bytes)
	leaf, _ := largestBy(p, inuseSpace, leafOf)
	if top := toolTop(t, "-inuse_space", after); top != leaf {
		t.Errorf("-inuse_space: pprof has %s at the top, not %s", top, leaf)
	}
	if top := toolTop(t, "-inuse_space", "-diff_base="+before, after); top != leaf {
		t.Errorf("-diff_base: pprof has %s at the top, not %s", top, leaf)
	}
	base := readProfile(t, before)
	base.Scale(-1)
	diff, err := profile.Merge([]*profile.Profile{p, base})
	if err != nil {
		t.Fatal(err)
	}
	leakIsTop(t, "difference", diff, inuseSpace, path, bytes)

	a := x.get("/debug/pprof/heap_age")
	if a.status != 200 {
		t.Fatalf("heap_age: status %d", a.status)
	}
	age, err := parseStrictly(a.body)
	if err != nil {
		t.Fatal(err)
	}
	if len(age.SampleType) != 2 || age.SampleType[0].Type != "inuse_objects" || age.SampleType[1].Type != "inuse_space" {
		t.Fatalf("heap_age: types %v", age.SampleType)
	}
	leakIsTop(t, "heap_age", age, 1, path, bytes)
	ages := map[int64]int64{}
	old := &profile.Profile{}
	for _, s := range age.Sample {
		v := s.NumLabel["age_seconds"]
		if len(v) > 1 {
			t.Fatalf("heap_age: labels %v", s.NumLabel)
		}
		var seconds int64
		if len(v) == 1 {
			seconds = v[0]
		}
		ages[seconds] += s.Value[1]
		if seconds >= 1 {
			old.Sample = append(old.Sample, s)
		}
	}
	t.Logf("bytes by age_seconds: %v", ages)
	if len(old.Sample) == 0 {
		t.Fatalf("heap_age: nothing is a second old: %v", ages)
	}
	leakIsTop(t, "heap_age, old", old, 1, path, bytes)
}

func TestHeapShowsALeakInPython(t *testing.T) {
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip(err)
	}
	x := start(t, []string{"PPROF_HEAP_RATE=65536"}, python, "../victims/allocleak.py")
	ready := func(word string) {
		waitFor(t, time.Minute, word, func() bool { return strings.Contains(x.out.String(), word) }, func() string { return x.err.String() })
	}
	ready("ready")
	before := x.save("heap", "before")
	x.open()
	ready("done")
	time.Sleep(3 * time.Second)
	after := x.save("heap", "after")
	seenEverywhere(t, x, before, after, "PyByteArray_Resize", 30000*2001)
	x.finish()
}

// A set that grows without end, among keys that come and go.
func TestHeapShowsAKeyFloodInRedis(t *testing.T) {
	server, cli := need(t, "redis-server"), need(t, "redis-cli")
	const members, memberBytes = 300000, 200
	addr := freePort(t)
	port := addr[strings.LastIndex(addr, ":")+1:]
	x := start(t, []string{"PPROF_HEAP_RATE=65536"}, server, "--port", port, "--save", "", "--dir", t.TempDir())
	waitFor(t, 10*time.Second, "redis", func() bool { return strings.Contains(x.out.String(), "Ready to accept") },
		func() string { return x.out.String() + x.err.String() })
	pipe := func(n int, command func(i int) []string) {
		t.Helper()
		var b strings.Builder
		for i := range n {
			words := command(i)
			fmt.Fprintf(&b, "*%d\r\n", len(words))
			for _, w := range words {
				fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
			}
		}
		cmd := exec.Command(cli, "-p", port, "--pipe")
		cmd.Stdin = strings.NewReader(b.String())
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "errors: 0") {
			t.Fatalf("redis-cli --pipe: %v %s", err, out)
		}
	}
	value := strings.Repeat("v", 1000)
	pipe(20000, func(i int) []string { return []string{"SET", fmt.Sprint("key:", i), value} })
	before := x.save("heap", "before")
	pipe(members, func(i int) []string {
		return []string{"SADD", "flood", fmt.Sprintf("%0*d", memberBytes, i)}
	})
	pipe(20000, func(i int) []string { return []string{"SET", fmt.Sprint("key:", i), value + "w"} })
	time.Sleep(3 * time.Second)
	after := x.save("heap", "after")
	// A string of so many bytes, its header and end, an entry of the set, and the set's table: 8 bytes for each power of
	// two above the number of members.
	table := 8
	for table < 8*members {
		table *= 2
	}
	seenEverywhere(t, x, before, after, "saddCommand", int64(members*(memberBytes+2+24)+table))
	x.kill()
}
