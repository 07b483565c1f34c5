// SPDX-License-Identifier: Apache-2.0

// Whom the contract is put to, and what is asked of them again and again.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// subject is a target that is asked.
type subject struct {
	*target
	isGo, isCxx bool
}

// goServer is a program with net/http/pprof.
const goServer = `package main

import (
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
	"sync"
	"time"
)

var mu sync.Mutex
var kept [][]byte

func contend() {
	for {
		mu.Lock()
		time.Sleep(200 * time.Microsecond)
		mu.Unlock()
	}
}

func main() {
	runtime.SetBlockProfileRate(1)
	runtime.SetMutexProfileFraction(1)
	for i := 0; i < 500; i++ {
		kept = append(kept, make([]byte, 10000+i))
	}
	go contend()
	go contend()
	go func() {
		for {
		}
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	os.WriteFile(os.Getenv("PPROF_ADDR_FILE")+".new", []byte(l.Addr().String()), 0o600)
	os.Rename(os.Getenv("PPROF_ADDR_FILE")+".new", os.Getenv("PPROF_ADDR_FILE"))
	http.Serve(l, nil)
}
`

func startGo(t *testing.T) subject {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "main.go"), []byte(goServer), 0o600)
	os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module gopprof\n\ngo 1.22\n"), 0o600)
	build := exec.Command(need(t, "go"), "build", "-o", "gopprof", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return subject{target: start(t, []string{"LD_PRELOAD=", "GODEBUG="}, filepath.Join(dir, "gopprof")), isGo: true}
}

// startCxx starts a copy whose name nobody else has, so that it can be taken away.
func startCxx(t *testing.T) subject {
	path := filepath.Join(t.TempDir(), "contract-"+strconv.Itoa(os.Getpid()))
	copyFile(t, victim("contract"), path)
	x := start(t, []string{"PPROF_HEAP_RATE=16384", "PPROF_BLOCK_RATE=1000"}, path)
	x.awaitOutput("ready")
	return subject{target: x, isCxx: true}
}

func startRedis(t *testing.T) subject {
	sock := filepath.Join(t.TempDir(), "redis")
	x := start(t, []string{"PPROF_HEAP_RATE=16384"}, need(t, "redis-server"), "--port", "0", "--unixsocket", sock, "--save", "", "--dir", t.TempDir())
	x.awaitOutput("eady to accept")
	load := exec.Command(need(t, "redis-benchmark"), "-s", sock, "-q", "-l", "-c", "5", "-t", "set,lpush", "-d", "500")
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { load.Process.Kill(); load.Wait() })
	return subject{target: x}
}

func (x subject) ask(t *testing.T, method, path string, body string, header ...string) *answer {
	t.Helper()
	a, err := ask(x.addr, method, path, "", []byte(body), header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// parsed is a profile that passes; of Go's only what everybody's must.
func (x subject) parsed(t *testing.T, path string) *profile.Profile {
	t.Helper()
	a := x.ask(t, "GET", root+path, "")
	if a.status != 200 {
		t.Fatalf("%s: %d %.100s", path, a.status, a.body)
	}
	if x.isGo {
		p, err := profile.ParseData(a.body)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p, err := parseStrictly(a.body)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return p
}

// functions are two addresses in functions with names, and the names. A thread that gets no CPU for a while cannot be asked
// where it is, so they may be had at the second time only.
func (x subject) functions(t *testing.T) (words [2]uint64, names [2]string) {
	t.Helper()
	waitFor(t, 30*time.Second, "two functions", func() bool {
		n := 0
		for _, l := range x.parsed(t, "goroutine").Location {
			if f := l.Line[len(l.Line)-1].Function; n < 2 && l.Mapping != nil && !strings.HasPrefix(l.Mapping.File, "[") &&
				!strings.ContainsAny(f.Name, "[+") && len(l.Line) == 1 && (n == 0 || f.SystemName != names[0]) {
				words[n], names[n] = l.Address, f.SystemName
				n++
			}
		}
		return n == 2
	}, func() string { return fmt.Sprint(names) })
	return words, names
}

var goKinds = []string{"allocs", "block", "goroutine", "heap", "mutex", "threadcreate"}

func took(t *testing.T, what string, a *answer, least, most time.Duration) {
	t.Helper()
	// Two seconds more than the contract's for a machine that is busy with other things.
	if a.took < least || a.took > most+2*time.Second {
		t.Errorf("%s took %v", what, a.took)
	}
}
