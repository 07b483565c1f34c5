// SPDX-License-Identifier: Apache-2.0

// Promise: programs in C++, Rust and Python that annotate themselves do the same with and without the agent, and with it
// are seen: their labels in profiles, and their own profile.
package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// annotated runs a test on each of the three programs.
func annotated(t *testing.T, test func(t *testing.T, command ...string)) {
	t.Run("C++", func(t *testing.T) { test(t, victim("annotated")) })
	t.Run("Rust", func(t *testing.T) {
		if _, err := os.Stat(victim("annotated_rust")); err != nil {
			t.Skip("no rustc of at least 1.66")
		}
		test(t, victim("annotated_rust"))
	})
	t.Run("Python", func(t *testing.T) { test(t, need(t, "/usr/bin/python3"), "../victims/annotated.py") })
}

func TestAnnotatedProgramsAreSeen(t *testing.T) {
	annotated(t, func(t *testing.T, command ...string) {
		bare := exec.Command(command[0], command[1:]...)
		bare.Stdin = strings.NewReader("go\ngo\n")
		if out, err := bare.CombinedOutput(); err != nil || string(out) != "served\n" {
			t.Fatalf("without the agent: %v, %q", err, out)
		}
		x := start(t, nil, command...)
		f := x.profileOn("seconds=2&hz=1000")
		x.open()
		x.awaitLine("served")
		late := f.isOver()
		byOp := map[string]int64{}
		for _, s := range f.wait().Sample {
			byOp[label(s, "op")] += s.Value[1] / 1e6
		}
		// 140 ms of CPU, sampled once a millisecond.
		if !late && byOp["checkout"] < 70 {
			t.Errorf("milliseconds by label: %v", byOp)
		}
		threads := map[string]int64{}
		for _, s := range x.named("goroutine").Sample {
			threads[label(s, "op")] += s.Value[0]
		}
		if threads["wait"] != 1 || threads["checkout"] != 0 {
			t.Errorf("threads by label: %v", threads)
		}
		pool := x.named("db.connections")
		if len(pool.Sample) != 1 || pool.Sample[0].Value[0] != 1 {
			t.Errorf("db.connections: %v", pool.Sample)
		}
		x.finish()
		if x.out.String() != "served\n" {
			t.Errorf("output with the agent: %q", x.out)
		}
	})
}
