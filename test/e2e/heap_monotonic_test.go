// SPDX-License-Identifier: Apache-2.0

// Promise: scraped again and again under load, no record's cumulative values ever fall, no record is ever forgotten, and no
// block is seen live twice or negative.
//
// HEAP_SCRAPES: how many (120; 1000 in the long form).
package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// history is what one scraper has seen.
type history struct {
	values    map[string][2]int64
	stacks    map[string]string
	timeNanos int64
}

func (h *history) follow(p *profile.Profile) error {
	if p.TimeNanos <= h.timeNanos {
		return fmt.Errorf("time_nanos %d after %d", p.TimeNanos, h.timeNanos)
	}
	h.timeNanos = p.TimeNanos
	seen := make(map[string][2]int64, len(p.Sample))
	for _, s := range p.Sample {
		id := heapIdentity(s)
		now := [2]int64{s.Value[allocObjects], s.Value[allocSpace]}
		if was := h.values[id]; now[0] < was[0] || now[1] < was[1] {
			return fmt.Errorf("from %v to %v: %v", was, now, stack(s))
		}
		if names := fmt.Sprint(stack(s)); h.stacks[id] == "" {
			h.stacks[id] = names
		} else if h.stacks[id] != names {
			return fmt.Errorf("was %s and is %s", h.stacks[id], names)
		}
		seen[id] = now
	}
	for id := range h.values {
		if _, ok := seen[id]; !ok {
			return fmt.Errorf("%s was forgotten", h.stacks[id])
		}
	}
	h.values = seen
	return nil
}

func TestHeapNeverFalls(t *testing.T) {
	churn := filepath.Join(filepath.Dir(victims), "torture", "churn")
	if _, err := os.Stat(churn); err != nil {
		t.Skipf("%v: make torture programs first", err)
	}
	const scrapers = 2
	scrapes := int64(number("HEAP_SCRAPES", 120))
	for _, rate := range []int{1024, 64 << 10} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			x := start(t, []string{fmt.Sprintf("PPROF_HEAP_RATE=%d", rate)}, churn, "600", "3", "0")
			x.open()
			waitFor(t, 30*time.Second, "a load", func() bool { return len(x.heap("heap").Sample) > 500 }, nil)
			var n atomic.Int64
			var records, took atomic.Int64
			var wg sync.WaitGroup
			for i := range scrapers {
				wg.Add(1)
				go func() {
					defer wg.Done()
					h := history{stacks: map[string]string{}}
					path := []string{"heap", "allocs"}[i%2]
					for n.Add(1) <= scrapes/2 && !t.Failed() {
						began := time.Now()
						p, err := fetchHeap(x.addr, path)
						if err == nil {
							took.Add(int64(time.Since(began)))
							err = h.follow(p)
						}
						if err != nil {
							t.Errorf("scrape %d: %v", n.Load(), err)
							return
						}
						records.Store(int64(len(p.Sample)))
					}
				}()
			}
			wg.Wait()
			select {
			case <-x.ended:
				t.Fatalf("the target ended: %v %s%s", x.status, x.out, x.err)
			default:
			}
			note(t, "rate %d: %d scrapes, %d records at the end, %v each with parsing", rate, scrapes/2, records.Load(),
				time.Duration(took.Load()/max(1, scrapes/2)))
		})
	}
}
