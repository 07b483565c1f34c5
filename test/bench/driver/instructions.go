// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

var collected = regexp.MustCompile(`Collected *: *([0-9]+)`)

// instructionsOf counts a whole run of a command under a variant, every thread of it. Callgrind runs one thread at a
// time and knows no kernel, so this is the length of our own path, not its cost.
func instructionsOf(v *variant, command ...string) (float64, error) {
	where := scratch + "/instructions"
	args := append([]string{"--tool=callgrind", "--callgrind-out-file=/dev/null"}, command...)
	run := exec.Command("valgrind", args...)
	run.Env = append(os.Environ(), v.environment(where)...)
	if v.preload != "" {
		run.Env = append(run.Env, "LD_PRELOAD="+v.preload)
	}
	out, err := run.CombinedOutput()
	found := collected.FindSubmatch(out)
	if err != nil || found == nil {
		return 0, fmt.Errorf("%v: %s", err, strings.TrimSpace(string(out)))
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

func measureInstructions() []bar {
	if missing := lacks("valgrind"); missing != "" {
		fmt.Printf("skipped: %s\n", missing)
		return nil
	}
	const few, many = 200, 1200
	fmt.Printf("%-23s%16s%16s\n", "", "a start", "a thread")
	for _, v := range allVariants() {
		if v.hz > 0 || v.perf || v.missing != "" || v.name == vControl || v.name == vGperf {
			continue
		}
		start, err := instructionsOf(&v, programs+"/trivial")
		if err != nil {
			fmt.Printf("%-23sfails: %v\n", v.name, err)
			continue
		}
		low, err := instructionsOf(&v, programs+"/create", fmt.Sprint(few))
		if err != nil {
			fmt.Printf("%-23sfails: %v\n", v.name, err)
			continue
		}
		high, err := instructionsOf(&v, programs+"/create", fmt.Sprint(many))
		if err != nil {
			fmt.Printf("%-23sfails: %v\n", v.name, err)
			continue
		}
		fmt.Printf("%-23s%16.0f%16.0f\n", v.name, start, (high-low)/(many-few))
	}
	return nil
}
