// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// results are the rounds of one workload: of each variant one value a round.
type results struct {
	w         *workload
	variants  []variant
	cpu, wall map[string][]float64
}

// measure runs all rounds and prints the table.
func (w *workload) measure() []bar {
	fmt.Printf("== %s: %s\n\n", w.name, w.what)
	if w.missing != "" {
		fmt.Printf("skipped: %s\n\n", w.missing)
		return nil
	}
	r := &results{w: w, cpu: map[string][]float64{}, wall: map[string][]float64{}}
	for _, v := range allVariants() {
		if !w.suits(&v) || !onlyVariants.MatchString(v.name) && v.name != vNone && v.name != vControl {
			continue
		}
		if v.missing != "" {
			fmt.Printf("skipped: %s: %s\n", v.name, v.missing)
			continue
		}
		r.variants = append(r.variants, v)
	}
	n := w.rounds
	if rounds > 0 {
		n = rounds
	}
	began := time.Now()
	for i := 0; i < n; i++ {
		r.round()
	}
	r.print(n, time.Since(began))
	if w.bars == nil {
		return nil
	}
	return w.bars(r)
}

// round runs every variant once. A variant that fails is told and left out from then on: half a series is none.
func (r *results) round() {
	var failed []string
	for _, i := range order.Perm(len(r.variants)) {
		v := &r.variants[i]
		s, err := r.w.run(v)
		if err != nil {
			fmt.Printf("%s fails: %v\n", v.name, err)
			failed = append(failed, v.name)
			continue
		}
		r.cpu[v.name] = append(r.cpu[v.name], s.cpu)
		r.wall[v.name] = append(r.wall[v.name], s.wall)
	}
	for _, name := range failed {
		delete(r.cpu, name)
		delete(r.wall, name)
		for i := range r.variants {
			if r.variants[i].name == name {
				r.variants = append(r.variants[:i], r.variants[i+1:]...)
				break
			}
		}
	}
}

func ratioText(x, to []float64) string {
	s := spanOf(ratios(x, to))
	if math.IsNaN(s.mid) {
		return "–"
	}
	if s.high >= 10 {
		return fmt.Sprintf("%.1f %.1f–%.1f", s.mid, s.low, s.high)
	}
	return fmt.Sprintf("%.3f %.3f–%.3f", s.mid, s.low, s.high)
}

func (r *results) print(n int, took time.Duration) {
	u := r.w.unit
	fmt.Printf("%-23s%31s%13s%22s%22s%22s\n", "", "CPU, "+u, "wall, "+u, "CPU to no preload", "CPU to pass-through", "CPU to own idle form")
	fmt.Printf("%-23s%10s%10s%11s%13s%22s%22s%22s\n", "", "median", "min", "max", "median", "median, 95 % of it", "median, 95 % of it", "median, 95 % of it")
	for _, v := range r.variants {
		x := sorted(r.cpu[v.name])
		if len(x) == 0 {
			continue
		}
		fmt.Printf("%-23s%10.2f%10.2f%11.2f%13.2f%22s%22s%22s\n", v.name, median(x)*r.w.scale, x[0]*r.w.scale, x[len(x)-1]*r.w.scale,
			median(r.wall[v.name])*r.w.scale, ratioText(r.cpu[v.name], r.cpu[vNone]), ratioText(r.cpu[v.name], r.cpu[vPass]),
			ratioText(r.cpu[v.name], r.cpu[v.own]))
	}
	c := sorted(ratios(r.cpu[vControl], r.cpu[vNone]))
	if len(c) > 0 {
		fmt.Printf("noise: in single rounds the control came out at %.3f to %.3f of what it is equal to\n", c[0], c[len(c)-1])
	}
	fmt.Printf("%d rounds, %.0f s, load %s\n\n", n, took.Seconds(), loadAverage())
}

// bar is a promise with what was measured.
type bar struct {
	what     string
	limit    float64
	measured span
	format   string
	noise    string // the control's interval, for comparison
}

// verdict: a bar is met or missed only if the whole interval says so.
func (b *bar) verdict() string {
	switch {
	case math.IsNaN(b.measured.mid):
		return "not measured"
	case b.measured.n < enough:
		return "too few rounds to tell"
	case b.measured.high <= b.limit:
		return "PASS"
	case b.measured.low > b.limit:
		return "FAIL"
	case b.measured.mid <= b.limit:
		return "met, inside noise"
	default:
		return "missed, inside noise"
	}
}

// bar compares a variant's CPU time with the pass-through's.
func (r *results) bar(variant string, limit float64) bar {
	return bar{
		what:     r.w.name + ", " + variant + ", CPU to pass-through",
		limit:    limit,
		measured: spanOf(ratios(r.cpu[variant], r.cpu[vPass])),
		format:   "%.3f",
		noise:    ratioText(r.cpu[vControl], r.cpu[vNone]),
	}
}

func startBars(r *results) []bar {
	extra := func(variant string, limit float64) bar {
		c := spanOf(differences(r.wall[vControl], r.wall[vNone])).times(1e3)
		return bar{
			what:     "start, " + variant + ", ms over an empty object",
			limit:    limit,
			measured: spanOf(differences(r.wall[variant], r.wall[vEmpty])).times(1e3),
			format:   "%.3f",
			noise:    fmt.Sprintf("%.3f %.3f–%.3f", c.mid, c.low, c.high),
		}
	}
	return []bar{extra(vOff, 0.2), extra(vIdle, 0.6)}
}

func summarise(bars []bar) {
	if len(bars) == 0 {
		return
	}
	fmt.Printf("== summary\n\n%-52s%8s%10s%18s%22s  %s\n", "", "bar", "measured", "95 %", "control", "")
	for i := range bars {
		b := &bars[i]
		text := func(x float64) string { return fmt.Sprintf(b.format, x) }
		noise := b.noise
		if noise == "" {
			noise = "–"
		}
		fmt.Printf("%-52s%8s%10s%18s%22s  %s\n", b.what, "≤ "+fmt.Sprint(b.limit), text(b.measured.mid),
			text(b.measured.low)+"–"+text(b.measured.high), noise, b.verdict())
	}
}

func describeMachine() {
	var uts syscall.Utsname
	syscall.Uname(&uts)
	var release strings.Builder
	for _, c := range uts.Release {
		if c == 0 {
			break
		}
		release.WriteByte(byte(c))
	}
	fmt.Printf("%s, kernel %s, %d processors, load %s\n\n", time.Now().UTC().Format("2006-01-02 15:04 UTC"), release.String(),
		runtime.NumCPU(), loadAverage())
}

// loadAverage tells how much company a measurement had.
func loadAverage() string {
	load, _ := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(load))
	if len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}
