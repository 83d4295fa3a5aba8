// Package chromium lets tests drive a Chromium without a window, by the pipe of its DevTools protocol: messages of JSON,
// each ended by a zero byte, on the descriptors 3 and 4. A library for that would be larger than the server that is tested.
package chromium

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long is waited for an answer, beside other tests on a machine with few processors.
const patience = 2 * time.Minute

// Find returns the path of a Chromium, empty if there is none.
func Find() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Browser is a running Chromium.
type Browser struct {
	t   testing.TB
	out *os.File

	mu      sync.Mutex
	last    int
	answers map[int]chan message // of calls that wait; nil: the browser has ended
	pages   map[string]*Page     // by session
}

// message is a call, an answer or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Start starts a browser that ends with the test.
func Start(t testing.TB, path string) *Browser {
	t.Helper()
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{inRead, outWrite}
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inRead.Close()
	outWrite.Close()
	b := &Browser{t: t, out: inWrite, answers: make(map[int]chan message), pages: make(map[string]*Page)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(outRead)
	}()
	t.Cleanup(func() {
		b.send(message{ID: 1 << 30, Method: "Browser.close"}) // so that it gives its directory back
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // its status does not matter
		timer.Stop()
		inWrite.Close()
		outRead.Close()
		<-read
		if t.Failed() {
			t.Logf("the browser said: %.2000s", stderr.String())
		}
	})
	return b
}

func (b *Browser) read(r io.Reader) {
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			break
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		answer, page := b.answers[m.ID], b.pages[m.Session]
		delete(b.answers, m.ID)
		b.mu.Unlock()
		switch {
		case answer != nil:
			answer <- m
		case page != nil:
			page.event(&m)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, answer := range b.answers {
		close(answer)
	}
	b.answers = nil
}

func (b *Browser) send(m message) {
	text, _ := json.Marshal(m) // it can
	_, _ = b.out.Write(append(text, 0))
}

func (b *Browser) call(session, method string, params, result any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer := make(chan message, 1)
	b.mu.Lock()
	if b.answers == nil {
		b.mu.Unlock()
		return errors.New("the browser has ended")
	}
	b.last++
	id := b.last
	b.answers[id] = answer
	b.mu.Unlock()
	b.send(message{ID: id, Method: method, Session: session, Params: text})
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return fmt.Errorf("%s: the browser has ended", method)
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case result != nil:
			return json.Unmarshal(m.Result, result)
		}
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%s: no answer", method)
	}
}

// Page is a tab. Its errors and its requests are kept.
type Page struct {
	b       *Browser
	session string

	mu       sync.Mutex
	faults   []string
	requests []string
}

// Page opens a tab.
func (b *Browser) Page() *Page {
	b.t.Helper()
	var target struct{ TargetID, SessionID string }
	if err := b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		b.t.Fatal(err)
	}
	if err := b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target); err != nil {
		b.t.Fatal(err)
	}
	p := &Page{b: b, session: target.SessionID}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		p.Call(domain+".enable", map[string]any{}, nil)
	}
	return p
}

func (p *Page) event(m *message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.Method {
	case "Runtime.exceptionThrown":
		p.faults = append(p.faults, string(m.Params))
	case "Runtime.consoleAPICalled":
		var e struct{ Type string }
		if json.Unmarshal(m.Params, &e) == nil && (e.Type == "error" || e.Type == "warning" || e.Type == "assert") {
			p.faults = append(p.faults, string(m.Params))
		}
	case "Log.entryAdded":
		var e struct {
			Entry struct{ Level, Text, URL string }
		}
		if json.Unmarshal(m.Params, &e) == nil && e.Entry.Level == "error" {
			p.faults = append(p.faults, e.Entry.Text+" "+e.Entry.URL)
		}
	case "Network.requestWillBeSent":
		var e struct{ Request struct{ URL string } }
		if json.Unmarshal(m.Params, &e) == nil {
			p.requests = append(p.requests, e.Request.URL)
		}
	}
}

// Call calls a method of the protocol.
func (p *Page) Call(method string, params, result any) {
	p.b.t.Helper()
	if err := p.b.call(p.session, method, params, result); err != nil {
		p.b.t.Fatal(err)
	}
}

// Faults returns the errors on the console so far, and forgets them.
func (p *Page) Faults() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.faults
	p.faults = nil
	return list
}

// Requests are the addresses that were asked for so far, but for those in the page itself.
func (p *Page) Requests() (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.requests {
		if !strings.HasPrefix(r, "data:") && r != "about:blank" {
			list = append(list, r)
		}
	}
	return list
}

// Size sets the size of the window in CSS pixels. A narrow one is a phone.
func (p *Page) Size(width, height int) {
	p.b.t.Helper()
	p.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
}

// Prefer sets what the viewer prefers: "prefers-color-scheme", "dark".
func (p *Page) Prefer(features map[string]string) {
	p.b.t.Helper()
	list := []map[string]string{}
	for name, value := range features {
		list = append(list, map[string]string{"name": name, "value": value})
	}
	p.Call("Emulation.setEmulatedMedia", map[string]any{"features": list}, nil)
}

// Go opens an address.
func (p *Page) Go(address string) {
	p.b.t.Helper()
	var result struct{ ErrorText string }
	if p.Call("Page.navigate", map[string]any{"url": address}, &result); result.ErrorText != "" {
		p.b.t.Fatalf("%s: %s", address, result.ErrorText)
	}
}

// Eval runs a script and reads its value, which may be a promise's, into into.
func (p *Page) Eval(script string, into any) {
	p.b.t.Helper()
	var result struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	p.Call("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}, &result)
	if result.ExceptionDetails != nil {
		p.b.t.Fatalf("%s: %s", script, result.ExceptionDetails)
	}
	if into == nil {
		return
	}
	if len(result.Result.Value) == 0 {
		result.Result.Value = []byte("null")
	}
	if err := json.Unmarshal(result.Result.Value, into); err != nil {
		p.b.t.Fatalf("%s: %s: %v", script, result.Result.Value, err)
	}
}

// Until waits until a script's value is true; an error, because an element is not there yet, counts as no. what names the
// awaited condition.
func (p *Page) Until(what, script string) {
	p.b.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		var yes bool
		if p.Eval("(() => { try { return !!("+script+") } catch { return false } })()", &yes); yes {
			return
		}
		if time.Now().After(deadline) {
			var text string
			p.Eval("document.body.innerText", &text)
			p.b.t.Fatalf("waited too long for %s. The page says:\n%.3000s", what, text)
		}
	}
}

// Picture writes all of the page, and not only what the window shows, as PNG.
func (p *Page) Picture(file string) {
	p.b.t.Helper()
	var size struct {
		CSSContentSize struct{ Width, Height float64 }
	}
	p.Call("Page.getLayoutMetrics", map[string]any{}, &size)
	var shot struct{ Data string }
	p.Call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": size.CSSContentSize.Width, "height": size.CSSContentSize.Height, "scale": 1}}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(file, data, 0o644)
	}
	if err != nil {
		p.b.t.Fatal(err)
	}
}
