// SPDX-License-Identifier: Apache-2.0

// Promise: the endpoints that exist keep the HTTP contract's checklist. Each assertion is a subtest named after its
// number there; those about endpoints that do not exist yet are not here.
package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"
)

const root = "/debug/pprof/"

func isErr(t *testing.T, a *answer, status int, body string) {
	t.Helper()
	if a.status != status || body != "" && string(a.body) != body {
		t.Errorf("status %d, body %q; expected %d, %q", a.status, a.body, status, body)
	}
	if got := a.header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
		t.Errorf("Content-Type %q", got)
	}
	if a.header.Get("X-Go-Pprof") != "1" || a.header.Get("X-Content-Type-Options") != "nosniff" ||
		a.header.Get("Content-Disposition") != "" {
		t.Errorf("headers of an error: %v", a.header)
	}
}

func isText(t *testing.T, a *answer, contentType string) {
	t.Helper()
	if a.status != 200 || a.header.Get("Content-Type") != contentType {
		t.Errorf("status %d, Content-Type %q: %.200s", a.status, a.header.Get("Content-Type"), a.body)
	}
	if a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("X-Go-Pprof") != "" {
		t.Errorf("headers: %v", a.header)
	}
}

func isProfile(t *testing.T, a *answer) {
	t.Helper()
	isText(t, a, "application/octet-stream")
	if a.header.Get("Content-Disposition") != `attachment; filename="profile"` || a.header.Get("Content-Encoding") != "" {
		t.Errorf("headers: %v", a.header)
	}
	if _, err := parseStrictly(a.body); err != nil {
		t.Error(err)
	}
}

// textAddresses finds addresses of functions in a running victim through its own profile.
func textAddresses(t *testing.T, x *target) map[string]uint64 {
	t.Helper()
	found := map[string]uint64{}
	for _, l := range x.profile("seconds=1&hz=250").Location {
		found[l.Line[len(l.Line)-1].Function.Name] = l.Address
	}
	for _, name := range []string{"inner", "main"} {
		if found[name] == 0 {
			t.Fatalf("no %s in the profile", name)
		}
	}
	return found
}

func TestContract(t *testing.T) {
	x := start(t, nil, victim("spin"), "2", "0")
	at := textAddresses(t, x)
	symbol := func(method, contentType, words string, header ...string) *answer {
		t.Helper()
		path, body := root+"symbol", []byte(words)
		if method == "GET" {
			path, body = path+"?"+words, nil
		}
		a, err := ask(x.addr, method, path, contentType, body, header...)
		if err != nil {
			t.Fatal(err)
		}
		isText(t, a, "text/plain; charset=utf-8")
		return a
	}
	both := fmt.Sprintf("%#x+%#x", at["inner"], at["main"])
	bothReply := fmt.Sprintf("num_symbols: 1\n%#x inner\n%#x main\n", at["inner"], at["main"])
	const noSymbol = "num_symbols: 1\n"

	for _, c := range []struct {
		number string
		check  func(t *testing.T)
	}{
		{"1 redirect of the bare path", func(t *testing.T) {
			a := x.get("/debug/pprof?x=1&y=2")
			if (a.status != 301 && a.status != 307 && a.status != 308) || a.header.Get("Location") != root+"?x=1&y=2" {
				t.Errorf("%d to %q", a.status, a.header.Get("Location"))
			}
		}},
		{"2 index", func(t *testing.T) {
			a := x.get(root)
			isText(t, a, "text/html; charset=utf-8")
			want(t, "index", string(a.body), "<title>"+root+"</title>")
		}},
		{"3 rows of the index", func(t *testing.T) {
			row := regexp.MustCompile(`<tr><td>(\d+)</td><td><a href='([^']+)'>([^<]+)</a></td></tr>`)
			var names []string
			for _, m := range row.FindAllStringSubmatch(string(x.get(root).body), -1) {
				names = append(names, m[3])
				if m[2] != m[3]+"?debug=1" && m[2] != m[3] {
					t.Errorf("%s links to %s", m[3], m[2])
				}
			}
			if !sort.StringsAreSorted(names) {
				t.Errorf("not sorted: %q", names)
			}
			all := " " + strings.Join(names, " ") + " "
			want(t, "rows", all, " cmdline ", " profile ", " symbol ")
			for _, n := range names {
				if n == "profile" || n == "trace" {
					continue // takes 30 s by default
				}
				if a := x.get(root + n); a.status != 200 {
					t.Errorf("the index lists %s, which answers %d", n, a.status)
				}
			}
		}},
		{"6 unknown profiles", func(t *testing.T) {
			for _, name := range []string{"nope", "nope?seconds=1", "Profile", "profile/", "cmdline/", "symbol/x", "nope?seconds=abc"} {
				isErr(t, x.get(root+name), 404, "Unknown profile\n")
			}
		}},
		{"6 endpoints that do not exist yet", func(t *testing.T) {
			index := string(x.get(root).body)
			for _, name := range []string{"heap", "allocs", "block", "mutex", "goroutine", "threadcreate", "trace"} {
				if !strings.Contains(index, "href='"+name) {
					isErr(t, x.get(root+name), 404, "Unknown profile\n")
				}
			}
		}},
		{"7 outside of the tree", func(t *testing.T) {
			for _, path := range []string{"/debug", "/favicon.ico", "/debug/pprofx"} {
				if a := x.get(path); a.status != 404 {
					t.Errorf("%s: %d", path, a.status)
				}
			}
		}},
		{"9 cmdline", func(t *testing.T) {
			a := x.get(root + "cmdline?debug=1")
			isText(t, a, "text/plain; charset=utf-8")
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", x.pid()))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.body, bytes.TrimSuffix(b, []byte{0})) {
				t.Errorf("%q, the kernel says %q", a.body, b)
			}
		}},
		{"10 symbol without words", func(t *testing.T) {
			a := x.get(root + "symbol")
			isText(t, a, "text/plain; charset=utf-8")
			if string(a.body) != noSymbol {
				t.Errorf("%q", a.body)
			}
		}},
		{"11 symbol by GET and POST", func(t *testing.T) {
			for _, a := range []*answer{symbol("GET", "", both), symbol("POST", "application/octet-stream", both)} {
				if string(a.body) != bothReply {
					t.Errorf("%q, expected %q", a.body, bothReply)
				}
			}
		}},
		{"12 content type of the POST", func(t *testing.T) {
			if a := symbol("POST", "application/x-www-form-urlencoded", both); string(a.body) != bothReply {
				t.Errorf("%q, expected %q", a.body, bothReply)
			}
			if a := symbol("POST", "", both); string(a.body) != bothReply {
				t.Errorf("%q, expected %q", a.body, bothReply)
			}
		}},
		{"13 words that name nothing", func(t *testing.T) {
			for _, words := range []string{"0", "0x0", "garbage", "0x", "debug=1", "-5", "+++", "0x1", "0xffffffffffffffffffff",
				strings.ReplaceAll(both, "+", "%2B"), strings.Repeat("7", 5000)} {
				if a := symbol("POST", "", words); string(a.body) != noSymbol {
					t.Errorf("%.40q gives %.200q", words, a.body)
				}
			}
			a := symbol("POST", "", "garbage+"+both+"+0")
			if string(a.body) != bothReply {
				t.Errorf("%q", a.body)
			}
		}},
		{"14 form of the reply", func(t *testing.T) {
			a := symbol("GET", "", fmt.Sprintf("0x%016x", at["inner"]))
			if want := fmt.Sprintf("num_symbols: 1\n%#x inner\n", at["inner"]); string(a.body) != want {
				t.Errorf("zero-padded: %q", a.body)
			}
			a = symbol("GET", "", fmt.Sprint(at["inner"]))
			if want := fmt.Sprintf("num_symbols: 1\n%#x inner\n", at["inner"]); string(a.body) != want {
				t.Errorf("decimal: %q", a.body)
			}
			a = symbol("GET", "", fmt.Sprintf("0%o+%#x", at["inner"], at["inner"]))
			if n := strings.Count(string(a.body), " inner\n"); n != 2 {
				t.Errorf("octal and a duplicate: %q", a.body)
			}
		}},
		{"15 symbol of 20,000 addresses", func(t *testing.T) {
			words := make([]string, 20000)
			for i := range words {
				words[i] = fmt.Sprintf("%#x", at["inner"])
			}
			for _, expect := range []string{"", "100-continue"} {
				a := symbol("POST", "application/octet-stream", strings.Join(words, "+"), "Expect", expect)
				if n := bytes.Count(a.body, []byte("\n")); n != 20001 || a.took > 5*time.Second {
					t.Errorf("Expect %q: %d lines in %v", expect, n, a.took)
				}
			}
			// A MiB must be accepted.
			long := strings.Repeat("0x1+", 262144) + both
			if a := symbol("POST", "application/octet-stream", long); string(a.body) != bothReply {
				t.Errorf("1 MiB: %.100q", a.body)
			}
		}},
		{"16 HEAD", func(t *testing.T) {
			for _, path := range []string{"symbol", "cmdline", "", "profile?seconds=1"} {
				head, err := ask(x.addr, "HEAD", root+path, "", nil)
				if err != nil {
					t.Fatal(err)
				}
				get := x.get(root + path)
				if head.status != 200 || len(head.body) != 0 {
					t.Errorf("HEAD %s: %d, %d bytes", path, head.status, len(head.body))
				}
				for _, h := range []string{"Content-Type", "Content-Disposition", "X-Content-Type-Options", "X-Go-Pprof"} {
					if head.header.Get(h) != get.header.Get(h) {
						t.Errorf("HEAD %s: %s %q, GET has %q", path, h, head.header.Get(h), get.header.Get(h))
					}
				}
			}
		}},
		{"17 other methods", func(t *testing.T) {
			for _, method := range []string{"POST", "DELETE", "PUT", "OPTIONS"} {
				for _, path := range []string{"profile?seconds=1", "cmdline", ""} {
					a, err := ask(x.addr, method, root+path, "", nil)
					if err != nil {
						t.Fatal(err)
					}
					if a.status == 405 && a.header.Get("Allow") == "" || a.status != 405 && a.status != 200 {
						t.Errorf("%s %s: %d, Allow %q", method, path, a.status, a.header.Get("Allow"))
					}
				}
			}
		}},
		{"24 profile", func(t *testing.T) {
			for _, query := range []string{"seconds=1", "seconds=1&debug=1", "seconds=1&hz=250"} {
				a := x.get(root + "profile?" + query)
				isProfile(t, a)
				// 1.0 to 1.5 s, and two more for a machine that is busy with other things.
				if a.took < time.Second || a.took > 3500*time.Millisecond {
					t.Errorf("%s took %v", query, a.took)
				}
				p, err := parseStrictly(a.body)
				if err != nil {
					continue
				}
				period := int64(10000000)
				if strings.Contains(query, "hz=250") {
					period = 4000000
				}
				if len(p.SampleType) != 2 || p.SampleType[0].Type+p.SampleType[0].Unit != "samplescount" ||
					p.SampleType[1].Type+p.SampleType[1].Unit != "cpunanoseconds" || p.DefaultSampleType != "" ||
					p.PeriodType.Type+p.PeriodType.Unit != "cpunanoseconds" || p.Period != period {
					t.Errorf("%s: %v %v period %v %d", query, p.SampleType[0], p.SampleType[1], p.PeriodType, p.Period)
				}
				if d := time.Duration(p.DurationNanos); d < 900*time.Millisecond || d > a.took {
					t.Errorf("%s: duration %v", query, d)
				}
				if age := time.Since(time.Unix(0, p.TimeNanos)); age < time.Second || age > 10*time.Second {
					t.Errorf("%s: collection began %v ago", query, age)
				}
			}
		}},
		{"25 bad seconds are 30", func(t *testing.T) {
			done := make(chan string, 5)
			queries := []string{"seconds=abc", "seconds=0", "seconds=-1", "seconds=1.5", ""}
			for _, q := range queries {
				go func() {
					client, base := clientFor(x.addr)
					client.Timeout = 2 * time.Second
					if resp, err := client.Get(base + root + "profile?" + q); err == nil {
						resp.Body.Close()
						done <- fmt.Sprintf("%q ended early with %d", q, resp.StatusCode)
						return
					}
					done <- ""
				}()
			}
			for range queries {
				if s := <-done; s != "" {
					t.Error(s)
				}
			}
		}},
		{"30 mapping 1", func(t *testing.T) {
			p := x.profile("seconds=1")
			if p.Mapping[0].File != victim("spin") || p.Mapping[0].BuildID != buildID(victim("spin")) {
				t.Errorf("mapping 1: %v", p.Mapping[0])
			}
		}},
		{"33 address rule", func(t *testing.T) {
			checkAddressRule(t, x)
		}},
		{"47 HTTP/1.0 and keep-alive", func(t *testing.T) {
			checkOldHTTP(t, x)
		}},
		{"47 Accept-Encoding", func(t *testing.T) {
			isProfile(t, x.get(root+"profile?seconds=1", "Accept-Encoding", "gzip"))
		}},
		{"50 junk in the query", func(t *testing.T) {
			for _, q := range []string{"seconds=1&debug=1;seconds=5", "seconds=1&x=%zz", "seconds=1&unknown=3&&=&%",
				"seconds=1&seconds=60", "seconds=1&hz=", "%73econds=1"} {
				a := x.get(root + "profile?" + q)
				isProfile(t, a)
				if a.took > 4*time.Second {
					t.Errorf("%q took %v", q, a.took)
				}
			}
			isText(t, x.get(root+"?debug=1;x=%zz"), "text/html; charset=utf-8")
		}},
		{"percent-encoded path", func(t *testing.T) {
			isText(t, x.get(root+"cmdl%69ne"), "text/plain; charset=utf-8")
		}},
		{"host header", func(t *testing.T) {
			client, base := clientFor(x.addr)
			for host, status := range map[string]int{"localhost": 200, "127.0.0.1:1": 200, "[::1]:80": 200, "evil.example": 403} {
				req, _ := http.NewRequest("GET", base+root+"cmdline", nil)
				req.Host = host
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if refused := resp.StatusCode >= 400; refused != (status != 200) {
					t.Errorf("Host %s: %d", host, resp.StatusCode)
				}
			}
		}},
	} {
		t.Run(c.number, c.check)
	}
}

// A caller's address is its return address - 1, so it lies inside the call instruction: inner's caller is in middle,
// and every address of a caller is followed by the byte after a call. An interrupted leaf is exact; that it is an
// instruction's first byte cannot be seen from here, but that it lies in inner or below can.
func checkAddressRule(t *testing.T, x *target) {
	p := x.profile("seconds=1&hz=250")
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", x.pid()))
	if err != nil {
		t.Skip(err)
	}
	defer mem.Close()
	callers := 0
	for _, s := range p.Sample {
		for i, l := range s.Location {
			name := l.Line[len(l.Line)-1].Function.Name
			if i == 0 || l.Mapping == nil || l.Mapping.File != victim("spin") || !named("middle", "outer", "main", "spin_start")(name) {
				continue
			}
			// call rel32 is e8 and four bytes; its last byte is return address - 1.
			var code [5]byte
			if _, err := mem.ReadAt(code[:], int64(l.Address)-4); err != nil {
				t.Fatal(err)
			}
			if code[0] != 0xe8 {
				t.Errorf("%s: % x before and at %#x is no call", name, code, l.Address)
			}
			callers++
		}
	}
	if callers == 0 {
		t.Errorf("no caller to look at:%s", top(p, 5, nil))
	}
}

func checkOldHTTP(t *testing.T, x *target) {
	conn, err := net.Dial("tcp", x.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "GET %sprofile?seconds=1 HTTP/1.0\r\nHost: localhost\r\n\r\n", root)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	if len(resp.TransferEncoding) != 0 {
		t.Errorf("chunked for HTTP/1.0")
	}
	if _, err := parseStrictly(body.Bytes()); err != nil {
		t.Error(err)
	}

	again, err := net.Dial("tcp", x.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	again.SetDeadline(time.Now().Add(10 * time.Second))
	r := bufio.NewReader(again)
	for i := 0; i < 3; i++ {
		fmt.Fprintf(again, "GET %scmdline HTTP/1.1\r\nHost: localhost\r\n\r\n", root)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("request %d on one connection: %v", i, err)
		}
		body.Reset()
		if _, err := body.ReadFrom(resp.Body); err != nil || resp.StatusCode != 200 {
			t.Fatalf("request %d on one connection: %d, %v", i, resp.StatusCode, err)
		}
		if resp.Close {
			break // allowed: the server says that it closes
		}
	}
}
