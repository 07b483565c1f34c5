// SPDX-License-Identifier: Apache-2.0

// Questions about profiles of threads, shared by the threads_*_test.go.
package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// longer is a number from the environment, or a short default.
func longer(variable string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return otherwise
}

// named fetches a profile of any kind; path is what follows /debug/pprof/.
func (x *target) named(path string) *profile.Profile {
	x.t.Helper()
	a := x.get(root + path)
	if a.status != 200 {
		x.t.Fatalf("%s: status %d: %s", path, a.status, a.body)
	}
	p, err := parseStrictly(a.body)
	if err != nil {
		x.t.Fatalf("%s: %v", path, err)
	}
	return p
}

// goroutine is a block of debug=2.
type goroutine struct {
	tid         int
	state, name string
	minutes     int
	frames      []string // leaf first
	creator     string
	creatorTid  int
	text        string
}

var (
	goroutineHead = regexp.MustCompile(`^goroutine (\d+) \[([^\]",]+)(?:, (\d+) minutes)?(?:, "((?:[^"\\]|\\x[0-9a-f]{2})*)")?\]:$`)
	goroutineBy   = regexp.MustCompile(`^created by (.+?)(?: in goroutine (\d+))?$`)
	goroutineFile = regexp.MustCompile(`^\t\S.*?(?::\d+)?(?: \+0x[0-9a-f]+)?$`)
	goroutineNote = regexp.MustCompile(`pprofagent: (\d+) threads of the agent left out; (\d+) stacks cut short; (\d+) threads ran on unasked .*, (\d+) not readable .*; took (\d+) us, (\d+) us of CPU`)
)

// dumpNote is what the agent says of a dump.
type dumpNote struct {
	ours, cut, unasked, unreadable int
	took, cpu                      time.Duration
}

func readNote(t *testing.T, text string) dumpNote {
	t.Helper()
	m := goroutineNote.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no note of the agent's in %.300q", text)
	}
	var n [6]int
	for i := range n {
		n[i], _ = strconv.Atoi(m[i+1])
	}
	return dumpNote{n[0], n[1], n[2], n[3], time.Duration(n[4]) * time.Microsecond, time.Duration(n[5]) * time.Microsecond}
}

// dump fetches and takes apart debug=2.
func (x *target) dump() (all []goroutine, note dumpNote) {
	x.t.Helper()
	a := x.get(root + "goroutine?debug=2")
	isText(x.t, a, "text/plain; charset=utf-8")
	for _, block := range strings.Split(strings.TrimRight(string(a.body), "\n"), "\n\n") {
		if strings.HasPrefix(block, "# ") {
			note = readNote(x.t, block)
			continue
		}
		g, err := readGoroutine(block)
		if err != nil {
			x.t.Fatalf("%v in\n%s", err, block)
		}
		all = append(all, g)
	}
	return all, note
}

func readGoroutine(block string) (g goroutine, err error) {
	lines := strings.Split(block, "\n")
	m := goroutineHead.FindStringSubmatch(lines[0])
	if m == nil {
		return g, fmt.Errorf("a head %q", lines[0])
	}
	g = goroutine{state: m[2], name: m[4], text: block}
	g.tid, _ = strconv.Atoi(m[1])
	g.minutes, _ = strconv.Atoi(m[3])
	for i := 1; i < len(lines); i += 2 {
		if i+1 == len(lines) || !goroutineFile.MatchString(lines[i+1]) {
			return g, fmt.Errorf("no place behind %q", lines[i])
		}
		if by := goroutineBy.FindStringSubmatch(lines[i]); by != nil && i+2 == len(lines) {
			g.creator = by[1]
			g.creatorTid, _ = strconv.Atoi(by[2])
		} else if name, ok := strings.CutSuffix(lines[i], "(...)"); ok {
			g.frames = append(g.frames, name)
		} else {
			return g, fmt.Errorf("a line %q", lines[i])
		}
	}
	return g, nil
}

func (g *goroutine) has(part string) bool {
	for _, f := range g.frames {
		if strings.Contains(f, part) {
			return true
		}
	}
	return false
}

// tasks are the threads of the target as the kernel lists them, the agent's included, by name.
func tasks(pid int) map[int]string {
	all := map[int]string{}
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, e := range entries {
		tid, _ := strconv.Atoi(e.Name())
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid))
		if err == nil {
			all[tid] = strings.TrimRight(string(comm), "\n")
		}
	}
	return all
}

func (x *target) awaitReady() {
	x.t.Helper()
	waitFor(x.t, 30*time.Second, "ready", func() bool { return strings.Contains(x.out.String(), "ready\n") },
		func() string { return x.out.String() + x.err.String() })
	time.Sleep(300 * time.Millisecond) // all asleep
}
