// Scenario: COUNTER.FIND, TOP, UPDATE and aggregates answer random conditions as a model does.

package server

import (
	"cmp"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// modelPost is a post as the tests of commands by condition know it: columns comment and repost.
type modelPost [2]uint64

var modelColumns = [2]string{"comment", "repost"}

// modelQuery is a condition in words, and its meaning.
type modelQuery struct {
	words []string
	meets func(mid uint64, p modelPost) bool
}

var modelOps = map[string]func(a, b uint64) bool{
	"=": func(a, b uint64) bool { return a == b }, "!=": func(a, b uint64) bool { return a != b }, "<": func(a, b uint64) bool { return a < b },
	"<=": func(a, b uint64) bool { return a <= b }, ">": func(a, b uint64) bool { return a > b }, ">=": func(a, b uint64) bool { return a >= b },
}

// randomConditions makes conditions on mids and columns that some posts meet.
func randomConditions(rng *rand.Rand, mids []uint64) (q modelQuery) {
	var tests []func(mid uint64, p modelPost) bool
	op := func() (string, func(a, b uint64) bool) {
		name := []string{"=", "!=", "<", "<=", ">", ">="}[rng.IntN(6)]
		return name, modelOps[name]
	}
	mid := func() uint64 { return mids[rng.IntN(len(mids))] + uint64(rng.IntN(3)) }
	switch rng.IntN(3) {
	case 0:
		list := make(map[uint64]bool)
		q.words = append(q.words, "MID", "IN")
		for range 1 + rng.IntN(40) {
			m := mid()
			list[m] = true
			q.words = append(q.words, strconv.FormatUint(m, 10))
		}
		tests = append(tests, func(mid uint64, _ modelPost) bool { return list[mid] })
	case 1:
		for i := range 1 + rng.IntN(2) {
			name, holds := op()
			if name == "=" && rng.IntN(4) > 0 {
				name, holds = ">=", modelOps[">="]
			}
			m := mid()
			if i > 0 {
				q.words = append(q.words, "AND")
			}
			q.words = append(q.words, "MID", name, strconv.FormatUint(m, 10))
			tests = append(tests, func(mid uint64, _ modelPost) bool { return holds(mid, m) })
		}
	}
	for i := range rng.IntN(3) {
		name, holds := op()
		c, v := rng.IntN(2), uint64(rng.IntN(60))
		q.words = append(q.words, []string{"WHERE", "AND"}[min(i, 1)], []string{modelColumns[c], []string{"cntcm", "cntrn"}[c]}[rng.IntN(2)], name, strconv.FormatUint(v, 10))
		tests = append(tests, func(_ uint64, p modelPost) bool { return holds(p[c], v) })
	}
	q.meets = func(mid uint64, p modelPost) bool {
		for _, t := range tests {
			if !t(mid, p) {
				return false
			}
		}
		return true
	}
	return q
}

// findModel computes the expected answer of the server.
type findModel struct {
	t     *testing.T
	rng   *rand.Rand
	posts map[uint64]modelPost
	mids  []uint64 // sorted
}

// matches are the mids that meet q, in order.
func (m *findModel) matches(q modelQuery) (found []uint64) {
	for _, mid := range m.mids {
		if p, ok := m.posts[mid]; ok && q.meets(mid, p) {
			found = append(found, mid)
		}
	}
	return found
}

// rows writes rows as resptest.Value does.
func (m *findModel) rows(mids []uint64, columns []int) string {
	rows := make([]string, len(mids))
	for i, mid := range mids {
		row := []string{fmt.Sprintf(":%d", mid)}
		for _, c := range columns {
			row = append(row, fmt.Sprintf(":%d", m.posts[mid][c]))
		}
		rows[i] = "[" + strings.Join(row, " ") + "]"
	}
	return "[" + strings.Join(rows, " ") + "]"
}

// check asks all commands that read one random question.
func (m *findModel) check(c *wireClient) {
	m.t.Helper()
	q := randomConditions(m.rng, m.mids)
	found, all := m.matches(q), []int{0, 1}
	words := strings.Join(q.words, " ")

	text, mids := "COUNTER.FIND weibo "+words, slices.Clone(found)
	columns := all
	if m.rng.IntN(2) == 0 {
		text += " DESC"
		slices.Reverse(mids)
	}
	if m.rng.IntN(3) == 0 {
		columns = []int{m.rng.IntN(2)}
		text += " COLUMNS " + modelColumns[columns[0]]
	}
	ordered, limit := mids, 1+m.rng.IntN(300)
	if m.rng.IntN(2) == 0 {
		offset := m.rng.IntN(20)
		mids = mids[min(offset, len(mids)):]
		c.want(fmt.Sprintf("%s LIMIT %d OFFSET %d", text, limit, offset), m.rows(mids[:min(limit, len(mids))], columns))
	} else {
		c.want(text, m.rows(mids[:min(10_000, len(mids))], columns))
	}
	// By pages: all of them, each once.
	var paged []string
	for cursor, n := "0", 0; n == 0 || cursor != "0"; n++ {
		if n > len(mids)+100 {
			m.t.Fatalf("%s: no end of pages", text)
		}
		v := c.do(fmt.Sprintf("%s LIMIT %d CURSOR %s", text, limit, cursor))
		if len(v.List) != 2 || len(v.List[1].List) > limit {
			m.t.Fatalf("%s CURSOR %s: got %s", text, cursor, v)
		}
		cursor = v.List[0].Text
		for _, row := range v.List[1].List {
			paged = append(paged, row.String())
		}
	}
	if got, want := "["+strings.Join(paged, " ")+"]", m.rows(ordered, columns); got != want {
		m.t.Fatalf("%s by pages of %d:\ngot  %s\nwant %s", text, limit, got, want)
	}

	col, k := m.rng.IntN(2), 1+m.rng.IntN(50)
	top := slices.Clone(found)
	slices.SortFunc(top, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(m.posts[b][col], m.posts[a][col]), cmp.Compare(b, a))
	})
	c.want(fmt.Sprintf("COUNTER.TOP weibo %s %d %s", modelColumns[col], k, words), m.rows(top[:min(k, len(top))], []int{col}))

	sum, least, most := uint64(0), "nil", "nil"
	for _, mid := range found {
		sum += m.posts[mid][col]
	}
	if n := len(top); n > 0 {
		least, most = fmt.Sprintf(":%d", m.posts[top[n-1]][col]), fmt.Sprintf(":%d", m.posts[top[0]][col])
	}
	c.want("COUNTER.COUNT weibo "+words, fmt.Sprintf(":%d", len(found)))
	c.want(fmt.Sprintf("COUNTER.SUM weibo %s %s", modelColumns[col], words), fmt.Sprintf(":%d", sum))
	c.want(fmt.Sprintf("COUNTER.MIN weibo %s %s", modelColumns[col], words), least)
	c.want(fmt.Sprintf("COUNTER.MAX weibo %s %s", modelColumns[col], words), most)
}

// update changes what meets a random condition, here and on the server.
func (m *findModel) update(c *wireClient) {
	m.t.Helper()
	q := randomConditions(m.rng, m.mids)
	text := "COUNTER.UPDATE weibo " + strings.Join(q.words, " ")
	col, n := m.rng.IntN(2), uint64(m.rng.IntN(20))
	change := func(p *modelPost) (fits bool) { return true }
	removes := false
	switch name := modelColumns[col]; m.rng.IntN(6) {
	case 0, 1:
		text += fmt.Sprintf(" INCR %s %d", name, n)
		change = func(p *modelPost) bool { p[col] += n; return true }
	case 2:
		text += fmt.Sprintf(" DECR %s %d SET %s 7", name, n, modelColumns[1-col])
		change = func(p *modelPost) bool { p[col] -= n; p[1-col] = 7; return int64(p[col]) >= 0 }
	case 3:
		text += fmt.Sprintf(" SET %s %d", name, n)
		change = func(p *modelPost) bool { p[col] = n; return true }
	case 4:
		text += " RESET " + name
		change = func(p *modelPost) bool { p[col] = 0; return true }
	case 5:
		removes = true
		text += " DEL"
	}
	limit, returning := 1<<30, m.rng.IntN(3)
	if removes || returning > 0 || m.rng.IntN(2) == 0 {
		limit = 1 + m.rng.IntN(30)
		text += fmt.Sprintf(" LIMIT %d", limit)
	}
	if removes && returning == 2 {
		returning = 1
	}
	text += []string{"", " RETURNING OLD", " RETURNING NEW"}[returning]
	var changed []uint64
	next := make(map[uint64]modelPost)
	for _, mid := range m.matches(q) {
		p := m.posts[mid]
		if len(changed) < limit && change(&p) {
			changed = append(changed, mid)
			next[mid] = p
		}
	}
	want := fmt.Sprintf(":%d", len(changed))
	if returning == 1 {
		want = m.rows(changed, []int{0, 1})
	}
	for mid, p := range next {
		m.posts[mid] = p
	}
	if returning == 2 {
		want = m.rows(changed, []int{0, 1})
	}
	if removes {
		for _, mid := range changed {
			delete(m.posts, mid)
		}
	}
	c.want(text, want)
}

// TestFind asks and changes by random conditions, over hot and cold blocks, in both versions of the protocol, by both
// ports, and holds every byte against a model.
func TestFind(t *testing.T) {
	seed := seed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 2))
	s := wireServeStore(t, t.TempDir(), counter.Options{BlockItems: 64, SnapshotGrowth: -1}, func(c *config.Config) { c.ReadonlyPort = freeport.Take(t) })
	m := &findModel{t: t, rng: rng, posts: make(map[uint64]modelPost)}
	writers := []*wireClient{wireDial(t, s, 2), wireDial(t, s, 3)}
	readers := append(writers, readerDial(t, s, 2), readerDial(t, s, 3))
	mid := uint64(rng.IntN(1000))
	for range 1500 {
		mid += 1 + uint64(rng.IntN(50))
		p := modelPost{uint64(rng.IntN(60)), uint64(rng.IntN(1 << rng.IntN(12)))}
		m.posts[mid], m.mids = p, append(m.mids, mid)
		writers[0].want(fmt.Sprintf("HSET %d comment %d repost %d", mid, p[0], p[1]), ":2")
	}
	for round := range 40 {
		m.check(readers[rng.IntN(len(readers))])
		m.update(writers[rng.IntN(len(writers))])
		if round%4 == 3 { // the first block is the oldest: all but the newest may be cold
			at := m.mids[rng.IntN(len(m.mids)*3/4)]
			writers[0].do(fmt.Sprintf("%s weibo %d", []string{"COUNTER.DEMOTE", "COUNTER.DEMOTE", "COUNTER.PROMOTE"}[rng.IntN(3)], at))
		}
		if t.Failed() {
			return
		}
	}
	if got := writers[0].do("COUNTER.BLOCKS").String(); !strings.Contains(got, "tier=cold") || !strings.Contains(got, "tier=hot") {
		t.Errorf("blocks of one tier only: %s", got)
	}
}

// TestFindReplies: cases outside the model: sums beyond an integer, transactions, replicas' words, absent counters.
func TestFindReplies(t *testing.T) {
	s := wireServe(t, nil)
	c2, c3 := wireDial(t, s, 2), wireDial(t, s, 3)
	c2.want("ADD COLUMN weibo big hint=8 max=64", "+OK")
	for i := range 3 {
		c2.want(fmt.Sprintf("HSET %d big 9223372036854775807", i), ":1")
	}
	sum := new(big.Int).Mul(big.NewInt(3), big.NewInt(9223372036854775807)).String()
	c2.want("COUNTER.SUM weibo big", `"`+sum+`"`)
	c3.want("COUNTER.SUM weibo big", "("+sum)
	c2.want("COUNTER.SUM weibo big MID < 1", ":9223372036854775807")
	c2.want("COUNTER.MIN weibo big MID > 5", "nil")
	c2.want("COUNTER.FIND weibo MID > 5", "[]")
	c2.want("COUNTER.FIND weibo MID > 5 CURSOR 0", `["0" []]`)
	c2.want("COUNTER.COUNT nosuch", "-ERR no counter 'nosuch' (see SCHEMA)")
	c2.want("COUNTER.FIND", "-"+s.commands.Lookup([]byte("counter.find")).WrongNumber())
	c2.want("COUNTER.UPDATE weibo SET comment 4294967296", "-ERR value is not an integer or out of range")
	c2.want("COUNTER.UPDATE weibo DECR comment 1", ":0") // it would leave the column: nothing is changed
	c2.want("MULTI", "+OK")
	for _, name := range []string{"FIND weibo", "TOP weibo big 1", "COUNT weibo", "SUM weibo big", "MIN weibo big", "MAX weibo big", "UPDATE weibo DEL"} {
		c2.want("COUNTER."+name, "-ERR Command not allowed inside a transaction")
	}
	c2.want("EXEC", "-EXECABORT Transaction discarded because of previous errors.")
	c2.want("WATCH 1.cntcm", "+OK")
	c3.want("COUNTER.UPDATE weibo MID = 1 SET comment 4", ":1")
	c2.want("MULTI", "+OK")
	c2.want("PING", "+QUEUED")
	c2.want("EXEC", "nil")
	// Commands behind a query are answered behind it.
	c2.send("COUNTER.COUNT weibo")
	c2.send("GET 1.cntcm")
	c2.send("COUNTER.FIND weibo LIMIT 1 COLUMNS comment")
	for _, want := range []string{":3", `"4"`, "[[:0 :0]]"} {
		if got := c2.read().String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if v := c2.do("INFO commandstats"); !strings.Contains(v.Text, "cmdstat_counter.find:calls=3,") {
		t.Errorf("INFO commandstats: %s", v.Text)
	}
}

// TestFindOnReplica: replicas answer queries, and refuse changes by condition.
func TestFindOnReplica(t *testing.T) {
	primary := newReplNode(t).start("")
	p := primary.dial()
	for i := range 300 {
		p.want(fmt.Sprintf("SET %d.cntrn %d", i, i), "+OK")
	}
	replica := newReplNode(t).start(primary.addr())
	r := replica.dial()
	p.want("COUNTER.UPDATE weibo WHERE repost >= 290 INCR comment 5", ":10")
	until(t, "the changes on the replica", func() bool { return r.do("COUNTER.COUNT weibo WHERE comment = 5").N == 10 })
	r.want("COUNTER.TOP weibo repost 1", "[[:299 :299]]")
	r.want("COUNTER.UPDATE weibo SET comment 1", "-READONLY You can't write against a read only replica.")
	cursor := p.do("COUNTER.FIND weibo LIMIT 10 CURSOR 0").List[0].Text
	r.want("COUNTER.FIND weibo LIMIT 1 COLUMNS repost CURSOR "+cursor, p.do("COUNTER.FIND weibo LIMIT 1 COLUMNS repost CURSOR "+cursor).String())
}

// noQueries lets no query take a step until it is told to.
func noQueries(s *Server) (again func()) {
	for range cap(s.queries) {
		s.queries <- struct{}{}
	}
	return func() {
		for range cap(s.queries) {
			<-s.queries
		}
	}
}

// untilBusy waits until a query of another connection than c's runs.
func untilBusy(t *testing.T, c *wireClient, command string) {
	t.Helper()
	until(t, command+" to begin", func() bool { return strings.Contains(c.do("CLIENT LIST").Text, " cmd="+command+" ") })
}

// TestFindHeldBack: an UPDATE waits while changes are held back, also when it has begun before, and a FIND does not.
func TestFindHeldBack(t *testing.T) {
	s := wireServe(t, nil)
	a, b, reader := wireDial(t, s, 2), wireDial(t, s, 2), wireDial(t, s, 2)
	a.want("INCR 1.cntrn", ":1")
	a.want("CLIENT PAUSE 100000 WRITE", "+OK")
	b.send("COUNTER.UPDATE weibo INCR repost 1")
	untilBlocked(t, s, 1)
	reader.want("COUNTER.FIND weibo COLUMNS repost", "[[:1 :1]]")
	a.want("CLIENT UNPAUSE", "+OK")
	if got := b.read().String(); got != ":1" {
		t.Errorf("UPDATE was answered with %s", got)
	}
	reader.want("COUNTER.FIND weibo COLUMNS repost", "[[:1 :2]]")

	again := noQueries(s)
	b.send("COUNTER.UPDATE weibo INCR repost 1")
	untilBusy(t, a, "counter.update")
	a.want("CLIENT PAUSE 100000 WRITE", "+OK")
	again()
	for range 2 * cap(s.queries) { // turns are taken in order: the UPDATE's came before
		reader.want("COUNTER.FIND weibo COLUMNS repost", "[[:1 :2]]")
	}
	a.want("CLIENT UNPAUSE", "+OK")
	if got := b.read().String(); got != ":1" {
		t.Errorf("UPDATE was answered with %s", got)
	}
	reader.want("COUNTER.FIND weibo COLUMNS repost", "[[:1 :3]]")

	again = noQueries(s)
	b.send("COUNTER.UPDATE weibo INCR repost 1")
	untilBusy(t, a, "counter.update")
	a.want("CONFIG SET min-replicas-to-write 1", "+OK")
	again()
	if got := b.read().String(); got != "-NOREPLICAS Not enough good replicas to write." {
		t.Errorf("UPDATE was answered with %s", got)
	}
	reader.want("COUNTER.FIND weibo COLUMNS repost", "[[:1 :3]]")
}

// TestFindEnds: a query ends with its connection, and with the server, and later commands are not executed.
func TestFindEnds(t *testing.T) {
	s := wireServe(t, nil)
	a, b, other := wireDial(t, s, 2), wireDial(t, s, 2), wireDial(t, s, 2)
	a.want("INCR 1.cntrn", ":1")
	again := noQueries(s)
	if _, err := b.conn.Write([]byte("COUNTER.UPDATE weibo INCR repost 1\r\nINCR 1.cntrn\r\n")); err != nil { // read at once
		t.Fatal(err)
	}
	untilBusy(t, a, "counter.update")
	b.conn.Close()
	until(t, "the end of the connection", func() bool { return strings.Contains(a.do("INFO clients").Text, "connected_clients:2\r\n") })
	again()
	a.want("COUNTER.FIND weibo COLUMNS repost", "[[:1 :1]]")

	again = noQueries(s)
	other.send("COUNTER.COUNT weibo")
	untilBusy(t, a, "counter.count")
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(t.Context()) }()
	if got := other.read().String(); got != "-LOADING the server is shutting down, or the connection is closing" {
		t.Errorf("a query of a server that ends was answered with %s", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	again()
}

// TestFindHalfClosed: a client that has closed its sending side gets the answer.
func TestFindHalfClosed(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	c.send("INCR 1.cntrn")
	c.send("COUNTER.FIND weibo")
	c.send("GET 1.cntrn")
	if err := c.conn.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{":1", "[[:1 :0 :1]]", `"1"`} {
		if got := c.read().String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	c.ended()
}

// TestFindBesideWriters: while others count, each post is found once, with a value that it had, and the sums at the end
// are those of the acknowledged changes.
func TestFindBesideWriters(t *testing.T) {
	s := wireServeStore(t, t.TempDir(), counter.Options{BlockItems: 64, SnapshotGrowth: -1}, nil)
	const posts, rounds, step = 600, 12, 3
	c := wireDial(t, s, 2)
	for i := range posts {
		c.want(fmt.Sprintf("SET %d.cntrn 1", i*10), "+OK")
	}
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			c := wireDial(t, s, 2)
			for range rounds {
				if w == 0 {
					c.want(fmt.Sprintf("COUNTER.UPDATE weibo INCR repost %d", step), fmt.Sprintf(":%d", posts))
					continue
				}
				for i := range posts {
					c.send(fmt.Sprintf("INCR %d.cntrn", i*10))
				}
				for range posts {
					c.read()
				}
			}
		})
	}
	last := make([]uint64, posts)
	for range 10 {
		i := 0
		for cursor := "0"; i == 0 || cursor != "0"; {
			v := c.do("COUNTER.FIND weibo WHERE repost > 0 COLUMNS repost LIMIT 100 CURSOR " + cursor)
			cursor = v.List[0].Text
			for _, row := range v.List[1].List {
				if i >= posts || row.List[0].N != int64(i*10) || uint64(row.List[1].N) < last[i] {
					t.Fatalf("row %d is %s, after %d", i, row, last[min(i, posts-1)])
				}
				last[i] = uint64(row.List[1].N)
				i++
			}
		}
		if i != posts {
			t.Fatalf("%d rows, want %d", i, posts)
		}
	}
	writers.Wait()
	c.want("COUNTER.SUM weibo repost", fmt.Sprintf(":%d", posts*(1+rounds*(1+step))))
	c.want("COUNTER.MAX weibo repost", fmt.Sprintf(":%d", 1+rounds*(1+step)))
}

// TestPace: queries rest while others are served, and not once nobody was for a while.
func TestPace(t *testing.T) {
	var p pace
	now := time.Now()
	for _, look := range []struct {
		after time.Duration
		bytes int64
		want  time.Duration
	}{{0, 30, time.Millisecond}, {idleAfter / 2, 30, time.Millisecond}, {idleAfter, 30, 0}, {time.Hour, 30, 0}, {0, 31, time.Millisecond}, {idleAfter / 2, 32, time.Millisecond},
		{idleAfter, 32, time.Millisecond}, {1, 32, 0}} {
		now = now.Add(look.after)
		if got := p.rest(now, look.bytes, time.Millisecond); got != look.want {
			t.Errorf("%v later, with %d bytes: rests for %v, want %v", look.after, look.bytes, got, look.want)
		}
	}
}
