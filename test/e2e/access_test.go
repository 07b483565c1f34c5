// SPDX-License-Identifier: Apache-2.0

// Promise: without the token every path and method gets the same 401 and nothing else; with it all is as without a
// token file. A rotated secret counts at once, a file that cannot be used lets nobody in and is told on standard error.
// Promise: a Host that is a name, and what a page of another origin is behind, is refused with 403.
package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var everyPath = []string{
	"/", "/debug", "/debug/pprof", root, root + "heap", root + "heap?debug=1", root + "nope", root + "profile?seconds=1",
	root + "symbol?0x1", root + "cmdline", root + "settings", root + "trace", root + "../../etc/passwd", "//debug", "/metrics",
	"/pprof/heap", "/pprof/cmdline", "/favicon.ico", "/debug/fgprof", "/%zz", "/%00", "*",
}

func secretFile(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWithoutTheTokenNothing(t *testing.T) {
	x := start(t, []string{"PPROF_TOKEN_FILE=" + secretFile(t, "s3cret\n", 0o600), "PPROF_SETTINGS=1"}, victim("idle"), "argument-to-hide")
	date := regexp.MustCompile(`(?m)^Date: .*$`)
	first := ""
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for _, authorization := range []string{"", "Bearer wrong", "Bearer s3cret2", "Bearer s3cre", "Bearer ", basic("u", "wrong"),
		basic("s3cret", ""), "Digest s3cret", "s3cret"} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "OPTIONS", "NONSENSE"} {
			for _, path := range everyPath {
				head := "Host: localhost\r\nConnection: close\r\n"
				if authorization != "" {
					head += "Authorization: " + authorization + "\r\n"
				}
				reply := date.ReplaceAllString(talk(t, x.addr, method+" "+path+" HTTP/1.1\r\n"+head+"\r\n"), "Date:")
				if first == "" {
					first = reply
					want(t, "the reply", reply, "HTTP/1.1 401 Unauthorized\r\n", "WWW-Authenticate: Basic realm=",
						"X-Content-Type-Options: nosniff\r\n", "\r\n\r\n401 Unauthorized\n")
				}
				if reply != first && !strings.HasPrefix(reply, "HTTP/1.1 400 ") {
					t.Fatalf("%q: %s %s gives\n%s\ninstead of\n%s", authorization, method, path, reply, first)
				}
				if strings.Contains(reply, "argument-to-hide") || strings.Contains(reply, "idle") {
					t.Errorf("%s %s gives something away: %s", method, path, reply)
				}
			}
			if authorization != "" && method != "GET" {
				break
			}
		}
	}
	head, err := ask(x.addr, "HEAD", root, "", nil)
	if err != nil || head.status != 401 || len(head.body) != 0 {
		t.Errorf("HEAD: %v %v", head, err)
	}
	for _, authorization := range []string{"Bearer s3cret", "bearer  s3cret", basic("", "s3cret"), basic("any one", "s3cret")} {
		for path, status := range map[string]int{root: 200, root + "heap": 200, root + "nope": 404, "/": 302, "/nope": 404} {
			if a := x.get(path, "Authorization", authorization); a.status != status {
				t.Errorf("%q: %s: %d", authorization, path, a.status)
			}
		}
	}
	want(t, "go tool pprof", mustPprof(t, "-raw", "http://user:s3cret@"+x.addr+root+"heap"), "PeriodType: space bytes")
	if out, err := pprof(t, nil, "-raw", "http://user:wrong@"+x.addr+root+"heap"); err == nil || !strings.Contains(out, "401 Unauthorized") {
		t.Errorf("go tool pprof with a wrong token: %v %s", err, out)
	}
	if x.err.String() != "" && strings.Contains(x.err.String(), "TOKEN") {
		t.Errorf("standard error: %s", x.err)
	}
}

// As Kubernetes mounts a secret: token -> ..data/token, ..data -> a directory that is replaced.
func TestATokenRotates(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) {
		os.Mkdir(filepath.Join(dir, name), 0o755)
		path := filepath.Join(dir, name, "token")
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		os.Chmod(path, mode)
		os.Symlink(name, filepath.Join(dir, "..tmp"))
		if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	put("..1", "first", 0o440)
	os.Symlink("..data/token", filepath.Join(dir, "token"))
	x := start(t, []string{"PPROF_TOKEN_FILE=" + filepath.Join(dir, "token")}, victim("idle"))
	status := func(token string) int { return x.get(root, "Authorization", "Bearer "+token).status }
	is := func(token string, code int) {
		t.Helper()
		if got := status(token); got != code {
			t.Errorf("%q: %d, not %d", token, got, code)
		}
	}
	is("first", 200)
	put("..2", "second", 0o440)
	is("first", 401)
	is("second", 200)
	put("..3", "third", 0o444)
	is("second", 401)
	is("third", 401)
	waitFor(t, 5*time.Second, "a line", func() bool { return strings.Contains(x.err.String(), "open to everybody") }, nil)
	put("..4", "fourth", 0o400)
	is("third", 401)
	is("fourth", 200)
	os.Remove(filepath.Join(dir, "..data"))
	is("fourth", 401)
	is("", 401)
	waitFor(t, 5*time.Second, "a line", func() bool { return strings.Contains(x.err.String(), "does not exist") }, nil)
}

func TestAnUnusableTokenFileAdmitsNobody(t *testing.T) {
	for name, path := range map[string]string{
		"empty": secretFile(t, "\n", 0o600), "everybody's": secretFile(t, "s3cret", 0o604), "relative": "token", "missing": "/nonexistent/token",
		"a directory": t.TempDir(), "too long": "/" + strings.Repeat("x", 600),
	} {
		x := start(t, []string{"PPROF_TOKEN_FILE=" + path}, victim("idle"))
		for _, header := range [][]string{nil, {"Authorization", "Bearer s3cret"}, {"Authorization", "Bearer "}} {
			if a := x.get(root+"cmdline", header...); a.status != 401 {
				t.Errorf("%s, %q: %d", name, header, a.status)
			}
		}
		waitFor(t, 5*time.Second, "a line on standard error", func() bool {
			return strings.Contains(x.err.String(), "PPROF_TOKEN_FILE")
		}, func() string { return name + ": " + x.err.String() })
		x.kill()
	}
	// Set to nothing is not set.
	if a := start(t, []string{"PPROF_TOKEN_FILE="}, victim("idle")).get(root); a.status != 200 {
		t.Errorf("without a file: %d", a.status)
	}
}

func TestStrangePagesAreRefused(t *testing.T) {
	x := start(t, nil, victim("idle"))
	_, port, _ := strings.Cut(x.addr, ":")
	for _, c := range []struct {
		status int
		header string
	}{
		{403, "Host: evil.example"}, {403, "Host: localhost.evil.example:" + port}, {403, "Host: 127.0.0.1.nip.io"},
		{200, "Host: localhost:" + port}, {200, "Host: 127.0.0.1:1"}, {200, "Host: [::1]"},
		{403, "Host: localhost\r\nOrigin: http://evil.example"}, {403, "Host: localhost\r\nOrigin: null"},
		{403, "Host: localhost:" + port + "\r\nOrigin: http://localhost:3000"},
		{200, "Host: localhost:" + port + "\r\nOrigin: http://localhost:" + port},
		{403, "Host: localhost\r\nSec-Fetch-Site: cross-site"}, {403, "Host: localhost\r\nSec-Fetch-Site: same-site"},
		{200, "Host: localhost\r\nSec-Fetch-Site: same-origin"}, {200, "Host: localhost\r\nSec-Fetch-Site: none"},
	} {
		for _, path := range []string{root, root + "heap", "/nope", root + "nope", "/"} {
			reply := talk(t, x.addr, "GET "+path+" HTTP/1.1\r\n"+c.header+"\r\nConnection: close\r\n\r\n")
			if refused := strings.HasPrefix(reply, "HTTP/1.1 403 "); refused != (c.status == 403) {
				t.Errorf("%q, %s: %.60q", c.header, path, reply)
			}
		}
	}
	// A request's own host counts for more than the header, as RFC 9112 has it.
	if reply := talk(t, x.addr, "GET http://evil.example"+root+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(reply, "HTTP/1.1 403 ") {
		t.Errorf("absolute form: %.60q", reply)
	}
	// Not only where Host is looked at.
	y := start(t, []string{"PPROF_ADDR=:0"}, victim("idle"))
	if a := y.get(root, "Sec-Fetch-Site", "cross-site"); a.status != http.StatusForbidden {
		t.Errorf("on every interface: %d", a.status)
	}
}

// Nothing of the file system is served, and a socket file is its owner's.
func TestNoFilesAreServed(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "file.txt"), []byte("contents"), 0o644)
	x := launch(t, []string{"PPROF_ADDR=unix:" + filepath.Join(dir, "%e.sock")}, victim("idle"))
	x.awaitAddr()
	st, err := os.Stat(strings.TrimPrefix(x.addr, "unix:"))
	if err != nil || st.Mode().Perm() != 0o600 || st.Mode()&os.ModeSocket == 0 {
		t.Errorf("the socket: %v %v", st, err)
	}
	for _, path := range []string{dir + "/file.txt", "/file.txt", "/etc/passwd", root + "/..//..//..//etc/passwd", "/..%2f..%2fetc/passwd",
		"/proc/self/environ", root + "file.txt", "/cgi-bin/x", "/" + fmt.Sprint(x.pid())} {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE", "MKCOL", "PROPFIND"} {
			a, err := ask(x.addr, method, path, "", []byte("data"))
			if err != nil {
				t.Fatal(err)
			}
			if a.status < 300 || bytes.Contains(a.body, []byte("root:")) || bytes.Contains(a.body, []byte("contents")) {
				t.Errorf("%s %s: %d %.80q", method, path, a.status, a.body)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 {
		t.Errorf("files: %q", left)
	}
}
