// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// node is a message as protoc prints it.
type node struct {
	name   string
	value  string // of a field that is no message
	parent *node
	fields []*node
}

func (n *node) all(path string) (found []*node) {
	first, rest, deeper := strings.Cut(path, ".")
	for _, f := range n.fields {
		if f.name != first {
			continue
		}
		if deeper {
			found = append(found, f.all(rest)...)
		} else {
			found = append(found, f)
		}
	}
	return found
}

func (n *node) get(path string) string {
	if f := n.all(path); len(f) > 0 {
		return f[0].value
	}
	return ""
}

func (n *node) number(path string) uint64 {
	v, _ := strconv.ParseUint(n.get(path), 10, 64)
	return v
}

// readPerfetto decodes a file field by field and checks that all of it is known and leads somewhere.
func readPerfetto(t *testing.T, file []byte) *node {
	t.Helper()
	cmd := exec.Command("protoc", "--decode=ppa.perfetto.Trace", "-I", "../golden", "../golden/perfetto.proto")
	cmd.Stdin = bytes.NewReader(file)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("protoc: %v", err)
	}
	root := &node{}
	at := root
	for _, line := range strings.Split(string(out), "\n") {
		line = strings.TrimSpace(line)
		name, value, isField := strings.Cut(line, ": ")
		switch {
		case line == "":
		case line == "}":
			at = at.parent
		case strings.HasSuffix(line, " {"):
			child := &node{name: strings.TrimSuffix(line, " {"), parent: at}
			at.fields = append(at.fields, child)
			at = child
		case isField:
			at.fields = append(at.fields, &node{name: name, value: value, parent: at})
		default:
			t.Fatalf("protoc printed %q", line)
		}
	}
	if bare := regexp.MustCompile(`(?m)^\s*\d+(: | \{).*`).FindString(string(out)); bare != "" {
		t.Fatalf("a field that the schema has not: %s", bare)
	}
	checkReferences(t, root)
	return root
}

func checkReferences(t *testing.T, root *node) {
	t.Helper()
	interned := map[string]map[string]bool{}
	define := func(table, id string) {
		if interned[table] == nil {
			interned[table] = map[string]bool{}
		}
		if id == "" || id == "0" || interned[table][id] {
			t.Errorf("%s %q is none, or there twice", table, id)
		}
		interned[table][id] = true
	}
	use := func(table string, ids []*node) {
		for _, id := range ids {
			if !interned[table][id.value] {
				t.Errorf("no %s %s", table, id.value)
			}
		}
	}
	flows := map[string]int{}
	depth := map[string]int{}
	for i, p := range root.all("packet") {
		if p.get("trusted_packet_sequence_id") != "1" || p.get("sequence_flags") != map[bool]string{true: "3", false: "2"}[i == 0] {
			t.Fatalf("packet %d: sequence %s, flags %s", i, p.get("trusted_packet_sequence_id"), p.get("sequence_flags"))
		}
		for _, d := range p.all("interned_data") {
			for _, item := range d.fields {
				define(item.name, item.get("iid"))
			}
			use("function_names", d.all("frames.function_name_id"))
			use("source_paths", d.all("frames.source_path_iid"))
			use("mappings", d.all("frames.mapping_id"))
			use("frames", d.all("callstacks.frame_ids"))
			use("build_ids", d.all("mappings.build_id"))
			use("mapping_paths", d.all("mappings.path_string_ids"))
		}
		for _, d := range p.all("track_descriptor") {
			define("tracks", d.get("uuid"))
			use("tracks", d.all("parent_uuid"))
		}
		use("callstacks", p.all("perf_sample.callstack_iid"))
		for _, e := range p.all("track_event") {
			use("tracks", e.all("track_uuid"))
			use("callstacks", e.all("callstack_iid"))
			use("event_categories", e.all("category_iids"))
			use("event_names", e.all("name_iid"))
			use("debug_annotation_names", e.all("debug_annotations.name_iid"))
			use("debug_annotation_string_values", e.all("debug_annotations.string_value_iid"))
			for _, f := range e.all("flow_ids") {
				flows[f.value] += 1
			}
			for _, f := range e.all("terminating_flow_ids") {
				flows[f.value] += 1000
			}
			switch e.get("type") {
			case "TYPE_SLICE_BEGIN":
				depth[e.get("track_uuid")]++
			case "TYPE_SLICE_END":
				depth[e.get("track_uuid")]--
			}
			if depth[e.get("track_uuid")] < 0 {
				t.Errorf("a slice ends that did not begin, at %s", p.get("timestamp"))
			}
		}
	}
	for id, n := range flows {
		if n != 1001 {
			t.Errorf("arrow %s has %d beginnings, %d ends", id, n%1000, n/1000)
		}
	}
}

// Promise: Perfetto files name only what Perfetto has, and what is named exists, whatever was lost.
func TestPerfettoFilesAreSound(t *testing.T) {
	for _, c := range [][4]int{{5, 30, 0, 0}, {6, 30, 30, 0}, {4, 20, 30, 60}} {
		for seed := 1; seed <= 5; seed++ {
			root := readPerfetto(t, traceFile(t, "perfetto", seed, c[0], c[1], c[2], c[3]))
			if len(root.all("packet.track_event")) < 20 || len(root.all("packet.perf_sample")) == 0 {
				t.Errorf("%v, seed %d: %d packets", c, seed, len(root.all("packet")))
			}
		}
	}
}

// Promise: the same window as for Go's tool, in Perfetto's words: threads by name, what they wait for and where, memory.
func TestPerfettoShowsLives(t *testing.T) {
	x := start(t, nil, victim("tracelives"), "20")
	x.awaitAddr()
	waitFor(t, 20e9, "the victim's threads", func() bool { return strings.Contains(x.out.String(), "ready") }, x.err.String)
	a := x.traceWhile("seconds=1&format=perfetto", x.open)
	if a.status != 200 || !strings.Contains(a.header.Get("Content-Disposition"), ".pftrace") {
		t.Fatalf("%d, %v", a.status, a.header)
	}
	root := readPerfetto(t, a.body)
	names := map[string]string{} // of threads, by track
	for _, d := range root.all("packet.track_descriptor") {
		if name := d.get("thread.thread_name"); name != "" {
			names[d.get("uuid")] = strings.Trim(name, `"`)
			if d.number("thread.pid") != uint64(x.pid()) {
				t.Errorf("thread %s of process %d", name, d.number("thread.pid"))
			}
		}
	}
	words := map[string]string{} // names of events
	for _, w := range root.all("packet.interned_data.event_names") {
		words[w.get("iid")] = w.get("str")
	}
	waits, counted := map[string]string{}, 0
	for _, e := range root.all("packet.track_event") {
		if e.get("type") == "TYPE_SLICE_BEGIN" && e.get("callstack_iid") != "" {
			waits[names[e.get("track_uuid")]] = words[e.get("name_iid")]
		}
		if e.get("type") == "TYPE_COUNTER" && e.number("counter_value") > 60<<20 {
			counted++
		}
	}
	if waits["sleeper"] != `"sync (pthread_cond_wait)"` || waits["reader"] != `"network"` || counted == 0 {
		t.Errorf("waits %v, %d values of counters", waits, counted)
	}
	for _, function := range []string{"wait_for_ever", "read_pipe", "spin_hard"} {
		if !strings.Contains(fmt.Sprint(nodeValues(root.all("packet.interned_data.function_names.str"))), function) {
			t.Errorf("no function %s", function)
		}
	}
	x.finish()
}

func nodeValues(nodes []*node) (all []string) {
	for _, n := range nodes {
		all = append(all, n.value)
	}
	return all
}
