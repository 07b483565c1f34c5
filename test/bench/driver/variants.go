// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// variant is one way to run a workload.
type variant struct {
	name    string
	preload string
	env     []string
	listens bool // the agent in it has an address
	hz      int  // of the profile a client holds open meanwhile; 0 none
	perf    bool // perf is attached
	missing string
}

// The names that bars refer to.
const (
	vNone    = "no preload"
	vControl = "control (no preload)"
	vEmpty   = "empty object"
	vPass    = "pass-through + thread"
	vOff     = "agent off"
	vIdle    = "agent idle"
	v100     = "agent 100 Hz"
	v1000    = "agent 1000 Hz"
	vGperf   = "gperftools 100 Hz"
	vPerf    = "perf -F 99 -g"
)

func allVariants() []variant {
	all := []variant{
		{name: vNone},
		{name: vControl},
		{name: vEmpty, preload: programs + "/empty"},
		{name: vPass, preload: programs + "/passthrough"},
		{name: vOff, preload: library},
		{name: vIdle, preload: library, listens: true},
		{name: v100, preload: library, listens: true, hz: 100},
		{name: v1000, preload: library, listens: true, hz: 1000},
		{name: vGperf, env: []string{"CPUPROFILE_FREQUENCY=100"}},
		{name: vPerf, perf: true},
	}
	for i := range all {
		switch all[i].name {
		case vGperf:
			all[i].preload, all[i].missing = findProfiler()
		case vPerf:
			all[i].missing = tryPerf()
		}
	}
	return all
}

func findProfiler() (path, missing string) {
	found, _ := filepath.Glob("/usr/lib/*/libprofiler.so.0")
	if len(found) == 0 {
		return "", "no libprofiler.so.0 (apt-get install libgoogle-perftools4)"
	}
	return found[0], ""
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
	if v.name == vGperf {
		env = append(env, "CPUPROFILE="+where+".gperf")
	}
	return env
}

func agentSocket(where string) string { return where + ".agent" }

func profilePath(seconds, hz int) string {
	return "/debug/pprof/profile?seconds=" + strconv.Itoa(seconds) + "&hz=" + strconv.Itoa(hz)
}
