// SPDX-License-Identifier: Apache-2.0

// Promise: go tool pprof, as installed here, does with each profile all that it does with Go's: -top, -list, -traces,
// -diff_base, -seconds, -http, a bare host, -symbolize=remote; and google-pprof --text.
//
// TRANSCRIPTS: a file for what was typed and what came, of every kind of profile; without it only the heap and the CPU profile are tried.
package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

type transcript struct {
	t    *testing.T
	file io.Writer
}

func (w transcript) note(command, out string) {
	lines := strings.SplitAfter(out, "\n")
	if len(lines) > 14 {
		lines = append(lines[:14], "...\n")
	}
	fmt.Fprintf(w.file, "$ %s\n%s\n", command, strings.Join(lines, ""))
}

// run is one command that must say all of parts.
func (w transcript) run(parts []string, args ...string) {
	w.t.Helper()
	out := mustPprof(w.t, args...)
	want(w.t, strings.Join(args, " "), out, parts...)
	w.note("go tool pprof "+strings.Join(args, " "), out)
}

// page starts the tool's own server and reads its list of functions.
func (w transcript) page(source, name string, more ...string) {
	w.t.Helper()
	addr := freePort(w.t)
	cmd := exec.Command(need(w.t, "go"), append([]string{"tool", "pprof", "-http=" + addr, "-no_browser"}, append(more, source)...)...)
	dir := w.t.TempDir()
	cmd.Env, cmd.Dir = append(os.Environ(), "PPROF_TMPDIR="+dir, "PPROF_BINARY_PATH=/nonexistent"), dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var out buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	defer func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); cmd.Wait() }()
	var body string
	waitFor(w.t, time.Minute, "the tool's page of "+source, func() bool {
		resp, err := http.Get("http://" + addr + "/ui/top")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		body = string(b)
		return resp.StatusCode == 200
	}, out.String)
	want(w.t, "the page of "+source, body, name)
	w.note(strings.Join(cmd.Args, " "), fmt.Sprintf("GET /ui/top: %d bytes with %s", len(body), name))
}

func TestTranscripts(t *testing.T) {
	w := transcript{t, io.Discard}
	all := os.Getenv("TRANSCRIPTS") != ""
	if all {
		file, err := os.Create(os.Getenv("TRANSCRIPTS"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		w.file = file
	}
	x := startCxx(t)
	host := "http://" + x.addr
	// Each kind with a function that it must show.
	names := map[string]string{"allocs": "work::keep", "block": "contend", "goroutine": "work::waiter", "heap": "work::keep", "heap_age": "work::keep",
		"mutex": "contend", "profile": "work::burner", "threadcreate": "main", "wall": "work::waiter", "mmap": ""}
	var kinds []string
	for name := range names {
		if all || slices.Contains([]string{"heap"}, name) {
			kinds = append(kinds, name)
		}
	}
	slices.Sort(kinds)
	w.run([]string{"Type: cpu", "work::burner"}, "-top", "-seconds=1", host)
	w.page(host, "work::burner", "-seconds=1")
	for _, name := range kinds {
		url, must := host+root+name, []string{names[name]}
		isWindow := name == "profile" || name == "wall"
		takesSeconds := isWindow || name != "heap_age"
		args := func(more ...string) []string {
			if isWindow {
				more = append(more, "-seconds=1")
			}
			return append(more, url)
		}
		w.run(append(must, "File: contract-"), args("-top", "-nodecount=200")...)
		w.run(must, args("-traces")...)
		if name == "heap" || name == "profile" || all && names[name] != "" {
			w.run([]string{"contract.cc", "ROUTINE"}, args("-list="+names[name], "-source_path="+sourcesOfVictims())...)
		}
		w.run([]string{"Type:"}, args("-top", "-diff_base="+url)...)
		w.run(must, args("-top", "-nodecount=200", "-symbolize=remote")...)
		if takesSeconds {
			w.run([]string{"Duration: 1"}, "-top", "-seconds=1", url)
		}
		if all {
			w.page(url, names[name], args()[:len(args())-1]...)
		}
	}
	if !all {
		return // TestGooglePprof has the others
	}
	for _, path := range []string{"profile", "heap", "growth", "contention"} {
		w.note("google-pprof --seconds=1 --text "+host+"/pprof/"+path, googlePprof(t, "--seconds=1", "--text", host+"/pprof/"+path))
	}
}
