package simulation

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/server"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Column w of counter c counts the additions to n, which clients only ever add to. Both are deleted together, so w never has more than n.
const (
	longWindow  = "360d/6d" // nothing leaves it in a run, so w is n
	hourWindow  = "1h/1m"   // as well, where no clock is set; and additions are in several buckets
	shortWindow = "10s/1s"
)

// derivedLines are the statements that add derived columns: to counter c, and to that of pages.
func derivedLines(r *Run) []string {
	if r.Config.Window == "" {
		return nil
	}
	window, decay := "window="+r.Config.Window, "decay="+halfLife(r)
	return []string{
		fmt.Sprintf("ADD COLUMN c w %s of=n suffix=w top=3", window),
		fmt.Sprintf("ADD COLUMN c h %s of=n*%d suffix=h top=3", decay, hWeight),
		fmt.Sprintf("ADD COLUMN p pw %s of=pa suffix=pw top=2", window),
		fmt.Sprintf("ADD COLUMN p ph %s of=pa*2+pb suffix=ph top=2", decay),
	}
}

// wholeWindow tells whether nothing leaves the window: a clock of a long run may be set ahead by 300 days more than once.
func wholeWindow(r *Run) bool {
	switch r.Config.Window {
	case longWindow:
		return !r.Config.Quiet || r.Config.Drift == 0
	case hourWindow:
		return !r.Config.Quiet && rightClocks(r)
	}
	return false
}

// rightClocks tells whether the time of the log is that of the run. The scene evictions sets all clocks ahead.
func rightClocks(r *Run) bool {
	return r.Config.Drift == 0 && r.Config.Weights[clockSet] == 0 && r.Config.Scene != "evictions"
}

// windowed tells which node has no column w, or h, yet: a cluster's statement is made before all shards have it.
func windowed(r *Run) string {
	for _, m := range r.Machines {
		srv := m.server()
		if srv == nil {
			return m.name + " does not run"
		}
		if sch := srv.Store().Schema(); lacksDerived(sch, "c", "w", "h") || lacksDerived(sch, "p", pageDerived...) {
			return m.name + " lacks it"
		}
	}
	return ""
}

// oldOption is the option of a counter of the schema, if the log of the run has old values: in nearly every second run.
func oldOption(r *Run) string {
	if r.Seed%2 == 0 && !r.Config.Plain {
		return " old=on"
	}
	return ""
}

// withOld is a command of the feed, with old values if the log has them.
func withOld(r *Run, words ...string) []string {
	if oldOption(r) == "" {
		return words
	}
	return append(words, "WITH", "OLD")
}

// lacksOld tells which node does not know yet that the log has old values.
func lacksOld(r *Run) string {
	for _, m := range r.Machines {
		srv := m.server()
		if srv == nil {
			return m.name + " does not run"
		}
		if def := srv.Store().Schema().Counter("p"); oldOption(r) != "" && (def == nil || !def.Old) {
			return m.name + " does not know it"
		}
	}
	return ""
}

// readWindow reads a post with its window, which are of one moment.
func (c *client) readWindow(key string) {
	mid, _, _ := strings.Cut(strings.TrimPrefix(key, "{"), "}")
	words := []string{"COUNTER.MGET", "c", mid, "COLUMNS", "n", "w"}
	v, got := c.exchange(key, words)
	if got != acknowledged {
		return
	}
	list := leaves(v)
	if len(list) == 1 && list[0].Null {
		return
	}
	if failing(list) != "" {
		return
	}
	if len(list) != 2 {
		c.run.Fault("%s: %v was answered %+v", c.name, words, v)
		return
	}
	n, err := strconv.ParseInt(list[0].Text(), 10, 64)
	w, also := strconv.ParseInt(list[1].Text(), 10, 64)
	if err != nil || also != nil || w > n || wholeWindow(c.run) && w < n {
		c.run.Fault("%s: the window of %s has %d of %d additions: it was read on %s", c.name, key, w, n, c.at)
	}
	c.run.Story.meet("simulation: a window was read")
}

// watchDerived looks at short windows, and at sums that decay soon, again and again while they pass. Clients have ended, and all nodes have all
// changes that were acknowledged.
func watchDerived(r *Run) {
	if !moves(r) || r.lossy {
		return
	}
	time.Sleep(time.Second)
	for began := r.now(); r.now()-began < shortLength && len(r.Faults()) == 0; time.Sleep(400 * time.Millisecond) {
		for _, m := range r.Machines {
			srv := m.server()
			if srv == nil {
				continue
			}
			wrong, err := wrongDerived(r, srv.Store())
			if err == nil && wrong != "" {
				r.Fault("%s: %s", m.name, wrong)
			}
		}
	}
}

// moves tells whether derived columns change as time passes, and that is the time of the run.
func moves(r *Run) bool { return r.Config.Window != "" && halfLife(r) == "1m" && rightClocks(r) }

// wrongDerived describes values in columns w and h that a store cannot have at its time, unless that moves on meanwhile.
func wrongDerived(r *Run, s *counter.Store) (wrong string, err error) {
	now := s.Windows().Time()
	err = eachDerived(s, "h", func(mid, n, h uint64) {
		if least, most := worth(r, mid, now); float64(h) < least-0.52 || float64(h) > most+0.51 { // it may have faded
			wrong = fmt.Sprintf("the decaying sum of post %d is %d at %d, want %g to %g", mid, h, now, least, most)
		}
	})
	if err == nil && passes(r) {
		err = eachWindow(s, func(mid, n, w uint64) {
			if least, most := recent(r, mid, now); w < least || w > most {
				wrong = fmt.Sprintf("the window of post %d has %d of %d additions at %d; %d or more are in it, and %d at most", mid, w, n, now, least, most)
			}
		})
	}
	if s.Windows().Time() != now {
		wrong = ""
	}
	return wrong, err
}

// verifyWindows compares column w with n on all nodes, and the nodes of a shard with each other.
func verifyWindows(r *Run) {
	if r.Config.Window == "" || r.lossy {
		return
	}
	r.await("all nodes have the windows of their posts", func() string { return sameWindows(r) })
	if !passes(r) {
		return
	}
	time.Sleep(shortLength + 2*lateTicks)
	for _, m := range r.Machines {
		srv := m.server()
		if srv == nil {
			continue
		}
		_ = eachWindow(srv.Store(), func(mid, _, w uint64) {
			if w > 0 {
				r.Fault("%s: the window of post %d has %d additions, and the last one was made longer ago than it lasts", m.name, mid, w)
			}
		})
	}
}

// shortLength is how long the shorter window lasts, and lateTicks how late the time of the log is at most, in a healthy system whose clocks
// are right. Behind lateChanges, a healthy system makes no change that a client has given up.
const (
	shortLength = 10 * time.Second
	lateTicks   = 2 * time.Second
	lateChanges = 5 * time.Second
)

// passes tells whether additions leave the window within the run.
func passes(r *Run) bool { return r.Config.Window == shortWindow && rightClocks(r) }

// ticking waits until all nodes have a time of the log that is hardly late: a primary whose disk has failed tries again after a minute.
func ticking(r *Run) bool {
	if !moves(r) {
		return true
	}
	return r.await("the time of the log goes on", func() string {
		for _, m := range r.Machines {
			srv := m.server()
			if srv == nil {
				return m.name + " does not run"
			}
			if now := srv.Store().Windows().Time(); time.Since(time.Unix(now, 0)) > lateTicks {
				return fmt.Sprintf("%s has %d", m.name, now)
			}
		}
		return ""
	})
}

// recent is how many additions to a post a short window must have at least at a time of the log, and may have at most. An addition is in the
// bucket of that time when it was made: this is before its answer, and not much before it was sent.
func recent(r *Run, mid uint64, now int64) (least, most uint64) {
	out := now - int64(shortLength/time.Second) // the newest bucket that has left the window
	for _, a := range r.History.of(fmt.Sprintf("{%d}.n", mid)) {
		if a.read || a.outcome == refused {
			continue
		}
		till := a.till
		if a.outcome == uncertain {
			till = max(till, r.healed+lateChanges)
		}
		if r.began.Add(till).Unix() > out {
			most++
		}
		if a.outcome == acknowledged && a.from > r.healed && r.began.Add(a.from-2*lateTicks).Unix() > out {
			least++
		}
	}
	if r.Config.Flushes || r.Config.Sentinel {
		least = 0
	}
	return least, most
}

// sameWindows tells which node has a window that does not belong to its values, or another window than the others of its shard.
func sameWindows(r *Run) string {
	return sameInShards(r, func(srv *server.Server) (rows []uint64, wrong string) {
		err := eachWindow(srv.Store(), func(mid, n, w uint64) {
			rows = append(rows, mid, w)
			if w > n || wholeWindow(r) && w < n {
				wrong = fmt.Sprintf("the window of post %d has %d of %d additions", mid, w, n)
			}
		})
		if err != nil {
			wrong = err.Error()
		}
		return rows, wrong
	})
}

// eachWindow gives each post of counter c with its columns n and w.
func eachWindow(s *counter.Store, give func(mid, n, w uint64)) error {
	return eachDerived(s, "w", give)
}

// eachDerived gives each post of counter c with its column n and a column that is derived from it.
func eachDerived(s *counter.Store, name string, give func(mid, n, derived uint64)) error {
	def := s.Schema().Counter("c")
	n, derived := column(def, "n"), column(def, name)
	if n < 0 || derived < 0 {
		return errors.New("a column is missing")
	}
	return s.Find(counter.Query{Counter: def, To: schema.MaxMid, Columns: []int16{n, derived}}, func(mid uint64, values []uint64) bool {
		give(mid, values[0], values[1])
		return true
	})
}

// column is the index of a counter's column, or -1.
func column(def *schema.Counter, name string) int16 {
	for i := range def.Width() {
		if def.Col(i).Name == name {
			return int16(i)
		}
	}
	return -1
}

// Column h of counter c is the sum of the additions to n, each worth hWeight at first, which decays. They are deleted together, so h never has more
// than those to n.
const hWeight = 20

// halfLife is that of column h: so long that hardly anything decays in a run, or so short that sums fade.
func halfLife(r *Run) string {
	if r.Config.Window == longWindow {
		return "366d"
	}
	return "1m"
}

// verifySums compares column h with n on all nodes, the nodes of a shard with each other, and the top list of h with the posts.
func verifySums(r *Run) {
	if r.Config.Window == "" || r.lossy {
		return
	}
	r.await("all nodes have the sums of their posts", func() string { return sameSums(r) })
}

// sameSums tells which node has a sum that does not belong to its values, or another one than the others of its shard.
func sameSums(r *Run) string {
	return sameInShards(r, func(srv *server.Server) (rows []uint64, wrong string) {
		var sums []uint64
		err := eachDerived(srv.Store(), "h", func(mid, n, h uint64) {
			rows, sums = append(rows, mid, h), append(sums, h)
			if most := hWeight * n; h > most && oneTime(r) || lastingSums(r) && h+1 < most-most/10 {
				wrong = fmt.Sprintf("the decaying sum of post %d is %d, of %d additions", mid, h, n)
			}
		})
		if err == nil && wrong == "" {
			wrong, err = wrongTop(srv.Store(), sums)
		}
		if err != nil {
			wrong = err.Error()
		}
		return rows, wrong
	})
}

// oneTime tells whether the time of the log goes on where a post goes. A post that moves to a shard whose clock is behind has more than its additions.
func oneTime(r *Run) bool { return r.Config.Shards == 1 || rightClocks(r) }

// worth is how much the additions to a post are worth at least and at most at a time of the log, with a half-life of a minute. See recent.
func worth(r *Run, mid uint64, now int64) (least, most float64) {
	const life = 60
	at := func(moment time.Duration) float64 {
		return math.Exp2(-max(0, float64(now)-float64(r.began.Add(moment).UnixMilli())/1000) / life)
	}
	for _, a := range r.History.of(fmt.Sprintf("{%d}.n", mid)) {
		switch {
		case a.read || a.outcome == refused:
		case a.outcome == uncertain:
			most += at(max(a.till, r.healed+lateChanges))
		default:
			if most += at(a.till); a.from > r.healed {
				least += at(a.from - 2*lateTicks)
			}
		}
	}
	if r.Config.Flushes || r.Config.Sentinel {
		least = 0
	}
	return hWeight * least, hWeight * most
}

// wrongTop tells whether the posts with the largest sums, of which a list is kept, have other values than the largest of all.
func wrongTop(s *counter.Store, sums []uint64) (wrong string, err error) {
	def := s.Schema().Counter("c")
	rows, err := s.Top(counter.Query{Counter: def, To: schema.MaxMid}, column(def, "h"), 3)
	if err != nil {
		return "", err
	}
	var got []uint64
	for i := range rows.Len() {
		_, values := rows.At(i)
		got = append(got, values[0])
	}
	slices.Sort(sums)
	slices.Reverse(sums)
	if want := sums[:min(3, len(sums))]; !slices.Equal(got, want) {
		return fmt.Sprintf("the largest sums are %v, and the list has %v", want, got), nil
	}
	return "", nil
}

// lacksDerived tells whether a counter lacks one of some derived columns.
func lacksDerived(s *schema.Schema, counterName string, names ...string) bool {
	def := s.Counter(counterName)
	for _, name := range names {
		if def == nil || column(def, name) < 0 {
			return true
		}
	}
	return false
}
