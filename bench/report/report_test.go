package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// example returns a report of two servers; speed scales what the first one did.
func example(speed float64) *Report {
	slices := func(ops int64, user, system float64) []Slice {
		var all []Slice
		for i := range int64(3) {
			// The last slice of the tail is an outlier, to be marked.
			all = append(all, Slice{Seconds: 2, Ops: ops + i*ops/50, User: user, System: system, Client: 0.5,
				P50: 200_000 + i*1000, P99: 1_000_000 + i*10_000, P999: 1_600_000 + i*i*i*100_000})
		}
		return all
	}
	latency := func(unit time.Duration) Latency {
		l := Latency{Count: 1000, Mean: float64(2 * unit), Max: int64(90 * unit)}
		for i, percentile := range Percentiles {
			l.Curve = append(l.Curve, Point{percentile, int64(unit) * int64(i*i+1)})
		}
		return l
	}
	fast := func(ops int64) int64 { return int64(float64(ops) * speed) }
	return &Report{
		Version: Version,
		Started: time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC),
		Host:    Host{System: "linux/amd64", CPUs: 2, Processor: "Example <1>", Go: "go1.26"},
		Settings: Settings{Posts: 1_000_000, Columns: 3, Seed: 1, Page: 20, Clients: 50, Depth: 16, Mode: "sync",
			Duration: 6 * time.Second, Warmup: time.Second, Slices: 3},
		Servers: []Server{
			{Addr: "127.0.0.1:6379", Kind: "counterd", Version: "counterd 1.0", Local: true, Memory: &Memory{Bytes: 8_500_000, Posts: 1_000_000},
				Verified: &Verified{Posts: 1_000_000, Counters: 3_000_000}},
			{Addr: "10.0.0.5:6379", Kind: "redis-strings", Version: "redis 7.0.15", Memory: &Memory{Bytes: 234_000_000, Posts: 1_000_000, Flushed: true},
				Verified: &Verified{Posts: 1_000_000, Counters: 3_000_000, Wrong: 2, Examples: []string{"post 7 column 1: 5, want 6", "post 9 column 3: absent, want 1"}}},
		},
		Phases: []Phase{
			{Workload: "incr", Results: []Result{
				{Slices: slices(fast(2_000_000), 0.3, 0.2), Posts: 6_000_000, Latency: latency(20 * time.Microsecond), RSS: 30_000_000},
				{Slices: slices(1_000_000, 0.7, 0.5), Posts: 3_000_000, Latency: latency(50 * time.Microsecond), RSS: 300_000_000,
					Refused: 12, Refusal: "post 5: server: OOM"},
			}},
			{Workload: "timeline", Results: []Result{
				{Slices: slices(fast(100_000), 0.4, 0.4), Posts: 6_000_000, Absent: 3, Latency: latency(200 * time.Microsecond), RSS: 30_000_000},
				{Slices: slices(30_000, 0.7, 0.9), Posts: 1_800_000, Latency: latency(time.Millisecond), RSS: 300_000_000},
			}},
		},
	}
}

// golden compares got with a golden file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (-update writes it anew):\n%s", path, got)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := example(1).Table(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", out.Bytes())

	alone := example(1)
	alone.Servers = alone.Servers[:1]
	for i := range alone.Phases {
		alone.Phases[i].Results = alone.Phases[i].Results[:1]
		alone.Phases[i].Results[0].Slices = alone.Phases[i].Results[0].Slices[:1]
	}
	alone.Settings.Rate, alone.Settings.Uniform = 5_000_000, true
	for i := range alone.Phases {
		alone.Phases[i].Rate = alone.Settings.Rate
	}
	out.Reset()
	if err := alone.Table(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "table_alone.txt", out.Bytes())
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	if err := example(1).Write(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", out.Bytes())
	back, err := Read(filepath.Join("testdata", "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, example(1)) {
		t.Errorf("read back: %+v", back)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, content := range map[string]string{
		"no JSON": "hello", "other version": `{"version": 2}`, "other JSON": `{"a": 1}`,
		"missing result": `{"version": 1, "servers": [{}, {}], "phases": [{"workload": "incr", "results": [{}]}]}`,
	} {
		path := filepath.Join(t.TempDir(), "r.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%s: %v, want an error that names the file", name, err)
		}
	}
	if _, err := Read("nowhere.json"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestHTML(t *testing.T) {
	var out bytes.Buffer
	if err := example(1).HTML(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.html", out.Bytes())
	page := out.String()
	for _, outside := range []string{"src=", "href=", "url(", "@import", "<script "} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has %q: it must need nothing beside itself", outside)
		}
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") || strings.Contains(page, "Example <1>") {
		t.Error("the page has a NaN, an Inf or an unescaped text")
	}
	// The drawings are well-formed.
	for _, piece := range strings.Split(page, "<svg")[1:] {
		svg, _, _ := strings.Cut(piece, "</svg>")
		decoder := xml.NewDecoder(strings.NewReader("<svg" + svg + "</svg>"))
		for {
			if _, err := decoder.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("a drawing is not well-formed: %v\n%s", err, svg)
			}
		}
	}
}

// alone returns the example with its first server only.
func alone() *Report {
	r := example(1)
	r.Servers = r.Servers[:1]
	for i := range r.Phases {
		r.Phases[i].Results = r.Phases[i].Results[:1]
	}
	return r
}

// TestHTMLAlone: one server has numbers and curves, and no bars, which would compare it with nothing.
func TestHTMLAlone(t *testing.T) {
	var out bytes.Buffer
	if err := alone().HTML(&out); err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`<(div|p|section)( class="[a-z]*")?>\s*</(div|p|section)>`).FindString(out.String()); m != "" {
		t.Errorf("an empty section: %q", m)
	}
	page := out.String()
	if strings.Contains(page, "<rect") || strings.Count(page, "<svg") != 2 || !strings.Contains(page, "<b>1,020,000</b> operations per second") {
		t.Errorf("the page of one server:\n%s", page)
	}
}

// TestSizing: the page says how many machines a load takes. Memory counts where enough posts were loaded to tell what
// more would take.
func TestSizing(t *testing.T) {
	r := example(1)
	s := r.newSizing()
	if s.Workload != "timeline" || s.Memory || s.Servers[0].Machines != "1" || s.Servers[1].Machines != "7" || s.Servers[1].Limit != "processors" {
		t.Errorf("of 1,000,000 posts: %+v", s) // 52.3 us: 1e6 / (19,120 * 16 / 2) = 6.5
	}
	var out bytes.Buffer
	if err := r.HTML(&out); err != nil || strings.Contains(out.String(), "for 100 million") {
		t.Errorf("%v: 1,000,000 posts tell what 100 million take:\n%s", err, out.String())
	}
	for i := range r.Servers {
		r.Servers[i].Memory = &Memory{Bytes: int64(55_000_000 + i*2_285_000_000), Posts: 10_000_000}
	}
	s = r.newSizing() // 234 GB of 51.5 a machine
	if !s.Memory || s.Servers[0].Machines != "1" || s.Servers[1].Machines != "7" || s.Servers[1].PerPost != 234 {
		t.Errorf("of 10,000,000 posts: %+v", s)
	}
	s.Servers[1].size(demand{Ops: 1000, Posts: 1e11, CPUs: 16, GiB: 64})
	if s.Servers[1].Machines != "455" || s.Servers[1].Limit != "memory" {
		t.Errorf("of 1e11 posts: %+v", s.Servers[1])
	}
	r.Phases = r.Phases[:1]
	r.Phases[0].Rate = 1000
	if s := r.newSizing(); s != nil {
		t.Errorf("at a given rate: %+v", s)
	}
}

// TestHTMLOfLittle draws a report with hardly any results.
func TestHTMLOfLittle(t *testing.T) {
	for name, r := range map[string]*Report{
		"nothing": {Servers: []Server{{}}},
		"zeros":   {Servers: []Server{{Memory: &Memory{}}}, Phases: []Phase{{Workload: "x", Results: []Result{{Slices: []Slice{{}}}}}}},
		"shrunk":  {Servers: []Server{{Memory: &Memory{Bytes: -5, Posts: 1}}}},
	} {
		var out bytes.Buffer
		if err := r.HTML(&out); err != nil || strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

func TestCompare(t *testing.T) {
	after := example(1.2)
	after.Settings.Depth = 64
	after.Servers[0].Memory.Bytes = 8_000_000
	var out bytes.Buffer
	if err := Compare(&out, example(1), after); err != nil {
		t.Fatal(err)
	}
	golden(t, "compare.txt", out.Bytes())

	after.Phases = nil
	if err := Compare(&out, example(1), after); !errors.Is(err, ErrNothingInCommon) {
		t.Errorf("nothing in common: %v", err)
	}
}

func TestSpread(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{4, 1}, Spread{2.5, 1, 4}},
		{[]float64{9, 1, 2}, Spread{2, 1, 9}},
	} {
		if got := SpreadOf(test.values); got != test.want {
			t.Errorf("%v: %v, want %v", test.values, got, test.want)
		}
	}
	if got := (Spread{10, 9, 12}).Percent(); got != 20 {
		t.Errorf("%g %%, want 20", got)
	}
}

// TestRatio checks that slices are compared pair by pair: a machine that slows down hits both sides of a pair.
func TestRatio(t *testing.T) {
	slice := func(ops int64) Slice { return Slice{Seconds: 1, Ops: ops} }
	p := Phase{Results: []Result{
		{Slices: []Slice{slice(100), slice(50), slice(0)}},
		{Slices: []Slice{slice(50), slice(25), slice(25)}},
	}}
	if got := p.Ratio(Slice.Throughput); got != (Spread{2, 2, 2}) {
		t.Errorf("%v, want 2", got)
	}
	p.Results = p.Results[:1]
	if got := p.Ratio(Slice.Throughput); got != (Spread{}) {
		t.Errorf("of one server: %v", got)
	}
}

func TestFormat(t *testing.T) {
	for got, want := range map[string]string{
		Int(0): "0", Int(999): "999", Int(1000): "1,000", Int(-1234567): "-1,234,567", Int(uint64(12)): "12",
		Rate(8.416): "8.42", Rate(1234567.6): "1,234,568",
		Significant(0): "0", Significant(0.01234): "0.0123", Significant(0.1234): "0.123", Significant(1.234): "1.23", Significant(-12.34): "-12.3", Significant(1234): "1234",
		Bytes(812): "812 B", Bytes(1536): "1.50 KiB", Bytes(3 << 40): "3.00 TiB", Bytes(5 << 50): "5120 TiB",
		Duration(730): "730 ns", Duration(8420): "8.42 us", Duration(1200 * time.Microsecond): "1.20 ms", Duration(3 * time.Second): "3.00 s",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
