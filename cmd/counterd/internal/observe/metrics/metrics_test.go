package metrics

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
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

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/errclass"
)

// fixed is a source of the same figures at each scrape.
type fixed struct{ f *Figures }

func (s fixed) Figures() *Figures { return s.f }

// full are figures of which none is 0, of a replica with a data directory that has replicas of its own.
func full() *Figures {
	f := &Figures{Version: "1.2.3", Commands: []Command{{Name: "get"}, {Name: "config|set"}}, Errors: []Error{{"ERR", 1}, {"OOM", 2}}, Cluster: &Cluster{},
		Store: &Store{Usage: make([]counter.Usage, 2), Peers: make([]Peer, 2), Link: &Link{}, Disk: &OnDisk{}}}
	n := 0
	fill(reflect.ValueOf(f).Elem(), &n)
	f.Commands[0].Times, f.Commands[1].Times = buckets(25), buckets(25)
	f.Store.Role, f.Store.Usage[0].Counter, f.Store.Usage[1].Counter = "replica", "weibo", "video"
	f.Store.Peers[0].Name, f.Store.Peers[1].Name = "10.0.0.1:6379", "[fd00::1]:6379"
	f.Store.Disk.Log.SyncTimes.Buckets = [25]uint64{1, 2, 3, 4, 5, 6, 24: 7}
	f.Store.Disk.Log.WriteSizes.Buckets = [25]uint64{7: 8, 24: 9}
	return f
}

func buckets(n int) Buckets {
	b := Buckets{Counts: make([]uint64, n), Sum: 1.5, Unit: 1e-6}
	for i := range b.Counts {
		b.Counts[i] = uint64(i + 1)
	}
	return b
}

// fill gives every number that it finds in v one of its own.
func fill(v reflect.Value, n *int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem(), n)
		}
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*n++
			*at = time.Unix(int64(*n), 0)
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		*n++
		v.SetInt(int64(*n))
		if v.Type() == reflect.TypeFor[time.Duration]() {
			v.SetInt(int64(time.Duration(*n) * time.Millisecond))
		}
	case reflect.Uint64:
		*n++
		v.SetUint(uint64(*n))
	case reflect.Float64:
		*n++
		v.SetFloat(float64(*n))
	}
}

// scrape is what a source's figures look like to Prometheus.
func scrape(t testing.TB, f *Figures) string {
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
	r.MustRegister(NewCollector(fixed{full()}))
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	all := read(t, scrape(t, full()))
	seen := make(map[string]bool)
	for i := range families {
		f := &families[i]
		name := namespace + f.name
		if seen[name] {
			t.Errorf("%s has two rows", name)
		}
		seen[name] = true
		if all[name] == nil || len(all[name].Metric) == 0 {
			t.Errorf("%s is not shown, though there is everything", name)
		}
		if !strings.HasSuffix(f.help, ".") || strings.ContainsAny(f.help, "|\n") {
			t.Errorf("%s: the help %q is not a sentence for a table", name, f.help)
		}
		for word, unit := range map[string]string{"bytes": "_bytes", "duration": "_seconds", "timestamp": "_seconds"} {
			if strings.Contains(f.name, word) && !strings.Contains(f.name, unit) {
				t.Errorf("%s lacks its unit %s", name, unit)
			}
		}
		set := 0
		for _, is := range []bool{f.one != nil, f.many != nil, f.store != nil, f.times != nil} {
			if is {
				set++
			}
		}
		if set != 1 || (f.kind == histogram) != (f.times != nil) || f.one != nil && f.labels != nil {
			t.Errorf("%s: its row is of no kind", name)
		}
	}
	for name := range all {
		if strings.HasPrefix(name, namespace) && !seen[name] {
			t.Errorf("%s has no row", name)
		}
	}
}

// TestAllShown: what a source says is shown. Each of its figures is changed, and something that Prometheus sees has to
// change with it.
func TestAllShown(t *testing.T) {
	base := full()
	r := prometheus.NewRegistry()
	r.MustRegister(NewCollector(fixed{base}))
	shown := func() string {
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, f := range families {
			if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	}
	before := shown()
	var walk func(path string, v reflect.Value)
	changed := 0
	check := func(path string, restore func()) {
		changed++
		if shown() == before {
			t.Errorf("%s is not shown", path)
		}
		restore()
	}
	walk = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			walk(path, v.Elem())
		case reflect.Slice:
			for i := range v.Len() {
				walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
			}
		case reflect.Struct:
			if at, ok := v.Addr().Interface().(*time.Time); ok {
				old := *at
				*at = at.Add(time.Hour)
				check(path, func() { *at = old })
				return
			}
			// Structs of the store have figures that are shown by others, or for people alone.
			foreign := !strings.HasSuffix(v.Type().PkgPath(), "/observe/metrics") && v.Type() != reflect.TypeFor[counter.Usage]()
			for i := range v.NumField() {
				if !foreign {
					walk(path+"."+v.Type().Field(i).Name, v.Field(i))
				}
			}
		case reflect.Bool:
			old := v.Bool()
			v.SetBool(!old)
			check(path, func() { v.SetBool(old) })
		case reflect.Int, reflect.Int64:
			old := v.Int()
			v.SetInt(old + int64(10*time.Second))
			check(path, func() { v.SetInt(old) })
		case reflect.Uint64:
			old := v.Uint()
			v.SetUint(old + 1e10)
			check(path, func() { v.SetUint(old) })
		case reflect.Float64:
			old := v.Float()
			v.SetFloat(2 * old)
			check(path, func() { v.SetFloat(old) })
		case reflect.String:
			old := v.String()
			v.SetString(old + "x")
			check(path, func() { v.SetString(old) })
		default:
			t.Fatalf("%s: %v", path, v.Kind())
		}
	}
	walk("Figures", reflect.ValueOf(base).Elem())
	if changed < 100 {
		t.Errorf("only %d figures were changed", changed)
	}
}

// TestAbsent: what a server has not is not shown as 0.
func TestAbsent(t *testing.T) {
	loading := full()
	loading.Store, loading.Loading.Active = nil, true
	memory := full()
	memory.Store.Disk = nil
	primary := full()
	primary.Store.Link, primary.Store.Role = nil, "primary"
	for _, c := range []struct {
		what   string
		f      *Figures
		absent string
	}{
		{"while data is loaded", loading, "posts blocks posts_memory_bytes disk_ready log_end_bytes log_fsync_duration_seconds role link_up replicas idmp_producers"},
		{"without a data directory", memory, "disk_free_bytes disk_low log_end_bytes log_fsync_duration_seconds log_write_size_bytes snapshot_last_ok"},
		{"of a primary", primary, "link_up link_lag_bytes link_down_seconds link_silent_seconds"},
	} {
		all := read(t, scrape(t, c.f))
		for name := range strings.FieldsSeq(c.absent) {
			if all[namespace+name] != nil {
				t.Errorf("%s there is %s", c.what, name)
			}
		}
		if all[namespace+"loading"] == nil || all[namespace+"commands_total"] == nil || all["process_cpu_seconds_total"] == nil && all["go_goroutines"] == nil {
			t.Errorf("%s what is always there is not", c.what)
		}
	}
}

// TestBuckets: every value is counted up to the bound it does not pass, and all of them by +Inf.
func TestBuckets(t *testing.T) {
	f := full()
	b := &f.Commands[0].Times
	*b = Buckets{Counts: []uint64{1, 2, 0, 4}, Sum: 12.5, Unit: 1e-6}
	h := read(t, scrape(t, f))[namespace+"command_duration_seconds"]
	i := slices.IndexFunc(h.Metric, func(m *dto.Metric) bool { return m.Label[0].GetValue() == "get" })
	got := h.Metric[i].Histogram
	want := map[float64]uint64{1e-6: 1, 2e-6: 3, 4e-6: 3, math.Inf(1): 7}
	for _, bucket := range got.Bucket {
		n, ok := want[bucket.GetUpperBound()]
		if !ok || n != bucket.GetCumulativeCount() {
			t.Errorf("up to %g: got %d, want %d", bucket.GetUpperBound(), bucket.GetCumulativeCount(), n)
		}
		delete(want, bucket.GetUpperBound())
	}
	if len(want) > 0 || got.GetSampleCount() != 7 || got.GetSampleSum() != 12.5 {
		t.Errorf("without %v; %d values, their sum %g", want, got.GetSampleCount(), got.GetSampleSum())
	}
	from := Buckets{Counts: []uint64{1, 2, 3, 4}, Sum: 9, Unit: 2}.from(2)
	if !slices.Equal(from.Counts, []uint64{6, 4}) || from.Sum != 9 || from.Unit != 8 {
		t.Errorf("from the third bucket on: %+v", from)
	}
}

// TestErrors: all errors that a server sends have a series from the start, and no client makes one.
func TestErrors(t *testing.T) {
	f := full()
	f.Errors = []Error{{"OOM", 3}, {"ERR", 5}, {"\xff\xfe", 7}, {"made-up", 11}}
	got := make(map[string]float64)
	for _, m := range read(t, scrape(t, f))[namespace+"error_replies_total"].Metric {
		got[m.Label[0].GetValue()+" "+m.Label[1].GetValue()] = m.Counter.GetValue()
	}
	for label, want := range map[string]float64{"transient OOM": 3, "permanent ERR": 5, "permanent other": 18, "in_doubt UNCERTAIN": 0, "transient MISCONF": 0} {
		if n, ok := got[label]; !ok || n != want {
			t.Errorf("%s: got %g (%v), want %g", label, n, ok, want)
		}
	}
	for _, row := range errclass.Table() {
		word, _, _ := strings.Cut(row.Code, " ")
		if !slices.ContainsFunc(codes, func(c errclass.Row) bool { return c.Code == word }) {
			t.Errorf("%s has no series", word)
		}
	}
}

// TestPeers: two connections of one replica are one series, and many replicas are counted, not named.
func TestPeers(t *testing.T) {
	f := full()
	f.Store.Peers = []Peer{{Name: "a:1", Behind: 9}, {Name: "a:1", Behind: 5, Online: true}, {Name: "b:1", Behind: 7}}
	all := read(t, scrape(t, f))
	if m := all[namespace+"replica_lag_bytes"].Metric; len(m) != 2 || m[0].Gauge.GetValue() != 5 || m[1].Gauge.GetValue() != 7 {
		t.Errorf("got %v, want the further one of a:1, and b:1", m)
	}
	f.Store.Peers[2].Name = "\xff\xfe:1"
	f.Store.Peers = append(f.Store.Peers, Peer{Name: "\xfd:1", Behind: 7})
	if m := read(t, scrape(t, f))[namespace+"replica_lag_bytes"].Metric; len(m) != 2 || m[0].Label[0].GetValue()+m[1].Label[0].GetValue() != "?:1a:1" {
		t.Errorf("a replica whose name is no text: %v", m)
	}
	for i := range 10 * maxPeers {
		f.Store.Peers = append(f.Store.Peers, Peer{Name: fmt.Sprint("c:", i)})
	}
	all = read(t, scrape(t, f))
	if n := len(all[namespace+"replica_lag_bytes"].Metric); n != maxPeers {
		t.Errorf("%d replicas have series, want %d", n, maxPeers)
	}
	sum := 0.0
	for _, m := range all[namespace+"replicas"].Metric {
		sum += m.Gauge.GetValue()
	}
	if sum != float64(len(f.Store.Peers)) {
		t.Errorf("%g replicas are counted, want %d", sum, len(f.Store.Peers))
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

func (s *counted) Figures() *Figures {
	s.most = max(s.most, s.now.Add(1))
	defer s.now.Add(-1)
	s.times.Add(1)
	time.Sleep(8 * time.Millisecond)
	return s.f
}

// TestScrapesShare: 64 clients that scrape without a pause have a twentieth of a processor together, one page is made at a
// time, and each page shows values of its request's own time or later.
func TestScrapesShare(t *testing.T) {
	f := full()
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
	h := Handler(fixed{full()}, slog.New(slog.DiscardHandler), unheard)
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

// stuck is a client that does not read: what is written to it waits.
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

func (s *panicky) Figures() *Figures {
	if !s.done {
		s.done = true
		panic("a fault")
	}
	return s.f
}

// TestPanic: a panic of the source is the request's, whose server counts it, and the next scrape is whole.
func TestPanic(t *testing.T) {
	h := Handler(&panicky{fixed: fixed{full()}}, slog.New(slog.DiscardHandler), unheard)
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

// TestStuck: one who does not read what it asked for holds nobody out.
func TestStuck(t *testing.T) {
	h := Handler(fixed{full()}, slog.New(slog.DiscardHandler), unheard)
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

var write = flag.Bool("write", false, "write the table of README.md anew")

// TestReadme: README.md has the table.
func TestReadme(t *testing.T) {
	const begin, end = "<!-- begin -->\n", "<!-- end -->\n"
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for i := range families {
		f := &families[i]
		fmt.Fprintf(&b, "| `%s%s` | %s | %s | %s |\n", namespace, f.name, f.kind, strings.Join(f.labels, ", "), f.help)
	}
	old, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile("(?s)" + begin + ".*" + end)
	if !table.Match(old) {
		t.Fatalf("README.md has no place for the table: %s%s", begin, end)
	}
	now := table.ReplaceAllLiteralString(string(old), begin+b.String()+end)
	switch {
	case *write:
		if err := os.WriteFile("README.md", []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	case now != string(old):
		t.Error("the table of README.md is not that of the code: go test ./cmd/counterd/internal/observe/metrics -run TestReadme -write")
	}
}

// BenchmarkScrape is what a scrape takes, the reading of the server's figures aside: of one counter and 12 commands, and
// of 256 counters and all commands.
func BenchmarkScrape(b *testing.B) {
	for _, size := range []struct{ counters, commands int }{{1, 12}, {256, 140}} {
		f := full()
		f.Store.Usage = make([]counter.Usage, size.counters)
		for i := range f.Store.Usage {
			f.Store.Usage[i] = counter.Usage{Counter: fmt.Sprint("counter", i), HotItems: 123456789, HotBytes: 1 << 40}
		}
		f.Commands = nil
		for i := range size.commands {
			f.Commands = append(f.Commands, Command{Name: fmt.Sprint("command", i), Calls: 1 << 40, Times: buckets(25)})
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
