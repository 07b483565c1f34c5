// SPDX-License-Identifier: Apache-2.0

// Questions about a heap profile, shared by the heap_*_test.go.
package e2e

import (
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// heapValues are the four values of a heap profile, in their order.
type heapValues [4]int64

const (
	allocObjects = iota
	allocSpace
	inuseObjects
	inuseSpace
)

var heapNames = [4]string{"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}

func (v *heapValues) add(w []int64) {
	for i := range v {
		v[i] += w[i]
	}
}

// heap fetches a heap profile; path is what follows /debug/pprof/.
func (x *target) heap(path string) *profile.Profile {
	x.t.Helper()
	p, err := fetchHeap(x.addr, path)
	if err != nil {
		x.t.Fatalf("%v\n%s", err, x.err)
	}
	return p
}

func fetchHeap(addr, path string) (*profile.Profile, error) {
	a, err := ask(addr, "GET", "/debug/pprof/"+path, "", nil)
	if err != nil {
		return nil, err
	}
	if a.status != 200 {
		return nil, fmt.Errorf("%s: status %d: %s", path, a.status, a.body)
	}
	p, err := parseStrictly(a.body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, checkHeap(p)
}

// checkHeap: what holds of every heap profile, whatever the program does.
func checkHeap(p *profile.Profile) error {
	var names []string
	for _, s := range p.SampleType {
		names = append(names, s.Type+"/"+s.Unit)
	}
	if got, want := strings.Join(names, " "), "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes"; got != want {
		return fmt.Errorf("sample types %s, not %s", got, want)
	}
	if p.PeriodType == nil || p.PeriodType.Type != "space" || p.PeriodType.Unit != "bytes" {
		return fmt.Errorf("period type %v", p.PeriodType)
	}
	seen := map[string]bool{}
	for _, s := range p.Sample {
		id := heapIdentity(s)
		if seen[id] {
			return fmt.Errorf("a record stands twice: %v", stack(s))
		}
		seen[id] = true
		if s.Value[inuseObjects] > s.Value[allocObjects] || s.Value[inuseSpace] > s.Value[allocSpace] {
			return fmt.Errorf("more in use than was allocated: %v %v", s.Value, stack(s))
		}
		if n := len(s.NumLabel["bytes"]); n > 1 {
			return fmt.Errorf("%d labels bytes: %v", n, stack(s))
		}
	}
	return nil
}

// heapIdentity is what a record is known by from one scrape to the next: its addresses and its size class.
func heapIdentity(s *profile.Sample) string {
	var b strings.Builder
	for _, l := range s.Location {
		fmt.Fprintf(&b, "%x ", l.Address)
	}
	fmt.Fprintf(&b, "%v %v", s.NumLabel["bytes"], s.Label)
	return b.String()
}

// heapOf sums the records whose stack has all of the functions (leaf first or not: in any order).
func heapOf(p *profile.Profile, functions ...string) heapValues {
	var v heapValues
	for _, s := range p.Sample {
		all := true
		for _, f := range functions {
			all = all && contains(s, named(f))
		}
		if all {
			v.add(s.Value)
		}
	}
	return v
}

// heapTop lists the n largest stacks by a value, for failure messages.
func heapTop(p *profile.Profile, value, n int) string {
	sums := map[string]*heapValues{}
	for _, s := range p.Sample {
		key := strings.Join(stack(s), " < ")
		if sums[key] == nil {
			sums[key] = &heapValues{}
		}
		sums[key].add(s.Value)
	}
	keys := make([]string, 0, len(sums))
	for k := range sums {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return sums[keys[i]][value] > sums[keys[j]][value] })
	var b strings.Builder
	for _, k := range keys[:min(n, len(keys))] {
		fmt.Fprintf(&b, "\n  %v %s", *sums[k], k)
	}
	return b.String()
}

// truthLines waits until the target has printed "done" for the nth time (from 1) and returns the "truth" lines, as
// fields, of that part.
func (x *target) truthLines(nth int) [][]string {
	x.t.Helper()
	waitFor(x.t, 3*time.Minute, "the victim's truth", func() bool {
		return strings.Count(x.out.String(), "done\n") >= nth || strings.Contains(x.out.String(), "BROKEN")
	}, func() string { return x.out.String() + x.err.String() })
	if out := x.out.String(); strings.Contains(out, "BROKEN") {
		x.t.Fatalf("%s", out[strings.Index(out, "BROKEN"):])
	}
	part := strings.Split(x.out.String(), "done\n")[nth-1]
	var lines [][]string
	for _, line := range strings.Split(part, "\n") {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "truth" {
			lines = append(lines, f[1:])
		}
	}
	if len(lines) == 0 {
		x.t.Fatalf("no truth in %q", part)
	}
	return lines
}

// allocatorNames are the functions that must not stand at a leaf: a block belongs to who asked for it.
func isAllocator(name string) bool {
	for _, p := range []string{"operator new", "std::__new_allocator", "je_"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	switch strings.TrimPrefix(strings.TrimPrefix(name, "__libc_"), "__") {
	case "malloc", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc", "memalign", "valloc", "pvalloc", "free":
		return true
	}
	return false
}

func noAllocatorAtLeaf(t *testing.T, p *profile.Profile) {
	t.Helper()
	for _, s := range p.Sample {
		if names := stack(s); len(names) > 0 && isAllocator(names[0]) {
			t.Errorf("an allocator is at the leaf: %s", strings.Join(names, " < "))
			return
		}
	}
}
