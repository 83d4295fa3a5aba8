package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/bench/postgen"
	"github.com/counterd/counterd/bench/report"
	"github.com/counterd/counterd/internal/testkit/benchtest"
	"github.com/counterd/counterd/internal/wire"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small returns the Config of a short run.
func small(t *testing.T, targets ...Target) Config {
	t.Helper()
	trace, err := postgen.NewTrace([]uint64{3_600_000_000_000_005, 3_600_000_000_000_001, 3_600_000_000_000_005})
	if err != nil {
		t.Fatal(err)
	}
	return Config{Targets: targets, Workloads: []string{"load", "incr", "get", "timeline", "mixed", "cold", "firehose", "replay"},
		Posts: 3000, Seed: 1, Page: 20, Trace: trace, Clients: 4, Depth: 8, Mode: Sync, Duration: 40 * time.Millisecond,
		Warmup: 5 * time.Millisecond, Slices: 2, Verify: true}
}

// TestRun runs all workloads on a counterd in turns with each other kind, in both modes and open, and verifies both.
func TestRun(t *testing.T) {
	kinds := Kinds()
	if testing.Short() { // under the race detector: one in each mode
		kinds = kinds[:2]
	}
	for i, kind := range kinds {
		mode, rate := Sync, 0.0
		if i%2 == 1 {
			mode = Async
		}
		if i == 4 {
			rate = 20_000
		}
		t.Run(fmt.Sprintf("%s/%s/rate=%g", kind, mode, rate), func(t *testing.T) {
			a, b := benchtest.Start(t, true), benchtest.Start(t, kind == Counterd)
			config := small(t, Target{Addr: a.Addr}, Target{Addr: b.Addr, Kind: kind})
			config.Mode, config.Rate = mode, rate
			steps := 0
			config.Progress = func(step, of int, what string) {
				if step != steps || step >= of || what == "" {
					t.Errorf("step %d of %d %q, want step %d", step, of, what, steps)
				}
				steps++
			}
			result, err := Run(context.Background(), config)
			if err != nil {
				t.Fatal(err)
			}
			checkReport(t, result, config)
		})
	}
}

func checkReport(t *testing.T, r *report.Report, config Config) {
	t.Helper()
	if len(r.Servers) != len(config.Targets) || len(r.Phases) != len(config.Workloads) {
		t.Fatalf("%d servers and %d phases, want %d and %d", len(r.Servers), len(r.Phases), len(config.Targets), len(config.Workloads))
	}
	for _, phase := range r.Phases {
		for _, result := range phase.Results {
			if result.Absent > 0 {
				t.Errorf("%s: %d of %d posts read were not there", phase.Workload, result.Absent, result.Posts)
			}
		}
	}
	for _, server := range r.Servers {
		v := server.Verified
		if v == nil || v.Wrong != 0 || v.Posts < config.Posts || v.Counters != 3*v.Posts {
			t.Errorf("%s: verified %+v", server.Kind, v)
		}
		if server.Memory == nil || server.Memory.Posts != config.Posts || !server.Local {
			t.Errorf("%s: memory %+v, local %v", server.Kind, server.Memory, server.Local)
		}
	}
	for i, phase := range r.Phases {
		if phase.Workload != config.Workloads[i] {
			t.Errorf("phase %d is %s, want %s", i, phase.Workload, config.Workloads[i])
		}
		for k, result := range phase.Results {
			want, ops := config.Slices, int64(0)
			if phase.Workload == "load" {
				want = 1
			}
			for _, slice := range result.Slices {
				ops += slice.Ops
			}
			if len(result.Slices) != want || ops == 0 || result.Latency.Count != ops || result.Refused != 0 {
				t.Errorf("%s of %s: %d slices with %d operations, %d latencies, %d refused (%s)", phase.Workload, r.Servers[k].Kind,
					len(result.Slices), ops, result.Latency.Count, result.Refused, result.Refusal)
			}
			if phase.Workload == "timeline" && (result.Posts != 20*ops || result.Absent != 0) {
				t.Errorf("timeline: %d posts of %d pages, %d absent", result.Posts, ops, result.Absent)
			}
			if !slices.IsSortedFunc(result.Latency.Curve, func(a, b report.Point) int { return int(a.Nanos - b.Nanos) }) {
				t.Errorf("%s: latencies %v", phase.Workload, result.Latency.Curve)
			}
		}
	}
}

// TestVerifyFinds changes counters behind the back of a run, which must find each.
func TestVerifyFinds(t *testing.T) {
	server := benchtest.Start(t, true)
	config := small(t, Target{Addr: server.Addr})
	config.Workloads = []string{"load", "incr"}
	posts, err := postgen.GeneratePosts(config.Posts, config.Seed)
	if err != nil {
		t.Fatal(err)
	}
	done := false
	config.Progress = func(_, _ int, what string) {
		if strings.HasPrefix(what, "verify") {
			server.Add(posts.MID(5), 2, 1)    // one too many
			server.Add(posts.MID(2999), 0, 3) // three
			done = true
		}
	}
	result, err := Run(context.Background(), config)
	if err != nil || !done {
		t.Fatal(err)
	}
	v := result.Servers[0].Verified
	if v.Wrong != 2 || len(v.Examples) != 2 || !strings.HasPrefix(v.Examples[0], fmt.Sprintf("post %d column 3: ", posts.MID(5))) {
		t.Errorf("verified %+v, want 2 wrong", v)
	}
}

// TestVerifyFindsLost has the server say that it incremented, and not do so.
func TestVerifyFindsLost(t *testing.T) {
	server := benchtest.Start(t, true)
	config := small(t, Target{Addr: server.Addr})
	config.Workloads = []string{"load", "incr"}
	var lost atomic.Int64
	server.Lose = func(command string) bool {
		if command == "incr" && lost.Load() < 3 {
			return lost.Add(1) <= 3
		}
		return false
	}
	result, err := Run(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	// Three increments may hit one counter.
	if v := result.Servers[0].Verified; v.Wrong < 1 || v.Wrong > 3 {
		t.Errorf("verified %+v, want 1 to 3 wrong", v)
	}
}

// TestExpectationInPasses checks that the expected values of some posts do not depend on how many posts are checked at
// once.
func TestExpectationInPasses(t *testing.T) {
	data := testData(t, 500)
	var history []played
	for _, name := range []string{"load", "incr", "mixed", "firehose"} {
		history = append(history, played{workload: testWorkload(t, name, data), ops: []int64{900, 700, 0, 801}})
	}
	history[1].refused = map[cell]int{{post: 450, col: 1}: 1}
	const posts = 4000
	whole := newExpectation(history, 3, 0, posts)
	var added []uint32
	var set []bool
	for from := 0; from < posts; from += 333 {
		pass := newExpectation(history, 3, from, min(from+333, posts))
		added, set = append(added, pass.added...), append(set, pass.set...)
	}
	if !slices.Equal(added, whole.added) || !slices.Equal(set, whole.set) {
		t.Error("passes differ from the whole")
	}
	sum := uint32(0)
	for _, n := range whole.added {
		sum += n
	}
	if sum < 2400 { // 2401 increments of incr, one refused, and a few of mixed
		t.Errorf("%d increments, want over 2400", sum)
	}
}

// TestRefusals checks that operations refused are counted, and not expected to have been done.
func TestRefusals(t *testing.T) {
	server := benchtest.Start(t, true)
	config := small(t, Target{Addr: server.Addr})
	config.Workloads = []string{"load", "incr"}
	var incrs, refused atomic.Int64
	server.Before = func(command string) error {
		if command == "incr" && incrs.Add(1)%10 == 0 {
			refused.Add(1)
			return errors.New("MISCONF the log cannot be written")
		}
		return nil
	}
	result, err := Run(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	incr := result.Phases[1].Results[0]
	if incr.Refused == 0 || incr.Refused > refused.Load() || !strings.Contains(incr.Refusal, "MISCONF") {
		t.Errorf("%d refused (%s), want most of %d", incr.Refused, incr.Refusal, refused.Load())
	}
	if v := result.Servers[0].Verified; v.Wrong != 0 {
		t.Errorf("verified %+v", v)
	}
}

// TestLoadWantsEmpty checks that a load neither mixes with a server's data nor removes it unasked.
func TestLoadWantsEmpty(t *testing.T) {
	_, conn, model := startKind(t, RedisStrings)
	conn.Out = model.AppendRow(conn.Out, 1, []uint64{1, 2, 3})
	conn.Flush()
	if err := model.ReadRow(&conn.Reader); err != nil {
		t.Fatal(err)
	}
	config := small(t, Target{Addr: conn.RemoteAddr()})
	if _, err := Run(context.Background(), config); err == nil || !strings.Contains(err.Error(), "holds 3 keys") {
		t.Errorf("on a server that is not empty: %v", err)
	}
	config.Flush = true
	result, err := Run(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	if !result.Servers[0].Memory.Flushed {
		t.Error("the report does not say that the server was flushed")
	}
	checkReport(t, result, config)
}

func TestRunCancelled(t *testing.T) {
	server := benchtest.Start(t, true)
	ctx, cancel := context.WithCancel(context.Background())
	config := small(t, Target{Addr: server.Addr})
	config.Duration = time.Hour
	config.Progress = func(_, _ int, what string) {
		if strings.HasPrefix(what, "incr: slice") {
			time.AfterFunc(10*time.Millisecond, cancel)
		}
	}
	if _, err := Run(ctx, config); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

// TestServerGone ends the server amid a run.
func TestServerGone(t *testing.T) {
	for _, rate := range []float64{0, 5000} {
		server := &benchtest.Server{Counterd: true}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		stop := server.Serve(l)
		config := small(t, Target{Addr: l.Addr().String()})
		config.Duration, config.Rate = time.Hour, rate
		stopped := make(chan struct{})
		config.Progress = func(_, _ int, what string) {
			if strings.HasPrefix(what, "incr: slice") {
				time.AfterFunc(10*time.Millisecond, func() { stop(); close(stopped) })
			}
		}
		if _, err := Run(context.Background(), config); err == nil || !strings.HasPrefix(err.Error(), "incr: "+l.Addr().String()) {
			t.Errorf("rate %g: error %v, want one that names workload and server", rate, err)
		}
		<-stopped
	}
}

func TestValidate(t *testing.T) {
	good := small(t, Target{Addr: "x:1"})
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no servers":   func(c *Config) { c.Targets = nil },
		"three":        func(c *Config) { c.Targets = make([]Target, 3) },
		"no workloads": func(c *Config) { c.Workloads = nil },
		"unknown":      func(c *Config) { c.Workloads = []string{"nothing"} },
		"load late":    func(c *Config) { c.Workloads = []string{"incr", "load"} },
		"load twice":   func(c *Config) { c.Workloads = []string{"load", "load"} },
		"no trace":     func(c *Config) { c.Trace = nil },
		"no posts":     func(c *Config) { c.Posts = 0 },
		"no page":      func(c *Config) { c.Page = 0 },
		"no clients":   func(c *Config) { c.Clients = 0 },
		"no depth":     func(c *Config) { c.Depth = 0 },
		"deep pages":   func(c *Config) { c.Depth, c.Page = 10000, 100 },
		"no mode":      func(c *Config) { c.Mode = "" },
		"rate":         func(c *Config) { c.Rate = -1 },
		"slices":       func(c *Config) { c.Slices = 0 },
		"duration":     func(c *Config) { c.Duration = 0 },
		"warm-up":      func(c *Config) { c.Warmup = -1 },
		"rest":         func(c *Config) { c.Rest = -1 },
		"verify":       func(c *Config) { c.Workloads = []string{"incr"} },
	} {
		bad := small(t, Target{Addr: "x:1"})
		spoil(&bad)
		if err := bad.Validate(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestCoordinatedOmission stalls the server once for a quarter of a second. A closed run sees one slow answer a client;
// an open one sees all that users would have waited for.
func TestCoordinatedOmission(t *testing.T) {
	const stall, rate, clients = 250 * time.Millisecond, 2000, 4
	slow := func(rate float64) (slow, all int64) {
		server := benchtest.Start(t, true)
		var incrs atomic.Int64
		server.Before = func(command string) error {
			if command == "incr" && incrs.Add(1) == 500 {
				server.Stall(stall)
			}
			return nil
		}
		config := small(t, Target{Addr: server.Addr})
		config.Workloads, config.Verify, config.Slices, config.Warmup = []string{"incr"}, false, 1, 0
		config.Clients, config.Depth, config.Rate, config.Duration = clients, 1, rate, 700*time.Millisecond
		s, err := newSide(context.Background(), config.Targets[0], &config, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer s.conn.Close()
		w := testWorkload(t, "incr", testData(t, 100))
		if err := s.begin(context.Background(), w, &config); err != nil {
			t.Fatal(err)
		}
		if err := s.slice(context.Background(), config.Duration, true); err != nil {
			t.Fatal(err)
		}
		hist := s.latency
		for _, bar := range hist.Distribution() {
			all += bar.Count
			if bar.From > int64(stall)/5 {
				slow += bar.Count
			}
		}
		s.end()
		return slow, all
	}
	// 0.2 s of 2000 a second are 400; half of them would be plenty.
	if slow, all := slow(rate); slow < 200 {
		t.Errorf("open: %d of %d operations took over a fifth of the stall, want about 400", slow, all)
	}
	// A machine that stalls by itself may add a few.
	if slow, all := slow(0); slow > 20*clients {
		t.Errorf("closed: %d of %d operations took over a fifth of the stall, want about %d", slow, all, clients)
	}
}

// TestClientAllocatesNothing drives a server that is a constant reply.
func TestClientAllocatesNothing(t *testing.T) {
	data := testData(t, 1000)
	for name, reply := range map[string]string{
		"incr":     ":123\r\n",
		"timeline": "*20\r\n" + strings.Repeat("*3\r\n:1\r\n:0\r\n:345\r\n", 20),
		"firehose": ":3\r\n",
	} {
		model, err := NewModel(Counterd, WeiboSchema())
		if err != nil {
			t.Fatal(err)
		}
		conn := wire.NewConn(&constantConn{reply: reply}, wire.StartSize)
		c := newClient(conn, model, testWorkload(t, name, data), 0, 1, 3, 16, &recorder{hist: newHistogram()})
		step := func() {
			now := clock()
			for range c.depth {
				c.send(now)
			}
			if err := conn.Flush(); err != nil {
				t.Fatal(err)
			}
			for c.tail < c.head {
				if err := c.receiveNext(); err != nil {
					t.Fatal(err)
				}
			}
		}
		step()
		if n := testing.AllocsPerRun(100, step); n != 0 {
			t.Errorf("%s: %v allocations for %d operations, want 0", name, n, c.depth)
		}
	}
}

// constantConn is a connection that answers everything alike.
type constantConn struct {
	net.Conn
	reply string
	at    int
}

func (c *constantConn) Write(b []byte) (int, error) { return len(b), nil }
func (c *constantConn) Read(b []byte) (int, error) {
	n := copy(b, c.reply[c.at:])
	c.at = (c.at + n) % len(c.reply)
	return n, nil
}

// BenchmarkClient measures what the generator itself takes for an operation.
func BenchmarkClient(b *testing.B) {
	data := testData(b, 1_000_000)
	for name, reply := range map[string]string{"incr": ":123\r\n", "timeline": "*20\r\n" + strings.Repeat("*3\r\n:1\r\n:0\r\n:345\r\n", 20)} {
		b.Run("workload="+name, func(b *testing.B) {
			model, err := NewModel(Counterd, WeiboSchema())
			if err != nil {
				b.Fatal(err)
			}
			conn := wire.NewConn(&constantConn{reply: strings.Repeat(reply, 10)}, wire.StartSize)
			c := newClient(conn, model, testWorkload(b, name, data), 0, 1, 3, 64, &recorder{hist: newHistogram()})
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += c.depth {
				now := clock()
				for range c.depth {
					c.send(now)
				}
				conn.Flush()
				for c.tail < c.head {
					if err := c.receiveNext(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
