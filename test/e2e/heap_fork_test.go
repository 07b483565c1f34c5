// SPDX-License-Identifier: Apache-2.0

// Promise: a forked child's heap profile starts from what was live in its parent at the fork, and goes its own way; a
// program that is executed starts with nothing; and the parent's is not touched by either.
package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// announcedBy is the address that the process with this pid has announced as the nth (from 1) of its agents.
func (x *target) announcedBy(pid, nth int) string {
	x.t.Helper()
	var addr string
	waitFor(x.t, 10*time.Second, "an announcement", func() bool {
		n := 0
		for _, line := range x.announced() {
			if !strings.Contains(line, fmt.Sprintf("(pid %d,", pid)) {
				continue
			}
			if _, rest, ok := strings.Cut(line, "http://127.0.0.1:"); ok {
				if n++; n == nth {
					port, _, _ := strings.Cut(rest, "/")
					addr = "127.0.0.1:" + port
					return true
				}
			}
		}
		return false
	}, func() string { return x.err.String() })
	return addr
}

func (x *target) said(who string) (pid int) {
	x.t.Helper()
	waitFor(x.t, 10*time.Second, who, func() bool {
		for _, line := range strings.Split(x.out.String(), "\n") {
			if n, _ := fmt.Sscanf(line, who+" %d", &pid); n == 1 {
				return true
			}
		}
		return false
	}, func() string { return x.out.String() + x.err.String() })
	return pid
}

func expectHeap(t *testing.T, x *target, addr, who string, live map[string][2]int64) {
	t.Helper()
	p, err := fetchHeap(addr, "heap")
	if err != nil {
		t.Fatalf("%s: %v\n%s", who, err, x.err)
	}
	for f, want := range live {
		if got := heapOf(p, f); got[inuseObjects] != want[0] || got[inuseSpace] != want[1] {
			t.Errorf("%s: %s: %v in the profile, live in truth %v%s", who, f, got, want, heapTop(p, inuseSpace, 6))
		}
	}
}

func TestHeapAcrossForkAndExec(t *testing.T) {
	x := start(t, []string{"PPROF_HEAP_RATE=1"}, victim("allocfork"))
	x.open()
	parent, child := x.said("parent"), x.said("child")
	ofParent := map[string][2]int64{"hold_parent": {1000, 1000000}, "hold_child": {0, 0}, "hold_again": {0, 0}}
	expectHeap(t, x, x.announcedBy(parent, 1), "the parent", ofParent)
	expectHeap(t, x, x.announcedBy(child, 1), "the child",
		map[string][2]int64{"hold_parent": {700, 700000}, "hold_child": {700, 140000}, "hold_again": {0, 0}})
	x.open()
	x.said("again")
	expectHeap(t, x, x.announcedBy(child, 2), "the new program",
		map[string][2]int64{"hold_parent": {0, 0}, "hold_child": {0, 0}, "hold_again": {100, 1000}})
	expectHeap(t, x, x.announcedBy(parent, 1), "the parent afterwards", ofParent)
	x.open()
	x.finish()
}
