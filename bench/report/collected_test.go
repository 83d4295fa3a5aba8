package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// writeFile writes a file of the test's own, and returns its path.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const someMeasurements = `{"section":"Very large","name":"disk","of":"counterd","unit":"bytes a post","values":[2.13,2.14,2.1],"goal":"<= 2.2","note":"make bench-huge"}
{"section":"Very large","name":"start","of":"counterd","unit":"s","values":[12.5],"goal":"<= 10"}
{"section":"Size","name":"INCR","case":"1 M posts","of":"counterd","unit":"us","values":[0.4]}
{"section":"Size","name":"GET","case":"1 M posts","of":"counterd","unit":"us","values":[0.3]}
{"section":"Size","name":"INCR","case":"100 M <posts>","of":"counterd","unit":"us","values":[0.5,0.6,0.9]}
{"section":"Size","name":"INCR","case":"1 M posts","of":"redis 7.0.15","unit":"us","values":[1.5]}
`

func TestMeasurements(t *testing.T) {
	c, err := Collect([]string{writeFile(t, "measurements.json", someMeasurements)})
	if err != nil {
		t.Fatal(err)
	}
	var markdown bytes.Buffer
	if err := c.Markdown(&markdown); err != nil {
		t.Fatal(err)
	}
	want := `| Very large | counterd | goal |
|---|---|---|
| disk | 2.13 bytes a post ±1 % | at most 2.20 bytes a post |
| start | 12.5 s | at most 10.0 s: **missed** |

| Size | counterd | redis 7.0.15 |
|---|---|---|
| INCR, 1 M posts | 400 ns | 1.50 us |
| INCR, 100 M <posts> | 600 ns ±50 % (!) |  |
| GET, 1 M posts | 300 ns |  |
`
	if got := markdown.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	page := pageOf(t, c)
	for _, want := range []string{"1 of 2 reached", "at most 10.0 s", "100 M &lt;posts&gt;", "make bench-huge", "12.5 s"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
}

var outside = regexp.MustCompile(`(?i)(src|href|url)\s*[=(]|@import|https?://`)

// pageOf returns the page, which must need nothing beside itself.
func pageOf(t *testing.T, c *Collected) string {
	t.Helper()
	var page bytes.Buffer
	if err := c.HTML(&page); err != nil {
		t.Fatal(err)
	}
	if out := outside.FindString(page.String()); out != "" {
		t.Errorf("the page names something outside: %q", out)
	}
	if strings.Contains(page.String(), "NaN") || strings.Contains(page.String(), "ZgotmplZ") {
		t.Error("the page has a NaN, or a text that was not safe in its place")
	}
	return page.String()
}

func TestMeasurementRefused(t *testing.T) {
	for _, test := range []struct{ content, want string }{
		{"", "it is empty"},
		{"{", "no JSON"},
		{"[]", "cannot unmarshal"},
		{`{"a":1}`, "neither a measurement nor a report"},
		{`{"section":"a","values":[1]}`, "no name; no of"},
		{`{"section":"a","name":"b","of":"c","values":[]}`, "no values"},
		{`{"section":"a","name":"b","of":"c","values":[1],"goal":"2"}`, `goal "2" is neither`},
		{`{"section":"a","name":"b","of":"c","values":[1],"goal":"<= x"}`, "no number behind <="},
		{`{"version":99}`, "version 99, want 1"},
		{`{"idle_version":99}`, "version 99, want 1"},
		{`{"version":1,"servers":[],"whiles":[{"what":"bgsave","results":[{}]}]}`, `"bgsave" has results of 1 servers, want 0`},
		{`{"section":"a","name":"b","of":"c","values":[1]}` + "\nx", "value 2 is no JSON"},
	} {
		if _, err := Collect([]string{writeFile(t, "f.json", test.content)}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.content, err, test.want)
		}
	}
}

func TestGoals(t *testing.T) {
	for _, test := range []struct {
		goal     string
		value    float64
		met, has bool
	}{{"<= 2", 2, true, true}, {"<= 2", 2.1, false, true}, {">=5e6", 5e6, true, true}, {">= 5", 4, false, true}, {"", 1, false, false}} {
		f := Measurement{Goal: test.goal, Values: []float64{test.value}}
		if met, has := f.Met(); met != test.met || has != test.has {
			t.Errorf("%g for %q: met %v, has %v", test.value, test.goal, met, has)
		}
	}
}

// someWhile is a While of two servers; the second has no such thing.
func someWhile(what string) While {
	latency := func(factor int64) Latency {
		l := Latency{Count: 100_000, Max: 900_000 * factor}
		for _, p := range Percentiles {
			l.Curve = append(l.Curve, Point{p, int64(10_000+8000*p) * factor})
		}
		return l
	}
	b := Beside{How: "BGSAVE", Seconds: []float64{0.4, 0.5, 0.6}, Quiet: latency(1), Busy: latency(3), RSS: 100 << 20, PeakRSS: 102 << 20}
	for i := range 4 {
		busy := i%2 == 1
		w := Window{Busy: busy, From: float64(i), To: float64(i + 1), Ops: 1000, P50: 1000, P99: 2000, P999: 4000, Max: 9000}
		if busy {
			w.P999, w.Max = int64(5000+1000*i), 90_000_000
			b.Marks = append(b.Marks, Mark{what, w.From + 0.1, w.From + 0.6})
		}
		b.Windows = append(b.Windows, w)
		for k := range 10 {
			instant := Instant{At: float64(i) + float64(k)/10, Ops: 100, P99: 1_000_000, Max: 2_000_000}
			if busy && k < 6 {
				instant.P99, instant.Max = 4_000_000, 40_000_000
			}
			b.Timeline = append(b.Timeline, instant)
		}
	}
	b.Timeline[7].Ops = 0
	return While{What: what, Workload: "incr", Rate: 50_000, Results: []Beside{b, {None: "has no such thing"}}}
}

func whileReport() *Report {
	return &Report{Version: Version, Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Host: Host{System: "linux/amd64", CPUs: 2, Go: "go1.26"},
		Settings: Settings{Posts: 1000, Columns: 3, Clients: 50, Depth: 16},
		Servers:  []Server{{Kind: "counterd", Version: "counterd 0.1.0"}, {Kind: "redis-strings", Version: "redis 7.0.15"}},
		Whiles:   []While{someWhile("bgsave"), someWhile("demote")}}
}

func TestWhilePage(t *testing.T) {
	r := whileReport()
	other := whileReport()
	other.Servers[1] = Server{Kind: "redis-strings", Version: "valkey 8.0.1"}
	other.Whiles[0].Results[1] = other.Whiles[0].Results[0]
	page := pageOf(t, &Collected{Title: "tails", Reports: []*Report{r, other}})
	for _, want := range []string{"<h1>tails</h1>", "a snapshot is made", "ranges of posts move to files", "valkey 8.0.1", "has no such thing",
		"100 MiB, &#43;2 %", "500 ms (3 times)", "bgsave: 500 ms, from 1.10 s", "incr at 50,000 operations a second", "2.43 ms<br><b>3.00 x</b>"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	// counterd once beside each, and Valkey where it has it.
	if n := strings.Count(page, `<text class="name"`); n != 3 {
		t.Errorf("%d charts, want 3", n)
	}
}

// TestSameServers: runs of two servers of one version have parts of their own.
func TestSameServers(t *testing.T) {
	var all []*Report
	for i := range 3 {
		r := example(1)
		r.Servers[1] = r.Servers[0]
		switch i {
		case 0:
			r.Settings.VsPosts = 7
		case 1:
			r.Servers[0].Label, r.Servers[1].Label = "two loops", "one loop"
		}
		all = append(all, r)
	}
	page := pageOf(t, &Collected{Reports: all})
	name := all[2].Servers[0].name()
	for _, want := range []string{name + ", " + Int(all[0].Settings.Posts) + " posts beside " + name + ", 7 posts", name + ", two loops beside " + name + ", one loop",
		">" + name + " beside " + name + "<"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
}

func TestWhileMarkdown(t *testing.T) {
	var out bytes.Buffer
	if err := (&Collected{Reports: []*Report{whileReport()}}).Markdown(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "whiles.md", out.Bytes())
}

func TestBesideRatio(t *testing.T) {
	b := Beside{Windows: []Window{{P999: 10, Ops: 5}, {Busy: true, P999: 20, Ops: 5}, {P999: 10, Ops: 5}, {Busy: true, P999: 40, Ops: 5},
		{P999: 10, Ops: 5}, {Busy: true}, {Busy: true, P999: 99, Ops: 1}, {Ops: 3, P999: 0}, {Busy: true, P999: 99, Ops: 1}}}
	if got, want := b.Ratio(func(w Window) int64 { return w.P999 }), (Spread{3, 2, 4}); got != want {
		t.Errorf("ratio %v, want %v", got, want)
	}
	if got := (&Beside{RSS: 100, PeakRSS: 166}).Growth(); fmt.Sprintf("%.2f", got) != "0.66" {
		t.Errorf("growth %g, want 0.66", got)
	}
}
