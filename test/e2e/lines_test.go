// SPDX-License-Identifier: Apache-2.0

// Promise: a saved profile says which line, inlined or not, wherever it is opened: names and lines are the same with the
// binary at hand and without, and nobody is asked for symbols.
package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/google/pprof/profile"
)

const linesSource = `
#include <stdint.h>
static inline uint64_t scramble(uint64_t x)
{
	x ^= x << 13;
	x ^= x >> 7;
	return x ^ x << 17;
}
__attribute__((noinline)) uint64_t work(uint64_t x)
{
	for (int i = 0; i < 1000000; i++)
		x = scramble(x);
	return x;
}
int main()
{
	volatile uint64_t x = 1;
	for (;;)
		x = work(x);
}
`

// linesProfile is a CPU profile whose lines are there: on a busy machine they come with a later one.
func linesProfile(t *testing.T, x *target, path string) *profile.Profile {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		body := x.get("/debug/pprof/profile?seconds=1&hz=500").body
		if err := os.WriteFile(path, body, 0o644); err != nil {
			t.Fatal(err)
		}
		p, err := parseStrictly(body)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Sample) > 0 && !strings.Contains(strings.Join(p.Comments, "\n"), "still being read") {
			return p
		}
		if time.Now().After(deadline) {
			t.Fatalf("no lines within a minute: %v", p.Comments)
		}
	}
}

// linesProgram compiles the source above.
func linesProgram(t *testing.T, flags ...string) (source, binary string) {
	t.Helper()
	dir := t.TempDir()
	source, binary = filepath.Join(dir, "lines.cc"), filepath.Join(dir, "lines")
	if err := os.WriteFile(source, []byte(linesSource), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(need(t, "g++"), append(flags, "-O2", "-o", binary, source)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("g++: %v\n%s", err, out)
	}
	return source, binary
}

// Promise: who read a file for an answer is scheduled as it was before, once that is out.
func TestReadersBecomeUsualAgain(t *testing.T) {
	_, binary := linesProgram(t, "-g")
	x := start(t, nil, binary)
	linesProfile(t, x, filepath.Join(t.TempDir(), "cpu.pb.gz"))
	slices := func() (n int, longest uint64) {
		schedGetattr := map[string]uintptr{"amd64": 315, "arm64": 275}[runtime.GOARCH]
		for tid, name := range tasks(x.pid()) {
			var attr struct { // struct sched_attr, version 0
				size, policy              uint32
				flags                     uint64
				nice, priority            uint32
				runtime, deadline, period uint64
			}
			_, _, err := syscall.RawSyscall6(schedGetattr, uintptr(tid), uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0, 0, 0)
			if err == 0 && name == "pprof-http" {
				n, longest = n+1, max(longest, attr.runtime)
			}
		}
		return
	}
	n, longest := 0, uint64(0)
	waitFor(t, 10*time.Second, "the worker's usual slice", func() bool { n, longest = slices(); return n > 0 && longest < 100e6 },
		func() string { return fmt.Sprintf("%d workers, a slice of %d ns", n, longest) })
}

func TestLinesOfASavedProfile(t *testing.T) {
	source, binary := linesProgram(t, "-g")
	dir := t.TempDir()
	saved := filepath.Join(dir, "cpu.pb.gz")
	p := linesProfile(t, start(t, nil, binary), saved)
	var inlined, whole bool
	for _, l := range p.Location {
		if l.Mapping == nil || l.Mapping.File != binary {
			continue
		}
		if len(l.Line) == 2 && l.Line[0].Function.Name == "scramble" && l.Line[1].Function.SystemName == "_Z4workm" {
			inlined = l.Line[0].Function.Filename == source && l.Line[0].Line >= 3 && l.Line[0].Line <= 8 && l.Line[1].Line == 12
		}
		if f := l.Line[len(l.Line)-1].Function; f.Name == "work" {
			whole = f.StartLine == 9 && f.Filename == source
		}
	}
	if !inlined || !whole {
		t.Errorf("inlined call found: %v; the function whole: %v\n%v", inlined, whole, p)
	}
	if m := p.Mapping[0]; !m.HasFunctions || !m.HasFilenames || !m.HasLineNumbers || !m.HasInlineFrames {
		t.Errorf("the mapping hides what it has: %+v", m)
	}
	if out := mustPprof(t, "-list=^work$", saved); !regexp.MustCompile(`x = scramble\(x\);`).MatchString(out) {
		t.Errorf("-list does not show the source:\n%s", out)
	}
	here := mustPprof(t, "-top", "-lines", saved)
	if out := mustPprof(t, "-disasm=work", binary, saved); !strings.Contains(out, "lines.cc") {
		t.Errorf("-disasm does not name lines:\n%s", out)
	}
	page := filepath.Join(dir, "page.html")
	mustPprof(t, "-weblist=work", "-output="+page, binary, saved)
	if html, _ := os.ReadFile(page); !strings.Contains(string(html), "x = scramble(x);") {
		t.Error("-weblist does not show the source")
	}
	if err := os.Remove(binary); err != nil {
		t.Fatal(err)
	}
	if away := mustPprof(t, "-top", "-lines", saved); away != here {
		t.Errorf("without the binary it is another profile:\n%s\nwith it:\n%s", away, here)
	}
}

// What the tool shows comes with the profile, whatever is asked of it. (TestGoToolSymbolizesRemotely shows that it would ask, and be
// seen to, if names were missing.)
func TestNobodyAsksForSymbols(t *testing.T) {
	_, binary := linesProgram(t, "-g")
	x := start(t, nil, binary)
	linesProfile(t, x, filepath.Join(t.TempDir(), "cpu.pb.gz"))
	px := newProxy(t, x.addr, nil)
	address := px.URL + "/debug/pprof/profile?seconds=1&hz=500"
	for _, c := range []struct {
		sees   string
		option []string
	}{
		{"scramble (inline)", []string{"-top"}},
		{"x = scramble(x);", []string{"-list=^work$"}},
		{"lines.cc:", []string{"-top", "-lines"}},
		{"flat%", []string{"-peek=^work$"}},
	} {
		want(t, strings.Join(c.option, " "), mustPprof(t, append(c.option, address)...), c.sees)
	}
	want(t, "-top of the heap", mustPprof(t, "-top", px.URL+"/debug/pprof/heap"), "flat%")
	transcript{t, io.Discard}.page(address, "work")
	if posts, gets := px.seen("POST"), px.seen("GET"); len(posts) != 0 || len(gets) != 6 {
		t.Errorf("asked by POST: %q, by GET: %q", posts, gets)
	}
}

// hotLocations are those of the program's own code, by address.
func hotLocations(t *testing.T, p *profile.Profile, binary string) []*profile.Location {
	t.Helper()
	var locations []*profile.Location
	for _, l := range p.Location {
		if l.Mapping != nil && l.Mapping.File == binary {
			locations = append(locations, l)
		}
	}
	if len(locations) == 0 {
		t.Fatalf("nothing of %s: %v", binary, p)
	}
	return locations
}

func TestSymbolsCanBeLess(t *testing.T) {
	_, binary := linesProgram(t, "-g")
	for _, level := range []string{"none", "names"} {
		x := start(t, []string{"PPROF_SYMBOLS=" + level}, binary)
		// The strict reader wants names.
		p, err := profile.ParseData(x.get("/debug/pprof/profile?seconds=1&hz=500").body)
		if err != nil {
			t.Fatal(err)
		}
		if m := p.Mapping[0]; m.HasFunctions != (level == "names") || m.HasFilenames || m.HasLineNumbers || m.HasInlineFrames {
			t.Errorf("%s: the mapping promises otherwise: %+v", level, m)
		}
		for _, l := range hotLocations(t, p, binary) {
			f := l.Line[0].Function
			isName := regexp.MustCompile(`^lines\+0x[0-9a-f]+$`).MatchString(f.Name)
			if len(l.Line) != 1 || l.Line[0].Line != 0 || f.Filename != "" || f.StartLine != 0 || isName != (level == "none") {
				t.Errorf("%s: %#x is %+v of %+v", level, l.Address, l.Line, f)
			}
		}
	}
}

// Functions of split units are in files that we do not read: their names are the symbol table's, and no line is guessed.
func TestSplitDebugInformationGivesNames(t *testing.T) {
	_, binary := linesProgram(t, "-g", "-gsplit-dwarf")
	p := linesProfile(t, start(t, nil, binary), filepath.Join(t.TempDir(), "cpu.pb.gz"))
	if comments := strings.Join(p.Comments, "\n"); !strings.Contains(comments, "in .dwo files") {
		t.Errorf("the limit is not told: %q", comments)
	}
	named := false
	for _, l := range hotLocations(t, p, binary) {
		f := l.Line[0].Function
		named = named || f.Name == "work" && f.SystemName == "_Z4workm"
		if len(l.Line) != 1 || l.Line[0].Line != 0 || f.Filename != "" {
			t.Errorf("%#x is %+v of %+v", l.Address, l.Line, f)
		}
	}
	if !named {
		t.Errorf("work is not named: %v", p)
	}
}
