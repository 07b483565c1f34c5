// SPDX-License-Identifier: Apache-2.0

// Promise: the pages are whole by themselves, may do nothing but what they were built to do, and no name can break out of
// its place. On a phone and on a desk, with scripts and without, they show what the profile says and the browser has
// nothing to complain about.
package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// flameData is what proto/flame.h describes.
type flameData struct {
	Types    [][2]string
	Selected int
	Main     string
	Strings  []string
	Frames   []int
	Labels   [][2]string
	Stacks   []int64
}

func (d *flameData) name(frame int64) string { return d.Strings[d.Frames[3*frame]] }

// fold reads the stacks as the page does.
func (d *flameData) fold(index int) map[string]int64 {
	stacks := map[string]int64{}
	var frames []string
	at := 0
	next := func() int64 { at++; return d.Stacks[at-1] }
	for at < len(d.Stacks) {
		frames = frames[:next()]
		for more := next(); more > 0; more-- {
			frames = append(frames, strings.ReplaceAll(d.name(next()), ";", "%3B"))
		}
		for entries := next(); entries > 0; entries-- {
			at += int(next()) // labels
			stacks[strings.Join(frames, ";")] += d.Stacks[at+index]
			at += len(d.Types)
		}
	}
	for stack, v := range stacks {
		if v == 0 {
			delete(stacks, stack)
		}
	}
	return stacks
}

var flamePage = regexp.MustCompile(`(?s)^<!DOCTYPE html>.*<script type="application/json" id="data">(.*?)</script>\n<script>.*?</script>\n</body>\n</html>\n$`)

func readFlame(t *testing.T, a *answer) *flameData {
	t.Helper()
	isText(t, a, "text/html; charset=utf-8")
	policy := a.header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'sha256-", "style-src 'sha256-", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy lacks %s: %q", part, policy)
		}
	}
	m := flamePage.FindSubmatch(a.body)
	if m == nil {
		t.Fatalf("no such page: %.300s", a.body)
	}
	if regexp.MustCompile(`(src|href)="?(https?:)?//|@import|url\(`).Match(a.body) {
		t.Errorf("the page asks for something else")
	}
	var d flameData
	if err := json.Unmarshal(m[1], &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

func TestFlamegraphSaysWhatTheProfileSays(t *testing.T) {
	targets := quietTargets(t)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			x := targets[k.name]
			p := isFile(t, x.get(root+k.name), k.name)
			d := readFlame(t, x.get(root+k.name+"?format=flamegraph"))
			if d.Selected != defaultIndex(p) || len(d.Types) != len(p.SampleType) {
				t.Errorf("type %d of %q", d.Selected, d.Types)
			}
			for i, s := range p.SampleType {
				if d.Types[i] != [2]string{s.Type, s.Unit} {
					t.Errorf("type %d is %q, in the profile %v", i, d.Types[i], s)
				}
				sameStacks(t, s.Type, d.fold(i), foldProfile(p, i))
			}
			d = readFlame(t, x.get(root+k.name+"?format=flamegraph&type=0"))
			if d.Selected != 0 {
				t.Errorf("type=0 selects %d", d.Selected)
			}
			if k.hasDelta {
				readFlame(t, x.get(root+k.name+"?format=flamegraph&seconds=1"))
			}
		})
	}
	x := start(t, nil, victim("spin"), "2", "0")
	for _, name := range []string{"profile", "wall"} {
		d := readFlame(t, x.get(root+name+"?format=flamegraph&seconds=1&labels=tid"))
		tids := map[string]bool{}
		for _, l := range d.Labels {
			if l[0] == "tid" {
				tids[l[1]] = true
			}
		}
		if sumOf(d.fold(1)) <= 0 || len(tids) < 2 {
			t.Errorf("%s: sum %d, %d threads", name, sumOf(d.fold(1)), len(tids))
		}
	}
}

// rootURL is where a browser finds the target.
func (x *target) rootURL() string { return "http://" + x.addr + root }

func TestPagesInABrowser(t *testing.T) {
	b := startBrowser(t)
	x := start(t, []string{"PPROF_HEAP_RATE=1"}, victim("manysites"), "500")
	waitFor(t, 30*time.Second, "blocks", func() bool { return strings.Contains(x.out.String(), "ready") }, nil)
	total := sumOf(readFlame(t, x.get(root+"heap?format=flamegraph")).fold(3))
	for _, s := range screens {
		p := b.open(x.rootURL()+"heap?format=flamegraph", s)
		if !s.hasScript {
			p.call("Emulation.setScriptExecutionDisabled", object{"value": false})
		}
		if over := p.number(fmt.Sprintf("document.documentElement.scrollWidth - %d", s.width)); over > 0 {
			t.Errorf("%s: the page is %v pixels too wide", s.name, over)
		}
		if n := p.number("document.querySelectorAll('#functions tbody tr').length"); n < 20 {
			t.Errorf("%s: %v functions in the table", s.name, n)
		}
		if shown := p.number("document.getElementById('graph').clientHeight"); (shown > 100) != s.hasScript {
			t.Errorf("%s: the graph is %v pixels high", s.name, shown)
		}
		if s.hasScript {
			said := p.text("document.querySelector('#graph').ariaLabel")
			if want := fmt.Sprintf("%.1f KiB", float64(total)/1024); !strings.Contains(said, want) {
				t.Errorf("%s: %q, not %s", s.name, said, want)
			}
		}
		p.picture("heap-" + s.name)
		p.close(s.name)
		p = b.open(x.rootURL(), s)
		p.call("Emulation.setScriptExecutionDisabled", object{"value": false})
		if over := p.number(fmt.Sprintf("document.documentElement.scrollWidth - %d", s.width)); over > 0 {
			t.Errorf("index, %s: the page is %v pixels too wide", s.name, over)
		}
		p.picture("index-" + s.name)
		p.close("index, " + s.name)
	}
	x.finish()
}

// The index: what Go's has, where Go's has it, what the process is, and links that lead somewhere.
func TestIndexIsForPeopleToo(t *testing.T) {
	x := start(t, nil, victim("idle"))
	a := x.get(root)
	isText(t, a, "text/html; charset=utf-8")
	body := string(a.body)
	at := 0
	for _, part := range []string{"<title>/debug/pprof/</title>", "<h1>/debug/pprof/</h1>", "<dt>Program</dt><dd>" + victim("idle") + "</dd>",
		fmt.Sprintf("<dt>Process</dt><dd>%d</dd>", x.pid()), "<dt>Running for</dt><dd>", " s</dd>", "<dt>Threads</dt><dd>1</dd>",
		"<dt>Memory (RSS)</dt><dd>", "iB</dd>", "<dt>Agent</dt><dd>", "<th>Count</th><th>Profile</th>", "<tr><td>",
		`<a href="goroutine?debug=2">full goroutine stack dump</a>`, "go tool pprof " + strings.TrimSuffix(x.rootURL(), root),
		"Profile Descriptions:", "<ul>", "<li><b>allocs:</b>"} {
		next := strings.Index(body[at:], part)
		if next < 0 {
			t.Fatalf("no %s after byte %d", part, at)
		}
		at += next
	}
	if policy := a.header.Get("Content-Security-Policy"); strings.Contains(policy, "script") || !strings.Contains(policy, "default-src 'none'") {
		t.Errorf("policy %q", policy)
	}
	if strings.Contains(body, "<script") {
		t.Errorf("the index has a script")
	}
	forms := map[string]int{}
	for _, m := range regexp.MustCompile(`<a href="([^"]+)">`).FindAllStringSubmatch(body, -1) {
		link := strings.ReplaceAll(m[1], "&amp;", "&")
		_, query, _ := strings.Cut(link, "?")
		forms[query]++
		if strings.Contains(query, "seconds") {
			// Takes that long: the head says whether it would be answered.
			if a, err := ask(x.addr, "HEAD", root+link, "", nil); err != nil || a.status != 200 {
				t.Errorf("%s: %v %v", link, a, err)
			}
			continue
		}
		if !strings.HasPrefix(link, "/") {
			link = root + link
		}
		if a := x.get(link); a.status != 200 && link != root+"settings" {
			t.Errorf("%s: %d %s", link, a.status, a.body)
		}
	}
	for query, n := range map[string]int{"format=flamegraph": len(kinds), "format=folded": len(kinds), "debug=1": len(kinds),
		"seconds=5&format=flamegraph": 2, "seconds=30": len(kinds) + 1} {
		if forms[query] < n {
			t.Errorf("%d links with %s, not %d", forms[query], query, n)
		}
	}
	x.finish()
}

// What is done with the keyboard alone, and what a screen reader is told.
func TestFlamegraphByKeyboard(t *testing.T) {
	b := startBrowser(t)
	x := start(t, []string{"PPROF_HEAP_RATE=1"}, victim("manysites"), "500")
	waitFor(t, 30*time.Second, "blocks", func() bool { return strings.Contains(x.out.String(), "ready") }, nil)
	p := b.open(x.rootURL()+"heap?format=flamegraph", screens[3])
	said := func() string {
		return p.text("document.getElementById(document.querySelector('#graph').getAttribute('aria-activedescendant')).textContent")
	}
	level := func() float64 {
		return p.number("Number(document.querySelector('[role=treeitem]').getAttribute('aria-level'))")
	}
	for i := 0; i < 20 && p.text("document.activeElement.id") != "graph"; i++ {
		p.press("Tab")
	}
	if !strings.Contains(said(), "in all") || level() != 1 {
		t.Fatalf("at the beginning: %q", said())
	}
	for i := 2.0; i < 6; i++ {
		if p.press("ArrowDown"); level() != i {
			t.Errorf("one down: level %v, %q", level(), said())
		}
	}
	deep := said()
	if p.press("Enter"); said() != deep || p.eval("document.getElementById('out').disabled") != false {
		t.Errorf("zoomed: %q, before %q", said(), deep)
	}
	p.picture("zoomed")
	if p.press("Backspace", "ArrowUp"); level() != 4 {
		t.Errorf("one up: %q", said())
	}
	if p.press("Escape"); p.eval("document.getElementById('out').disabled") != true {
		t.Errorf("Esc does not show all")
	}
	p.press("/")
	if p.text("document.activeElement.id") != "search" {
		t.Fatalf("/ does not search")
	}
	p.press("s", "t", "e", "p", "_", "0", "0", "1")
	if found := p.text("document.getElementById('matched').textContent"); !regexp.MustCompile(`^\d+ functions, .* KiB, \d+\.\d+ %$`).MatchString(found) {
		t.Errorf("found: %q", found)
	}
	p.picture("search")
	if p.press("Enter"); !strings.HasPrefix(said(), "step_001") || p.text("document.activeElement.id") != "graph" {
		t.Errorf("the first found: %q", said())
	}
	first := said()
	if p.press("n"); said() == first || !strings.HasPrefix(said(), "step_001") {
		t.Errorf("the next found: %q", said())
	}
	for _, layout := range []string{"up", "callees"} {
		p.eval("(e => { e.value = '" + layout + "'; e.dispatchEvent(new Event('change')); })(document.getElementById('layout'))")
		if !strings.Contains(said(), "in all") {
			t.Errorf("%s: %q", layout, said())
		}
		p.picture("layout-" + layout)
	}
	p.close("keyboard")
	x.finish()
}

// What the page makes of data that is known: a window in which one thing grew and another shrank, two threads, recursion, and
// a function with a hostile name.
func TestFlamegraphReckons(t *testing.T) {
	b := startBrowser(t)
	x := start(t, nil, victim("idle"))
	body := string(x.get(root + "heap?format=flamegraph").body)
	const hostile = `<img src=x onerror="document.title='broken'">`
	data, err := json.Marshal(object{
		"types": [][2]string{{"objects", "count"}, {"space", "bytes"}}, "selected": 1, "main": "prog",
		"strings": []string{"", "main", "prog", "grow", "lib.so", hostile, "thread", "a#", "b#"},
		"frames":  []int{1, 2, 0, 3, 4, 0, 5, 2, 0}, // main, grow, the hostile one
		"labels":  [][2]string{{"thread", "a#"}, {"thread", "b#"}},
		"stacks": []int{
			0, 2, 0, 1 /* main grow */, 2, 1, 0, 2, 2048, 1, 1, 1, 1024,
			2, 1, 1 /* main grow grow */, 1, 0, 1, 512,
			1, 1, 2 /* main hostile */, 1, 1, 1, -1, -1024,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	// Go's encoder escapes '<' as ours does.
	at := flamePage.FindStringSubmatchIndex(body)
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(body[:at[2]]+string(data)+body[at[3]:]), 0o644); err != nil {
		t.Fatal(err)
	}
	p := b.open("file://"+file, screens[3])
	set := func(id, value string) {
		p.eval(fmt.Sprintf("(e => { e.value = %q; e.dispatchEvent(new Event('change')); })(document.getElementById(%q))", value, id))
	}
	says := func(what, want string) {
		t.Helper()
		got := p.text("document.getElementById(document.querySelector('#graph').getAttribute('aria-activedescendant')).textContent")
		if got != want {
			t.Errorf("%s: %q, not %q", what, got, want)
		}
	}
	down := func() { p.eval("document.querySelector('#graph').focus()"); p.press("ArrowDown") }

	says("root", "all: 2.50 KiB in all")
	down()
	says("main", "main: 2.50 KiB, 55.6 % of all")
	down()
	says("grow", "grow: 3.50 KiB, 77.8 % of all; 77.8 % of the box above; itself 3.00 KiB, 66.7 %")
	p.press("ArrowRight")
	says("the hostile one", hostile+": -1.00 KiB, -22.2 % of all; -22.2 % of the box above; itself -1.00 KiB, -22.2 %")
	p.press("Enter", "Escape")
	rows := p.text("[...document.querySelectorAll('#functions tbody tr')].map(r => [...r.cells].map(c => c.textContent).join('|')).join('\\n')")
	if want := "3.50 KiB|77.8 %|3.50 KiB|77.8 %|grow lib.so\n-1.00 KiB|-22.2 %|-1.00 KiB|-22.2 %|" + hostile + " prog\n0 B|0.00 %|2.50 KiB|55.6 %|main prog"; rows != want {
		t.Errorf("table:\n%s\nnot\n%s", rows, want)
	}
	set("label", "is 0")
	says("thread a", "all: 2.00 KiB in all")
	set("label", "is 1")
	says("thread b", "all: 0 B in all")
	set("label", "by thread")
	down()
	says("the heaviest group", "thread: a#: 2.00 KiB, 44.4 % of all")
	p.press("ArrowRight")
	says("the next one, of as much", "thread: b#: 0 B, 0.00 % of all")
	set("label", "")
	set("layout", "callees")
	down()
	says("the heaviest leaf", "grow: 3.50 KiB, 77.8 % of all")
	down()
	says("its heaviest caller", "main: 3.00 KiB, 66.7 % of all; 85.7 % of the box above")
	set("layout", "down")
	set("type", "0")
	says("the other type", "all: 3 objects in all")
	p.eval("(e => { e.value = 'grow'; e.dispatchEvent(new Event('input')); })(document.getElementById('search'))")
	if got := p.text("document.getElementById('matched').textContent"); got != "1 function, 4 objects, 80.0 %" {
		t.Errorf("found: %q", got)
	}
	if p.text("document.title") == "broken" || p.number("document.querySelectorAll('img').length") != 0 {
		t.Errorf("a name became markup")
	}
	p.picture("window")
	p.close("reckoning")
	x.finish()
}

// 20,000 stacks that are all different: size, and how long the page takes. What the clock says depends on what else the machine
// does and is told only; the verdict is about CPU time of the page's own thread, with room for a slow machine.
func TestFlamegraphOfTwentyThousandStacks(t *testing.T) {
	x := start(t, []string{"PPROF_HEAP_RATE=1", "PPROF_MAX_MEMORY=512"}, victim("manysites"), "20000")
	waitFor(t, 60*time.Second, "blocks", func() bool { return strings.Contains(x.out.String(), "ready") }, nil)
	a := x.get(root + "heap?format=flamegraph")
	stacks := len(readFlame(t, a).fold(3))
	t.Logf("%d stacks: %d bytes, answered in %v", stacks, len(a.body), a.took)
	if stacks < 20000 || len(a.body) > 3<<20 {
		t.Errorf("%d stacks in %d bytes, not 20,000 in 3 MiB", stacks, len(a.body))
	}
	b := startBrowser(t)
	for _, s := range []screen{screens[3], screens[0]} {
		p := b.open(x.rootURL()+"heap?format=flamegraph", s)
		const mark = "performance.getEntriesByName('flamegraph-ready')"
		for end := time.Now().Add(browserLimit); p.number(mark+".length") == 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: no picture", s.name)
			}
		}
		ready := p.number(mark + "[0].startTime")
		began := p.number("performance.getEntriesByType('navigation')[0].responseStart")
		cpu := p.cpuSeconds()
		t.Logf("%s: drawn %.0f ms after the request, %.0f ms after the answer began; %.0f ms of CPU", s.name, ready, ready-began, 1000*cpu)
		if cpu > 3 {
			t.Errorf("%s: %.1f s of CPU until it is drawn", s.name, cpu)
		}
		p.picture("20000-" + s.name)
		p.close(s.name)
	}
	x.finish()
}
