// SPDX-License-Identifier: Apache-2.0

// Starting targets with the agent and asking it for profiles. Every profile that any test fetches passes the strict
// reader in strict_test.go.
package e2e

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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

var library, victims string

func TestMain(m *testing.M) {
	library = locate("LIB", "../../build/libpprofagent.so")
	victims = locate("VICTIMS", "../../build/victims")
	for _, v := range []string{"LD_PRELOAD", "PPROF_ADDR", "PPROF_ADDR_VAR", "PPROF_ADDR_FILE", "PPROF_LOG", "PPROF_CPU_HZ", "PPROF_SKIP"} {
		os.Unsetenv(v)
	}
	os.Exit(m.Run())
}

func locate(variable, otherwise string) string {
	path := os.Getenv(variable)
	if path == "" {
		path = otherwise
	} else if !filepath.IsAbs(path) {
		path = filepath.Join("../..", path)
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v (run make first)\n", variable, err)
		os.Exit(1)
	}
	return path
}

func victim(name string) string { return filepath.Join(victims, name) }

// buffer is an output that may be read while the target writes it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// target is a running program with the agent in it.
type target struct {
	t              *testing.T
	cmd            *exec.Cmd
	gate           io.WriteCloser
	out, err       *buffer
	addrFile, addr string
	ended          chan struct{}
	status         error
}

// launch starts a command with the agent, its gate shut; env is added to, and overrides, the defaults.
func launch(t *testing.T, env []string, command ...string) *target {
	t.Helper()
	x := &target{t: t, out: &buffer{}, err: &buffer{}, ended: make(chan struct{})}
	x.addrFile = filepath.Join(t.TempDir(), "addr")
	x.cmd = exec.Command(command[0], command[1:]...)
	x.cmd.Env = append(os.Environ(), "LD_PRELOAD="+library, "PPROF_ADDR=127.0.0.1:0", "PPROF_ADDR_FILE="+x.addrFile)
	x.cmd.Env = append(x.cmd.Env, env...)
	x.cmd.Stdout, x.cmd.Stderr = x.out, x.err
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	x.cmd.WaitDelay = time.Second // a grandchild may keep the pipes
	gate, err := x.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	x.gate = gate
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		x.status = x.cmd.Wait()
		close(x.ended)
	}()
	t.Cleanup(x.kill)
	return x
}

// start is launch, and waits until the agent has told its address.
func start(t *testing.T, env []string, command ...string) *target {
	t.Helper()
	x := launch(t, env, command...)
	x.awaitAddr()
	return x
}

func (x *target) awaitAddr() {
	x.t.Helper()
	waitFor(x.t, 10*time.Second, "an address of "+x.cmd.String(), func() bool {
		b, _ := os.ReadFile(x.addrFile)
		x.addr = strings.TrimSpace(string(b))
		return x.addr != ""
	}, func() string { return x.err.String() })
}

func (x *target) kill() {
	syscall.Kill(-x.cmd.Process.Pid, syscall.SIGKILL)
	// Descendants in groups of their own: known by the address file in their environment.
	processes, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range processes {
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte("PPROF_ADDR_FILE="+x.addrFile+"\x00")) {
			if pid, err := strconv.Atoi(strings.Split(path, "/")[2]); err == nil {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	<-x.ended
}

// open lets the target pass its gate.
func (x *target) open() { io.WriteString(x.gate, "go\n") }

// finish opens the gate again and waits for an end with status 0.
func (x *target) finish() {
	x.t.Helper()
	x.open()
	x.gate.Close()
	select {
	case <-x.ended:
	case <-time.After(30 * time.Second):
		x.t.Fatalf("%s does not end", x.cmd)
	}
	if x.status != nil && !errors.Is(x.status, exec.ErrWaitDelay) {
		x.t.Fatalf("%s: %v\n%s%s", x.cmd, x.status, x.out, x.err)
	}
}

func (x *target) pid() int { return x.cmd.Process.Pid }

func waitFor(t *testing.T, limit time.Duration, what string, ready func() bool, detail func() string) {
	t.Helper()
	for end := time.Now().Add(limit); !ready(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			more := ""
			if detail != nil {
				more = ": " + detail()
			}
			t.Fatalf("waited %v for %s%s", limit, what, more)
		}
	}
}

// clientFor speaks to host:port or unix:/path; no connection is kept.
func clientFor(addr string) (*http.Client, string) {
	tr := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		addr = "localhost"
	}
	client := &http.Client{
		Transport:     tr,
		Timeout:       2 * time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client, "http://" + addr
}

// answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   []byte
	took   time.Duration
}

func ask(addr, method, path, contentType string, body []byte, header ...string) (*answer, error) {
	client, base := clientFor(addr)
	req, err := http.NewRequest(method, base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: body: %w", method, path, err)
	}
	return &answer{resp.StatusCode, resp.Header, b, time.Since(began)}, nil
}

func (x *target) get(path string, header ...string) *answer {
	x.t.Helper()
	a, err := ask(x.addr, "GET", path, "", nil, header...)
	if err != nil {
		x.t.Fatalf("GET %s: %v\n%s", path, err, x.err)
	}
	return a
}

// profile fetches one CPU profile; query is what follows "profile?".
func (x *target) profile(query string) *profile.Profile {
	x.t.Helper()
	p, err := fetchProfile(x.addr, query)
	if err != nil {
		x.t.Fatalf("%v\n%s", err, x.err)
	}
	return p
}

func fetchProfile(addr, query string) (*profile.Profile, error) {
	a, err := ask(addr, "GET", "/debug/pprof/profile?"+query, "", nil)
	if err != nil {
		return nil, err
	}
	if a.status != 200 {
		return nil, fmt.Errorf("profile?%s: status %d: %s", query, a.status, a.body)
	}
	return parseStrictly(a.body)
}

// profiling is a profile that is being taken.
type profiling struct {
	p    *profile.Profile
	err  error
	done chan struct{}
	t    *testing.T
}

// profileOn starts a profile and returns when its timers are armed.
func (x *target) profileOn(query string) *profiling {
	x.t.Helper()
	f := &profiling{done: make(chan struct{}), t: x.t}
	go func() {
		f.p, f.err = fetchProfile(x.addr, query)
		close(f.done)
	}()
	waitFor(x.t, 10*time.Second, "timers of a profile", func() bool {
		select {
		case <-f.done:
			x.t.Fatalf("the profile ended at once: %v", f.err)
		default:
		}
		return hasTimers(x.pid())
	}, func() string { return x.err.String() })
	return f
}

func (f *profiling) isOver() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// sawAll waits for the profile, and says whether its window was still open when it was called: what has happened until
// then is in it. (That the answer has not come yet says less: on a busy machine it comes long behind the window.)
func (f *profiling) sawAll() (*profile.Profile, bool) {
	f.t.Helper()
	now := time.Now().UnixNano()
	p := f.wait()
	return p, now < p.TimeNanos+p.DurationNanos
}

func (f *profiling) wait() *profile.Profile {
	f.t.Helper()
	<-f.done
	if f.err != nil {
		f.t.Fatal(f.err)
	}
	return f.p
}

// hasTimers: POSIX timers exist in the process; our victims have none themselves unless they say so.
func hasTimers(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/timers", pid))
	return bytes.Contains(b, []byte("ID:"))
}

// need skips the test when a program is missing.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed", program)
	}
	return path
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// talk sends bytes and returns all that comes back until the server closes.
func talk(t *testing.T, addr, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(conn, request)
	b, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("%.60q: %v after %.60q", request, err, b)
	}
	return string(b)
}
