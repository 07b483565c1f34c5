// SPDX-License-Identifier: Apache-2.0

// Promise: a saved profile says which line, inlined or not, wherever it is opened: names and lines are the same with the
// binary at hand and without, and nobody is asked for symbols.
package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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

func TestLinesOfASavedProfile(t *testing.T) {
	dir := t.TempDir()
	source, binary, saved := filepath.Join(dir, "lines.cc"), filepath.Join(dir, "lines"), filepath.Join(dir, "cpu.pb.gz")
	if err := os.WriteFile(source, []byte(linesSource), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(need(t, "g++"), "-O2", "-g", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("g++: %v\n%s", err, out)
	}
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
