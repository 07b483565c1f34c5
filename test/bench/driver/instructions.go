// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var collected = regexp.MustCompile(`Collected *: *([0-9]+)`)

// callgrind is a command under a variant, to be run. Every thread counts. Callgrind runs one thread at a time and knows
// no kernel, so this is the length of our own path, not its cost.
func callgrind(v *variant, out *bytes.Buffer, command ...string) *exec.Cmd {
	run := exec.Command("valgrind", append([]string{"--tool=callgrind", "--callgrind-out-file=/dev/null"}, command...)...)
	run.Env = append(os.Environ(), v.environment(scratch+"/instructions")...)
	if v.preload != "" {
		run.Env = append(run.Env, "LD_PRELOAD="+v.preload)
	}
	run.Stderr = out
	run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return run
}

func counted(out *bytes.Buffer, err error) (float64, error) {
	found := collected.FindStringSubmatch(out.String())
	if err != nil || found == nil {
		return 0, fmt.Errorf("%v: %s", err, strings.TrimSpace(out.String()))
	}
	return strconv.ParseFloat(found[1], 64)
}

func instructionsOf(v *variant, command ...string) (float64, error) {
	var out bytes.Buffer
	err := callgrind(v, &out, command...).Run()
	return counted(&out, err)
}

// behindGate counts a program that waits at its gate until nothing in it runs any more. What is done once, on whatever
// thread, is then the same in a short and in a long run: of the threads callgrind runs, one goes on for as long as it
// likes, and a short run might end before ours has prepared itself (under callgrind that includes reading callgrind's own
// code, which lies in the process like the program's).
func behindGate(v *variant, input string, command ...string) (float64, error) {
	const still = 500 * time.Millisecond
	var out bytes.Buffer
	p := &process{cmd: callgrind(v, &out, command...)}
	var err error
	if p.gate, err = p.cmd.StdinPipe(); err != nil {
		return 0, err
	}
	if err = p.cmd.Start(); err != nil {
		return 0, err
	}
	if err = p.rest(still); err != nil {
		p.kill()
		return counted(&out, err)
	}
	return counted(&out, errors.Join(p.feed(input), p.cmd.Wait()))
}

// redisInstructions counts a server's life with so many requests of each kind, of one client: how many of several clients
// one turn of the server's loop finds depends on who else is busy.
func redisInstructions(v *variant, requests int) (float64, error) {
	var out bytes.Buffer
	socket := scratch + "/redis.callgrind"
	os.Remove(socket)
	server := callgrind(v, &out, redisCommand(socket)...)
	if err := server.Start(); err != nil {
		return 0, err
	}
	err := await("redis-server", func() bool { return exists(socket) })
	if err == nil {
		err = (&process{cmd: server}).rest(betweenTicks)
	}
	if err == nil {
		err = redisBenchmark(socket, "-c", "1", "-n", fmt.Sprint(requests), "-t", "set,get")
	}
	server.Process.Signal(syscall.SIGTERM)
	return counted(&out, errors.Join(err, server.Wait()))
}

// step is what one more unit costs: the difference of a long and a short run, divided.
func step(few, many int, of func(n int) (float64, error)) float64 {
	low, err := of(few)
	if err == nil {
		var high float64
		if high, err = of(many); err == nil {
			return (high - low) / float64(many-few)
		}
	}
	fmt.Printf("fails: %v\n", err)
	return math.NaN()
}

func measureInstructions() []bar {
	if missing := lacks("valgrind"); missing != "" {
		fmt.Printf("skipped: %s\n", missing)
		return nil
	}
	request := map[string]float64{}
	fmt.Printf("%-23s%12s%12s%22s\n", "", "a start", "a thread", "redis, SET and GET")
	for _, v := range allVariants() {
		if v.of != "" {
			continue
		}
		start := step(0, 1, func(n int) (float64, error) {
			if n == 0 {
				return 0, nil
			}
			return instructionsOf(&v, programs+"/trivial")
		})
		thread := step(200, 1200, func(n int) (float64, error) {
			return behindGate(&v, "\n", programs+"/create", fmt.Sprint(n))
		})
		if lacks("redis-server", "redis-benchmark") == "" {
			request[v.name] = step(2000, 22000, func(n int) (float64, error) { return redisInstructions(&v, n) })
		}
		fmt.Printf("%-23s%12.0f%12.0f%22.0f\n", v.name, start, thread, request[v.name])
	}
	if len(request) == 0 {
		return nil
	}
	idle, control := request[vIdle]/request[vPass], request[vControl]/request[vNone]
	return []bar{{what: "instructions, redis, agent idle, to pass-through", limit: 1.01, measured: exactly(idle, idle, idle),
		format: "%.3f", noise: fmt.Sprintf("%.3f", control)}}
}
