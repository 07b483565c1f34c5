// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/rand"
	"sort"
)

func sorted(x []float64) []float64 {
	s := append([]float64{}, x...)
	sort.Float64s(s)
	return s
}

func median(x []float64) float64 {
	s := sorted(x)
	switch n := len(s); {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return s[n/2]
	default:
		return (s[n/2-1] + s[n/2]) / 2
	}
}

// span is a median with the interval that holds the true one with 95 %, by order statistics: no shape of the
// distribution is assumed. With fewer than six values the interval is all of them, and too weak for a verdict.
type span struct {
	mid, low, high float64
	n              int
}

const enough = 6

// exactly is the span of what is not sampled but known.
func exactly(mid, low, high float64) span { return span{mid, low, high, enough} }

func (s span) times(f float64) span { return span{s.mid * f, s.low * f, s.high * f, s.n} }

func spanOf(x []float64) span {
	s := sorted(x)
	n := len(s)
	if n == 0 {
		return span{math.NaN(), math.NaN(), math.NaN(), 0}
	}
	// The largest k with P(Binomial(n, 1/2) < k) <= 2.5 %: the interval is from the k-th to the k-th from the end.
	k, tail, term := 0, 0.0, math.Pow(0.5, float64(n))
	for i := 0; i < n/2; i++ {
		tail += term
		if tail > 0.025 {
			break
		}
		k = i + 1
		term *= float64(n-i) / float64(i+1)
	}
	if k == 0 {
		k = 1
	}
	return span{median(x), s[k-1], s[n-k], n}
}

// ratios compares two series round by round.
func ratios(x, to []float64) []float64 {
	var r []float64
	for i := range x {
		if i < len(to) && x[i] > 0 && to[i] > 0 {
			r = append(r, x[i]/to[i])
		}
	}
	return r
}

// differences, likewise.
func differences(x, to []float64) []float64 {
	var d []float64
	for i := range x {
		if i < len(to) {
			d = append(d, x[i]-to[i])
		}
	}
	return d
}

// order is a fresh one for each round, the same in every run of the program.
var order = rand.New(rand.NewSource(1))
