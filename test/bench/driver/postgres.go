// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// PostgreSQL runs as its own user, and forks: what a transaction costs is the CPU time of the server and of every process
// that it has waited for, from its start to its end.

const (
	otherCPU       = 0
	pgClients      = 4
	pgTransactions = 15000 // of each client
)

var pgData string // of the one cluster that all runs use

func pgProgram(name string) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

func lacksPostgres() string {
	if pgProgram("postgres") == "" || pgProgram("pgbench") == "" {
		return "no PostgreSQL on this machine"
	}
	return lacks("setpriv")
}

func asPostgres(command ...string) *exec.Cmd {
	c := exec.Command("setpriv", append([]string{"--reuid=postgres", "--regid=postgres", "--clear-groups"}, command...)...)
	c.Dir = "/"
	return c
}

func startPostgres(env []string) (*exec.Cmd, error) {
	// The environment is for the server alone, not for who changes the user.
	command := append([]string{"env"}, env...)
	c := asPostgres(append(command, pgProgram("postgres"), "-D", pgData, "-k", pgData, "-c", "listen_addresses=", "-c", "fsync=off",
		"-c", "autovacuum=off")...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// The server on one processor, its clients on the other: where they meet varies more than any preload costs.
	if err := pinned(oneCPU, c.Start); err != nil {
		return nil, err
	}
	return c, await("PostgreSQL", func() bool {
		return asPostgres(pgProgram("psql"), "-h", pgData, "-c", "SELECT 1", "postgres").Run() == nil
	})
}

func stopPostgres(c *exec.Cmd) error {
	c.Process.Signal(syscall.SIGINT)
	return c.Wait()
}

func pgbench(arguments ...string) error {
	out, err := asPostgres(append([]string{pgProgram("pgbench"), "-h", pgData}, arguments...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pgbench: %w: %s", err, out)
	}
	return nil
}

func makeCluster() error {
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return err
	}
	if out, err := exec.Command("chown", "postgres", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("%s", out)
	}
	pgData = filepath.Join(dir, "data")
	if out, err := asPostgres(pgProgram("initdb"), "-D", pgData, "-A", "trust").CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %s", out)
	}
	c, err := startPostgres(nil)
	if err != nil {
		return err
	}
	return errors.Join(pgbench("-i", "-q", "-s", "2", "postgres"), stopPostgres(c))
}

func removeCluster() {
	if pgData != "" {
		os.RemoveAll(filepath.Dir(pgData))
	}
}

func runPostgres(v *variant) (sample, error) {
	if pgData == "" {
		if err := makeCluster(); err != nil {
			return sample{}, err
		}
	}
	where, err := os.MkdirTemp("", "pgagent")
	if err != nil {
		return sample{}, err
	}
	defer os.RemoveAll(where)
	if err := os.Chmod(where, 0777); err != nil {
		return sample{}, err
	}
	env := v.environment(filepath.Join(where, "s"))
	if v.preload != "" {
		env = append(env, "LD_PRELOAD="+v.preload)
	}
	c, err := startPostgres(env)
	if err != nil {
		return sample{}, err
	}
	begin := time.Now()
	err = pinned(otherCPU, func() error {
		return pgbench("-n", "-S", "-c", fmt.Sprint(pgClients), "-j", "2", "-t", fmt.Sprint(pgTransactions), "postgres")
	})
	wall := time.Since(begin)
	if err := errors.Join(err, stopPostgres(c)); err != nil {
		return sample{}, err
	}
	const n = pgClients * pgTransactions
	cpu := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	return sample{cpu.Seconds() / n, wall.Seconds() / n}, nil
}

// Threads that hand things to each other: every put and get is a lock and a condition, every switch the interpreter's.
const pythonThreads = `import threading, queue
work, done = queue.Queue(50), queue.Queue()
def worker():
    while (n := work.get()) is not None:
        done.put(sum(i * i for i in range(n)))
threads = [threading.Thread(target=worker) for _ in range(4)]
for t in threads: t.start()
for i in range(30000): work.put(i % 100)
for t in threads: work.put(None)
for t in threads: t.join()
print(sum(done.get() for _ in range(30000)))
`
