// SPDX-License-Identifier: Apache-2.0

// Command bench measures what the agent costs: the same work under no preload, under the least that any such agent must
// do, under the agent in each of its states, and under the profilers Debian has.
//
// All variants of a workload run in every round, in a new order each time, and each figure is first compared with its
// neighbours of the same round: a machine that is slower for a while then slows both sides. A second series without any
// preload, the control, shows what the machine calls a difference where there is none.
//
// environment: LIB the library, OUT where the programs of test/bench are, BENCH_ROUNDS rounds of each workload,
// BENCH_ONLY a pattern of workloads and parts to run, BENCH_VARIANTS one of variants to race against no preload.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

var (
	library, programs, scratch string
	rounds                     int // 0: each workload's own number
	only, onlyVariants         *regexp.Regexp
)

func fatal(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
	os.RemoveAll(scratch)
	os.Exit(1)
}

func readKnobs() {
	var err error
	library, programs = os.Getenv("LIB"), os.Getenv("OUT")+"/bench"
	if programs, err = filepath.Abs(programs); err != nil {
		fatal("%v", err)
	}
	if v := os.Getenv("BENCH_ROUNDS"); v != "" {
		if rounds, err = strconv.Atoi(v); err != nil || rounds < 1 {
			fatal("BENCH_ROUNDS=%s is not a number of rounds", v)
		}
	}
	if only, err = regexp.Compile(os.Getenv("BENCH_ONLY")); err != nil {
		fatal("BENCH_ONLY: %v", err)
	}
	if onlyVariants, err = regexp.Compile(os.Getenv("BENCH_VARIANTS")); err != nil {
		fatal("BENCH_VARIANTS: %v", err)
	}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name == "LD_PRELOAD" || name == "GLIBC_TUNABLES" || strings.HasPrefix(name, "PPROF_") ||
			strings.HasPrefix(name, "TCMALLOC_") || strings.HasPrefix(name, "MALLOC_") {
			os.Unsetenv(name)
		}
	}
	os.Setenv("PYTHONHASHSEED", "0") // or its dictionaries have another shape in each run
}

// freeze copies what is measured: a build meanwhile must not change it.
func freeze() {
	copyTo := func(path string) string {
		to := filepath.Join(scratch, filepath.Base(path))
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(to, b, 0o755)
		}
		if err != nil {
			fatal("%v", err)
		}
		return to
	}
	library = copyTo(library)
	for _, name := range []string{"cpu", "create", "malloc", "lock", "trivial", "spawn", "unwind", "trace", "empty", "passthrough"} {
		copyTo(filepath.Join(programs, name))
	}
	programs = scratch
}

func main() {
	readKnobs()
	var err error
	if scratch, err = os.MkdirTemp("", "ppa-bench."); err != nil {
		fatal("%v", err)
	}
	os.Chmod(scratch, 0755) // PostgreSQL, another user, loads libraries from there
	defer os.RemoveAll(scratch)
	defer removeCluster()
	freeze()
	// Everything we start dies with us; only the scratch directory must not stay.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		fatal("interrupted")
	}()

	describeMachine()
	var bars []bar
	for _, w := range workloads() {
		if only.MatchString(w.name) {
			bars = append(bars, w.measure()...)
		}
	}
	for _, p := range parts() {
		if only.MatchString(p.name) {
			fmt.Printf("== %s: %s\n\n", p.name, p.what)
			bars = append(bars, p.run()...)
			fmt.Println()
		}
	}
	summarise(bars)
}
