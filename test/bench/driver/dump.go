// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// What a dump of a thousand threads takes, from the request to the last byte of the answer: 990 asleep in every way there
// is (test/victims/sleepers.h), and of the other ten none, one or all but the main one busy. Nine on two processors is the
// hardest: each answers at its next turn, and the server and who asks take turns with them as well.

const (
	dumpSleepers = 990
	dumpRounds   = 21
	dumpLimit    = 0.050 // s
)

var dumpForms = []string{"debug=0", "debug=1", "debug=2"}

// dumps takes rounds of every form, in turn; in seconds.
func dumps(busy, rounds int) (took map[string][]float64, err error) {
	program, err := filepath.Abs(os.Getenv("OUT") + "/victims/sleepers")
	if err != nil {
		return nil, err
	}
	v := variant{name: vIdle, preload: library, listens: true}
	started++
	p := &process{where: fmt.Sprintf("%s/%d", scratch, started)}
	if err = p.start(anyCPU, append(v.environment(p.where), "LD_PRELOAD="+v.preload), program, "still",
		fmt.Sprint(dumpSleepers), fmt.Sprint(busy)); err != nil {
		return nil, err
	}
	defer p.kill()
	if err = await("the address", func() bool { return exists(agentSocket(p.where)) }); err != nil {
		return nil, err
	}
	time.Sleep(time.Second)
	took = map[string][]float64{}
	const unmeasured = 2 // the first ones read symbol tables and lines
	for i := -unmeasured; i < rounds; i++ {
		for _, form := range dumpForms {
			began := time.Now()
			reply, err := p.client().Get("http://agent/debug/pprof/goroutine?" + form)
			if err != nil {
				return nil, err
			}
			n, err := io.Copy(io.Discard, reply.Body)
			reply.Body.Close()
			if err != nil || n == 0 {
				return nil, fmt.Errorf("%s: %s, %d bytes, %v", form, reply.Status, n, err)
			}
			if i >= 0 {
				took[form] = append(took[form], time.Since(began).Seconds())
			}
		}
	}
	return took, nil
}

func measureDump() (bars []bar) {
	n := dumpRounds
	if rounds > 0 {
		n = rounds
	}
	for _, busy := range []int{0, 1, 9} {
		took, err := dumps(busy, n)
		if err != nil {
			fmt.Printf("%d busy threads: fails: %v\n", busy, err)
			continue
		}
		fmt.Printf("%d busy threads:", busy)
		for _, form := range dumpForms {
			l := sorted(took[form])
			fmt.Printf("   %s %.1f ms (%.1f–%.1f)", form, 1e3*median(l), 1e3*l[0], 1e3*l[len(l)-1])
			bars = append(bars, bar{what: fmt.Sprintf("dump of 1,000 threads, %d busy, %s, s", busy, strings.ReplaceAll(form, "debug=", "form ")),
				limit: dumpLimit, measured: spanOf(l), format: "%.4f"})
		}
		fmt.Println()
	}
	return bars
}
