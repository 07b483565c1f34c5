// SPDX-License-Identifier: Apache-2.0

// Promise: sampled heap profiles are true on average, in bytes and in counts, for any mixture of sizes, and no single
// one is further off than chance explains.
//
// The truth and the standard deviations that sampling must have come from the victim (test/victims/allocmix.c). A run may
// deviate by t with
//
//	t = w L / 3 + sqrt((w L / 3)^2 + 2 L sigma^2),  L = 4.5^2 / 2,
//
// w being the largest weight of one block: Bernstein's bound, which is 4.5 sigma where many blocks are sampled and more
// where a few heavy ones decide (probability below 8e-5 for both sides, in practice below 1e-5). The mean over runs, all
// three functions together, must be within 1 % or 3.5 sigma of the mean, whichever is more; one that is not is measured
// anew with four times the runs, and those decide.
//
// HEAP_RUNS: how often (4; 20 in the long form). HEAP_LIVE_MB, HEAP_ALLOCATED_MB: 300, 800; with 3000 and 6000 the 1 % is
// what decides.
package e2e

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/google/pprof/profile"
)

const heapSigmas = 4.5

// heapTruth is what allocmix says of one function: values, and their standard deviations under sampling.
type heapTruth struct{ value, sigma [4]float64 }

func readTruth(f []string) (h heapTruth) {
	for i := range h.value {
		h.value[i], _ = strconv.ParseFloat(f[1+i], 64)
		h.sigma[i], _ = strconv.ParseFloat(f[5+i], 64)
	}
	return h
}

// bernstein is how far a value may be off. The largest weights: of the count, a block of 8 bytes; of the bytes, 64 KiB.
func bernstein(value int, sigma, rate float64) float64 {
	const l = heapSigmas * heapSigmas / 2
	w := 1 / -math.Expm1(-9/rate)
	if value == allocSpace || value == inuseSpace {
		w = 65536 / -math.Expm1(-65537/rate)
	}
	return w*l/3 + math.Sqrt(w*l/3*w*l/3+2*l*sigma*sigma)
}

type heapMeans struct {
	runs                 int
	got, want, variance  [4]float64
	worst                [4]float64 // in sigmas
	sumZ2                [4]float64
	functions, beyondTwo int
}

func (m *heapMeans) add(t *testing.T, what string, p *profile.Profile, lines [][]string, rate float64) {
	m.runs++
	for _, f := range lines {
		h, got := readTruth(f), heapOf(p, f[0])
		for i := range got {
			off := float64(got[i]) - h.value[i]
			z := off / h.sigma[i]
			m.got[i] += float64(got[i])
			m.want[i] += h.value[i]
			m.variance[i] += h.sigma[i] * h.sigma[i]
			m.sumZ2[i] += z * z
			m.functions++
			if math.Abs(z) > 2 {
				m.beyondTwo++
			}
			if math.Abs(z) > math.Abs(m.worst[i]) {
				m.worst[i] = z
			}
			if bound := bernstein(i, h.sigma[i], rate); math.Abs(off) > bound {
				t.Errorf("%s: %s %s: %d in the profile, %.0f in truth: off by %.0f, %.1f sigma; allowed %.0f", what, f[0],
					heapNames[i], got[i], h.value[i], off, z, bound)
			}
		}
	}
}

// judge tells what the runs came to, and what of it chance does not explain.
func (m *heapMeans) judge(t *testing.T, what string) (wrong []string) {
	for i, name := range heapNames {
		off, sigma := m.got[i]/m.want[i]-1, math.Sqrt(m.variance[i])/m.want[i]
		note(t, "%s: %-13s mean of %d runs %+.2f %% (sigma of the mean %.2f %%), worst run and function %+.1f sigma, mean z^2 %.2f",
			what, name, m.runs, 100*off, 100*sigma, m.worst[i], m.sumZ2[i]/float64(m.functions/4))
		if bound := max(0.01, 3.5*sigma); math.Abs(off) > bound {
			wrong = append(wrong, fmt.Sprintf("%s: mean %s is off by %+.2f %%, allowed %.2f %%", what, name, 100*off, 100*bound))
		}
	}
	note(t, "%s: %d of %d values beyond 2 sigma", what, m.beyondTwo, m.functions)
	// 4.6 % are expected; spread that is wrong in either direction says that blocks are not sampled independently.
	if n := float64(m.functions); n >= 200 && math.Abs(float64(m.beyondTwo)-0.046*n) > 5*math.Sqrt(0.046*n)+0.01*n {
		wrong = append(wrong, fmt.Sprintf("%s: %d of %d values are beyond 2 sigma", what, m.beyondTwo, m.functions))
	}
	return wrong
}

func TestHeapSamplesAreUnbiased(t *testing.T) {
	runs := int(number("HEAP_RUNS", 4))
	live, allocated := int(number("HEAP_LIVE_MB", 300)), int(number("HEAP_ALLOCATED_MB", 800))
	for _, c := range []struct {
		name          string
		rate, threads int
		runs          int
	}{
		{"default", 512 << 10, 1, runs},
		{"two threads", 512 << 10, 2, max(1, runs/2)},
		{"64 KiB", 64 << 10, 1, max(1, runs/2)},
		{"4 MiB", 4 << 20, 1, max(1, runs/2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			seed := os.Getpid()
			measure := func(runs int) []string {
				var m heapMeans
				for run := 1; run <= runs; run++ {
					env := []string{fmt.Sprintf("PPROF_HEAP_RATE=%d", c.rate)}
					if c.name == "default" {
						env = nil
					}
					seed++
					x := start(t, env, victim("allocmix"), fmt.Sprint(live), fmt.Sprint(allocated), fmt.Sprint(c.threads),
						fmt.Sprint(c.rate), fmt.Sprint(seed))
					x.open()
					lines := x.truthLines(1)
					p := x.heap("heap")
					if p.Period != int64(c.rate) {
						t.Fatalf("period %d, not %d", p.Period, c.rate)
					}
					m.add(t, fmt.Sprintf("%s, run %d", c.name, run), p, lines, float64(c.rate))
					if t.Failed() && run == 1 {
						t.Logf("%s%s", comments(p), heapTop(p, inuseSpace, 5))
					}
					x.finish()
				}
				return m.judge(t, c.name)
			}
			wrong := measure(c.runs)
			if len(wrong) > 0 { // One of sixteen means is beyond 3.5 sigma in 130 runs of this test; so is not a second one.
				t.Logf("once more, with other seeds and four times the runs: %q", wrong)
				wrong = measure(4 * c.runs)
			}
			for _, w := range wrong {
				t.Error(w)
			}
		})
	}
}

// One record is one stack and one size class: a class's records differ in their constant and in nothing else.
func TestHeapRecordsAreStackAndClass(t *testing.T) {
	x := start(t, []string{"PPROF_HEAP_RATE=16384"}, victim("allocmix"), "50", "100", "1", "16384", "1")
	x.open()
	x.truthLines(1)
	p := x.heap("heap")
	classes := map[int64]bool{}
	for _, s := range p.Sample {
		if !contains(s, named("hold_sixty")) {
			continue
		}
		class := s.NumLabel["bytes"]
		if len(class) != 1 {
			t.Fatalf("no label bytes: %v", stack(s))
		}
		classes[class[0]] = true
		if mean := float64(s.Value[allocSpace]) / float64(s.Value[allocObjects]); mean > float64(class[0])*1.001 {
			t.Errorf("blocks of %.0f bytes on average in the class of %d", mean, class[0])
		}
	}
	if len(classes) < 12 {
		t.Errorf("blocks of 16 B to 64 KiB in %d classes: %v", len(classes), classes)
	}
	x.finish()
}
