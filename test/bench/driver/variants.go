// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// variant is one way to run a workload.
type variant struct {
	name    string
	preload string
	env     []string
	listens bool   // the agent in it has an address
	hz      int    // of the profile a client holds open meanwhile; 0 none
	perf    bool   // perf is attached
	ticks   bool   // something in it runs now and then: the program never rests
	of      string // what kind of profiling it is there for; "" is there for every workload
	own     string // the name of its own idle form
	missing string
}

// The names that bars refer to. The agent samples the heap at the default rate wherever nothing else is said.
const (
	vNone    = "no preload"
	vControl = "control (no preload)"
	vEmpty   = "empty object"
	vPass    = "pass-through + thread"
	vBarely  = "pass-through alone"
	vOff     = "agent off"
	vHeapOff = "agent, heap off"
	vIdle    = "agent idle (heap on)"
	v100     = "agent 100 Hz"
	v1000    = "agent 1000 Hz"
	vGperf   = "gperftools 100 Hz"
	vPerf    = "perf -F 99 -g"
	vTc      = "tcmalloc idle"
	vTcHeap  = "tcmalloc 512 KiB"
	vJe      = "jemalloc idle"
	vJeHeap  = "jemalloc prof 512 KiB"
	vTrack   = "heaptrack"
	vEvery   = "agent, every block"
	vTcEvery = "tcmalloc, every block"
	vJeEvery = "jemalloc, every block"
)

// The kinds of profiling.
const (
	ofCPU     = "cpu"
	ofHeap    = "heap"
	ofSamples = "samples" // of the heap, one each allocation
	ofIdle    = "idle"    // idle forms to compare these with
	ofLocks   = "locks"   // and waiting
)

func allVariants() []variant {
	all := []variant{
		{name: vNone},
		{name: vControl},
		{name: vEmpty, preload: programs + "/empty"},
		{name: vPass, preload: programs + "/passthrough"},
		{name: vBarely, preload: programs + "/passthrough", env: []string{"BENCH_ALONE=1"}, of: ofIdle},
		{name: vOff, preload: library},
		{name: vHeapOff, preload: library, listens: true, env: []string{"PPROF_HEAP_RATE=0"}, of: ofIdle},
		{name: vLockOff, preload: library, listens: true, env: []string{"PPROF_MUTEX_FRACTION=0", "PPROF_BLOCK_RATE=0"}, of: ofLocks},
		{name: vIdle, preload: library, listens: true, own: vHeapOff},
		{name: v100, preload: library, listens: true, hz: 100, of: ofCPU},
		{name: v1000, preload: library, listens: true, hz: 1000, of: ofCPU},
		{name: vGperf, env: []string{"CPUPROFILE_FREQUENCY=100"}, of: ofCPU},
		{name: vPerf, perf: true, of: ofCPU},
		{name: vTc, of: ofIdle},
		{name: vTcHeap, env: []string{"TCMALLOC_SAMPLE_PARAMETER=524288"}, of: ofHeap, own: vTc},
		{name: vJe, of: ofIdle},
		{name: vJeHeap, env: []string{"MALLOC_CONF=prof:true,lg_prof_sample:19"}, of: ofHeap, own: vJe},
		{name: vTrack, ticks: true, of: ofHeap},
		{name: vEvery, preload: library, listens: true, env: []string{"PPROF_HEAP_RATE=1"}, of: ofSamples, own: vHeapOff},
		{name: vTcEvery, env: []string{"TCMALLOC_SAMPLE_PARAMETER=1"}, of: ofSamples, own: vTc},
		{name: vJeEvery, env: []string{"MALLOC_CONF=prof:true,lg_prof_sample:0"}, of: ofSamples, own: vJe},
	}
	for i := range all {
		all[i].look()
	}
	return all
}

// Which workloads a variant is there for.
func forCPU(v *variant) bool { return v.name != vEmpty && (v.of == "" || v.of == ofCPU) }
func forHeap(v *variant) bool {
	return v.name != vEmpty && (v.of == "" || v.of == ofIdle || v.of == ofHeap)
}
func forSamples(v *variant) bool {
	return v.name == vNone || v.name == vControl || v.name == vPass || v.of == ofIdle && v.name != vBarely || v.of == ofSamples
}
func forPrograms(v *variant) bool { return forCPU(v) || v.name == vHeapOff || v.name == vLockOff }

// look finds what a variant needs of this machine.
func (v *variant) look() {
	switch v.name {
	case vGperf:
		v.find("libprofiler.so.0", "libgoogle-perftools4")
	case vTc, vTcHeap, vTcEvery:
		v.find("libtcmalloc.so.4", "libgoogle-perftools4") // the minimal one does not sample
	case vJe, vJeHeap, vJeEvery:
		v.find("libjemalloc.so.2", "libjemalloc2")
		if v.missing == "" && v.name != vJe {
			v.missing = tryJemalloc(v)
		}
	case vTrack:
		v.find("heaptrack/libheaptrack_preload.so", "heaptrack")
	case vPerf:
		v.missing = tryPerf()
	}
}

func (v *variant) find(object, debian string) {
	for _, where := range []string{"/usr/lib/*/", "/usr/lib/"} {
		if found, _ := filepath.Glob(where + object); len(found) > 0 {
			v.preload = found[0]
			return
		}
	}
	v.missing = "no " + filepath.Base(object) + " (apt-get install " + debian + ")"
}

// tryJemalloc: a build without its profiler complains of the setting, in one line, and goes on.
func tryJemalloc(v *variant) string {
	try := exec.Command(programs + "/trivial")
	try.Env = append(append(os.Environ(), v.env...), "LD_PRELOAD="+v.preload)
	if out, err := try.CombinedOutput(); err != nil || len(out) > 0 {
		return fmt.Sprintf("this build of it cannot (%v%s)", err, strings.TrimSpace(string(out)))
	}
	return ""
}

func tryPerf() string {
	if _, err := exec.LookPath("perf"); err != nil {
		return "no perf (apt-get install linux-perf)"
	}
	err := exec.Command("perf", "record", "-q", "-F", "99", "-g", "-o", scratch+"/perf.try", "--", "true").Run()
	if err != nil {
		return fmt.Sprintf("perf record is not permitted here (%v)", err)
	}
	return ""
}

// environment is what the program gets beside ours; where names the files of one run.
func (v *variant) environment(where string) []string {
	env := append([]string{}, v.env...)
	if v.listens {
		env = append(env, "PPROF_ADDR=unix:"+agentSocket(where))
	}
	switch v.name {
	case vGperf:
		env = append(env, "CPUPROFILE="+where+".gperf")
	case vTrack: // without its interpreter, which is another process: what counts is what the program pays
		env = append(env, "DUMP_HEAPTRACK_OUTPUT="+where+".heaptrack")
	}
	return env
}

func agentSocket(where string) string { return where + ".agent" }

func profilePath(seconds, hz int) string {
	return "/debug/pprof/profile?seconds=" + strconv.Itoa(seconds) + "&hz=" + strconv.Itoa(hz)
}
