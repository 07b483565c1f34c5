// SPDX-License-Identifier: Apache-2.0

// Promise: at least 99 % of the samples of real programs reach main or their thread's start.
package e2e

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// roots are the functions at which a stack is whole.
var roots = named("main", "_start", "__libc_start_main", "__libc_start_call_main", "__libc_start_main_impl",
	"start_thread", "clone", "clone3", "__clone", "__clone3", "thread_start", "runtime.goexit", "execute_native_thread_routine")

// rooted demands the share of whole stacks among at least n samples; frames that are not stacks count as whole.
func rooted(t *testing.T, p *profile.Profile, n int64) {
	t.Helper()
	var all, whole int64
	isWhole := func(s *profile.Sample) bool {
		names := stack(s)
		if len(names) == 0 {
			return false
		}
		root := names[len(names)-1]
		// A stripped program has no main, but what it was called by still has a name.
		return roots(root) || strings.HasPrefix(root, "[")
	}
	for _, s := range p.Sample {
		// CPU time from before a thread's first sample, under its start routine: no stack.
		if contains(s, named("[not sampled]")) {
			continue
		}
		all += s.Value[0]
		if isWhole(s) {
			whole += s.Value[0]
		}
	}
	if all < n {
		t.Errorf("only %d samples, expected at least %d", all, n)
		return
	}
	t.Logf("%d of %d samples (%.3f %%) reach their start; %d stacks\n%s", whole, all, 100*float64(whole)/float64(all), len(p.Sample), comments(p))
	if float64(whole) < 0.99*float64(all) {
		t.Errorf("only %.2f %% are whole; broken ones:%s", 100*float64(whole)/float64(all),
			top(p, 12, func(s *profile.Sample) bool { return !isWhole(s) }))
	}
}

// demand fails unless each name, or part of one, is somewhere in the profile.
func demand(t *testing.T, p *profile.Profile, parts ...string) {
	t.Helper()
	for _, part := range parts {
		d := cpu(p, func(s *profile.Sample) bool {
			return contains(s, func(name string) bool { return strings.Contains(name, part) })
		})
		if d == 0 {
			t.Errorf("%s is nowhere in the profile:%s", part, top(p, 8, nil))
		}
	}
}

func TestStacksOfRedis(t *testing.T) {
	server, bench := need(t, "redis-server"), need(t, "redis-benchmark")
	addr := freePort(t)
	port := addr[strings.LastIndex(addr, ":")+1:]
	x := start(t, nil, server, "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir(), "--io-threads", "2")
	waitFor(t, 10*time.Second, "redis", func() bool { return strings.Contains(x.out.String(), "Ready to accept") },
		func() string { return x.out.String() + x.err.String() })
	load := exec.Command(bench, "-p", port, "-q", "-l", "-c", "20", "-P", "4", "-t", "set,get,lpush,lrange_100,zadd,mset")
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	defer load.Wait()
	defer load.Process.Kill()
	p := x.profile("seconds=3&hz=500")
	rooted(t, p, 200)
	demand(t, p, "main")
}

func TestStacksOfPython(t *testing.T) {
	const python = "/usr/bin/python3"
	file, err := elf.Open(python)
	if err != nil {
		t.Skip(err)
	}
	t.Logf("%s is %v", python, file.Type)
	file.Close()
	x := start(t, nil, python, "-c", `
import json, re, threading, hashlib, zlib
def work():
    while True:
        d = {str(i): [i, str(i) * 3] for i in range(500)}
        s = json.dumps(d); json.loads(s)
        re.sub(r"(\d+)", lambda m: m.group(1)[::-1], s)
        sorted(d.values(), key=lambda v: v[1][::-1])
        hashlib.sha256(s.encode() * 20).hexdigest(); zlib.compress(s.encode())
        try: raise ValueError(1)
        except ValueError: pass
t = threading.Thread(target=work, daemon=True); t.start(); work()
`)
	p := x.profile("seconds=3&hz=500")
	rooted(t, p, 200)
}

func TestStacksOfCxxWithoutFramePointers(t *testing.T) {
	x := start(t, nil, victim("cxxstack"))
	x.open()
	p := x.profile("seconds=3&hz=500")
	rooted(t, p, 200)
	demand(t, p, "main", "shop::Box<long>::area", "shop::sorter", "shop::thrower", "shop::tally<")
}

func TestStacksOfRust(t *testing.T) {
	x := start(t, nil, victim("ruststack"))
	x.open()
	p := x.profile("seconds=3&hz=500")
	rooted(t, p, 200)
	demand(t, p, "main", "ruststack::sorter", "ruststack::once", "ruststack::tally")
	for _, f := range p.Function {
		if i := strings.LastIndex(f.Name, "::h"); i > 0 && len(f.Name)-i == 19 {
			t.Errorf("%s still has its hash", f.Name)
		}
	}
}

// Mapping 1 is the program with its real build id; every mapping is an r-x segment as the kernel shows it.
func TestMappingsAreThoseOfTheKernel(t *testing.T) {
	x := start(t, nil, victim("cxxstack"))
	x.open()
	p := x.profile("seconds=1")
	if p.Mapping[0].File != victim("cxxstack") {
		t.Errorf("mapping 1 is %s", p.Mapping[0].File)
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", x.pid()))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range p.Mapping {
		line := fmt.Sprintf("%x-%x r-xp %08x ", m.Start, m.Limit, m.Offset)
		if i := bytes.Index(maps, []byte(line)); i < 0 {
			t.Errorf("no such mapping: %s%s", line, m.File)
		} else if rest, _, _ := bytes.Cut(maps[i:], []byte("\n")); !bytes.Contains(rest, []byte(m.File)) {
			t.Errorf("%s is not %s", rest, m.File)
		}
		if strings.HasPrefix(m.File, "/") && m.BuildID != buildID(m.File) {
			t.Errorf("%s: build id %q, the file has %q", m.File, m.BuildID, buildID(m.File))
		}
	}
}

func buildID(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	s := f.Section(".note.gnu.build-id")
	if s == nil {
		return ""
	}
	b, err := s.Data()
	if err != nil || len(b) < 16 {
		return ""
	}
	return fmt.Sprintf("%x", b[16:])
}
