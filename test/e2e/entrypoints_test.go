// SPDX-License-Identifier: Apache-2.0

// Promise: the server behind an entrypoint is profiled, not the shell before it; forked children are profiled, each
// under its own address, or, with one fixed port, when their turn comes.
package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// announced is the agents' lines on standard error.
func (x *target) announced() []string {
	var out []string
	for _, line := range strings.Split(x.err.String(), "\n") {
		if strings.HasPrefix(line, "pprofagent: ") {
			out = append(out, line)
		}
	}
	return out
}

func TestEntrypoints(t *testing.T) {
	spin := victim("spin")
	for _, c := range []struct {
		name    string
		command []string
	}{
		{"sh -c, exec", []string{"sh", "-c", "sleep 0.1; exec " + spin + " 1 0"}},
		{"sh -c, no exec", []string{"sh", "-c", "sleep 0.1; " + spin + " 1 0; true"}},
		{"bash -c, no exec", []string{"bash", "-c", "sleep 0.1; " + spin + " 1 0; true"}},
		{"dash -c, no exec", []string{"dash", "-c", "sleep 0.1; " + spin + " 1 0; true"}},
		{"busybox sh", []string{"busybox", "sh", "-c", "sleep 0.1; " + spin + " 1 0; true"}},
		{"env", []string{"env", "X=1", spin, "1", "0"}},
		{"tini", []string{"tini", "-s", "--", spin, "1", "0"}},
		{"dumb-init", []string{"dumb-init", spin, "1", "0"}},
		{"nested", []string{"sh", "-c", "sleep 0.1; env Y=2 sh -c 'sleep 0.05; exec " + spin + " 1 0'; true"}},
		{"two in a row", []string{"sh", "-c", spin + " 1 50; exec " + spin + " 1 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			need(t, c.command[0])
			// Where the host stands still for a while, an entrypoint's sleep lives long enough to speak, rightly.
			var wrong string
			for range 3 {
				if wrong = entrypoint(t, spin, c.command); wrong == "" {
					return
				}
				t.Log(wrong)
			}
			t.Error(wrong)
		})
	}
}

// entrypoint starts a command on a fixed port, the case that goes wrong when a shell takes it first, and tells who spoke that
// should not have.
func entrypoint(t *testing.T, spin string, command []string) (wrong string) {
	t.Helper()
	addr := freePort(t)
	x := launch(t, []string{"PPROF_ADDR=" + addr}, command...)
	var cmdline string
	waitFor(t, 10*time.Second, "the server behind the entrypoint", func() bool {
		a, err := ask(addr, "GET", "/debug/pprof/cmdline", "", nil)
		if err != nil {
			return false
		}
		cmdline = string(a.body)
		return cmdline == spin+"\x001\x000"
	}, func() string { return cmdline + "\n" + x.err.String() })
	p, err := fetchProfile(addr, "seconds=1")
	if err != nil {
		t.Fatal(err)
	}
	if d := cpuOf(p, "inner"); d < 20*time.Millisecond {
		t.Errorf("%v of CPU in the profile:%s", d, top(p, 5, nil))
	}
	// Whoever else has the port for a moment (sleep) says nothing.
	lines := x.announced()
	if servers := strings.Count(strings.Join(command, " "), spin); len(lines) == 0 || len(lines) > servers {
		wrong = fmt.Sprintf("announced %d times: %q", len(lines), lines)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "pprofagent: http://"+addr+"/") {
			t.Errorf("announced: %s", line)
		} else if !strings.HasSuffix(line, ", spin)") {
			wrong = "announced: " + line
		}
	}
	if b, _ := os.ReadFile(x.addrFile); strings.TrimSpace(string(b)) != addr {
		t.Errorf("the address file says %q", b)
	}
	x.kill()
	return wrong
}

func forkedChild(t *testing.T, x *target) int {
	t.Helper()
	var child int
	waitFor(t, 10*time.Second, "the fork", func() bool {
		n, _ := fmt.Sscanf(x.out.String(), "child %d", &child)
		return n == 1
	}, func() string { return x.err.String() })
	t.Cleanup(func() { syscall.Kill(child, syscall.SIGKILL) })
	return child
}

// The parent goes away: its child takes the port over within about two seconds.
func TestForkOnlyChildTakesOverAFixedPort(t *testing.T) {
	addr := freePort(t)
	x := start(t, []string{"PPROF_ADDR=" + addr}, victim("forker"), "exit")
	x.open()
	child := forkedChild(t, x)
	began := time.Now()
	waitFor(t, 10*time.Second, "the child's announcement", func() bool {
		return strings.Contains(x.err.String(), fmt.Sprintf("(pid %d, forker)", child))
	}, func() string { return x.err.String() })
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the port was taken over after %v", took)
	}
	p, err := fetchProfile(addr, "seconds=1")
	if err != nil {
		t.Fatal(err)
	}
	if d := cpuOf(p, "child_work"); d < 20*time.Millisecond {
		t.Errorf("%v of the child's CPU in its profile:%s", d, top(p, 5, nil))
	}
	// The parent may have lived too short to say anything.
	if n := len(x.announced()); n < 1 || n > 2 {
		t.Errorf("%d lines: %q", n, x.announced())
	}
}

// While the parent stays, a child with a fixed port waits and says nothing; the parent's profile is the parent's.
func TestForkOnlyChildWaitsItsTurn(t *testing.T) {
	addr := freePort(t)
	x := start(t, []string{"PPROF_ADDR=" + addr}, victim("forker"), "stay")
	x.open()
	child := forkedChild(t, x)
	p := x.profile("seconds=1")
	if d := cpuOf(p, "child_work"); d != 0 {
		t.Errorf("%v of the child's CPU in the parent's profile", d)
	}
	if n := len(x.announced()); n != 1 {
		t.Errorf("%d lines: %q", n, x.announced())
	}
	if err := syscall.Kill(child, 0); err != nil {
		t.Errorf("the child: %v", err)
	}
}

// With %p, or port 0, each has an address of its own.
func TestForkOnlyChildHasItsOwnAddress(t *testing.T) {
	for _, setting := range []string{"unix socket named by pid", "port 0"} {
		t.Run(setting, func(t *testing.T) {
			dir := t.TempDir()
			value := "127.0.0.1:0"
			if setting != "port 0" {
				value = "unix:" + dir + "/x-%p"
			}
			x := start(t, []string{"PPROF_ADDR=" + value}, victim("forker"), "stay")
			parentAddr := x.addr
			x.open()
			child := forkedChild(t, x)
			var childAddr string
			waitFor(t, 10*time.Second, "the child's announcement", func() bool {
				for _, line := range x.announced() {
					if !strings.Contains(line, fmt.Sprintf("(pid %d, forker)", child)) {
						continue
					}
					if _, rest, ok := strings.Cut(line, "http://127.0.0.1:"); ok {
						port, _, _ := strings.Cut(rest, "/")
						childAddr = "127.0.0.1:" + port
						return true
					}
					childAddr = fmt.Sprintf("unix:%s/x-%d", dir, child)
					_, err := os.Stat(filepath.Join(dir, fmt.Sprintf("x-%d", child)))
					return err == nil
				}
				return false
			}, func() string { return x.err.String() })
			p, err := fetchProfile(childAddr, "seconds=1")
			if err != nil {
				t.Fatal(err)
			}
			if d := cpuOf(p, "child_work"); d < 20*time.Millisecond {
				t.Errorf("%v of the child's CPU in its profile:%s", d, top(p, 5, nil))
			}
			p, err = fetchProfile(parentAddr, "seconds=1")
			if err != nil {
				t.Fatal(err)
			}
			if d := cpuOf(p, "child_work"); d != 0 {
				t.Errorf("%v of the child's CPU in the parent's profile", d)
			}
		})
	}
}
