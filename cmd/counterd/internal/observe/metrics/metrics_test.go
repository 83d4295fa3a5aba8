package metrics

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
	"github.com/counterd/counterd/cmd/counterd/internal/testkit/factstest"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/errclass"
)

// fixed is a source of the same state at each scrape.
type fixed struct{ s *facts.State }

func (s fixed) State() *facts.State { return s.s }

// hasRow tells whether the table has a metric, by its full name.
func hasRow(name string) bool {
	return slices.ContainsFunc(facts.Table(), func(f facts.Fact) bool { return f.Metric != "" && facts.Namespace+f.Metric == name })
}

// scrape returns a state as Prometheus sees it.
func scrape(t testing.TB, f *facts.State) string {
	t.Helper()
	var log strings.Builder
	w := httptest.NewRecorder()
	Handler(fixed{f}, slog.New(slog.NewTextHandler(&log, nil)), unheard).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 || log.Len() > 0 {
		t.Fatalf("status %d: %s\n%s", w.Code, w.Body, &log)
	}
	return w.Body.String()
}

// read parses a scrape as Prometheus does.
func read(t testing.TB, text string) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	all, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestLint: names, units and types are as Prometheus's linter wants them, and every metric says what it means.
func TestLint(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(NewCollector(fixed{factstest.Full()}))
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	all := read(t, scrape(t, factstest.Full()))
	for name, f := range read(t, scrape(t, factstest.Loading())) { // while data is being loaded
		all[name] = f
	}
	for _, f := range facts.Table() {
		if name := facts.Namespace + f.Metric; f.Metric != "" && (all[name] == nil || len(all[name].Metric) == 0) {
			t.Errorf("%s is not shown, though all is known", name)
		}
	}
	for name := range all {
		if strings.HasPrefix(name, facts.Namespace) && !hasRow(name) {
			t.Errorf("%s has no row", name)
		}
	}
}

// TestAbsent: a feature that a server lacks is not shown as 0.
func TestAbsent(t *testing.T) {
	loading := factstest.Loading()
	memory := factstest.Full()
	memory.Disk.Durable = false
	primary := factstest.Full()
	primary.Link, primary.Role = nil, "primary"
	for _, c := range []struct {
		what   string
		f      *facts.State
		absent string
	}{
		{"while data is loaded", loading, "posts blocks posts_memory_bytes disk_ready log_end_bytes log_fsync_duration_seconds role link_up replicas idmp_producers"},
		{"without a data directory", memory, "disk_free_bytes disk_low log_end_bytes log_fsync_duration_seconds log_write_size_bytes snapshot_last_ok"},
		{"of a primary", primary, "link_up link_lag_bytes link_down_seconds link_silent_seconds"},
	} {
		all := read(t, scrape(t, c.f))
		for name := range strings.FieldsSeq(c.absent) {
			if all[facts.Namespace+name] != nil {
				t.Errorf("%s there is %s", c.what, name)
			}
		}
		if all[facts.Namespace+"loading"] == nil || all[facts.Namespace+"commands_total"] == nil || all["process_cpu_seconds_total"] == nil && all["go_goroutines"] == nil {
			t.Errorf("%s what is always there is not", c.what)
		}
	}
}

// TestBuckets: every value is counted up to the bound it does not pass, and all of them by +Inf.
func TestBuckets(t *testing.T) {
	f := factstest.Full()
	f.Commands[0].Times, f.Commands[0].Nanos = new(stats.Histogram), 12.5e9
	for _, d := range []time.Duration{time.Microsecond, 2 * time.Microsecond, 2 * time.Microsecond, time.Hour, time.Hour, time.Hour, time.Hour} {
		f.Commands[0].Times[stats.BucketOf(d)]++
	}
	h := read(t, scrape(t, f))[facts.Namespace+"command_duration_seconds"]
	i := slices.IndexFunc(h.Metric, func(m *dto.Metric) bool { return m.Label[0].GetValue() == "get" })
	got := h.Metric[i].Histogram
	want := map[float64]uint64{1e-6: 1, 2e-6: 3, 4e-6: 3, math.Inf(1): 7}
	for _, bucket := range got.Bucket {
		n, ok := want[bucket.GetUpperBound()]
		if ok && n != bucket.GetCumulativeCount() {
			t.Errorf("up to %g: got %d, want %d", bucket.GetUpperBound(), bucket.GetCumulativeCount(), n)
		}
		delete(want, bucket.GetUpperBound())
	}
	if len(want) > 0 || got.GetSampleCount() != 7 || got.GetSampleSum() != 12.5 {
		t.Errorf("without %v; %d values, their sum %g", want, got.GetSampleCount(), got.GetSampleSum())
	}
}

// TestErrors: all errors that a server sends have a series from the start, and no client makes one.
func TestErrors(t *testing.T) {
	f := factstest.Full()
	f.Errors = []stats.ErrorCount{{Word: "OOM", N: 3}, {Word: "ERR", N: 5}, {Word: "\xff\xfe", N: 7}, {Word: "made-up", N: 11}}
	got := make(map[string]float64)
	for _, m := range read(t, scrape(t, f))[facts.Namespace+"error_replies_total"].Metric {
		got[m.Label[0].GetValue()+" "+m.Label[1].GetValue()] = m.Counter.GetValue()
	}
	for label, want := range map[string]float64{"transient OOM": 3, "permanent ERR": 5, "permanent other": 18, "in_doubt UNCERTAIN": 0, "transient MISCONF": 0} {
		if n, ok := got[label]; !ok || n != want {
			t.Errorf("%s: got %g (%v), want %g", label, n, ok, want)
		}
	}
	for _, row := range errclass.Table() {
		word, _, _ := strings.Cut(row.Code, " ")
		if !slices.ContainsFunc(slices.Collect(maps.Keys(got)), func(label string) bool { return strings.HasSuffix(label, " "+word) }) {
			t.Errorf("%s has no series", word)
		}
	}
}

// TestPeers: two connections of one replica are one series, and many replicas are counted, not named.
func TestPeers(t *testing.T) {
	f := factstest.Full()
	f.Replicas = []facts.Replica{{Addr: "a:1", Behind: 9}, {Addr: "a:1", Behind: 5, Online: true}, {Addr: "b:1", Behind: 7}}
	all := read(t, scrape(t, f))
	if m := all[facts.Namespace+"replica_lag_bytes"].Metric; len(m) != 2 || m[0].Gauge.GetValue() != 5 || m[1].Gauge.GetValue() != 7 {
		t.Errorf("got %v, want the further one of a:1, and b:1", m)
	}
	f.Replicas[2].Addr = "\xff\xfe:1"
	f.Replicas = append(f.Replicas, facts.Replica{Addr: "\xfd:1", Behind: 7})
	if m := read(t, scrape(t, f))[facts.Namespace+"replica_lag_bytes"].Metric; len(m) != 2 || m[0].Label[0].GetValue()+m[1].Label[0].GetValue() != "?:1a:1" {
		t.Errorf("a replica whose name is no text: %v", m)
	}
	for i := range 10 * facts.MaxReplicas {
		f.Replicas = append(f.Replicas, facts.Replica{Addr: fmt.Sprint("c:", i)})
	}
	all = read(t, scrape(t, f))
	if n := len(all[facts.Namespace+"replica_lag_bytes"].Metric); n != facts.MaxReplicas {
		t.Errorf("%d replicas have series, want %d", n, facts.MaxReplicas)
	}
	sum := 0.0
	for _, m := range all[facts.Namespace+"replicas"].Metric {
		sum += m.Gauge.GetValue()
	}
	if sum != float64(len(f.Replicas)) {
		t.Errorf("%g replicas are counted, want %d", sum, len(f.Replicas))
	}
}

// unheard is a server that does not care what waits.
func unheard(*http.Request) func() { return func() {} }

// counted is a source that counts how often it is asked, and takes its time.
type counted struct {
	fixed
	times, now atomic.Int32
	most       int32
}

func (s *counted) State() *facts.State {
	s.most = max(s.most, s.now.Add(1))
	defer s.now.Add(-1)
	s.times.Add(1)
	time.Sleep(8 * time.Millisecond)
	return s.s
}

// TestScrapesShare: 64 clients that scrape without a pause have a twentieth of a processor together, one page is made at a
// time, and each page shows values of its request's own time or later.
func TestScrapesShare(t *testing.T) {
	f := factstest.Full()
	synctest.Test(t, func(t *testing.T) {
		s := &counted{fixed: fixed{f}}
		h := Handler(s, slog.New(slog.DiscardHandler), unheard)
		const scraping = 2 * time.Second
		var all sync.WaitGroup
		var answers atomic.Int32
		end := time.Now().Add(scraping)
		for range 64 {
			all.Go(func() {
				for time.Now().Before(end) {
					w, began := httptest.NewRecorder(), s.times.Load()
					h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
					if w.Code != 200 || w.Body.Len() < 1000 || s.times.Load() == began {
						t.Errorf("status %d, %d bytes, values from before the request: %v", w.Code, w.Body.Len(), s.times.Load() == began)
					}
					answers.Add(1)
				}
			})
		}
		all.Wait()
		const each = 8 * time.Millisecond * (1 + renderShare)
		if n, want := time.Duration(s.times.Load()), scraping/each+2; n > want || s.most != 1 {
			t.Errorf("%d pages were made, %d at once, want %d at most, one at a time", n, s.most, want)
		}
		if n := answers.Load(); n < 10*64 {
			t.Errorf("%d scrapes were answered", n)
		}
		for i := range 3 * keptPages { // whatever they ask for
			time.Sleep(time.Second)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest([]string{"GET", "HEAD"}[i%2], fmt.Sprint("/metrics?x=", i), nil))
			if w.Code != 200 || w.Body.Len() < 1000 {
				t.Errorf("status %d, %d bytes", w.Code, w.Body.Len())
			}
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		before := s.times.Load()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(gone, "GET", "/metrics", nil))
		if s.times.Load() != before { // it went away in the pause behind the last page
			t.Error("a page was made for a client that went away")
		}
	})
}

// TestScrapes: scrapes at once are each whole, in whatever encoding.
func TestScrapes(t *testing.T) {
	h := Handler(fixed{factstest.Full()}, slog.New(slog.DiscardHandler), unheard)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			r := httptest.NewRequest("GET", "/metrics", nil)
			if i%2 == 0 {
				r.Header.Set("Accept-Encoding", "gzip")
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			body, err := io.ReadAll(w.Result().Body)
			if w.Code != 200 || err != nil || len(body) < 1000 || (w.Header().Get("Content-Encoding") == "gzip") != (i%2 == 0) {
				t.Errorf("scrape %d: status %d, %d bytes, %v, %q", i, w.Code, len(body), err, w.Header().Get("Content-Encoding"))
			}
		})
	}
	all.Wait()
}

// stuck is a client that does not read: writes to it wait.
type stuck struct {
	*httptest.ResponseRecorder
	writing chan struct{} // closed at the first write
	read    chan struct{}
	once    sync.Once
}

func (s *stuck) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.writing) })
	<-s.read
	return s.ResponseRecorder.Write(p)
}

// panicky is a source that panics once.
type panicky struct {
	fixed
	done bool
}

func (s *panicky) State() *facts.State {
	if !s.done {
		s.done = true
		panic("a fault")
	}
	return s.s
}

// TestPanic: a panic of the source is the request's, whose server counts it, and the next scrape is whole.
func TestPanic(t *testing.T) {
	h := Handler(&panicky{fixed: fixed{factstest.Full()}}, slog.New(slog.DiscardHandler), unheard)
	func() {
		defer func() {
			if p := recover(); p != "a fault" {
				t.Errorf("got %v", p)
			}
		}()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
	}()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 || !strings.Contains(w.Body.String(), "counterd_posts") {
		t.Errorf("behind a panic: %d, %d bytes", w.Code, w.Body.Len())
	}
}

// TestStuck: a client that does not read its page does not delay others.
func TestStuck(t *testing.T) {
	h := Handler(fixed{factstest.Full()}, slog.New(slog.DiscardHandler), unheard)
	slow := &stuck{ResponseRecorder: httptest.NewRecorder(), writing: make(chan struct{}), read: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.ServeHTTP(slow, httptest.NewRequest("GET", "/metrics", nil))
	}()
	<-slow.writing
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil)) // waits for ever, if the other one's turn lasts
	close(slow.read)
	<-ended
	if w.Code != 200 || slow.Code != 200 || slow.Body.Len() < 1000 || w.Body.Len() < 1000 {
		t.Errorf("got %d and %d bytes, and of who was slow %d and %d", w.Code, w.Body.Len(), slow.Code, slow.Body.Len())
	}
}

// BenchmarkScrape measures a scrape, without the filling of the state: of one counter and 12 commands, and of 256 counters
// and all commands.
func BenchmarkScrape(b *testing.B) {
	for _, size := range []struct{ counters, commands int }{{1, 12}, {256, 140}} {
		f := factstest.Full()
		f.Usage = make([]counter.Usage, size.counters)
		for i := range f.Usage {
			f.Usage[i] = counter.Usage{Counter: fmt.Sprint("counter", i), HotItems: 123456789, HotBytes: 1 << 40}
		}
		f.Commands = nil
		for i := range size.commands {
			f.Commands = append(f.Commands, facts.Command{Name: fmt.Sprint("command", i), Calls: 1 << 40, Times: factstest.Full().Commands[0].Times})
		}
		rd := newRenderer(fixed{f}, slog.New(slog.DiscardHandler))
		b.Run(fmt.Sprintf("counters=%d/commands=%d", size.counters, size.commands), func(b *testing.B) {
			b.ReportAllocs()
			r := httptest.NewRequest("GET", "/metrics", nil)
			r.Header.Set("Accept-Encoding", "gzip")
			for b.Loop() {
				rd.render(r)
			}
		})
	}
}
