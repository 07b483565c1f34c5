// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// What the lines of a large program cost whoever waits for them, and the program: of 102 MB of C++ with `-g`, most of it
// the standard library's templates, 300 functions compute. The first profile asks for their lines. Meanwhile another
// thread of the program wakes up 2,000 times a second and notes how late; it is compared with the same while another
// program computes as long, and while nobody does.

const (
	linesFiles     = 10 // of 15 MB each
	linesFunctions = 30 // in each
	linesRounds    = 30
)

const linesTypes = `#include <map>
#include <set>
#include <string>
#include <vector>
#include <unordered_map>
#include <functional>
#include <algorithm>
#include <regex>
#include <deque>
#include <list>
template <int I> struct T { int a; double b; std::string s; bool operator<(const T &o) const { return a < o.a; } };
template <int I> static inline int mix(int x) { return x * (I + 3) ^ (x >> 3); }
bool matches_FILE(const char *s) { std::regex r("a(b|c)*dFILE"); return std::regex_match(s, r); }
`

const linesFunction = `
static __attribute__((noinline)) unsigned burn_N(unsigned x)
{
	volatile unsigned r = x;
	for (int i = 0; i < 400; i++) { r = mix<N>(r); r += mix<N + 1>(r + 1); r ^= i; }
	return r;
}
unsigned fill_FILE_N(unsigned x)
{
	std::map<T<N>, std::string> m; std::vector<T<N>> v(3); std::unordered_map<int, T<N>> u; std::set<T<N>> s;
	std::deque<T<N>> d; std::list<T<N>> l;
	for (auto &t : v) { t.a = x++; m[t] = "a"; u[t.a] = t; s.insert(t); d.push_back(t); l.push_back(t); }
	std::sort(v.begin(), v.end());
	std::function<int(int)> h = [&](int q) { return q + v[0].a; };
	return m.size() + u.size() + h(3) + s.size() + d.size() + l.size();
}
`

// One line for each time the second thread woke up: when, in ns, and how many microseconds late.
const linesMain = `#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
enum { MOST = 400000 };
static volatile bool stop;
static volatile unsigned sink;
static uint64_t woke[MOST];
static uint32_t late[MOST], n;
static uint64_t now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static void *burn(void *) { unsigned x = 1; while (!stop) { CALLS sink = x; } return 0; }
static void *wake(void *)
{
	while (!stop && n < MOST) {
		uint64_t due = now() + 500000;
		timespec t = {(time_t)(due / 1000000000), (long)(due % 1000000000)};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0);
		woke[n] = now(); late[n] = (uint32_t)((woke[n] - due) / 1000); n++;
	}
	return 0;
}
int main(int argc, char **argv)
{
	pthread_t a, b;
	char c;
	if (argc > 2) { /* only compute, for so many ns */
		timespec t;
		do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); while (t.tv_sec * 1000000000ll + t.tv_nsec < atoll(argv[2]));
		return 0;
	}
	pthread_create(&a, 0, burn, 0); pthread_create(&b, 0, wake, 0);
	while (read(0, &c, 1) > 0) ;
	stop = true; pthread_join(a, 0); pthread_join(b, 0);
	FILE *f = fopen(argv[1], "w");
	for (uint32_t i = 0; i < n; i++) fprintf(f, "%llu %u\n", (unsigned long long)woke[i], late[i]);
	return fclose(f);
}
`

// largeSources are the program's files.
func largeSources() (text []string) {
	var calls, declared strings.Builder
	for f := 0; f < linesFiles; f++ {
		var b, all strings.Builder
		file := strconv.Itoa(f)
		b.WriteString(strings.ReplaceAll(linesTypes, "FILE", file))
		for i := 0; i < linesFunctions; i++ {
			b.WriteString(strings.NewReplacer("FILE", file, "N", strconv.Itoa(i)).Replace(linesFunction))
			fmt.Fprintf(&all, " x ^= burn_%d(x);", i)
		}
		fmt.Fprintf(&b, "unsigned all_%d(unsigned x) {%s return x; }\n", f, all.String())
		fmt.Fprintf(&declared, "unsigned all_%d(unsigned);\n", f)
		fmt.Fprintf(&calls, "x = all_%d(x); ", f)
		text = append(text, b.String())
	}
	return append(text, declared.String()+strings.ReplaceAll(linesMain, "CALLS", calls.String()))
}

func cxx(arguments ...string) error {
	out, err := exec.Command("g++", arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("g++: %v: %s", err, out)
	}
	return nil
}

// buildLarge makes the program, or finds it made by an earlier run.
func buildLarge() (path string, err error) {
	// It stays, as the scratch copies of the other programs do not.
	dir, err := filepath.Abs(os.Getenv("OUT") + "/bench/large")
	path = dir + "/large"
	if err != nil || exists(path) {
		return path, err
	}
	fmt.Println("compiling 102 MB, once: some minutes")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	var objects []string
	slots, errs := make(chan struct{}, runtime.NumCPU()), make(chan error)
	sources := largeSources()
	for i, t := range sources {
		source := fmt.Sprintf("%s/part%d.cc", dir, i)
		object := strings.TrimSuffix(source, ".cc") + ".o"
		if err := os.WriteFile(source, []byte(t), 0o644); err != nil {
			return "", err
		}
		objects = append(objects, object)
		go func() {
			slots <- struct{}{}
			err := cxx("-O1", "-g", "-c", "-o", object, source)
			<-slots
			errs <- err
		}()
	}
	for range sources {
		if e := <-errs; e != nil {
			err = e
		}
	}
	if err == nil {
		err = cxx(append([]string{"-o", path, "-pthread"}, objects...)...)
	}
	for _, o := range objects {
		os.Remove(o)
	}
	return path, err
}

// monotonic is the clock the program notes its wakes by.
func monotonic() uint64 {
	const clock = 1
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	return uint64(ts.Nano())
}

type window struct {
	what     string
	from, to uint64
}

// lateness of each wake in a window, in microseconds, sorted.
func (w window) lateness(rows [][2]uint64) []float64 {
	var l []float64
	for _, r := range rows {
		if w.from <= r[0] && r[0] <= w.to {
			l = append(l, float64(r[1]))
		}
	}
	sort.Float64s(l)
	return l
}

func readWakes(path string) (rows [][2]uint64, err error) {
	text, err := os.ReadFile(path)
	for _, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var r [2]uint64
		if _, err := fmt.Sscan(string(line), &r[0], &r[1]); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, err
}

// linesRound is one program's life: its first profile, a neighbour that computes as long, and nothing.
func linesRound(program, out string) (windows []window, rows [][2]uint64, err error) {
	v := variant{name: vIdle, preload: library, listens: true}
	started++
	p := &process{where: fmt.Sprintf("%s/%d", scratch, started)}
	if err = p.start(anyCPU, append(v.environment(p.where), "LD_PRELOAD="+v.preload), program, out); err != nil {
		return
	}
	defer p.kill()
	if err = await("the address", func() bool { return exists(agentSocket(p.where)) }); err != nil {
		return
	}
	time.Sleep(time.Second)
	from := monotonic() + uint64(time.Second)
	if _, err = p.profile(1, 100); err != nil {
		return
	}
	windows = append(windows, window{"the agent reads", from, monotonic()})
	took := time.Duration(monotonic() - from)
	time.Sleep(time.Second / 2)
	from = monotonic()
	if err = exec.Command(program, "", strconv.FormatInt(took.Nanoseconds(), 10)).Run(); err != nil {
		return
	}
	windows = append(windows, window{"another program computes", from, monotonic()})
	time.Sleep(time.Second / 2)
	from = monotonic()
	time.Sleep(took)
	windows = append(windows, window{"nobody", from, monotonic()})
	p.gate.Close()
	p.cmd.Wait()
	rows, err = readWakes(out)
	return
}

func measureLines() []bar {
	program, err := buildLarge()
	if err != nil {
		fmt.Printf("skipped: %v\n", err)
		return nil
	}
	n := linesRounds
	if rounds > 0 {
		n = rounds
	}
	var order []string
	all, longest, lasted := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for i := 0; i < n; i++ {
		windows, rows, err := linesRound(program, filepath.Join(scratch, "wakes"))
		if err != nil {
			fmt.Printf("fails: %v\n", err)
			return nil
		}
		order = order[:0]
		for _, w := range windows {
			l := w.lateness(rows)
			order = append(order, w.what)
			all[w.what] = append(all[w.what], l...)
			lasted[w.what] = append(lasted[w.what], float64(w.to-w.from)/1e6)
			if len(l) > 0 {
				longest[w.what] = append(longest[w.what], l[len(l)-1])
			}
		}
	}
	fmt.Printf("%-26s%10s%8s%8s%8s%8s%8s   %s\n", "late by us, while", "for ms", "wakes", "p50", "p99", "p99.9", "max", "the longest of a round, median")
	for _, w := range order {
		l := sorted(all[w])
		at := func(q float64) float64 { return l[min(len(l)-1, int(q*float64(len(l))))] }
		fmt.Printf("%-26s%10.0f%8d%8.0f%8.0f%8.0f%8.0f   %.0f\n", w, median(lasted[w]), len(l), at(0.5), at(0.99), at(0.999), l[len(l)-1], median(longest[w]))
	}
	return nil
}
