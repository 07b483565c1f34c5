// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/exp/trace"
)

// Promise: a number that the kernel gives to one thread after another stands for as many goroutines, each with its own
// birth and end. Promise: a thread that is in a system call when the window begins is shown in it from there on.
func TestTraceTellsThreadsOfOneNumberApart(t *testing.T) {
	x := start(t, nil, victim("tracereuse"))
	awaitOutput(x, "ready")
	a := x.traceWhile("seconds=2", func() { x.open(); awaitOutput(x, "done") })
	events, _, err := readTrace(a.body)
	if a.status != 200 || err != nil {
		t.Fatal(a.status, err)
	}
	lives := map[int]int{} // of each number, within the window, as the program knows
	last := int64(events[len(events)-1].Time())
	for _, line := range strings.Split(x.out.String(), "\n") {
		var tid int
		var end int64
		if _, err := fmt.Sscanf(line, "life %d %d", &tid, &end); err == nil && end <= last {
			lives[tid]++
		}
	}
	tid, most := 0, 0
	for id, n := range lives {
		if n > most {
			tid, most = id, n
		}
	}
	shown := map[trace.GoID]bool{} // goroutines that ran on it
	born, ended := map[trace.GoID]bool{}, map[trace.GoID]bool{}
	inCall := false
	for _, e := range events {
		if e.Kind() != trace.EventStateTransition || e.StateTransition().Resource.Kind != trace.ResourceGoroutine {
			continue
		}
		id := e.StateTransition().Resource.Goroutine()
		from, to := e.StateTransition().Goroutine()
		born[id] = born[id] || from == trace.GoNotExist && to == trace.GoRunnable
		ended[id] = ended[id] || to == trace.GoNotExist
		if to == trace.GoRunning && int(e.Thread()) == tid {
			shown[id] = true
		}
		if to == trace.GoSyscall && anyOf(functions(e.Stack()), []string{"wait_for_file"}) {
			// The first moments of a window are the roll call.
			inCall = e.Time()-events[0].Time() < 2000000
		}
	}
	if !inCall {
		t.Error("the thread that waits for a lock on a file is not shown in its call from the beginning on")
	}
	if most < 2 {
		t.Skip("the kernel did not give one number twice (refused: ", strings.Contains(x.out.String(), "refused"), ")")
	}
	whole := 0
	for id := range shown {
		if born[id] && ended[id] {
			whole++
		}
	}
	t.Logf("%d lives of thread %d, %d goroutines, %d from birth to end", most, tid, len(shown), whole)
	// The window may end within one life, or between an end and the join that the program tells of.
	if whole < most || len(shown) > most+1 {
		t.Errorf("%d lives of thread %d, %d goroutines, %d from birth to end", most, tid, len(shown), whole)
	}
	x.finish()
}
