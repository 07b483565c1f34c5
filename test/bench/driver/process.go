// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// process is a running program that waits at its gate (its standard input), with everything that a variant wants
// attached to it. CPU time is read through the kernel's clock of the process, which counts nanoseconds, not ticks.
type process struct {
	cmd   *exec.Cmd
	gate  io.WriteCloser
	out   bytes.Buffer
	where string
	perf  *exec.Cmd
	held  net.Conn // carries the profile that stays open
	cpu0  time.Duration
	wall0 time.Time
}

const anyCPU = -1

var started int

// pinned runs f with this thread, and thereby what f starts, on one processor.
func pinned(cpu int, f func() error) error {
	if cpu == anyCPU || cpu >= runtime.NumCPU() {
		return f()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one [16]uint64
	one[cpu/64] = 1 << (cpu % 64)
	affinity := func(call uintptr, mask *[16]uint64) {
		syscall.RawSyscall(call, 0, unsafe.Sizeof(*mask), uintptr(unsafe.Pointer(mask)))
	}
	affinity(syscall.SYS_SCHED_GETAFFINITY, &before)
	affinity(syscall.SYS_SCHED_SETAFFINITY, &one)
	defer affinity(syscall.SYS_SCHED_SETAFFINITY, &before)
	return f()
}

// launch starts a command under a variant and returns when it sits at its gate, sampled if the variant says so.
func (v *variant) launch(cpu int, command ...string) (*process, error) {
	started++
	p := &process{where: fmt.Sprintf("%s/%d", scratch, started)}
	env := v.environment(p.where)
	if v.preload != "" {
		env = append(env, "LD_PRELOAD="+v.preload)
	}
	if err := p.start(cpu, env, command...); err != nil {
		return nil, err
	}
	return p, p.prepare(v)
}

func (p *process) start(cpu int, env []string, command ...string) error {
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout = &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if p.gate, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	return pinned(cpu, p.cmd.Start)
}

// prepare waits until the program rests, attaches what the variant wants, and lets that come to rest as well.
func (p *process) prepare(v *variant) error {
	err := await("the address", func() bool { return !v.listens || exists(agentSocket(p.where)) })
	if err == nil && v.ticks {
		time.Sleep(300 * time.Millisecond)
	} else if err == nil {
		err = p.rest(30 * time.Millisecond)
	}
	if err == nil && v.hz > 0 {
		err = p.hold(v.hz)
	}
	if err == nil && v.perf {
		err = p.attachPerf()
	}
	if err != nil {
		p.kill()
	}
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func await(what string, done func() bool) error {
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("waited 20 s for %s", what)
		}
	}
	return nil
}

// rest returns when the process has used no CPU for so long.
func (p *process) rest(still time.Duration) error {
	last, since := p.used(), time.Now()
	return await("a program to reach its gate", func() bool {
		if now := p.used(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > still
	})
}

// used is the CPU time of the whole process so far.
func (p *process) used() time.Duration {
	const schedClock = 2
	var ts syscall.Timespec
	clock := uintptr(int64(^p.cmd.Process.Pid)<<3 | schedClock)
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}

// client speaks to the agent in the process.
func (p *process) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives:  true,
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", agentSocket(p.where))
		},
	}}
}

// hold opens a profile that outlasts the process, and returns when its timers tick.
func (p *process) hold(hz int) error {
	var err error
	if p.held, err = net.Dial("unix", agentSocket(p.where)); err != nil {
		return err
	}
	fmt.Fprintf(p.held, "GET %s HTTP/1.1\r\nHost: bench\r\n\r\n", profilePath(3600, hz))
	err = await("timers", func() bool {
		timers, _ := os.ReadFile(fmt.Sprintf("/proc/%d/timers", p.cmd.Process.Pid))
		return len(timers) > 0
	})
	time.Sleep(20 * time.Millisecond) // every thread has its own by then
	return err
}

func (p *process) attachPerf() error {
	p.perf = exec.Command("perf", "record", "-q", "-F", "99", "-g", "-o", p.where+".perf", "-p", fmt.Sprint(p.cmd.Process.Pid))
	p.perf.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.perf.Start(); err != nil {
		return err
	}
	err := await("perf", func() bool {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.perf.Process.Pid))
		for _, l := range links {
			if to, _ := os.Readlink(l); strings.Contains(to, "[perf_event]") {
				return true
			}
		}
		return false
	})
	time.Sleep(50 * time.Millisecond) // from the descriptors to the events' start
	return err
}

// begin starts the clocks; what the process does from here on counts.
func (p *process) begin() { p.cpu0, p.wall0 = p.used(), time.Now() }

// feed writes what the program waits for and closes the gate behind it.
func (p *process) feed(text string) error {
	_, err := io.WriteString(p.gate, text)
	return errors.Join(err, p.gate.Close())
}

// finish waits for the end and returns CPU and wall seconds since begin.
func (p *process) finish() (cpu, wall float64, err error) {
	err = p.cmd.Wait()
	wall = time.Since(p.wall0).Seconds()
	usage := p.cmd.ProcessState
	cpu = (usage.UserTime() + usage.SystemTime() - p.cpu0).Seconds()
	p.detach()
	return cpu, wall, err
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
	p.detach()
}

func (p *process) detach() {
	if p.held != nil {
		p.held.Close()
	}
	if p.perf != nil && p.perf.Process != nil {
		p.perf.Process.Signal(os.Interrupt) // it ends by itself with the target, or has
		p.perf.Wait()
	}
	left, _ := filepath.Glob(p.where + ".*")
	for _, path := range left {
		os.RemoveAll(path)
	}
}

// resident is VmRSS in bytes.
func (p *process) resident() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(status), "\n") {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kib); n == 1 {
			return kib * 1024, nil
		}
	}
	return 0, errors.New("no VmRSS")
}
