// SPDX-License-Identifier: Apache-2.0

// Promise: whichever allocator a program has (glibc's, jemalloc, tcmalloc, mimalloc, musl's), linked or preloaded, before
// the agent or after it: the program runs as it does without the agent; what the profile shows is exact; and what it
// cannot show, it says, in a comment and in one line on standard error that contain "not seen".
package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

var otherAllocators = map[string]string{
	"jemalloc": "libjemalloc.so.2",
	"tcmalloc": "libtcmalloc_minimal.so.4",
	"mimalloc": "libmimalloc.so.2",
}

func findAllocator(name string) (string, bool) {
	for _, dir := range []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"} {
		path := filepath.Join(dir, otherAllocators[name])
		if _, err := os.Stat(path); err == nil {
			return path, true
		}
	}
	return "", false
}

func allocatorPath(t *testing.T, name string) string {
	t.Helper()
	path, ok := findAllocator(name)
	if !ok {
		t.Skipf("%s is not installed", name)
	}
	return path
}

// compileVictim compiles a victim again, with a compiler and flags of the test's own.
func compileVictim(t *testing.T, compiler, source string, flags ...string) string {
	t.Helper()
	need(t, compiler)
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(source, filepath.Ext(source)))
	args := append([]string{"-O2", "-g", "-fno-builtin", "-pthread", "-o", out, "../victims/" + source}, flags...)
	if b, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", compiler, args, err, b)
	}
	return out
}

// withoutAgent is what a gated victim prints on its own.
func withoutAgent(t *testing.T, preload string, command ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+preload)
	cmd.Stdin = strings.NewReader("go\ngo\ngo\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v does not run without the agent: %v", command, err)
	}
	return string(out)
}

type allocatorCase struct {
	name    string
	preload string // LD_PRELOAD
	program string
	args    []string
	without string   // LD_PRELOAD without the agent
	mayMiss []string // functions that are exact, or said not to be seen
	allMiss bool     // the agent is behind a preloaded allocator: all of them may be missing
}

func (c allocatorCase) run(t *testing.T) {
	t.Helper()
	bare := withoutAgent(t, c.without, append([]string{c.program}, c.args...)...)
	x := start(t, []string{"PPROF_HEAP_RATE=1", "LD_PRELOAD=" + c.preload}, append([]string{c.program}, c.args...)...)
	x.open()
	lines := x.truthLines(1)
	p := x.heap("heap")
	missing := ""
	for _, f := range lines {
		var want heapValues
		for i := range want {
			want[i], _ = strconv.ParseInt(f[1+i], 10, 64)
		}
		got := heapOf(p, f[0])
		switch {
		case got == want:
		case !c.allMiss && !named(c.mayMiss...)(f[0]):
			t.Errorf("%s: %v in the profile, %v in truth (%v)", f[0], got, want, heapNames)
		default:
			missing += fmt.Sprintf(" %s %v", f[0], got)
		}
	}
	said := strings.Contains(comments(p), "not seen")
	told := false
	for i := 0; i < 150 && !told && (said || missing != ""); i++ { // the line follows the announcement
		told = strings.Contains(x.err.String(), "not seen")
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("not exact:%s; said %v %v: %s", missing, said, told, x.err)
	if missing != "" && (!said || !told) {
		t.Errorf("%s are not seen; in the comments: %v, on standard error: %v\n%s\n%s", missing, said, told, comments(p), x.err)
	}
	// With a foreign operator new it says so to C programs as well.
	if missing == "" && len(c.mayMiss) == 0 && (said || told) {
		t.Errorf("everything is seen and yet it says\n%s\n%s", comments(p), x.err)
	}
	noAllocatorAtLeaf(t, p)
	x.finish()
	if got := x.out.String(); got != bare {
		t.Errorf("it printed\n%s\nand without the agent\n%s", got, bare)
	}
	if n := strings.Count(x.err.String(), "\n"); n > 2 {
		t.Errorf("%d lines on standard error: %s", n, x.err)
	}
	if t.Failed() {
		t.Logf("%s%s", comments(p), heapTop(p, allocObjects, 12))
	}
}

func TestHeapWithGlibc(t *testing.T) {
	t.Run("C", func(t *testing.T) { allocatorCase{preload: library, program: victim("allockeep")}.run(t) })
	t.Run("C++", func(t *testing.T) {
		allocatorCase{preload: library, program: victim("allocnew"), args: []string{"fails"}}.run(t)
	})
}

func TestHeapWithMusl(t *testing.T) {
	program := compileVictim(t, "musl-gcc", "allockeep.c")
	allocatorCase{preload: library, program: program}.run(t)
}

func TestHeapWithOtherAllocators(t *testing.T) {
	news := []string{"keep_new", "keep_new_array", "keep_new_aligned"}
	for name := range otherAllocators {
		t.Run(name, func(t *testing.T) {
			so := allocatorPath(t, name)
			for _, v := range []string{"allockeep.c", "allocnew.cc"} {
				compiler := map[string]string{".c": "gcc", ".cc": "g++"}[filepath.Ext(v)]
				linked := compileVictim(t, compiler, v, "-Wl,--no-as-needed", "-l:"+otherAllocators[name])
				plain := victim(strings.TrimSuffix(v, filepath.Ext(v)))
				t.Run("linked "+v, func(t *testing.T) {
					allocatorCase{preload: library, program: linked, mayMiss: news}.run(t)
				})
				t.Run("agent first "+v, func(t *testing.T) {
					allocatorCase{preload: library + ":" + so, program: plain, without: so, mayMiss: news}.run(t)
				})
				t.Run("agent last "+v, func(t *testing.T) {
					allocatorCase{preload: so + ":" + library, program: plain, without: so, allMiss: true}.run(t)
				})
			}
		})
	}
}

// jemalloc's own entry points have the same values; that the profile does not have them is said. (They are not interposed:
// programs recognise jemalloc by their presence.)
func TestHeapWithJemallocsOwnInterface(t *testing.T) {
	allocatorPath(t, "jemalloc")
	allocatorCase{preload: library, program: victim("allocx"), mayMiss: []string{"keep_mallocx", "keep_rallocx"}}.run(t)
	so := allocatorPath(t, "jemalloc")
	allocatorCase{preload: so + ":" + library, program: victim("allocx"), without: so, allMiss: true}.run(t)
}

// Whole programs: they work, whichever way round, and are told apart by what they print.
func TestHeapProgramsWithEveryAllocator(t *testing.T) {
	type program struct {
		name string
		run  func(t *testing.T, preload string)
	}
	programs := []program{{"python", runPython}, {"redis", runRedis}}
	preloads := map[string]string{"glibc": library}
	for name := range otherAllocators {
		if so, ok := findAllocator(name); ok {
			preloads[name+" last"], preloads[name+" first"] = library+":"+so, so+":"+library
		}
	}
	for _, p := range programs {
		for name, preload := range preloads {
			t.Run(p.name+", "+name, func(t *testing.T) { p.run(t, preload) })
		}
	}
}

func runPython(t *testing.T, preload string) {
	const python = "/usr/bin/python3"
	x := start(t, []string{"PPROF_HEAP_RATE=1024", "LD_PRELOAD=" + preload}, python, "-u", "-c", `
import json, threading, subprocess, sys, os
def work(n):
    d = [bytearray(1000 + i) for i in range(n)]
    return len(json.dumps([str(x[:10]) for x in d]))
t = [threading.Thread(target=work, args=(3000,)) for _ in range(4)]
[i.start() for i in t]; [i.join() for i in t]
print(work(2000), subprocess.run(["true"]).returncode)
pid = os.fork()
if pid == 0:
    work(100); os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
keep = [bytearray(1000) for i in range(1000)]
print("ready"); sys.stdin.readline()
`)
	waitFor(t, time.Minute, "python", func() bool { return strings.Contains(x.out.String(), "ready") },
		func() string { return x.err.String() })
	p := x.heap("heap")
	x.get("/debug/pprof/heap?debug=1")
	seenOrSaid(t, x, p, 1000*1000)
	x.finish()
	if lines := strings.Fields(x.out.String()); len(lines) != 4 || lines[1] != "0" || lines[2] != "3" {
		t.Errorf("it printed %q", x.out)
	}
}

func runRedis(t *testing.T, preload string) {
	server, cli := need(t, "redis-server"), need(t, "redis-cli")
	addr := freePort(t)
	port := addr[strings.LastIndex(addr, ":")+1:]
	x := start(t, []string{"PPROF_HEAP_RATE=1024", "LD_PRELOAD=" + preload}, server, "--port", port, "--save", "",
		"--dir", t.TempDir(), "--enable-debug-command", "yes")
	waitFor(t, 10*time.Second, "redis", func() bool { return strings.Contains(x.out.String(), "Ready to accept") },
		func() string { return x.out.String() + x.err.String() })
	redisDo := func(args ...string) string {
		b, err := exec.Command(cli, append([]string{"-p", port}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("redis-cli %v: %v %s\n%s", args, err, b, x.err)
		}
		return string(bytes.TrimSpace(b))
	}
	redisDo("debug", "populate", "20000", "key", "100")
	redisDo("bgsave") // forks
	waitFor(t, 20*time.Second, "bgsave", func() bool { return strings.Contains(redisDo("info", "persistence"), "rdb_bgsave_in_progress:0") }, nil)
	if info := redisDo("info", "persistence"); !strings.Contains(info, "rdb_last_bgsave_status:ok") {
		t.Errorf("bgsave: %s", info)
	}
	if n := redisDo("dbsize"); n != "20000" {
		t.Errorf("dbsize %s", n)
	}
	seenOrSaid(t, x, x.heap("heap"), 20000*100)
	redisDo("flushall")
	x.get("/debug/pprof/heap?debug=1")
	redisDo("shutdown", "nosave")
	<-x.ended
	if x.status != nil {
		t.Errorf("redis ended with %v\n%s", x.status, x.err)
	}
}

// seenOrSaid: at least so many bytes are in use, or the profile says what is not seen.
func seenOrSaid(t *testing.T, x *target, p *profile.Profile, bytes int64) {
	t.Helper()
	var inUse int64
	for _, s := range p.Sample {
		inUse += s.Value[inuseSpace]
	}
	said := strings.Contains(comments(p), "not seen")
	if said {
		waitFor(t, 3*time.Second, "a line on standard error", func() bool { return strings.Contains(x.err.String(), "not seen") }, nil)
	}
	t.Logf("%d KiB in use, said not to see %v", inUse>>10, said)
	if inUse < bytes && !said {
		t.Errorf("%d bytes in use and nothing said\n%s\n%s", inUse, comments(p), x.err)
	}
}
