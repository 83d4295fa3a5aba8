package role

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// endSearch makes a search of a primary whose log ended orderly, or not, and which remembers a replica at a port. It returns the end of the log.
func endSearch(t *testing.T, orderly bool, port int, change func(*config.Config)) (s *helpSearch, term format.ReplID, end int) {
	t.Helper()
	n := newTestRole(t, func(c *config.Config) {
		c.Dir = t.TempDir()
		if change != nil {
			change(c)
		}
	})
	s = newHelpSearch(n)
	dir := s.conf.Dir
	log, _, err := persist.OpenLog(persist.LogOptions{FS: vfs.OS(), Dir: dir, Create: true, Policy: persist.SyncAlways}, 0, func(uint64, *format.Record) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	term = log.History().ReplID
	err = errors.Join(log.Commit(log.AppendSet(1, 1, 1, 1)), log.Close(), logfile.WriteLineage(vfs.OS(), dir, &format.Lineage{Terms: []format.Term{{ReplID: term}}}))
	if !orderly {
		claim := logfile.ClaimFile{FS: vfs.OS(), Dir: dir} // of the last sync, behind which a power failure takes all
		err = errors.Join(err, claim.Write(format.Claim{Offset: log.Durable(), ReplID: term}), claim.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	s.note = repl.ReplicasNote{History: term, List: []repl.Address{{Host: "127.0.0.1", Port: port}}}
	s.endWithin = time.Hour
	return s, term, int(log.Written())
}

// sayingReplica answers as a replica in a term whose log goes to an offset.
func sayingReplica(t *testing.T, port int, term format.ReplID, offset int, more ...string) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	sayingNode(t, l, fmt.Sprintf("*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:1\r\n$7\r\nconnect\r\n:%d\r\n", offset), append([]string{"master_replid:" + term.String(), "second_repl_offset:-1"}, more...)...)
}

// TestMissingEnd: a replica counts whose log is in the term of the primary's, and goes further.
func TestMissingEnd(t *testing.T) {
	for name, c := range map[string]struct {
		more    int
		other   bool // the replica is in another term
		heals   bool
		follows bool // the node is told to follow another one
		want    bool
	}{
		"more":            {more: 1, want: true},
		"as much":         {},
		"less":            {more: -1},
		"of another term": {more: 1, other: true},
		"damaged":         {more: 1, heals: true},
		"told to follow":  {more: 1, follows: true},
	} {
		for _, orderly := range []bool{false, true} {
			port := freeport.Take(t)
			s, term, end := endSearch(t, orderly, port, func(conf *config.Config) {
				if c.follows {
					conf.ReplicaOf = "127.0.0.1 1"
				}
			})
			if c.other {
				term = format.NewReplID()
			}
			var more []string
			if c.heals {
				more = []string{"counterd_healing:1"}
			}
			sayingReplica(t, port, term, end+c.more, more...)
			by, err := s.Missing(t.Context())
			want := repl.Helper{}
			if c.want {
				want = repl.Helper{From: s.note.List[0], Lead: term, End: uint64(end + c.more)}
			}
			if errors.Is(err, format.ErrCorrupt) != c.want || by != want {
				t.Errorf("%s: %+v, %v, want %+v", name, by, err, want)
			}
		}
	}
}

// TestMissingEndWaits: a log that did not end orderly waits for a replica that does not answer, for some time. REPLICAOF ends the wait. A log
// that was closed does not wait.
func TestMissingEndWaits(t *testing.T) {
	port := freeport.Take(t)
	s, _, _ := endSearch(t, true, port, nil)
	if by, err := s.Missing(t.Context()); err != nil || by != (repl.Helper{}) {
		t.Errorf("closed: %+v, %v", by, err)
	}
	s, _, _ = endSearch(t, false, port, nil)
	s.endWithin = 0
	if by, err := s.Missing(t.Context()); err != nil || by != (repl.Helper{}) {
		t.Errorf("killed, and the time is over: %+v, %v", by, err)
	}
	type found struct {
		by  repl.Helper
		err error
	}
	waiting := func(s *helpSearch) chan found {
		t.Helper()
		answer := make(chan found, 1)
		go func() {
			by, err := s.Missing(t.Context())
			answer <- found{by, err}
		}()
		select {
		case got := <-answer:
			t.Fatalf("it did not wait: %+v", got)
		case <-time.After(50 * time.Millisecond):
		}
		return answer
	}
	s, term, end := endSearch(t, false, port, nil)
	answer := waiting(s)
	sayingReplica(t, port, term, end+7)
	if got := <-answer; got.by.End != uint64(end+7) || !errors.Is(got.err, format.ErrCorrupt) {
		t.Errorf("the replica has come: %+v", got)
	}
	s, _, _ = endSearch(t, false, freeport.Take(t), nil)
	answer = waiting(s)
	primary := repl.Address{Host: "127.0.0.1", Port: 9}
	for !NamesHelper(s.role, "replicaof") { // on a busy machine it may not listen yet
		time.Sleep(time.Millisecond)
	}
	if !s.role.told.tell(primary) {
		t.Error("it does not listen to REPLICAOF")
	}
	if got := <-answer; got.err != nil || got.by != (repl.Helper{From: primary, Parts: primary, Named: true}) {
		t.Errorf("REPLICAOF: %+v", got)
	}
}

// TestLoadingReplicaIsAwaited: the log of a primary did not end orderly, and a replica is being started, as all nodes of a rack are behind a power
// failure. The primary waits for it longer than for a node that does not answer. It does not wait if the log was closed, or if the replica itself
// waits for a node.
func TestLoadingReplicaIsAwaited(t *testing.T) {
	for name, c := range map[string]struct {
		orderly bool
		info    string
		waits   bool
	}{"killed": {waits: true}, "closed": {orderly: true}, "it waits itself": {info: "counterd_healing_waits:1"}} {
		port := freeport.Take(t)
		s, term, end := endSearch(t, c.orderly, port, nil)
		s.endWithin, s.patience = time.Millisecond, time.Millisecond
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		info := "master_replid:" + term.String() + "\r\nsecond_repl_offset:-1\r\n"
		reply := fmt.Sprintf("+PONG\r\n*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:1\r\n$7\r\nconnect\r\n:%d\r\n$%d\r\n%s\r\n", end+7, len(info), info)
		go func() {
			for n := 0; ; n++ {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					switch {
					case lines.Text() != "replication":
					case n < 3:
						_, _ = fmt.Fprintf(conn, "-LOADING it is being started\r\n-LOADING it is being started\r\n$%d\r\n%s\r\n", len(c.info), c.info)
					default:
						_, _ = conn.Write([]byte(reply))
					}
				}
				conn.Close()
			}
		}()
		by, err := s.Missing(t.Context())
		if more := by.End == uint64(end+7) && errors.Is(err, format.ErrCorrupt); more != c.waits || !c.waits && err != nil {
			t.Errorf("%s: %+v, %v", name, by, err)
		}
	}
}

// TestEndIsAwaited: a replica was seen with more of the log (LONGER), and does not answer. The node waits for it, although its log was closed
// and the time for silent replicas is over: it tells for whom, and forgets nothing when it is started again. The replica that answers, another
// one with as much, a promoted one with all of the log, REPLICAOF and the end of the process end the wait.
func TestEndIsAwaited(t *testing.T) {
	const more = 7
	for name, c := range map[string]struct {
		answers func(t *testing.T, port int, term format.ReplID, end int)
		tell    *repl.Address
		ends    bool // the process
		lead    bool // by.Lead is the term
		follows bool
		waits   bool // still
	}{
		"it answers":        {answers: func(t *testing.T, port int, term format.ReplID, end int) { sayingReplica(t, port, term, end+more) }, lead: true},
		"it has some of it": {answers: func(t *testing.T, port int, term format.ReplID, end int) { sayingReplica(t, port, term, end+more-1) }, lead: true},
		"it has lost it":    {answers: func(t *testing.T, port int, term format.ReplID, end int) { sayingReplica(t, port, term, end-1) }},
		"its data was damaged": {answers: func(t *testing.T, port int, term format.ReplID, end int) {
			sayingReplica(t, port, term, end+more, "counterd_healing:1")
		}},
		"it is in another term": {answers: func(t *testing.T, port int, _ format.ReplID, end int) {
			sayingReplica(t, port, format.NewReplID(), end+more)
		}, waits: true},
		"it was promoted":        {answers: func(t *testing.T, port int, term format.ReplID, end int) { promotedAt(t, port, term, end+more) }, follows: true},
		"it was promoted before": {answers: func(t *testing.T, port int, term format.ReplID, end int) { promotedAt(t, port, term, end+more-1) }, waits: true},
		"REPLICAOF NO ONE":       {tell: &repl.Address{}},
		"the process ends":       {ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			port := freeport.Take(t)
			s, term, end := endSearch(t, true, port, nil)
			s.endWithin, s.patience = 0, 0
			seen := past.LongerLog{Term: term, Offset: uint64(end + more), Host: "127.0.0.1", Port: port}
			if err := past.NoteLonger(vfs.OS(), s.conf.Dir, seen); err != nil {
				t.Fatal(err)
			}
			s.note.List = nil // REPLICAS is lost
			s.longer = newHelpSearch(s.role).longer
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			type found struct {
				by  repl.Helper
				err error
			}
			answer := make(chan found, 1)
			go func() {
				by, err := s.Missing(ctx)
				answer <- found{by, err}
			}()
			for !strings.Contains(Loading(s.role), fmt.Sprintf(":%d has the log up to offset %d,", port, end+more)) { // the test's own limit ends it
				time.Sleep(time.Millisecond)
			}
			switch {
			case c.tell != nil:
				if !NamesHelper(s.role, "replicaof") || !s.role.told.tell(*c.tell) {
					t.Error("it does not listen to REPLICAOF")
				}
			case c.ends:
				cancel()
			default:
				c.answers(t, port, term, end)
			}
			if c.waits {
				select {
				case got := <-answer:
					t.Errorf("it does not wait: %+v", got)
				case <-time.After(2 * endEvery):
					cancel()
					<-answer // its goroutines do not outlive the test
				}
				return
			}
			got := <-answer
			if (got.by.Lead == term && errors.Is(got.err, format.ErrCorrupt)) != c.lead || (got.by.From != repl.Address{}) != (c.lead || c.follows) || errors.Is(got.err, context.Canceled) != c.ends {
				t.Errorf("%+v", got)
			}
			if follows := s.role.config.Get().ReplicaOf != ""; follows != c.follows {
				t.Errorf("it follows: %t", follows)
			}
			if text := Loading(s.role); text != items.ErrLoading {
				t.Errorf("behind the wait it says %q", text)
			}
		})
	}
}

// sayingClosed answers as a node that is loading, cannot open its data, and has a log in a term up to an offset.
func sayingClosed(t *testing.T, l net.Listener, term format.ReplID, offset int) {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	info := fmt.Sprintf("counterd_healing_waits:1\r\ncounterd_healing_history:%s\r\ncounterd_healing_offset:%d\r\n", term, offset)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if lines.Text() == "replication" {
						_, _ = fmt.Fprintf(conn, "-LOADING it is being started\r\n-LOADING it is being started\r\n$%d\r\n%s\r\n", len(info), info)
					}
				}
			}()
		}
	}()
}

// TestClosedReplicaHasTheEnd: a replica that cannot open its data tells where its log ends. A primary whose log is in that term and shorter takes the end from
// it, and does not wait if the log is as long, or if the replica has lost the frames that it had. In another term, the end may still be elsewhere.
func TestClosedReplicaHasTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		more  int
		other bool // another term
		seen  int  // how much more the replica was seen with
		want  bool
		waits bool
	}{
		"more":               {more: 7, want: true},
		"as much":            {},
		"less":               {more: -7},
		"another term":       {more: 7, other: true},
		"it was seen so":     {more: 7, seen: 7, want: true},
		"it has lost some":   {more: 6, seen: 7, want: true},
		"it has lost all":    {more: -7, seen: 7},
		"seen, another term": {more: 7, other: true, seen: 7, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			port := l.Addr().(*net.TCPAddr).Port
			s, term, end := endSearch(t, false, port, nil)
			if c.seen > 0 {
				s.longer = past.LongerLog{Term: term, Offset: uint64(end + c.seen), Host: "127.0.0.1", Port: port}
			}
			log := term
			if c.other {
				log = format.NewReplID()
			}
			sayingClosed(t, l, log, end+c.more)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.waits {
				time.AfterFunc(2*endEvery, cancel)
			}
			by, err := s.Missing(ctx)
			want := repl.Helper{}
			if c.want {
				want = repl.Helper{From: s.note.List[0], Lead: term, End: uint64(end + c.more), Closed: true}
			}
			if by != want || errors.Is(err, format.ErrCorrupt) != c.want || errors.Is(err, context.Canceled) != c.waits {
				t.Errorf("%+v, %v, want %+v", by, err, want)
			}
		})
	}
}

// TestClosedReplicaGivesFrames: the directory of a primary is damaged, and a replica cannot open its data either. It helps if the damage is of the log alone, and
// if it has a log in this node's term; a replica that can open its data goes before it.
func TestClosedReplicaGivesFrames(t *testing.T) {
	own := format.NewReplID()
	for name, c := range map[string]struct {
		frames, other, open bool
		want                int // index; -1: none
	}{"the log is damaged": {frames: true, want: 0}, "more than the log": {want: -1}, "another term": {frames: true, other: true, want: -1}, "another one is open": {frames: true, open: true, want: 1}} {
		s := newHelpSearch(newTestRole(t, func(*config.Config) {}))
		s.frames = c.frames
		s.note = repl.ReplicasNote{History: own}
		listen := func() net.Listener {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s.note.List = append(s.note.List, repl.Address{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port})
			return l
		}
		term := own
		if c.other {
			term = format.NewReplID()
		}
		sayingClosed(t, listen(), term, 9)
		if c.open {
			sayingNode(t, listen(), "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:1\r\n$7\r\nconnect\r\n:5\r\n", "master_replid:"+own.String(), "second_repl_offset:-1")
		}
		by, err := s.askReplicas(t.Context(), true)
		switch {
		case c.want < 0 && (err == nil || errors.Is(err, errSilent)):
			t.Errorf("%s: %+v, %v, want an error that does not say that nobody answers", name, by, err)
		case c.want >= 0 && (err != nil || by.From != s.note.List[c.want] || by.Lead != own || by.Closed == c.open):
			t.Errorf("%s: %+v, %v, want node %d", name, by, err, c.want)
		}
	}
}

// promotedAt answers as a primary that left a term at an offset.
func promotedAt(t *testing.T, port int, term format.ReplID, left int) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	sayingNode(t, l, "*3\r\n$6\r\nmaster\r\n:900\r\n*0\r\n", "master_replid:"+format.NewReplID().String(), "master_replid2:"+term.String(), fmt.Sprintf("second_repl_offset:%d", left))
}
