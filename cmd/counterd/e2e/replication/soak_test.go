package replication

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/freeport"
)

var soakTime = flag.Duration("soak", 4*time.Second, "time under load of TestSoak; from soakJudged on, the growth of memory is judged")

// soakJudged is the shortest time in which a growth of memory shows. Caches, the log's buffers and the windows of producers fill up in
// the first minutes, which are left out.
const (
	soakJudged = 20 * time.Minute
	soakGrowth = 1 << 20 // bytes of memory per hour
)

// soaked is a primary and its replica in a soak.
type soaked struct {
	t       *testing.T
	primary *harness.Server
	replica *harness.Server
	metrics string // address of the primary's HTTP
	place   string // of backups
	port    int    // of the replica
	load    *load
	pause   time.Duration // between chores, at most
}

// TestSoak keeps a primary and its replica at half load for -soak, while everything goes on that an operator does. Every reply is
// checked; at each rest the sums over all posts are exact on both nodes, and the primary's memory, open files and goroutines are
// measured. A long soak (make proof) fails if memory grows by more than 1 MiB an hour.
func TestSoak(t *testing.T) {
	if *soakTime < time.Minute {
		t.Parallel()
	}
	r, _ := harness.Random(t)
	s := startSoak(t, r.Uint64(), min(*soakTime/20, time.Second))
	perSecond, err := s.load.halfLoad(min(*soakTime/10, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	ch := &chores{soaked: s, rng: rand.New(rand.NewPCG(r.Uint64(), 1)), done: map[string]int{}}
	var memory, files, routines []reading
	began, sent := time.Now(), s.load.sent.Load()
	for rest := min(*soakTime/4, 20*time.Second); time.Since(began) < *soakTime; {
		s.work(ch, rest)
		at := time.Since(began)
		memory = append(memory, reading{at, float64(s.primary.Status("RssAnon"))})
		files = append(files, reading{at, float64(s.primary.OpenFiles())})
		routines = append(routines, reading{at, s.goroutines()})
	}
	if len(ch.done) < 3 {
		t.Errorf("%d kinds of chores were done, want more", len(ch.done))
	}
	for name, readings := range map[string][]reading{"bytes of memory": memory, "open files": files, "goroutines": routines} {
		later := readings[len(readings)/3:]
		median, least := slope(later)
		t.Logf("%s: %.0f at first, %.0f at last, %+.1f an hour (at least %+.1f, %d readings)", name, later[0].size, later[len(later)-1].size, median, least, len(later))
		limit := 3.0 // files and goroutines come and go by a few
		if name == "bytes of memory" {
			limit = soakGrowth
		}
		if *soakTime >= soakJudged && least > limit {
			t.Errorf("%s grow by %.1f an hour, at least %.1f, want at most %.0f", name, median, least, limit)
		}
	}
	t.Logf("%d changes in %v, %d a second were half load; chores: %v", s.load.sent.Load()-sent, time.Since(began).Round(time.Second), perSecond, ch.done)
}

func startSoak(t *testing.T, seed uint64, pause time.Duration) *soaked {
	port := freeport.Take(t)
	s := &soaked{t: t, metrics: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), place: t.TempDir(), port: freeport.Take(t), pause: pause}
	s.primary = harness.Start(t, "--metrics-addr", s.metrics, "--auto-aof-rewrite-min-size", "1mb", "--aof-retain", "32mb")
	c := s.primary.Dial(t)
	defer c.Close()
	harness.RunScript(t, c, harness.SchemaScript+harness.PlainScript)
	s.replica = &harness.Server{Dir: t.TempDir()}
	s.startReplica()
	s.load = newLoad(s.primary, 4, seed)
	return s
}

// startReplica starts the replica in its directory.
func (s *soaked) startReplica() {
	s.replica = harness.StartAt(s.t, s.port, s.replica.Dir, "--replicaof", fmt.Sprintf("127.0.0.1 %d", s.primary.Port), "--auto-aof-rewrite-min-size", "1mb", "--aof-retain", "32mb")
}

// work loads the primary for a while beside chores, and compares both nodes with the sums of all acknowledged changes.
func (s *soaked) work(ch *chores, during time.Duration) {
	s.t.Helper()
	stop, failed := make(chan struct{}), make(chan error, 1)
	end := s.load.begin()
	go func() { failed <- ch.run(stop) }()
	time.Sleep(during)
	close(stop)
	err, chore := end(), <-failed
	if err != nil || chore != nil {
		s.t.Fatalf("load: %v; chores: %v", err, chore)
	}
	c := s.primary.Dial(s.t)
	defer c.Close()
	harness.Eventually(s.t, 2*time.Minute, "the replica has everything", func() bool {
		v, err := c.TryDo("WAIT", "1", "1000")
		return err == nil && v.N >= 1
	})
	want := s.load.sums()
	for _, node := range []*harness.Server{s.primary, s.replica} {
		c := node.Dial(s.t)
		for k, column := range []string{"comment", "repost", "attitude"} {
			if v := c.Do("COUNTER.SUM", "weibo", column); v.Raw != fmt.Sprintf(":%d\r\n", want[k]) {
				s.t.Errorf("port %d: the sum of %s is %q, want %d", node.Port, column, v.Raw, want[k])
			}
		}
		c.Close()
	}
	if s.t.Failed() {
		s.t.FailNow()
	}
}

// goroutines reads how many goroutines the primary has.
func (s *soaked) goroutines() float64 {
	s.t.Helper()
	page, err := s.scrape()
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(page) {
		if n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimPrefix(line, "go_goroutines ")), 64); err == nil {
			return n
		}
	}
	s.t.Fatal("/metrics has no go_goroutines")
	return 0
}

// scrape reads /metrics of the primary.
func (s *soaked) scrape() (page string, err error) {
	client := http.Client{Timeout: harness.IoTimeout}
	defer client.CloseIdleConnections()
	reply, err := client.Get("http://" + s.metrics + "/metrics")
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	return string(text), err
}
