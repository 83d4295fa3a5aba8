package server

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// serveForward starts a cluster of n shards of one node each, with forward ports.
func serveForward(t testing.TB, n int, change func(c *config.Config)) *testCluster {
	t.Helper()
	of := make([]int, n)
	for i := range of {
		of[i] = 1
	}
	return startCluster(t, func(c *config.Config) {
		c.Cluster.ForwardPort = freeport.Take(t)
		if change != nil {
			change(c)
		}
	}, of...)
}

// forward connects to the forward port of node i.
func (k *testCluster) forward(i, proto int) *wireClient {
	k.t.Helper()
	return k.dialPort(k.srv[i].config.Get().Cluster.ForwardPort, proto)
}

// same wants the answer that a server of its own gives.
func (c *wireClient) same(model *wireClient, command string) {
	c.t.Helper()
	if got, want := c.do(command), model.do(command); got.Raw != want.Raw {
		c.t.Errorf("RESP%d %s: got %s, want %s", c.proto, command, got, want)
	}
}

// randomCommand is one that a server of its own and a cluster answer alike.
func randomCommand(r *rand.Rand) string {
	mid := func() string {
		s := fmt.Sprint(r.IntN(60))
		if r.IntN(20) == 0 {
			s = "00" + s
		}
		return s
	}
	post := func() string {
		switch m := mid(); r.IntN(6) {
		case 0:
			return "{" + m + "}"
		case 1:
			return "weibo:" + m
		case 2:
			return "weibo:{" + m + "}"
		case 3:
			return "{weibo:" + m + "}"
		default:
			return m
		}
	}
	key := func() string {
		switch r.IntN(20) {
		case 0:
			return post()
		case 1:
			return "nosuch"
		case 2:
			return post() + ".nosuch"
		}
		return post() + []string{".cntcm", ".cntrn"}[r.IntN(2)]
	}
	number := func() string { return fmt.Sprint([]int{0, 1, 2, 3, 100, -1, 70000, 1 << 40}[r.IntN(8)]) }
	column := func() string { return []string{"comment", "repost", "cntcm", "cntrn", "nosuch"}[r.IntN(5)] }
	many := func(n int, f func() string) string {
		var words []string
		for range 1 + r.IntN(n) {
			words = append(words, f())
		}
		return strings.Join(words, " ")
	}
	one := post()
	switch r.IntN(32) {
	case 0, 1, 2, 3:
		return "INCR " + key()
	case 4:
		return "INCRBY " + key() + " " + number()
	case 5:
		return "DECR " + key()
	case 6, 7:
		return "GET " + key()
	case 8:
		return "SET " + key() + " " + number()
	case 9:
		return "SET " + key() + " " + number() + " GET"
	case 10:
		return "GETSET " + key() + " " + number()
	case 11:
		return "GETDEL " + key()
	case 12, 13:
		return "MGET " + many(30, key)
	case 14:
		return "EXISTS " + many(30, key)
	case 15:
		return "TOUCH " + many(5, post)
	case 16, 17:
		return "COUNTER.MGET weibo " + many(30, mid)
	case 18:
		return "COUNTER.MGET weibo " + many(10, mid) + " COLUMNS " + many(3, column)
	case 19:
		return "HGETALL " + post()
	case 20:
		return "HMGET " + post() + " " + many(3, column)
	case 21:
		return "HSET " + post() + " " + column() + " " + number()
	case 22:
		return "HINCRBY " + post() + " " + column() + " " + number()
	case 23:
		return "DEL " + post()
	case 24:
		return "MSET " + one + ".cntcm " + number() + " " + one + ".cntrn " + number()
	case 25:
		return "COUNTER.MINCRBY " + one + ".cntcm " + number() + " " + one + ".cntrn " + number()
	case 26:
		return "COUNTER.DRAIN " + one + ".cntcm " + one + ".cntrn"
	case 27:
		return "TYPE " + key()
	case 28:
		return []string{"COUNTER.MGET nosuch 1", "COUNTER.MGET weibo 1 x", "INCR", "PING", "NOSUCH 1 2", "ECHO hi", "MGET", "COUNTER.MGET weibo 1 COLUMNS"}[r.IntN(8)]
	case 29:
		return "STRLEN " + key()
	case 30:
		return "HDEL " + post() + " " + column()
	default:
		return "INCREX " + key() + " BYINT 5 UBOUND 20 SATURATE"
	}
}

// randomTransaction is one on a post.
func randomTransaction(r *rand.Rand) []string {
	list := []string{"MULTI"}
	mid := r.IntN(60)
	for range r.IntN(5) {
		list = append(list, fmt.Sprintf([]string{"INCR %d.cntcm", "DECR %d.cntrn", "HGETALL %d", "GET %d.cntcm", "NOSUCH %d", "COUNTER.MGET weibo %d", "DEL %d"}[r.IntN(7)], mid))
	}
	return append(list, []string{"EXEC", "EXEC", "EXEC", "DISCARD"}[r.IntN(4)])
}

// TestForwardPort sends random pipelines to the forward port of a cluster and to a server of its own: every byte of the
// answers is the same, also where one of the nodes refuses packed pages, as nodes of older versions do.
func TestForwardPort(t *testing.T) {
	for name, proto := range map[string]int{"RESP2": 2, "RESP3": 3, "mixed formats": 2} {
		t.Run(name, func(t *testing.T) {
			nodes := 0
			change := func(c *config.Config) {
				if nodes++; name == "mixed formats" {
					c.MasterUser, c.MasterAuth = "link", "secret"
					c.Users = []string{[]string{"link on >secret +@all ~* &*", "link on >secret +@all -acl ~* &*"}[nodes%2]}
				}
			}
			seed := seed.Next(t)
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 0))
			model := wireDial(t, wireServe(t, nil), proto)
			f := serveForward(t, 3, change)
			clients := []*wireClient{f.forward(0, proto), f.forward(1, proto), f.forward(2, proto)}
			for range 300 {
				c := clients[r.IntN(3)]
				var sent []string
				for range 1 + r.IntN(40) {
					if r.IntN(30) == 0 {
						sent = append(sent, randomTransaction(r)...)
						continue
					}
					sent = append(sent, randomCommand(r))
				}
				var b []byte
				for _, s := range sent {
					b = resptest.Append(b, strings.Fields(s)...)
				}
				for _, to := range []*wireClient{c, model} {
					if _, err := to.conn.Write(b); err != nil {
						t.Fatal(err)
					}
				}
				for i, s := range sent {
					got, want := c.read(), model.read()
					if got.Raw != want.Raw {
						t.Fatalf("%s (%d of %d): got %s, want %s", s, i, len(sent), got, want)
					}
				}
			}
		})
	}
}
