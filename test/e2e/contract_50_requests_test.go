// SPDX-License-Identifier: Apache-2.0

// The contract, 1 to 17: the index, names, methods, headers, cmdline and symbol.
package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var contractRequests = []assertion{
	{1, "GET /debug/pprof redirects to /debug/pprof/, the query preserved", "a", "", func(t *testing.T, x subject) {
		a := x.ask(t, "GET", "/debug/pprof?x=1&y=2", "")
		if (a.status != 301 && a.status != 307 && a.status != 308) || a.header.Get("Location") != root+"?x=1&y=2" {
			t.Errorf("%d to %q", a.status, a.header.Get("Location"))
		}
	}},
	{2, "the index is HTML with its title", "a", "", func(t *testing.T, x subject) {
		a := x.ask(t, "GET", root, "")
		isText(t, a, "text/html; charset=utf-8")
		want(t, "index", string(a.body), "<title>"+root+"</title>")
	}},
	{3, "the index has a row for each profile, sorted, in the shape that tools scrape", "a", "", func(t *testing.T, x subject) {
		var names []string
		for _, m := range indexRow.FindAllStringSubmatch(string(x.ask(t, "GET", root, "").body), -1) {
			names = append(names, m[3])
			if m[2] != m[3]+"?debug=1" {
				t.Errorf("%s links to %s", m[3], m[2])
			}
		}
		if !slices.IsSorted(names) {
			t.Errorf("not sorted: %q", names)
		}
		for _, name := range append([]string{"cmdline", "profile", "trace"}, goKinds...) {
			if !slices.Contains(names, name) {
				t.Errorf("no %s in %q", name, names)
			}
		}
	}},
	{4, "the index links the full goroutine stack dump", "a", "", func(t *testing.T, x subject) {
		want(t, "index", string(x.ask(t, "GET", root, "").body), `<a href="goroutine?debug=2">full goroutine stack dump</a>`)
	}},
	{5, "counts: allocs = heap >= 1; goroutine = threads less the agent's = the text's total", "n", "", func(t *testing.T, x subject) {
		var counts map[string]int
		waitFor(t, 20*time.Second, "counts that agree", func() bool { // threads come and go
			_, counts = indexed(x.target)
			total := regexp.MustCompile(`^goroutine profile: total (\d+)\n`).FindSubmatch(x.get(root + "goroutine?debug=1").body)
			names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", x.pid()))
			threads := 0
			for _, name := range names {
				if b, err := os.ReadFile(name); err == nil && !bytes.HasPrefix(b, []byte("pprof-")) {
					threads++
				}
			}
			// The page counts them one after the other, and a program that allocates may have a new stack in between.
			return total != nil && string(total[1]) == strconv.Itoa(threads) && counts["goroutine"] == threads && counts["heap"] >= 1 &&
				counts["heap"] == counts["allocs"]
		}, func() string { return fmt.Sprint(counts) })
	}},
	{6, "unknown names are 404 Unknown profile, whatever the parameters", "a", "", func(t *testing.T, x subject) {
		for _, name := range []string{"nope", "heap/", "Heap", "nope?seconds=1", "nope?seconds=abc", "cmdline/"} {
			isErr(t, x.ask(t, "GET", root+name, ""), 404, "Unknown profile\n")
		}
	}},
	{7, "nosniff on every 200 and every error", "a", "", func(t *testing.T, x subject) {
		for _, path := range []string{"", "heap", "heap?debug=1", "cmdline", "symbol", "nope", "heap?seconds=x", "profile?seconds=1"} {
			if a := x.ask(t, "GET", root+path, ""); a.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %v", path, a.header)
			}
		}
	}},
	{8, "no X-Go-Pprof on a 200", "a", "", func(t *testing.T, x subject) {
		for _, path := range []string{"", "heap", "heap?debug=1", "cmdline", "symbol", "goroutine?debug=2"} {
			if a := x.ask(t, "GET", root+path, ""); a.status != 200 || a.header.Get("X-Go-Pprof") != "" {
				t.Errorf("%s: %d %v", path, a.status, a.header)
			}
		}
	}},
	{9, "cmdline is the kernel's, less the final NUL", "a", "", func(t *testing.T, x subject) {
		a := x.ask(t, "GET", root+"cmdline?debug=1", "")
		isText(t, a, "text/plain; charset=utf-8")
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", x.pid()))
		if !bytes.Equal(a.body, bytes.TrimSuffix(b, []byte{0})) {
			t.Errorf("%q, the kernel says %q", a.body, b)
		}
	}},
	{10, "symbol's first line is num_symbols: N, N >= 1", "a", "", func(t *testing.T, x subject) {
		a := x.ask(t, "GET", root+"symbol", "")
		isText(t, a, "text/plain; charset=utf-8")
		if !regexp.MustCompile(`^num_symbols: [1-9]\d*\n$`).Match(a.body) {
			t.Errorf("%q", a.body)
		}
	}},
	{11, "symbol by GET and by POST: the same, both functions named", "a", "POST is 405 since Go 1.22, which makes pprof give up", func(t *testing.T, x subject) {
		words, names := x.functions(t)
		both := fmt.Sprintf("%#x+%#x", words[0], words[1])
		get, post := x.ask(t, "GET", root+"symbol?"+both, ""), x.ask(t, "POST", root+"symbol", both)
		isText(t, get, "text/plain; charset=utf-8")
		isText(t, post, "text/plain; charset=utf-8")
		if !bytes.Equal(get.body, post.body) {
			t.Errorf("GET %q, POST %q", get.body, post.body)
		}
		want(t, "symbols", string(get.body), fmt.Sprintf("\n%#x %s\n", words[0], names[0]), fmt.Sprintf("\n%#x %s\n", words[1], names[1]))
	}},
	{12, "symbol by POST does not care for the content type", "a", "as 11", func(t *testing.T, x subject) {
		words, names := x.functions(t)
		both := fmt.Sprintf("%#x+%#x", words[0], words[1])
		for _, contentType := range []string{"application/x-www-form-urlencoded", "application/octet-stream"} {
			a, err := ask(x.addr, "POST", root+"symbol", contentType, []byte(both))
			if err != nil || a.status != 200 || !strings.Contains(string(a.body), names[0]) || !strings.Contains(string(a.body), names[1]) {
				t.Errorf("%s: %v %v", contentType, a, err)
			}
		}
	}},
	{13, "words that name nothing give no line and 200", "a", "", func(t *testing.T, x subject) {
		for _, words := range []string{"0", "0x0", "garbage", "0x", "debug=1", "-5", "+++", "0x1", "0xffffffffffffffffffff"} {
			a := x.ask(t, "GET", root+"symbol?"+words, "")
			if a.status != 200 || string(a.body) != "num_symbols: 1\n" {
				t.Errorf("%q: %d %q", words, a.status, a.body)
			}
		}
	}},
	{14, "symbol ends with a newline; a zero-padded address comes back equal", "a", "", func(t *testing.T, x subject) {
		words, names := x.functions(t)
		a := x.ask(t, "GET", fmt.Sprintf("%ssymbol?0x%016x", root, words[0]), "")
		if string(a.body) != fmt.Sprintf("num_symbols: 1\n%#x %s\n", words[0], names[0]) {
			t.Errorf("%q", a.body)
		}
	}},
	{15, "20,000 addresses in one POST, with Expect: 100-continue", "a", "as 11", func(t *testing.T, x subject) {
		words, _ := x.functions(t)
		body := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%#x+", words[0]), 20000), "+")
		a := x.ask(t, "POST", root+"symbol", body, "Expect", "100-continue")
		if n := bytes.Count(a.body, []byte("\n")); a.status != 200 || n != 20001 {
			t.Errorf("%d, %d lines", a.status, n)
		}
	}},
	{16, "HEAD: the headers of GET and no body", "a", "", func(t *testing.T, x subject) {
		for _, path := range []string{"symbol", "heap", "heap?debug=1", "cmdline", ""} {
			head, get := x.ask(t, "HEAD", root+path, ""), x.ask(t, "GET", root+path, "")
			if head.status != 200 || len(head.body) != 0 {
				t.Errorf("%s: %d, %d bytes", path, head.status, len(head.body))
			}
			for _, h := range []string{"Content-Type", "Content-Disposition", "X-Content-Type-Options", "X-Go-Pprof"} {
				if head.header.Get(h) != get.header.Get(h) {
					t.Errorf("%s: %s is %q, by GET %q", path, h, head.header.Get(h), get.header.Get(h))
				}
			}
		}
	}},
	{17, "POST elsewhere is 405 with Allow", "a", "", func(t *testing.T, x subject) {
		a := x.ask(t, "POST", root+"heap", "")
		if a.status != 200 && (a.status != 405 || a.header.Get("Allow") != "GET, HEAD") {
			t.Errorf("%d, Allow %q", a.status, a.header.Get("Allow"))
		}
	}},
}
