// Scenario: COUNTER.MSET sets rows of posts, alone, numbered, and over several shards.

package server

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/scatter"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestMSetRows has COUNTER.MSET and HSET make the same of random posts, in another order of columns, some of them named, on
// columns that came later, and with numbers: on a server that is restarted then.
func TestMSetRows(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	m, dir := wireDial(t, wireServe(t, nil), 2), t.TempDir()
	same := func(c *wireClient) {
		c.t.Helper()
		for from := 0; from < 300; from += 100 {
			page := "COUNTER.MGET weibo"
			for mid := from; mid < from+100; mid++ {
				page += fmt.Sprint(" ", mid)
			}
			c.want(page, m.do(page).String())
		}
	}
	serve := func(t *testing.T) *wireClient {
		return wireDial(t, wireServeStore(t, dir, counter.Options{BlockItems: 64}, nil), 2)
	}
	t.Run("set", func(t *testing.T) {
		c := serve(t)
		setRandomRows(r, c, m)
		same(c)
	})
	t.Run("started again", func(t *testing.T) { same(serve(t)) })
}

// setRandomRows has c set posts by COUNTER.MSET and m by HSET.
func setRandomRows(r *rand.Rand, c, m *wireClient) {
	columns := []string{"comment", "repost"}
	for round := range 60 {
		if round == 30 {
			for _, w := range []*wireClient{c, m} {
				w.want("ADD COLUMN weibo like hint=4 max=32 default=7", "+OK")
			}
			columns = append(columns, "like")
		}
		named, tail := columns, ""
		if r.IntN(2) == 0 {
			named = nil
			for _, i := range r.Perm(len(columns))[:1+r.IntN(len(columns))] {
				named = append(named, columns[i])
			}
			tail = " columns " + strings.Join(named, " ")
		}
		command, posts := "COUNTER.MSET weibo", 1+r.IntN(50)
		for range posts {
			mid := r.IntN(300)
			command += fmt.Sprint(" ", mid)
			hset := fmt.Sprintf("HSET %d", mid)
			for _, column := range named {
				n := uint32(r.Uint64() >> (32 + r.IntN(32)))
				command += fmt.Sprint(" ", n)
				hset += fmt.Sprintf(" %s %d", column, n)
			}
			m.do(hset)
		}
		if command += tail; r.IntN(3) == 0 {
			command += fmt.Sprintf(" IDMP p %d", round)
			c.want(command, fmt.Sprintf(":%d", posts)) // and again below
		}
		c.want(command, fmt.Sprintf(":%d", posts))
		if r.IntN(5) == 0 {
			c.do(fmt.Sprint("COUNTER.DEMOTE weibo ", r.IntN(200))) // or there is no such block
		}
	}
}

// TestMSetRefused: a refused command changes nothing.
func TestMSetRefused(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	c.want("COUNTER.MSET weibo 1 5 6 2 7 8", ":2")
	many := "COUNTER.MSET weibo" + strings.Repeat(" 1 0 0", counter.MaxRows(2)+1)
	for command, want := range map[string]string{
		"COUNTER.MSET nosuch 1 2 3":                               "-ERR no counter 'nosuch' (see SCHEMA)",
		"COUNTER.MSET weibo 1 2":                                  "-ERR COUNTER.MSET: got 2 arguments for posts, want a mid and 2 numbers for each",
		"COUNTER.MSET weibo 1 2 3 4":                              "-ERR COUNTER.MSET: got 4 arguments for posts, want a mid and 2 numbers for each",
		"COUNTER.MSET weibo COLUMNS repost":                       "-ERR COUNTER.MSET: got 0 arguments for posts, want a mid and 1 numbers for each",
		"COUNTER.MSET weibo 1 9 9 x 1 1":                          "-ERR 'x' is not a mid",
		"COUNTER.MSET weibo 1 9 9 2 1 x":                          "-ERR value is not an integer or out of range",
		"COUNTER.MSET weibo 1 9 9 2 1 -1":                         "-ERR value is not an integer or out of range",
		"COUNTER.MSET weibo 1 9 9 2 1 4294967296":                 "-ERR value is not an integer or out of range",
		"COUNTER.MSET weibo 1 9 COLUMNS":                          "-ERR syntax error",
		"COUNTER.MSET weibo 1 9 9 COLUMNS repost repost":          "-ERR COUNTER.MSET: column 'repost' is named twice",
		"COUNTER.MSET weibo 1 9 COLUMNS nosuch":                   c.do("HSET 1 nosuch 1").String(),
		many:                                                      fmt.Sprintf("-ERR COUNTER.MSET: got %d posts, want at most %d in a command", counter.MaxRows(2)+1, counter.MaxRows(2)),
		"COUNTER.MSET weibo 1 9 9 2 1 x IDMP p 1":                 "-ERR value is not an integer or out of range",
		"COUNTER.MSET weibo 1 9 9 9223372036854775808 1 1":        "-ERR '9223372036854775808' is not a mid",
		"COUNTER.MSET weibo 1 9 9 2 1 1 COLUMNS repost cntcm mid": c.do("HSET 1 mid 1").String(),
	} {
		if got := c.do(command).String(); !strings.HasPrefix(got, want) {
			t.Errorf("%.80s: got %s, want %s", command, got, want)
		}
	}
	c.want("MULTI", "+OK")
	c.want("COUNTER.MSET weibo 1 9 9", "-ERR Command not allowed inside a transaction")
	c.want("DISCARD", "+OK")
	c.want("COUNTER.MGET weibo 1 2", "[[:5 :6] [:7 :8]]")
	c.want("COUNTER.MSET weibo 1 9 9 2 1 1 IDMP p 1", ":2") // its number was not used up
}

// TestMSetCluster: a node takes posts of all slots that it has, in one command, and none of others. So does a forward port,
// of one shard's.
func TestMSetCluster(t *testing.T) {
	k := startCluster(t, nil, 1, 2)
	c, first, second, away := k.dial(0, 2), k.mid(0, 0), k.mid(0, 1), k.mid(1, 0)
	if slot.Of(first) == slot.Of(second) {
		t.Fatalf("%d and %d are of one slot", first, second)
	}
	c.want(fmt.Sprintf("COUNTER.MSET weibo %d 1 2 %d 3 4", first, second), ":2")
	if got := c.do(fmt.Sprintf("COUNTER.MSET weibo %d 5 6 %d 7 8", first, away)).String(); got != k.moved(slot.Of(away), 1) {
		t.Errorf("got %s, want %s", got, k.moved(slot.Of(away), 1))
	}
	c.want(fmt.Sprintf("COUNTER.MGET weibo %d", first), "[[:1 :2]]")

	f := serveForward(t, 3, nil)
	w := f.forward(0, 2)
	mine := map[uint8][]int{}
	for mid := range 60 {
		owner := uint8(0)
		for i, s := range f.srv {
			if s.cluster.Now().Owned.Has(slot.Group(uint64(mid))) {
				owner = uint8(i)
			}
		}
		mine[owner] = append(mine[owner], mid)
	}
	for owner, mids := range mine {
		command := "COUNTER.MSET weibo"
		for _, mid := range mids {
			command += fmt.Sprintf(" %d %d %d", mid, owner, mid)
		}
		w.want(command, fmt.Sprintf(":%d", len(mids)))
		w.want(fmt.Sprintf("GET %d.cntrn", mids[0]), fmt.Sprintf("%q", fmt.Sprint(mids[0])))
	}
	w.want(fmt.Sprintf("COUNTER.MSET weibo %d 8 8 %d 8 8", mine[0][0], mine[1][0]), "-"+scatter.ErrRowsApart)
}

// TestMSetRights: who may write some posts only names columns.
func TestMSetRights(t *testing.T) {
	s := wireServe(t, nil)
	admin, c := wireDial(t, s, 2), wireDial(t, s, 2)
	admin.want("ACL SETUSER some on >x +@all ~weibo:1* ~{weibo:2}.cntcm", "+OK")
	c.want("AUTH some x", "+OK")
	c.want("COUNTER.MSET weibo 1 5 6 COLUMNS comment repost", ":1")
	for _, command := range []string{"COUNTER.MSET weibo 1 5 6", "COUNTER.MSET weibo 3 5 COLUMNS comment", "COUNTER.MSET weibo 1 5 3 6 COLUMNS comment IDMP p 5"} {
		if got := c.do(command).String(); !strings.HasPrefix(got, "-NOPERM ") {
			t.Errorf("%s: got %s, want NOPERM", command, got)
		}
	}
	c.want("COUNTER.MSET weibo 1 5 11 6 COLUMNS comment IDMP p 5", ":2")
}
