// SPDX-License-Identifier: Apache-2.0

// /debug/pprof/mmap: what a program maps is there to the byte, by who mapped it, in children of a fork and with many
// threads, too; and together with heap, stacks and files it makes up the resident memory.
package e2e

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

type mapped struct{ maps, bytes int64 }

// mmap fetches the profile and checks what holds of every one.
func (x *target) mmap() *profile.Profile {
	x.t.Helper()
	p, err := fetchMmap(x.addr)
	if err != nil {
		x.t.Fatalf("%v\n%s", err, x.err)
	}
	return p
}

func fetchMmap(addr string) (*profile.Profile, error) {
	a, err := ask(addr, "GET", "/debug/pprof/mmap", "", nil)
	if err != nil {
		return nil, err
	}
	if a.status != 200 {
		return nil, fmt.Errorf("status %d: %s", a.status, a.body)
	}
	p, err := parseStrictly(a.body)
	if err != nil {
		return nil, err
	}
	if len(p.SampleType) != 2 || *p.SampleType[0] != (profile.ValueType{Type: "maps", Unit: "count"}) ||
		*p.SampleType[1] != (profile.ValueType{Type: "mapped", Unit: "bytes"}) {
		return nil, fmt.Errorf("sample types %v %v", p.SampleType[0], p.SampleType[1:])
	}
	for _, s := range p.Sample {
		if s.Value[0] <= 0 || s.Value[1] <= 0 || s.Value[1]%4096 != 0 {
			return nil, fmt.Errorf("values %v of %s", s.Value, leafName(s))
		}
	}
	if !strings.Contains(strings.Join(p.Comments, "\n"), " 0 lost;") {
		return nil, fmt.Errorf("mappings were lost: %q", p.Comments)
	}
	return p, nil
}

func leafName(s *profile.Sample) string { return s.Location[0].Line[0].Function.Name }

// byLeaf adds up by leaf function and backing.
func byLeaf(p *profile.Profile) map[string]mapped {
	sum := map[string]mapped{}
	for _, s := range p.Sample {
		key := leafName(s) + " " + strings.Join(s.Label["backing"], ",")
		m := sum[key]
		sum[key] = mapped{m.maps + s.Value[0], m.bytes + s.Value[1]}
	}
	return sum
}

// truths reads the victim's lines "TRUTH function maps bytes backing"; a later line replaces an earlier one.
func truths(output string) map[string]mapped {
	want := map[string]mapped{}
	for _, line := range strings.Split(output, "\n") {
		f := strings.Fields(line)
		if len(f) == 5 && f[0] == "TRUTH" {
			maps, _ := strconv.ParseInt(f[2], 10, 64)
			bytes, _ := strconv.ParseInt(f[3], 10, 64)
			want[f[1]+" "+f[4]] = mapped{maps, bytes}
		}
	}
	return want
}

func compareMapped(t *testing.T, p *profile.Profile, want map[string]mapped) {
	t.Helper()
	got := byLeaf(p)
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s: %+v, truly %+v", name, got[name], w)
		}
		delete(got, name)
	}
	for name, g := range got {
		t.Errorf("%s: %+v, truly nothing", name, g)
	}
}

func (x *target) awaitOutput(text string) {
	x.t.Helper()
	waitFor(x.t, 60*time.Second, text, func() bool { return strings.Contains(x.out.String(), text) },
		func() string { return x.out.String() + x.err.String() })
}

func TestMappedExactly(t *testing.T) {
	x := start(t, nil, victim("mapper"))
	compareMapped(t, x.mmap(), nil)
	x.open()
	x.awaitOutput("TRUTH first")
	p := x.mmap()
	compareMapped(t, p, truths(x.out.String()))
	for _, s := range p.Sample {
		if n := len(s.Location); s.Location[n-1].Line[0].Function.Name != "_start" {
			t.Errorf("%s: the stack ends in %s", leafName(s), s.Location[n-1].Line[0].Function.Name)
		}
	}
	// Unmapped behind our back: nothing to see here, but asking again changes nothing.
	compareMapped(t, x.mmap(), truths(x.out.String()))
	x.open()
	x.awaitOutput("EMPTY")
	compareMapped(t, x.mmap(), nil)
	x.finish()
}

func TestMappedByThreads(t *testing.T) {
	x := start(t, nil, victim("mapper"), "threads", "6")
	x.open()
	x.awaitOutput("TRUTH")
	compareMapped(t, x.mmap(), truths(x.out.String()))
	x.finish()
}

// The child goes on with what its parent had mapped at the fork.
func TestMappedInForkedChild(t *testing.T) {
	dir := t.TempDir()
	x := launch(t, []string{"PPROF_ADDR=unix:" + dir + "/%p.sock"}, victim("mapper"), "fork")
	parent := fmt.Sprintf("unix:%s/%d.sock", dir, x.pid())
	waitFor(t, 10*time.Second, "the parent's socket", func() bool {
		_, err := os.Stat(strings.TrimPrefix(parent, "unix:"))
		return err == nil
	}, x.err.String)
	x.open()
	x.awaitOutput("CHILD")
	out := x.out.String()
	pid := strings.Fields(out[strings.Index(out, "CHILD"):])[1]
	child := "unix:" + filepath.Join(dir, pid+".sock")
	waitFor(t, 10*time.Second, "the child's socket", func() bool {
		_, err := os.Stat(strings.TrimPrefix(child, "unix:"))
		return err == nil
	}, x.err.String)

	p, err := fetchMmap(child)
	if err != nil {
		t.Fatal(err)
	}
	compareMapped(t, p, truths(out))
	// Of the parent the lines before the child's hold.
	p, err = fetchMmap(parent)
	if err != nil {
		t.Fatal(err)
	}
	compareMapped(t, p, truths(out[:strings.Index(out, "TRUTH first")+len("TRUTH first 2 188416 anonymous\n")]))
	x.open()
	x.finish()
}

// smapsRss is what is resident, and how much of it are pages of files.
func smapsRss(t *testing.T, pid int) (total, files int64) {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	isFile := false
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		switch {
		case strings.Contains(fields[0], "-") && !strings.HasSuffix(fields[0], ":"):
			isFile = len(fields) > 5 && strings.HasPrefix(fields[5], "/")
		case fields[0] == "Rss:":
			kb, _ := strconv.ParseInt(fields[1], 10, 64)
			total += kb << 10
			if isFile {
				files += kb << 10
			}
		}
	}
	return total, files
}

// What adds up to the resident set: blocks in use, what the program mapped and touched, stacks, files. The rest (the
// allocator's own overhead, our memory, .bss) is small.
func TestResidentMemoryIsExplained(t *testing.T) {
	const stacks = 1 << 20 // what the victim's thread touches
	x := start(t, []string{"PPROF_HEAP_RATE=1"}, victim("mapper"), "rss")
	x.open()
	x.awaitOutput("READY")
	var heap, maps int64
	for _, s := range x.heap("heap").Sample {
		heap += s.Value[inuseSpace]
	}
	for _, s := range x.mmap().Sample {
		if s.Label["backing"][0] == "anonymous" {
			maps += s.Value[1]
		}
	}
	total, files := smapsRss(t, x.pid())
	sum := heap + maps + files + stacks
	t.Logf("heap %d + mmap %d + files %d + stacks %d KiB = %d KiB of %d KiB resident: %.1f %%", heap>>10, maps>>10, files>>10,
		stacks>>10, sum>>10, total>>10, 100*float64(sum)/float64(total))
	if maps != 120<<20 || heap < 100<<20 || heap > 101<<20 {
		t.Errorf("mapped %d, allocated %d", maps, heap)
	}
	if r := float64(sum) / float64(total); r < 0.95 || r > 1.05 {
		t.Errorf("the sum is %.3f of what is resident", r)
	}
	x.finish()
}
