// SPDX-License-Identifier: Apache-2.0

// A headless Chromium, spoken to over its debugging pipe: pages are opened on a phone and on a desk, with and without
// scripts, and asked what they show. Tests that need it are skipped where it is not installed.
package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const browserLimit = 60 * time.Second

type browser struct {
	t    *testing.T
	to   io.Writer
	from *bufio.Reader
	last int
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	program := need(t, "chromium")
	hisIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, hisOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe")
	cmd.ExtraFiles = []*os.File{hisIn, hisOut}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Skipf("chromium does not start: %v", err)
	}
	hisIn.Close()
	hisOut.Close()
	b := &browser{t: t, to: in, from: bufio.NewReaderSize(out, 1<<20)}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		in.Close()
		out.Close()
	})
	out.SetReadDeadline(time.Now().Add(3 * browserLimit))
	return b
}

type message struct {
	ID        int             `json:"id"`
	Method    string          `json:"method"`
	SessionID string          `json:"sessionId"`
	Params    json.RawMessage `json:"params"`
	Result    json.RawMessage `json:"result"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error"`
}

func (b *browser) read() message {
	b.t.Helper()
	line, err := b.from.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("chromium: %v", err)
	}
	var m message
	if err := json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &m); err != nil {
		b.t.Fatal(err)
	}
	return m
}

type object map[string]any

func (b *browser) send(session, method string, params object) int {
	b.t.Helper()
	b.last++
	m := object{"id": b.last, "method": method, "params": params}
	if session != "" {
		m["sessionId"] = session
	}
	line, err := json.Marshal(m)
	if err == nil {
		_, err = b.to.Write(append(line, 0))
	}
	if err != nil {
		b.t.Fatalf("chromium: %v", err)
	}
	return b.last
}

// call waits for the answer; see is told of events meanwhile.
func (b *browser) call(session, method string, params object, see func(message)) json.RawMessage {
	b.t.Helper()
	id := b.send(session, method, params)
	for {
		m := b.read()
		if m.ID != id {
			see(m)
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		return m.Result
	}
}

// screen is where a page is looked at.
type screen struct {
	name          string
	width, height int
	isPhone       bool
	isDark        bool
	hasScript     bool
}

var screens = []screen{
	{"phone", 390, 844, true, false, true},
	{"phone-dark", 390, 844, true, true, true},
	{"phone-plain", 390, 844, true, false, false},
	{"desk", 1440, 900, false, false, true},
	{"desk-dark", 1440, 900, false, true, true},
	{"desk-plain", 1440, 900, false, false, false},
}

// page is an open one; what the browser complained about is in complaints.
type page struct {
	b          *browser
	session    string
	isLoaded   bool
	complaints []string
}

func (p *page) see(m message) {
	if m.SessionID != p.session {
		return
	}
	switch m.Method {
	case "Page.loadEventFired":
		p.isLoaded = true
	case "Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled":
		p.complaints = append(p.complaints, string(m.Params))
	}
}

func (p *page) call(method string, params object) json.RawMessage {
	p.b.t.Helper()
	return p.b.call(p.session, method, params, p.see)
}

func (b *browser) open(url string, s screen) *page {
	b.t.Helper()
	p := &page{b: b}
	var created struct{ TargetID string }
	json.Unmarshal(b.call("", "Target.createTarget", object{"url": "about:blank"}, p.see), &created)
	var attached struct{ SessionID string }
	json.Unmarshal(b.call("", "Target.attachToTarget", object{"targetId": created.TargetID, "flatten": true}, p.see), &attached)
	p.session = attached.SessionID
	p.call("Performance.enable", object{"timeDomain": "threadTicks"})
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		p.call(domain+".enable", object{})
	}
	scale, scheme := 1, "light"
	if s.isPhone {
		scale = 2
	}
	if s.isDark {
		scheme = "dark"
	}
	p.call("Emulation.setDeviceMetricsOverride", object{"width": s.width, "height": s.height, "deviceScaleFactor": scale, "mobile": s.isPhone})
	p.call("Emulation.setTouchEmulationEnabled", object{"enabled": s.isPhone})
	p.call("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}}})
	p.call("Emulation.setScriptExecutionDisabled", object{"value": !s.hasScript})
	p.call("Page.navigate", object{"url": url})
	for end := time.Now().Add(browserLimit); !p.isLoaded; {
		if time.Now().After(end) {
			b.t.Fatalf("%s does not load", url)
		}
		p.see(b.read())
	}
	return p
}

// eval is a JavaScript expression's value.
func (p *page) eval(expression string) any {
	p.b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	json.Unmarshal(p.call("Runtime.evaluate", object{"expression": expression, "returnByValue": true, "awaitPromise": true}), &r)
	if r.ExceptionDetails != nil {
		p.b.t.Fatalf("%s: %s", expression, r.ExceptionDetails)
	}
	return r.Result.Value
}

// cpuSeconds is what the page's thread has used so far, in tasks of any kind.
func (p *page) cpuSeconds() float64 {
	p.b.t.Helper()
	var r struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	json.Unmarshal(p.call("Performance.getMetrics", object{}), &r)
	for _, m := range r.Metrics {
		if m.Name == "TaskDuration" {
			return m.Value
		}
	}
	p.b.t.Fatal("chromium does not tell what a page costs")
	return 0
}

func (p *page) number(expression string) float64 {
	p.b.t.Helper()
	v, ok := p.eval(expression).(float64)
	if !ok {
		p.b.t.Fatalf("%s is no number", expression)
	}
	return v
}

func (p *page) text(expression string) string {
	p.b.t.Helper()
	return fmt.Sprint(p.eval(expression))
}

// press a key as a keyboard does.
func (p *page) press(keys ...string) {
	p.b.t.Helper()
	for _, key := range keys {
		text := ""
		if len(key) == 1 {
			text = key
		}
		code := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "Backspace": 8, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}[key]
		if key == "Enter" {
			text = "\r"
		}
		p.call("Input.dispatchKeyEvent", object{"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code})
		p.call("Input.dispatchKeyEvent", object{"type": "keyUp", "key": key, "windowsVirtualKeyCode": code})
	}
}

// picture writes what is to be seen to PAGES_DIR/name.png, if that is set.
func (p *page) picture(name string) {
	p.b.t.Helper()
	dir := os.Getenv("PAGES_DIR")
	if dir == "" {
		return
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join("../..", dir)
	}
	var shot struct{ Data string }
	json.Unmarshal(p.call("Page.captureScreenshot", object{"format": "png"}), &shot)
	bytes, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), bytes, 0o644)
	}
	if err != nil {
		p.b.t.Fatal(err)
	}
}

func (p *page) close(what string) {
	p.b.t.Helper()
	for _, c := range p.complaints {
		p.b.t.Errorf("%s: the browser complains: %s", what, c)
	}
	p.call("Runtime.disable", object{})
	p.b.call("", "Target.detachFromTarget", object{"sessionId": p.session}, p.see)
}
