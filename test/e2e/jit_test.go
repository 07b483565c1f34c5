// SPDX-License-Identifier: Apache-2.0

// Promise: code that a runtime generates and announces to perf has its names, the newest at the time of the profile; its
// stacks are whole, through frame pointers and back to unwind tables; the same names in every format.
package e2e

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// chained demands that every sample on the main thread with generated code in it goes through these functions, in this
// order from the leaf, and that there are at least n of them.
func chained(t *testing.T, p *profile.Profile, n int64, chain ...string) {
	t.Helper()
	var all int64
	for _, s := range p.Sample {
		names := stack(s)
		if !contains(s, named(chain...)) {
			continue
		}
		all += s.Value[0]
		text := strings.Join(names, ";") + ";"
		// A sample may be between two functions of the chain, but whatever it is in was called by the rest.
		rest := chain
		for len(rest) > 0 && !strings.Contains(text, rest[0]+";") {
			rest = rest[1:]
		}
		if !strings.Contains(text, strings.Join(rest, ";")+";") || !strings.Contains(text, "main;") {
			t.Errorf("%d samples of %s", s.Value[0], text)
		}
	}
	if all < n {
		t.Errorf("%d samples, expected at least %d:%s", all, n, top(p, 12, nil))
	}
}

// throughGenerated demands that at most one stack in a hundred ends in generated code without a name.
func throughGenerated(t *testing.T, p *profile.Profile) {
	t.Helper()
	ended := cpu(p, func(s *profile.Sample) bool {
		names := stack(s)
		return len(names) > 0 && names[len(names)-1] == "[unknown code]"
	})
	if all := cpu(p, nil); ended > all/100 {
		t.Errorf("%v of %v end in generated code:%s", ended, all, top(p, 12, nil))
	}
}

func function(p *profile.Profile, name string) *profile.Function {
	for _, f := range p.Function {
		if f.Name == name {
			return f
		}
	}
	return nil
}

func generatedCode(t *testing.T, kind string) {
	dir := t.TempDir()
	x := start(t, nil, victim("jitcode"), kind, dir)
	path := filepath.Join(dir, fmt.Sprintf("jit-%d.dump", x.pid()))
	if kind == "map" {
		path = fmt.Sprintf("/tmp/perf-%d.map", x.pid())
	}
	t.Cleanup(func() { os.Remove(path) })
	waitFor(t, 10*time.Second, path, func() bool {
		s, err := os.Stat(path)
		return err == nil && s.Size() > 100
	}, nil)
	p := x.profile("seconds=1&hz=500")
	chained(t, p, 5, "native_burn", "jit leaf", "py::jitMiddle", "jitOuter", "run_generated")
	outer, middle := function(p, "jitOuter"), function(p, "py::jitMiddle")
	if outer.Filename != "/srv/app.js" || outer.StartLine != 10 || outer.SystemName != "JS:*jitOuter /srv/app.js:10:1" {
		t.Errorf("jitOuter is %+v", *outer)
	}
	if middle.Filename != "/srv/app.py" || middle.SystemName != "py::jitMiddle:/srv/app.py" {
		t.Errorf("jitMiddle is %+v", *middle)
	}
	for _, l := range p.Location {
		if l.Line[0].Function != outer {
			continue
		}
		address := fmt.Sprintf("%#x", l.Address)
		if a := x.get("/debug/pprof/symbol?" + address); !strings.Contains(string(a.body), address+" JS:*jitOuter /srv/app.js:10:1") {
			t.Errorf("GET symbol?%s: %s", address, a.body)
		}
		a, err := ask(x.addr, "POST", "/debug/pprof/symbol", "application/x-www-form-urlencoded", []byte(url.QueryEscape(address)))
		if err != nil || !strings.Contains(string(a.body), "JS:*jitOuter") {
			t.Errorf("POST symbol: %v %s", err, a.body)
		}
		break
	}
	seen := false
	for i := 0; i < 50 && !seen; i++ { // a thread may be caught in native code before it called anything
		seen = strings.Contains(string(x.get("/debug/pprof/goroutine?debug=2").body), "jitOuter")
	}
	if !seen {
		t.Error("goroutine?debug=2 does not know jitOuter")
	}
	x.open()
	waitFor(t, 10*time.Second, "new names", func() bool { return strings.Contains(x.out.String(), "renamed") }, nil)
	p = x.profile("seconds=1&hz=500")
	chained(t, p, 5, "native_burn", "jit leaf", "py::laterMiddle", "laterOuter", "run_generated")
	if function(p, "jitOuter") != nil || function(p, "py::jitMiddle") != nil {
		t.Errorf("old names are in the new profile:%s", top(p, 12, nil))
	}
	x.finish()
}

func TestPerfMap(t *testing.T) { generatedCode(t, "map") }
func TestJitDump(t *testing.T) { generatedCode(t, "dump") }

func TestNodeShowsJavaScript(t *testing.T) {
	node := need(t, "node")
	script := filepath.Join(t.TempDir(), "app.js")
	os.WriteFile(script, []byte(`function jsLeaf(n) { let s = 0; for (let i = 0; i < n; i++) s += Math.sin(i) * i % 7; return s; }
function jsMiddle(n) { try { return jsLeaf(n); } finally { jsMiddle.calls++; } }
jsMiddle.calls = 0;
const list = new Array(100).fill(2000);
function jsOuter() { list.forEach(jsMiddle); setImmediate(jsOuter); }
jsOuter();
`), 0o644)
	x := start(t, nil, node, "--perf-basic-prof", "--no-turbo-inlining", "--no-logfile-per-isolate",
		"--logfile="+script+".log", script)
	t.Cleanup(func() { os.Remove(fmt.Sprintf("/tmp/perf-%d.map", x.pid())) })
	waitFor(t, 30*time.Second, "compiled JavaScript", func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/tmp/perf-%d.map", x.pid()))
		return strings.Contains(string(b), "*jsMiddle")
	}, nil)
	p := x.profile("seconds=2&hz=500")
	rooted(t, p, 10)
	throughGenerated(t, p)
	demand(t, p, "jsLeaf", "jsMiddle", "jsOuter", "node::Start")
	f := function(p, "jsLeaf")
	if f == nil || f.Filename != script || f.StartLine != 1 {
		t.Errorf("jsLeaf is %+v", f)
	}
	all, known := cpu(p, nil), cpu(p, func(s *profile.Sample) bool { return contains(s, named("jsOuter")) })
	if known < all*9/10 {
		t.Errorf("%v of %v are under jsOuter:%s", known, all, top(p, 12, nil))
	}
}

// Java's compiled code keeps no frame pointer and its interpreter returns to where no call stands.
func TestJavaStacksAreWhole(t *testing.T) {
	java := need(t, "java")
	dir := t.TempDir()
	program := filepath.Join(dir, "Busy.java")
	os.WriteFile(program, []byte(`public class Busy {
  static double leaf(int n) { double s = 0; for (int i = 1; i < n; i++) s += Math.log(i) * (i % 7); return s; }
  static double middle(int n) { double t = 0; for (int k = 0; k < 20; k++) t += leaf(n + k); return t; }
  static double outer() { double t = 0; for (int k = 0; k < 20; k++) t += middle(1000); return t; }
  public static void main(String[] a) throws Exception {
    Thread w = new Thread(() -> { StringBuilder b = new StringBuilder(); while (true) { b.setLength(0); for (int i = 0; i < 1000; i++) b.append(i).append(','); } });
    w.setDaemon(true); w.start(); double t = 0; System.out.println("busy"); while (t >= 0) t += outer();
  }
}
`), 0o644)
	x := start(t, nil, java, "-Xmx64m", "-cp", dir, program)
	ready := func() bool { return strings.Contains(x.out.String(), "busy") }
	for end := time.Now().Add(time.Minute); !ready(); time.Sleep(50 * time.Millisecond) {
		select {
		case <-x.ended:
			t.Skipf("java does not run a source file here: %s", x.err)
		default:
		}
		if time.Now().After(end) {
			t.Skip("java does not begin")
		}
	}
	p := x.profile("seconds=2&hz=500")
	rooted(t, p, 10)
	throughGenerated(t, p)
}
