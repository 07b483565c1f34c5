// SPDX-License-Identifier: Apache-2.0

// Promise: delta_heap, delta_block and delta_mutex give what was added since they were last asked for, to the byte, as
// Grafana's godeltaprof does; what is in use is told in full each time.
package e2e

import (
	"strings"
	"testing"
	"time"
)

func TestDeltasSinceTheLastRequest(t *testing.T) {
	x := start(t, []string{"PPROF_HEAP_RATE=1", "PPROF_BLOCK_RATE=1"}, victim("tagged"))
	first := x.named("delta_heap")
	if first.DurationNanos != 0 {
		t.Errorf("the first has a duration of %d ns", first.DurationNanos)
	}
	before := x.heap("heap")
	began := time.Now()
	x.open()
	waitFor(t, time.Minute, "the end of burning", func() bool { return strings.Contains(x.out.String(), "tagged") }, nil)
	// Looking at it is not asking for it, and what scrapers add means nothing.
	if a, err := ask(x.addr, "HEAD", "/debug/pprof/delta_heap", "", nil); err != nil || a.status != 200 || len(a.body) != 0 {
		t.Errorf("HEAD: %v, %v", a, err)
	}
	after := x.heap("heap")
	second := x.named("delta_heap?seconds=14&gc=1&debug=1")
	third := x.named("delta_heap")

	kept := heapOf(second, "tagged_keep")
	if want := (heapValues{65, 65 << 20, 65, 65 << 20}); kept != want {
		t.Errorf("kept %v, not %v", kept, want)
	}
	if want := (heapValues{0, 0, 65, 65 << 20}); heapOf(third, "tagged_keep") != want {
		t.Errorf("the third says %v, not %v", heapOf(third, "tagged_keep"), want)
	}
	was, is, added := heapOf(before), heapOf(after), heapOf(second)
	for i := range added {
		expect := is[i]
		if i < inuseObjects {
			expect -= was[i]
		}
		if added[i] != expect {
			t.Errorf("%s: %d in the delta, %d in truth", heapNames[i], added[i], expect)
		}
	}
	if took := time.Since(began); second.DurationNanos <= 0 || second.DurationNanos > int64(took+5*time.Second) {
		t.Errorf("a duration of %v after %v", time.Duration(second.DurationNanos), took)
	}
	if d := x.get("/debug/pprof/delta_heap").header.Get("Content-Disposition"); d != `attachment; filename="delta_heap"` {
		t.Errorf("Content-Disposition %s", d)
	}

	block, all, mutex := x.named("delta_block"), totals(x.named("block")), x.named("delta_mutex")
	if got := totals(block); got[0] != all[0] || got[1] != all[1] || got[0] < 3 {
		t.Errorf("block: first %v, in all %v", got, all)
	}
	if n := len(x.named("delta_block").Sample); n != 0 {
		t.Errorf("nobody waited, and delta_block has %d samples", n)
	}
	if mutex.SampleType[0].Type != "contentions" {
		t.Errorf("delta_mutex: %v", mutex.SampleType)
	}
	if index := string(x.get("/debug/pprof/").body); strings.Contains(index, "delta_") {
		t.Error("the index leads people to what a scraper waits for")
	}
	x.finish()
}
