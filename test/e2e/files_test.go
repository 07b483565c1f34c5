// SPDX-License-Identifier: Apache-2.0

// Promise: names come from the file that is mapped, wherever it is by now; where some are missing, the profile says why.
package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		// A child forked meanwhile must not have a program open for writing: it could not be executed then.
		syscall.ForkLock.RLock()
		err = os.WriteFile(to+".new", b, 0o755)
		syscall.ForkLock.RUnlock()
	}
	if err == nil {
		err = os.Rename(to+".new", to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestReplacedProgramKeepsItsNames(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	copyFile(t, victim("jitcode"), program)
	x := start(t, nil, program, "dump", t.TempDir())
	copyFile(t, "/bin/true", program)
	p := x.profile("seconds=1&hz=500")
	demand(t, p, "native_burn", "run_generated")
	if strings.Contains(comments(p), program) {
		t.Errorf("all names are there, and still: %s", comments(p))
	}
	x.open()
	x.finish()
}

func TestMissingNamesAreExplained(t *testing.T) {
	strip := need(t, "strip")
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	copyFile(t, victim("jitcode"), program)
	if out, err := exec.Command(strip, program).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	x := start(t, nil, program, "dump", dir)
	p := x.profile("seconds=1&hz=500")
	demand(t, p, "program+0x")
	if want := "in " + program + " have no name: it is stripped, and no debug file was found"; !strings.Contains(comments(p), want) {
		t.Errorf("no comment %q in %s", want, comments(p))
	}
	x.open()
	x.finish()
}
