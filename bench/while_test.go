package bench

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/bench/report"
	"github.com/counterd/counterd/internal/testkit/benchtest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/internal/wire"
)

// TestStallCounted has a server stand still for 50 ms, on a fake clock: each operation that was due meanwhile counts
// from then, whether or not it could be sent, and belongs to what happened then.
func TestStallCounted(t *testing.T) {
	const (
		interval = time.Millisecond
		from, to = 100 * interval, 150 * interval
		all      = 400 * interval
	)
	data := testData(t, 1000)
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		began := clock()
		go func() {
			defer theirs.Close()
			commands := bufio.NewReader(theirs)
			for line := 1; ; line++ {
				if _, err := commands.ReadString('\n'); err != nil {
					return
				}
				if now := clock() - began; now >= from && now < to {
					time.Sleep(to - now)
				}
				if line%5 == 0 { // *2 $4 INCR $n key
					if _, err := io.WriteString(theirs, ":1\r\n"); err != nil {
						return
					}
				}
			}
		}()
		model, err := NewModel(Counterd, WeiboSchema())
		if err != nil {
			t.Fatal(err)
		}
		c := newClient(wire.NewConn(ours, 4096), model, testWorkload(t, "incr", data), 0, 1, 3, 16, newRecorders(1)[0])
		c.samples, c.due = &samples{}, began
		if err := c.runOpen(interval, finishAt(began+all)); err != nil {
			t.Fatal(err)
		}
		c.conn.Close()
		taken := c.samples.take()
		if len(taken) != int(all/interval) {
			t.Fatalf("%d operations, want %d", len(taken), all/interval)
		}
		for i, s := range taken {
			due := time.Duration(i) * interval
			want := time.Duration(0)
			if due >= from && due < to {
				want = to - due
			}
			if s.due-began != due || s.latency != want {
				t.Errorf("operation %d was due at %s and took %s, want %s and %s", i, s.due-began, s.latency, due, want)
			}
		}

		var result report.Beside
		times := newTimeline(&result)
		times.add(false, began, began+from, taken, nil)
		times.add(true, began+from, began+all, taken, spans{{"stall", began + from, began + to}})
		times.end()
		if q, b := result.Quiet, result.Busy; q.Count != 100 || q.Max > int64(time.Microsecond) || b.Count != 50 || b.At(100).Round(time.Millisecond) != 50*time.Millisecond {
			t.Errorf("quiet %d, %s; busy %d, %s", q.Count, time.Duration(q.Max), b.Count, b.At(100))
		}
		if got := len(result.Timeline); got != 4 || result.Timeline[1].Max != int64(50*time.Millisecond) || result.Timeline[2].Max != 0 || result.Timeline[1].Ops != 100 {
			t.Errorf("timeline %+v", result.Timeline)
		}
		if m := result.Marks; len(m) != 1 || m[0].From != 0.1 || m[0].To != 0.15 {
			t.Errorf("marks %+v", m)
		}
	})
}

// TestTimelineModel compares windows of random samples and marks with a plain count.
func TestTimelineModel(t *testing.T) {
	racetest.Skip(t, "one goroutine runs a model")
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 200 {
		from := time.Duration(random.IntN(1000)) * time.Millisecond
		to := from + time.Duration(1+random.IntN(700))*time.Millisecond
		var marks spans
		for at := from - 50*time.Millisecond; at < to; {
			s := span{from: at + time.Duration(random.IntN(100))*time.Millisecond}
			s.to = s.from + time.Duration(random.IntN(100))*time.Millisecond
			marks, at = append(marks, s), s.to
		}
		var all []sample
		within, during := 0, 0
		for range random.IntN(500) {
			s := sample{due: time.Duration(random.IntN(2000)) * time.Millisecond, latency: time.Duration(1+random.IntN(1000)) * time.Microsecond}
			all = append(all, s)
			if s.due < from || s.due >= to {
				continue
			}
			within++
			for _, m := range marks {
				if s.due >= m.from && s.due < m.to {
					during++
				}
			}
		}
		var result report.Beside
		times := newTimeline(&result)
		times.add(true, from, to, all, marks)
		times.add(false, from, to, all, marks)
		times.end()
		shown := int64(0)
		for _, i := range result.Timeline {
			shown += i.Ops
		}
		if result.Busy.Count != int64(during) || result.Quiet.Count != int64(within-during) || shown != int64(2*within) {
			t.Fatalf("seed %d, round %d: %d busy, %d quiet, %d shown; want %d, %d, %d", seed, round, result.Busy.Count, result.Quiet.Count, shown,
				during, within-during, 2*within)
		}
		if w := result.Windows; len(w) != 2 || w[1].From < w[0].To || w[0].Ops != int64(during) {
			t.Fatalf("seed %d, round %d: windows %+v", seed, round, w)
		}
	}
}

// TestWhile measures beside a snapshot for which the servers stand still, and beside floods.
func TestWhile(t *testing.T) {
	const stall = 60 * time.Millisecond
	a, b := benchtest.Start(t, true), benchtest.Start(t, false)
	for _, s := range []*benchtest.Server{a, b} {
		s.Save = func() { s.Stall(stall) }
	}
	config := small(t, Target{Addr: a.Addr}, Target{Addr: b.Addr})
	config.Workloads, config.Verify = []string{"load", "incr"}, false
	config.While, config.Flood, config.FloodDepth = []string{"bgsave", "scrub", "check"}, []int{2}, 10
	config.leadIn = 10 * time.Millisecond
	config.Rate, config.Duration, config.Slices = 2000, 80*time.Millisecond, 2
	r, err := Run(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Whiles) != 4 || len(r.Phases) != 1 {
		t.Fatalf("%d whiles and %d phases, want 4 and 1", len(r.Whiles), len(r.Phases))
	}
	for _, b := range r.Whiles[0].Results {
		if b.None != "" || len(b.Windows) != 4 || len(b.Seconds) < 2 || b.Quiet.Count == 0 || b.Busy.Count == 0 || b.Refused != 0 {
			t.Errorf("%+v", b)
		}
		// The operations that were due when it began waited until it was over.
		if b.Busy.Max < int64(stall*9/10) {
			t.Errorf("the slowest took %s beside a stall of %s", time.Duration(b.Busy.Max), stall)
		}
		for _, s := range b.Seconds {
			if s < stall.Seconds() {
				t.Errorf("it took %g s, want %s at least", s, stall)
			}
		}
		if b.RSS <= 0 || b.PeakRSS < b.RSS || b.Forked != 1<<20 {
			t.Errorf("resident %d, at most %d, forked %d", b.RSS, b.PeakRSS, b.Forked)
		}
	}
	for _, w := range r.Whiles[1:3] {
		for i, b := range w.Results {
			if b.None == "" {
				t.Errorf("%s of server %d: measured, and there is none", w.What, i)
			}
		}
	}
	flood := r.Whiles[3]
	if flood.What != "flood" || flood.Case != "2 connections, 10 deep" || flood.Rate != politeRate {
		t.Errorf("%+v", flood)
	}
	for _, b := range flood.Results {
		if b.Forked != 0 {
			t.Errorf("%d bytes of a process forked, and none was: those are of the snapshot before", b.Forked)
		}
		if b.Work <= 0 || b.Quiet.Count == 0 || b.Busy.Count == 0 {
			t.Errorf("%+v", b)
		}
	}
	var text strings.Builder
	if err := r.Table(&text); err != nil || !strings.Contains(text.String(), "bgsave, incr at 2,000/s") || !strings.Contains(text.String(), "has no such thing") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// TestWhileFails has the snapshot refused: the run ends with what the server said.
func TestWhileFails(t *testing.T) {
	s := benchtest.Start(t, true)
	s.Before = func(command string) error {
		if command == "bgsave" {
			return &wire.ServerError{Text: "MISCONF disk on fire"}
		}
		return nil
	}
	config := small(t, Target{Addr: s.Addr})
	config.Workloads, config.Verify, config.While, config.Rate = []string{"load", "get"}, false, []string{"bgsave"}, 1000
	if _, err := Run(context.Background(), config); err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("%v, want what the server said", err)
	}
}

func TestWhileRefused(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.While = []string{"nothing"} },
		func(c *Config) { c.Heavy = []string{"nothing"} },
		func(c *Config) { c.Flood, c.FloodDepth = []int{0}, 1 },
		func(c *Config) { c.Flood, c.FloodDepth = []int{1}, 0 },
		func(c *Config) { c.While, c.Verify = []string{"bgsave"}, true },
	} {
		config := small(t, Target{Addr: "127.0.0.1:1"})
		config.Verify = false
		change(&config)
		if err := config.Validate(); err == nil {
			t.Errorf("%v %v %v: no error", config.While, config.Heavy, config.Flood)
		}
	}
}

// TestRunLoad tells the process of a load what it does not know.
func TestRunLoad(t *testing.T) {
	server := benchtest.Start(t, true)
	for _, test := range []struct{ in, want string }{
		{"", ""},
		{"x\n", "failed the load to make: "},
		{`{"Target":{"Kind":"nothing"},"Schema":{"Columns":[{}]}}` + "\n", "failed no kind of server"},
		{`{"Copy":true,"Target":{"Kind":"redis-strings","Addr":"` + server.Addr + `"},"Schema":{"Columns":[{}]}}` + "\nnow\n", "ready\nfailed told \"now\", want go\n"},
		{`{"Copy":true,"Target":{"Kind":"redis-strings","Addr":"` + server.Addr + `"},"Schema":{"Columns":[{}]}}` + "\ngo\n", "ready\nbegan\nfailed full copy: "},
	} {
		var out strings.Builder
		err := RunLoad(context.Background(), strings.NewReader(test.in), &out)
		if !strings.HasPrefix(out.String(), test.want) || (err == nil) != !strings.Contains(test.want, "failed") {
			t.Errorf("%s: %v, said %q, want %q", test.in, err, out.String(), test.want)
		}
	}
}

// TestRedisCopy takes full copies of both forms that Redis has, in pieces of all sizes.
func TestRedisCopy(t *testing.T) {
	const mark = "0123456789abcdefghijklmnopqrstuvwxyzABCD"
	for _, test := range []struct {
		reply string
		bytes int64
	}{
		{"$10\r\n0123456789", 10},
		{"$EOF:" + mark + "\r\n" + strings.Repeat("x", 1000) + mark, 1040},
		{"$EOF:" + mark + "\r\n" + mark[1:] + mark, 79},
	} {
		for _, piece := range []int{1, 7, 39, 40, 41, 2000} {
			ours, theirs := net.Pipe()
			go func() {
				commands := bufio.NewReader(theirs)
				for range 13 { // REPLCONF with 6 arguments
					commands.ReadString('\n')
				}
				commands.ReadString('\n')
				commands.ReadString('\n')
				io.WriteString(theirs, "+OK\r\n")
				for range 7 {
					commands.ReadString('\n')
				}
				io.WriteString(theirs, "+FULLRESYNC x 1\r\n\n\n")
				for rest := test.reply; rest != ""; rest = rest[min(piece, len(rest)):] {
					io.WriteString(theirs, rest[:min(piece, len(rest))])
				}
			}()
			c := &copier{conn: wire.NewConn(ours, 64), buf: make([]byte, 128)}
			if err := c.redis(); err != nil || c.bytes != test.bytes {
				t.Errorf("%.20q in pieces of %d: %v, %d bytes, want %d", test.reply, piece, err, c.bytes, test.bytes)
			}
			c.conn.Close()
			theirs.Close()
		}
	}
}

func TestCheckWork(t *testing.T) {
	dir := t.TempDir()
	program := dir + "/counterctl"
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$@\" >>"+dir+"/said\n[ \"$3\" != /bad ]\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	marked := 0
	mark := func(string) func() { return func() { marked++ } }
	w := &checkWork{program: program, dir: "/data"}
	if err := w.do(context.Background(), 0, mark); err != nil {
		t.Error(err)
	}
	w.dir = "/bad"
	if err := w.do(context.Background(), 0, mark); err == nil {
		t.Error("a check that found damage is no error")
	}
	if said, err := os.ReadFile(dir + "/said"); err != nil || string(said) != "check --quiet /data\ncheck --quiet /bad\n" || marked != 2 {
		t.Errorf("it was run as %q, marked %d times (%v)", said, marked, err)
	}
}
