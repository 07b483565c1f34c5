// SPDX-License-Identifier: Apache-2.0

// Promise: with PPROF_BLOCK_IO=1 block has sleeps and I/O, too, under a leaf that keeps them apart from locks, and true
// to 5 %; without it, none.
package e2e

import "testing"

func TestBlockingIO(t *testing.T) {
	for _, io := range []string{"0", "1"} {
		x := start(t, []string{"PPROF_BLOCK_IO=" + io, "PPROF_BLOCK_RATE=1"}, victim("lockwaits"), "40")
		x.open()
		x.lockTruths()
		block := x.waitingProfile("block")
		var slept, read waiting
		for _, s := range block.Sample {
			frames := stack(s)
			isIO := frames[0] == "[blocking I/O]"
			if isIO && io == "0" {
				t.Errorf("not asked for: %v", frames)
			}
			if isIO && contains(s, named("serve")) {
				slept.contentions += s.Value[0]
				slept.delay += s.Value[1]
				if frames[1] != "nanosleep" && frames[1] != "clock_nanosleep" {
					t.Errorf("serve sleeps by %v", frames)
				}
			}
			if isIO && contains(s, named("read")) {
				read.contentions++
			}
		}
		// Three rounds in four sleep 3 ms for each of five kinds; that they last longer is the machine's affair.
		if want := int64(40 * 3 / 4 * 5); io == "1" && (slept.contentions != want || slept.delay < want*3e6 || read.contentions == 0) {
			t.Errorf("%d sleeps of 3 ms, in block %v, and %d reads at the gate", want, slept, read.contentions)
		}
		x.finish()
	}
}
