// SPDX-License-Identifier: Apache-2.0

// Questions about a profile.
package e2e

import (
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

const (
	signalsBlocked = "[signals blocked]"
	threadExit     = "[thread exit]"
	notCovered     = "[not sampled]"
)

// stack is a sample's function names, leaf first, inlined ones included.
func stack(s *profile.Sample) []string {
	var names []string
	for _, l := range s.Location {
		for _, line := range l.Line {
			names = append(names, line.Function.Name)
		}
	}
	return names
}

func contains(s *profile.Sample, match func(string) bool) bool {
	for _, name := range stack(s) {
		if match(name) {
			return true
		}
	}
	return false
}

func named(want ...string) func(string) bool {
	return func(name string) bool {
		for _, w := range want {
			if name == w {
				return true
			}
		}
		return false
	}
}

// cpu sums the CPU time of the samples that keep selects (nil: all).
func cpu(p *profile.Profile, keep func(*profile.Sample) bool) time.Duration {
	var ns int64
	for _, s := range p.Sample {
		if keep == nil || keep(s) {
			ns += s.Value[1]
		}
	}
	return time.Duration(ns)
}

func cpuOf(p *profile.Profile, functions ...string) time.Duration {
	return cpu(p, func(s *profile.Sample) bool { return contains(s, named(functions...)) })
}

// top lists stacks by CPU time, for failure messages.
func top(p *profile.Profile, n int, keep func(*profile.Sample) bool) string {
	sums := map[string]time.Duration{}
	for _, s := range p.Sample {
		if keep == nil || keep(s) {
			sums[strings.Join(stack(s), " < ")] += time.Duration(s.Value[1])
		}
	}
	keys := make([]string, 0, len(sums))
	for k := range sums {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return sums[keys[i]] > sums[keys[j]] })
	var b strings.Builder
	for i, k := range keys {
		if i == n {
			break
		}
		b.WriteString("\n  " + sums[k].String() + " " + k)
	}
	return b.String()
}

func comments(p *profile.Profile) string { return strings.Join(p.Comments, "\n") }

// within fails unless got is want, up to a relative and an absolute slack.
func within(t *testing.T, what string, got, want time.Duration, relative float64, absolute time.Duration) {
	t.Helper()
	slack := time.Duration(float64(want)*relative) + absolute
	if got < want-slack || got > want+slack {
		t.Errorf("%s: %v in the profile, %v in truth (%+.2f %%, allowed %v)", what, got, want,
			100*(float64(got)/float64(want)-1), slack)
	}
}
