// SPDX-License-Identifier: Apache-2.0

// Figures for people: what 200 slow clients and malformed requests (HOSTILE_RATE a second, 500 unless told) cost a program beside which they are
// answered. In each round: nobody attacks; they attack the agent in the program that is measured; they attack the agent
// in another program, which sleeps; they attack nginx, where there is one; nobody attacks, again. What the first attack
// costs more than the second is ours: of CPU, both take as much. What the third costs is what answering such clients costs
// on this machine, whoever does it.
//
// HOSTILE_PAIRS: how many rounds (20 s each). The clients share the machine, which real ones do not: they are written to
// need little of it (test/victims/hostile.c; as Go routines they raised redis' p99 by a tenth whoever answered), and with
// HOSTILE_IDLE=1 they run at idle priority, and come through only as far as redis and its benchmark leave them a CPU. On a machine that
// does other things, too, run it by `nice -n -15`.
package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const slowOnes = 200

// on is a command on the target's processor, or on the clients', where they are apart.
func on(t *testing.T, targets bool, command ...string) *exec.Cmd {
	if os.Getenv("HOSTILE_APART") == "1" {
		processors := "1-" + strconv.Itoa(runtime.NumCPU()-1)
		if targets {
			processors = "0"
		}
		command = append([]string{need(t, "taskset"), "--cpu-list", processors}, command...)
	}
	return exec.Command(command[0], command[1:]...)
}

// load is what redis-benchmark measures with its 50 clients: p99 of the answers in milliseconds, which it knows to 8 us,
// and answers a second.
func load(t *testing.T, port string, requests int) (p99, rate float64) {
	t.Helper()
	out, err := on(t, true, need(t, "redis-benchmark"), "-p", port, "--csv", "-n", strconv.Itoa(requests), "-t", "get").Output()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%v %q", err, out)
	}
	for name, to := range map[string]*float64{"p99_latency_ms": &p99, "rps": &rate} {
		if *to, err = strconv.ParseFloat(rows[1][slices.Index(rows[0], name)], 64); err != nil {
			t.Fatalf("%v %q", err, rows)
		}
	}
	return p99, rate
}

// script is what test/victims/hostile.c sends: the slow clients and malformed requests of TestHostileClients.
func script(kinds []slowKind) []byte {
	const many = 5000
	var b bytes.Buffer
	number := func(n int) { binary.Write(&b, binary.NativeEndian, uint32(n)) }
	text := func(s string) { number(len(s)); b.WriteString(s) }
	number(len(kinds))
	for _, k := range kinds {
		text(k.begin)
		text(k.drip)
	}
	number(many)
	r := rand.New(rand.NewSource(1))
	for range many {
		text(malformed(r))
	}
	return b.Bytes()
}

// attack starts the clients; the function that is returned ends them.
func attack(t *testing.T, addr string) func() {
	t.Helper()
	_, port, _ := strings.Cut(addr, ":")
	command := []string{victim("hostile"), port, strconv.Itoa(slowOnes), strconv.Itoa(int(number("HOSTILE_RATE", 500)))}
	if os.Getenv("HOSTILE_IDLE") == "1" {
		command = append([]string{need(t, "chrt"), "--idle", "0"}, command...)
	}
	var out buffer
	cmd := on(t, false, command...)
	cmd.Stdin = bytes.NewReader(script(slowKinds(root + "heap?debug=1")))
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, time.Minute, "the hostile clients", func() bool { return strings.Contains(out.String(), "connected") }, out.String)
	return func() { cmd.Process.Kill(); cmd.Wait() }
}

// nginx is a server of files whose address can be attacked; "" if there is none.
func nginx(t *testing.T) (addr string) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		return ""
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "conf")
	files := filepath.Join(dir, "files", root)
	addr = freePort(t)
	text := fmt.Sprintf("worker_processes 1; daemon off; user root; pid %[1]s/pid; error_log %[1]s/log;\n"+
		"events { worker_connections 1024; }\n"+
		"http { access_log off; client_header_timeout 10; client_body_timeout 10; server { listen %[2]s; root %[1]s/files; } }\n", dir, addr)
	if err := os.MkdirAll(files, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{conf: text, filepath.Join(files, "heap"): strings.Repeat("x", 8192)} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(path, "-c", conf)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Signal(os.Interrupt); cmd.Wait() })
	waitFor(t, 10*time.Second, "nginx", func() bool { a, err := ask(addr, "GET", root+"heap", "", nil); return err == nil && a.status == 200 },
		func() string { log, _ := os.ReadFile(filepath.Join(dir, "log")); return string(log) })
	return addr
}

// cost is what a program's own main thread met, and what our threads in it used.
type cost struct {
	lasted, waited, agent time.Duration // in all; runnable without a CPU; CPU time
	forced                float64       // switches to another thread that it did not want
	answered              float64       // requests by the agent
}

func (c cost) since(b cost) cost {
	return cost{0, c.waited - b.waited, c.agent - b.agent, c.forced - b.forced, c.answered - b.answered}
}

func costOf(t *testing.T, x *target) cost {
	t.Helper()
	task := filepath.Join("/proc", strconv.Itoa(x.pid()), "task", strconv.Itoa(x.pid()))
	times, err := os.ReadFile(filepath.Join(task, "schedstat"))
	if err != nil {
		t.Fatal(err)
	}
	waited, err := strconv.ParseInt(strings.Fields(string(times))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	status, _ := os.ReadFile(filepath.Join(task, "status"))
	_, forced, _ := strings.Cut(string(status), "nonvoluntary_ctxt_switches:")
	switches, err := strconv.ParseFloat(strings.TrimSpace(forced), 64)
	if err != nil {
		t.Fatal(err)
	}
	m := metrics(x)
	c := cost{waited: time.Duration(waited), agent: time.Duration(m["pprofagent_cpu_seconds_total"] * 1e9), forced: switches}
	for _, code := range []string{"2xx", "3xx", "4xx", "5xx"} {
		c.answered += m[`pprofagent_http_requests_total{code="`+code+`"}`]
	}
	return c
}

func TestLatencyBesideHostileClients(t *testing.T) {
	rounds := int(number("HOSTILE_PAIRS", 0))
	if rounds == 0 {
		t.Skip("HOSTILE_PAIRS says how many rounds")
	}
	server := need(t, "redis-server")
	var ports []string
	var servers []*target
	for range 2 {
		_, port, _ := strings.Cut(freePort(t), ":")
		x := start(t, nil, server, "--port", port, "--save", "", "--dir", t.TempDir())
		x.awaitOutput("eady to accept")
		if os.Getenv("HOSTILE_APART") == "1" { // the agent's later threads follow
			move := exec.Command(need(t, "taskset"), "--all-tasks", "--pid", "--cpu-list", "0", strconv.Itoa(x.pid()))
			if out, err := move.CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
		}
		ports, servers = append(ports, port), append(servers, x)
	}
	const loads, requests = 8, 40000 // the quieter ones count: what else runs here comes in bursts
	load(t, ports[0], requests)      // to warm up
	names, other := []string{"alone", "attacked", "bystander attacked", "alone again"}, nginx(t)
	if other != "" {
		names = slices.Insert(names, 3, "nginx attacked")
	}
	p99, rate, costs := map[string][]float64{}, map[string][]float64{}, map[string][]cost{}
	for round := range rounds {
		order := slices.Clone(names)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, name := range order {
			stop, victim := func() {}, servers[0]
			switch name {
			case "attacked":
				stop = attack(t, victim.addr)
			case "bystander attacked":
				victim = servers[1]
				stop = attack(t, victim.addr)
			case "nginx attacked":
				stop = attack(t, other)
			}
			began, redis, agent := time.Now(), costOf(t, servers[0]), costOf(t, victim)
			var v, r []float64
			for range loads {
				p, n := load(t, ports[0], requests)
				v, r = append(v, p), append(r, n)
			}
			c := costOf(t, servers[0]).since(redis)
			c.lasted = time.Since(began)
			used := costOf(t, victim).since(agent)
			stop()
			c.agent, c.answered = used.agent, used.answered
			p99[name], costs[name] = append(p99[name], quantile(v, 0.25)), append(costs[name], c)
			rate[name] = append(rate[name], quantile(r, 0.5))
		}
	}
	for _, name := range names {
		sum := cost{}
		for _, c := range costs[name] {
			sum.waited, sum.agent, sum.forced, sum.answered = sum.waited+c.waited, sum.agent+c.agent, sum.forced+c.forced, sum.answered+c.answered
			sum.lasted += c.lasted
		}
		perSecond := sum.lasted.Seconds()
		note(t, "%-18s p99 %.3f ms, %6.0f answers/s; in a second redis waited %5.1f ms for a CPU in %5.0f forced switches; the agent answered %4.0f with %5.1f ms of CPU",
			name, quantile(p99[name], 0.5), quantile(rate[name], 0.5), sum.waited.Seconds()*1000/perSecond, sum.forced/perSecond, sum.answered/perSecond,
			sum.agent.Seconds()*1000/perSecond)
	}
	pairs := [][2]string{{"attacked", "bystander attacked"}, {"attacked", "alone"}, {"bystander attacked", "alone"}, {"alone again", "alone"}}
	if other != "" {
		pairs = append(pairs, [2]string{"attacked", "nginx attacked"}, [2]string{"nginx attacked", "alone"})
	}
	for _, pair := range pairs {
		var ratios []float64
		for i := range rounds {
			ratios = append(ratios, p99[pair[0]][i]/p99[pair[1]][i])
		}
		note(t, "p99 %s / %s: median %.3f, half of them from %.3f to %.3f", pair[0], pair[1], quantile(ratios, 0.5), quantile(ratios, 0.25), quantile(ratios, 0.75))
	}
}
