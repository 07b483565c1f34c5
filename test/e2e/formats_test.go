// SPDX-License-Identifier: Apache-2.0

// Promise: every profile of stacks has the same figures in each of its forms; a form that does not exist is refused at
// once, in words.
package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// parseFolded reads collapsed stacks as flamegraph.pl does: the last word is the value.
func parseFolded(t *testing.T, body []byte) map[string]int64 {
	t.Helper()
	stacks := map[string]int64{}
	for _, line := range strings.Split(strings.TrimSuffix(string(body), "\n"), "\n") {
		if line == "" && len(body) == 0 {
			break
		}
		at := strings.LastIndexByte(line, ' ')
		if at <= 0 {
			t.Fatalf("no stack and value: %q", line)
		}
		value, err := strconv.ParseInt(line[at+1:], 10, 64)
		if err != nil || value == 0 {
			t.Fatalf("value of %q: %v", line, err)
		}
		if _, again := stacks[line[:at]]; again {
			t.Errorf("twice: %q", line)
		}
		stacks[line[:at]] = value
	}
	return stacks
}

// foldProfile is what parseFolded should have read, by the profile for pprof.
func foldProfile(p *profile.Profile, index int) map[string]int64 {
	stacks := map[string]int64{}
	for _, s := range p.Sample {
		var names []string
		for _, l := range s.Location {
			for _, line := range l.Line {
				names = append(names, strings.ReplaceAll(line.Function.Name, ";", "%3B"))
			}
		}
		slices.Reverse(names)
		if stack := strings.Join(names, ";"); stack != "" {
			stacks[stack] += s.Value[index]
		} else {
			stacks["[no stack]"] += s.Value[index]
		}
	}
	for stack, v := range stacks {
		if v == 0 {
			delete(stacks, stack)
		}
	}
	return stacks
}

func sumOf(stacks map[string]int64) (sum int64) {
	for _, v := range stacks {
		sum += v
	}
	return sum
}

// defaultIndex is the sample type that pprof opens.
func defaultIndex(p *profile.Profile) int {
	for i, s := range p.SampleType {
		if s.Type == p.DefaultSampleType {
			return i
		}
	}
	return len(p.SampleType) - 1
}

func sameStacks(t *testing.T, what string, got, want map[string]int64) {
	t.Helper()
	if sumOf(got) != sumOf(want) || len(got) != len(want) {
		t.Errorf("%s: %d stacks, sum %d; the profile has %d, %d", what, len(got), sumOf(got), len(want), sumOf(want))
	}
	for stack, v := range want {
		if got[stack] != v {
			t.Fatalf("%s: %d for %q, the profile says %d", what, got[stack], stack, v)
		}
	}
}

// quietTargets have something in every kind, and change nothing any more.
func quietTargets(t *testing.T) map[string]*target {
	sites := start(t, []string{"PPROF_HEAP_RATE=1"}, victim("manysites"), "500")
	locks := start(t, []string{"PPROF_BLOCK_RATE=1"}, victim("lockholders"), "mutex", "20")
	maps := start(t, nil, victim("mapper"))
	locks.open()
	maps.open()
	ready := func(x *target, word string) *target {
		waitFor(t, 30*time.Second, word+" of "+x.cmd.String(), func() bool { return strings.Contains(x.out.String(), word) }, nil)
		return x
	}
	return map[string]*target{
		"heap": ready(sites, "ready"), "allocs": sites, "heap_age": sites,
		"mutex": ready(locks, "done"), "block": locks, "goroutine": locks, "threadcreate": locks,
		"mmap": ready(maps, "TRUTH"),
	}
}

func TestFoldedSaysWhatTheProfileSays(t *testing.T) {
	targets := quietTargets(t)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			x := targets[k.name]
			p := isFile(t, x.get(root+k.name), k.name)
			ask := func(query string) map[string]int64 {
				a := x.get(root + k.name + "?format=folded" + query)
				isText(t, a, "text/plain; charset=utf-8")
				return parseFolded(t, a.body)
			}
			for i, s := range p.SampleType {
				want := foldProfile(p, i)
				sameStacks(t, s.Type, ask("&type="+s.Type), want)
				sameStacks(t, fmt.Sprint(i), ask(fmt.Sprintf("&sample_index=%d", i)), want)
				if i == defaultIndex(p) {
					sameStacks(t, "default", ask(""), want)
					if sumOf(want) == 0 {
						t.Errorf("%s is empty: nothing is tested", s.Type)
					}
				}
			}
			if k.hasDelta {
				if d := ask("&seconds=1"); len(d) != 0 && k.name != "goroutine" {
					t.Errorf("something changed in a program that stands still: %v", d)
				}
			}
			if a := x.get(root + k.name + "?format=pprof"); len(isFile(t, a, k.name).Sample) != len(p.Sample) {
				t.Errorf("format=pprof is not the same file")
			}
		})
	}
}

func TestFoldedProfilesOfTime(t *testing.T) {
	x := start(t, nil, victim("spin"), "1", "0")
	for name, function := range map[string]string{"profile": "inner", "wall": "inner"} {
		a := x.get(root + name + "?seconds=1&format=folded")
		isText(t, a, "text/plain; charset=utf-8")
		var burnt, periods int64
		for stack, v := range parseFolded(t, a.body) {
			if regexp.MustCompile(`;outer;middle;` + function + `(;|$)`).MatchString(stack) {
				burnt += v
			}
		}
		// Nanoseconds of a second: more than a count of samples ever is, and a machine that gives us a
		// thousandth of a CPU would fail elsewhere first.
		if burnt < 1e6 {
			t.Errorf("%s: %d ns in %s:\n%s", name, burnt, function, a.body)
		}
		a = x.get(root + name + "?seconds=1&format=folded&type=samples")
		for _, v := range parseFolded(t, a.body) {
			periods += v
		}
		if periods < 1 || periods > 1000 {
			t.Errorf("%s: %d samples in a second", name, periods)
		}
	}
}

func TestFormsThatDoNotExist(t *testing.T) {
	x := start(t, nil, victim("idle"))
	const noFormat = "invalid value for \"format\" - must be pprof, folded or flamegraph\n"
	for path, words := range map[string]string{
		"heap?format=svg":                            noFormat,
		"heap?format=Folded&seconds=30":              noFormat,
		"profile?format=svg":                         noFormat,
		"wall?format=" + strings.Repeat("folded", 9): noFormat,
		"heap?format=folded&type=cpu":                "invalid value for \"type\" - this profile has no such sample type\n",
		"heap?format=folded&sample_index=4":          "invalid value for \"type\" - this profile has no such sample type\n",
		"profile?format=folded&type=-1":              "invalid value for \"type\" - this profile has no such sample type\n",
		"heap?format=folded&debug=1":                 "format and debug params are incompatible\n",
	} {
		isErr(t, x.get(root+path), 400, words)
	}
	// An empty one is none, and a type without a format means nothing.
	for _, path := range []string{"heap?format=", "heap?type=nonsense", "heap?format=pprof&type=nonsense"} {
		isFile(t, x.get(root+path), "heap")
	}
	x.finish()
}

// Promise: HEAD has every header that GET has, whatever the form; what depends on the body may be missing.
func TestHeadOfEveryForm(t *testing.T) {
	x := start(t, nil, victim("idle"))
	for _, path := range []string{"", "heap", "heap?debug=1", "heap?format=folded", "heap?format=flamegraph", "goroutine?format=flamegraph",
		"profile?seconds=1&format=flamegraph", "wall?seconds=1&format=folded", "delta_heap", "trace?seconds=1", "trace?seconds=1&format=perfetto"} {
		get := x.get(root + path)
		head, err := ask(x.addr, "HEAD", root+path, "", nil)
		if err != nil || head.status != 200 || len(head.body) != 0 {
			t.Errorf("HEAD %q: %v %v", path, err, head)
			continue
		}
		get.header.Del("Date")
		head.header.Del("Date")
		if head.header.Get("Content-Length") == "" {
			get.header.Del("Content-Length")
		}
		if !maps.EqualFunc(head.header, get.header, slices.Equal) {
			t.Errorf("HEAD %q: %v, by GET %v", path, head.header, get.header)
		}
		if flame := strings.Contains(path, "flamegraph"); flame && !strings.Contains(head.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("HEAD %q: no policy: %v", path, head.header)
		}
	}
	x.finish()
}
