// SPDX-License-Identifier: Apache-2.0

// Promise: the HTTP contract, assertion by assertion, for a C++ program, and as far as they apply for Rust, Python and
// redis; and Go's own net/http/pprof is asked the same, so that each difference is one that we know and can explain. The
// list is printed: number, text, and how each target did.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

type assertion struct {
	number int
	text   string
	on     string // who is asked: a all and Go, n native programs, c the C++ program alone, g that and Go
	goDoes string // what Go does instead, and is meant to
	check  func(t *testing.T, x subject)
}

// assertions in the order in which a target is asked: the last takes its file away.
var assertions = slices.Concat(contractRequests, contractProfiles, contractClients)

const contractGo = "PPROF_CONTRACT_GO"

// applies: to whom, as letters say; isGo alone is asked what Go may know.
func (a assertion) applies(x subject) bool {
	return a.on == "a" || a.on == "n" && !x.isGo || a.on == "c" && x.isCxx || a.on == "g" && (x.isCxx || x.isGo)
}

func runAssertions(t *testing.T, x subject, passed map[int]string) {
	for _, a := range assertions {
		if a.applies(x) {
			verdict := "FAIL"
			if t.Run(fmt.Sprintf("%02d", a.number), func(t *testing.T) {
				defer func() {
					if t.Skipped() {
						verdict = "skip"
					}
				}()
				a.check(t, x)
			}) && verdict == "FAIL" {
				verdict = "ok"
			}
			passed[a.number] = verdict
		}
	}
}

// askGo lets a process of its own ask Go's server, so that what it may do otherwise is no failure here.
func askGo(t *testing.T) map[int]string {
	cmd := exec.Command(os.Args[0], "-test.run=^TestContract50$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), contractGo+"=1")
	out, _ := cmd.CombinedOutput()
	passed := map[int]string{}
	for _, m := range regexp.MustCompile(`(?m)^ *--- (PASS|FAIL): TestContract50/(\d+)`).FindAllSubmatch(out, -1) {
		n, _ := strconv.Atoi(string(m[2]))
		passed[n] = map[string]string{"PASS": "ok", "FAIL": "FAIL"}[string(m[1])]
	}
	if len(passed) == 0 {
		t.Fatalf("Go's server was not asked:\n%.2000s", out)
	}
	for _, a := range assertions {
		if passed[a.number] == "FAIL" && a.goDoes == "" {
			t.Errorf("Go's own server does not keep %d: %s\n%s", a.number, a.text,
				regexp.MustCompile(fmt.Sprintf(`(?s)=== RUN   TestContract50/%02d\n.*?(=== RUN|$)`, a.number)).Find(out))
		}
	}
	return passed
}

func TestContract50(t *testing.T) {
	if os.Getenv(contractGo) != "" {
		runAssertions(t, startGo(t), map[int]string{})
		return
	}
	names := []string{"c++", "rust", "python", "redis"}
	passed := map[string]map[int]string{}
	var lock sync.Mutex
	t.Run("targets", func(t *testing.T) {
		for _, name := range append(names, "go") {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				mine := map[int]string{}
				lock.Lock()
				passed[name] = mine
				lock.Unlock()
				switch name {
				case "c++":
					runAssertions(t, startCxx(t), mine)
				case "rust":
					x := subject{target: start(t, []string{"PPROF_HEAP_RATE=16384"}, victim("ruststack"))}
					x.open()
					runAssertions(t, x, mine)
				case "python":
					runAssertions(t, subject{target: start(t, []string{"PPROF_HEAP_RATE=16384"}, need(t, "/usr/bin/python3"), "-c",
						"while True: [str(i) * 30 for i in range(3000)]")}, mine)
				case "redis":
					runAssertions(t, startRedis(t), mine)
				case "go":
					got := askGo(t)
					lock.Lock()
					passed[name] = got
					lock.Unlock()
				}
			})
		}
	})
	byNumber := slices.Clone(assertions)
	slices.SortFunc(byNumber, func(a, b assertion) int { return a.number - b.number })
	for _, a := range byNumber {
		line, verdict := "", "ok"
		for _, name := range append(names, "go") {
			switch got := passed[name][a.number]; {
			case got == "":
			case got == "ok":
				line += " " + name
			case name == "go":
				line += "; Go: " + a.goDoes
			default:
				verdict = got
				line += " " + name + ":" + got
			}
		}
		fmt.Printf("contract %02d %s %s (%s)\n", a.number, verdict, a.text, strings.TrimSpace(line))
	}
	fmt.Println("contract 49 -- TLS: not inside the program; a sidecar or the port-forward brings it")
}
