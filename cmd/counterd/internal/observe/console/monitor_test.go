package console

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
)

// fake is a source that counts how often it is asked.
type fake struct {
	mu      sync.Mutex
	totals  Totals
	state   facts.State
	details Details
	blocks  []Block
	hang    chan struct{} // State waits for it, if it is set

	looks, full, detailed, walks atomic.Int64
}

func (f *fake) Totals() Totals {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.totals
}

func (f *fake) State(parts facts.Part) *facts.State {
	f.looks.Add(1)
	if parts.Has(facts.PartCommands) {
		f.full.Add(1)
	}
	f.mu.Lock()
	hang, v := f.hang, f.state
	v.Commands = slices.Clone(v.Commands)
	f.mu.Unlock()
	v.Filled = parts
	if hang != nil {
		<-hang
	}
	return &v
}

func (f *fake) Details(limit int) Details {
	f.detailed.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.details
}

func (f *fake) MidTime() MidTime { return NoTime }

func (f *fake) Walk(fn func(Block)) error {
	f.walks.Add(1)
	for _, b := range f.blocks {
		fn(b)
	}
	return nil
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

var all = func(*http.Request) Access { return Access{Slowlog: true, Clients: true, Posts: true} }

// ask asks a handler for a path and reads its JSON.
func ask(t *testing.T, h http.Handler, path string, into any) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept-Encoding", "gzip")
	h.ServeHTTP(w, r)
	res := w.Result()
	if into == nil || res.StatusCode != http.StatusOK {
		return res
	}
	zr, err := gzip.NewReader(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v: %.200s", path, err, text)
	}
	return res
}

// TestMonitor: only the judged facts are read while nobody watches; a new viewer has an answer at once; a hundred
// viewers cost one look a second; facts and history go on; blocks are walked while the map is asked for.
func TestMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{state: *well()}
		f.blocks = manyBlocks(rand.New(rand.NewPCG(1, 2)), 2, 30)
		f.state.Commands = []facts.Command{{Name: "get", Calls: 10}}
		m := NewMonitor(f)
		m.Start()
		defer m.Close()
		h := m.Handler(all)
		time.Sleep(time.Minute)
		synctest.Wait()
		if f.full.Load() != 0 || f.detailed.Load() != 0 || f.walks.Load() != 0 || f.looks.Load() < 59 {
			t.Fatalf("while nobody watches: %d looks, %d for details, %d at blocks", f.looks.Load(), f.detailed.Load(), f.walks.Load())
		}
		var st Status
		for second := range 20 {
			for range 100 {
				before := st
				if res := ask(t, h, "/status.json", &st); res.StatusCode != http.StatusOK {
					t.Fatal(res.Status)
				}
				ask(t, h, "/map.json", nil)
				if before.Second > st.Second {
					t.Fatalf("second %d came behind %d", st.Second, before.Second)
				}
			}
			if want := int64(60 + second); st.Second < want-1 || st.Second > want {
				t.Fatalf("second %d, want %d", st.Second, want)
			}
			if st.Verdict.Text != "All is well" || second > 1 && st.Sample[0] != 700 {
				t.Fatalf("got %+v, %v", st.Verdict, st.Sample)
			}
			if want := `"commands":[{"name":"get","calls":` + fmt.Sprint(f.totals.Commands+10) + `,"failed":0,"rate":700}]`; second > 2 && !strings.Contains(string(st.Facts), want) {
				t.Fatalf("second %d: no %s in %s", second, want, st.Facts)
			}
			f.set(func() {
				f.totals.Commands += 700
				f.state.Commands = []facts.Command{{Name: "get", Calls: f.totals.Commands + 10}}
			})
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if n := f.detailed.Load(); n > 22 {
			t.Errorf("%d looks for details in 20 seconds", n)
		}
		if n := f.walks.Load(); n < 5 || n > 11 {
			t.Errorf("%d walks in 20 seconds", n)
		}
		var past Past
		ask(t, h, "/history.json", &past)
		if len(past.Fine) != int(past.Second) || past.Fine[past.Second-1][0] != 700 {
			t.Errorf("%d seconds of %d, the last %v", len(past.Fine), past.Second, past.Fine[past.Second-1])
		}
		var blocks Map
		if ask(t, h, "/map.json", &blocks); len(blocks.Rows) != 2 || blocks.Rows[0].Blocks+blocks.Rows[1].Blocks != 60 {
			t.Errorf("%d rows", len(blocks.Rows))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		n := f.detailed.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		if f.detailed.Load() != n {
			t.Error("details are looked at though the viewers have gone")
		}
		f.blocks = f.blocks[:30]
		before := blocks.Seq
		if ask(t, h, "/map.json", &blocks); len(blocks.Rows) != 1 || blocks.Seq <= before {
			t.Errorf("a viewer who comes again is shown the old map: %d rows", len(blocks.Rows))
		}
	})
}

// TestHang: while the server holds the monitor up, viewers get the last answer, with its time; a second Close is none.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{state: *well()}
		m := NewMonitor(f)
		h := m.Handler(all)
		if res := ask(t, h, "/status.json", nil); res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("before the start: %s", res.Status)
		}
		m.Start()
		time.Sleep(2500 * time.Millisecond)
		var before, st Status
		ask(t, h, "/status.json", &before)
		hang := make(chan struct{})
		f.set(func() { f.hang = hang })
		time.Sleep(time.Minute)
		began := time.Now()
		ask(t, h, "/status.json", &st)
		if took := time.Since(began); st.Second != before.Second || st.Now != before.Now || took > waitFresh {
			t.Errorf("after %v: of second %d, want %d", took, st.Second, before.Second)
		}
		f.set(func() { f.hang = nil })
		close(hang)
		time.Sleep(3 * time.Second)
		if ask(t, h, "/status.json", &st); st.Second <= before.Second {
			t.Error("it does not go on")
		}
		m.Close()
		m.Close()
	})
}

// TestAccess: a viewer without the right to the slow log or clients is not sent them.
func TestAccess(t *testing.T) {
	f := &fake{state: *well()}
	f.details = Details{Slow: []Slow{{Text: "secret1"}}, Largest: []Client{{Name: "secret2"}}, Busiest: []Client{{Name: "secret3"}}, Hot: []HotPost{{Key: "secret4"}}}
	m := NewMonitor(f)
	m.Start()
	defer m.Close()
	for _, c := range []struct {
		may    Access
		hidden string
		shown  []string
	}{
		{Access{Slowlog: true, Clients: true, Posts: true}, "", []string{"secret1", "secret2", "secret3", "secret4"}},
		{Access{Slowlog: true, Posts: true}, " clients", []string{"secret1", "secret4"}},
		{Access{Clients: true}, "slowlog posts", []string{"secret2", "secret3"}}, {Access{}, "slowlog clients posts", nil},
	} {
		var st Status
		for len(st.Facts) == 0 { // the first look takes a moment
			ask(t, m.Handler(func(*http.Request) Access { return c.may }), "/status.json", &st)
		}
		text, _ := json.Marshal(st)
		if st.Hidden != c.hidden || strings.Count(string(text), "secret") != len(c.shown) {
			t.Errorf("%+v: hidden %q, in %s", c.may, st.Hidden, text)
		}
		for _, s := range c.shown {
			if !strings.Contains(string(text), s) {
				t.Errorf("%+v: %s is missing", c.may, s)
			}
		}
	}
}

// TestDocument: the page asks for nothing elsewhere, its policy lets only its own script run, and it is small.
func TestDocument(t *testing.T) {
	m := NewMonitor(&fake{state: *well()})
	h := m.Handler(all)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	text := w.Body.String()
	policy := w.Header().Get("Content-Security-Policy")
	for _, part := range []string{"style", "script"} {
		from, to := strings.Index(text, "<"+part+">")+len(part)+2, strings.Index(text, "</"+part+">")
		if want := part + "-src " + hash(text[from:to]) + ";"; !strings.Contains(policy, want) {
			t.Errorf("the policy %q does not have %q", policy, want)
		}
		if strings.Count(text, "</"+part) != 1 {
			t.Errorf("%d ends of %s", strings.Count(text, "</"+part), part)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy: %s", policy)
	}
	for _, bad := range []string{"http://", "https://", "//cdn", " src=", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", " style=", " onclick", " onload", "@import", "url("} {
		for rest := text; strings.Contains(rest, bad); {
			_, rest, _ = strings.Cut(rest, bad)
			if !strings.HasPrefix(rest, "www.w3.org/2000/svg") { // the name of a namespace, which nobody asks for
				t.Errorf("the page has %q: ...%.40s", bad, rest)
			}
		}
	}
	for _, id := range regexp.MustCompile(`\$\("([a-z0-9-]+)"\)`).FindAllStringSubmatch(text, -1) {
		if strings.Count(text, `id="`+id[1]+`"`) != 1 {
			t.Errorf("the script looks for %s, which the page has not once", id[1])
		}
	}
	document := document()
	if len(document.gzip) > 25<<10 {
		t.Errorf("the page has %d bytes compressed", len(document.gzip))
	}
	again := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("If-None-Match", w.Header().Get("ETag"))
	if h.ServeHTTP(again, r); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("asked again: %d, %d bytes", again.Code, again.Body.Len())
	}
	post := httptest.NewRecorder()
	if h.ServeHTTP(post, httptest.NewRequest(http.MethodPost, "/", nil)); post.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", post.Code)
	}
	other := httptest.NewRecorder()
	if h.ServeHTTP(other, httptest.NewRequest(http.MethodGet, "/console.js", nil)); other.Code != http.StatusNotFound {
		t.Errorf("another path: %d", other.Code)
	}
}
