// Scenario: COUNTER.DROPRANGE beside transactions, clients that keep keys, feeds and replicas.

package server

import (
	"fmt"
	"testing"
)

func TestDropRangeCommand(t *testing.T) {
	s := feedServe(t)
	for _, proto := range []int{2, 3} {
		c, other := wireDial(t, s, proto), wireDial(t, s, proto)
		c.want("FLUSHALL", "+OK")
		c.want("COUNTER.MSET weibo 10 1 2 20 4 5 30 7 8", ":3")
		at, _ := feedOf(t, c.do("COUNTER.FEED FROM NOW"))
		c.want("WATCH 10.cntcm", "+OK")
		other.want("WATCH 30.cntcm", "+OK")
		wireDial(t, s, 2).want("COUNTER.DROPRANGE weibo 0 30", ":2")
		c.want("MULTI", "+OK")
		c.want("INCR 30.cntcm", "+QUEUED")
		c.want("EXEC", "nil")
		other.want("MULTI", "+OK")
		other.want("INCR 30.cntcm", "+QUEUED")
		other.want("EXEC", "[:8]")
		c.want("EXISTS 10 20 30", ":1")
		c.want("DBSIZE", ":1")
		_, changes := feedOf(t, c.do("COUNTER.FEED FROM "+at+" COUNT 1"))
		if len(changes) != 1 || changes[0] != `[["drop" "weibo" "0" "30"]]` {
			t.Errorf("the feed shows %q", changes)
		}
		c.want("COUNTER.DROPRANGE weibo 0 30", ":0")
		c.want("INCR 10.cntcm", ":1")
		c.want("COUNTER.DROPRANGE weibo 10 9223372036854775808", ":2")
		for line, want := range map[string]string{
			"COUNTER.DROPRANGE weibo 7 7":                   "-ERR counter: a range of post ids",
			"COUNTER.DROPRANGE weibo 7 9223372036854775809": "-ERR ",
			"COUNTER.DROPRANGE weibo x 9":                   "-ERR ",
			"COUNTER.DROPRANGE nothing 7 9":                 "-ERR no counter 'nothing'",
			"COUNTER.DROPRANGE weibo 7 9 IDMP p 1":          "-ERR ",
		} {
			if got := c.do(line).Raw; len(got) < len(want) || got[:len(want)] != want {
				t.Errorf("%s: got %q, want %q", line, got, want)
			}
		}
	}
}

// TestDropRangeTracked: clients are told of the keys in the range that they read, and of no others. Those that asked for prefixes are told of all keys.
func TestDropRangeTracked(t *testing.T) {
	s := wireServe(t, nil)
	w, c, all := wireDial(t, s, 2), wireDial(t, s, 3), wireDial(t, s, 3)
	w.want("COUNTER.MSET weibo 10 1 2 20 4 5 30 7 8", ":3")
	c.want("CLIENT TRACKING ON", "+OK")
	all.want("CLIENT TRACKING ON BCAST PREFIX 1", "+OK")
	c.do("GET 10.cntcm")
	c.do("HGETALL weibo:20")
	c.do("GET 30.cntcm")
	w.want("COUNTER.DROPRANGE weibo 11 30", ":1")
	c.told(invalid("weibo:20"))
	all.told(`>"invalidate" nil<`)
	c.nothing()
	c.do("GET 20.cntcm") // absent, and made again
	w.want("INCR 20.cntcm", ":1")
	c.told(invalid("20.cntcm"))
	w.want("COUNTER.DROPRANGE weibo 31 40", ":0")
	c.nothing()
	all.nothing()
	w.want("COUNTER.DROPRANGE weibo 0 11", ":1")
	c.told(invalid("10.cntcm"))
	all.told(`>"invalidate" nil<`)
	w.want("INCR 30.cntcm", ":8")
	c.told(invalid("30.cntcm"))
}

// TestDropRangeEdges: the first and the last post of a range, and ranges at both ends of all ids.
func TestDropRangeEdges(t *testing.T) {
	c := wireDial(t, wireServe(t, nil), 2)
	const last = "9223372036854775807"
	for _, r := range []struct{ from, to, left string }{
		{"10", "20", "[:0 :9 :20 :21 :" + last + "]"},
		{"10", "21", "[:0 :9 :21 :" + last + "]"},
		{"9", "21", "[:0 :21 :" + last + "]"},
		{"0", "1", "[:9 :10 :19 :20 :21 :" + last + "]"},
		{"21", last, "[:0 :9 :10 :19 :20 :" + last + "]"},
		{"21", "9223372036854775808", "[:0 :9 :10 :19 :20]"},
		{last, "9223372036854775808", "[:0 :9 :10 :19 :20 :21]"},
		{"0", "9223372036854775808", "[]"},
		{"11", "19", "[:0 :9 :10 :19 :20 :21 :" + last + "]"},
	} {
		c.want("FLUSHALL", "+OK")
		for _, mid := range []string{"0", "9", "10", "19", "20", "21", last} {
			c.want(fmt.Sprintf("INCR %s.cntcm", mid), ":1")
		}
		c.do("COUNTER.DROPRANGE weibo " + r.from + " " + r.to)
		left := "["
		for i, row := range c.do("COUNTER.FIND weibo COLUMNS comment").List {
			if i > 0 {
				left += " "
			}
			left += row.List[0].String()
		}
		if left += "]"; left != r.left {
			t.Errorf("from %s to %s: left %s, want %s", r.from, r.to, left, r.left)
		}
	}
}

// TestForwardDropRange drops a range by a forward port: the posts of all shards go, and of a port for cluster clients those of its shard.
func TestForwardDropRange(t *testing.T) {
	for _, proto := range []int{2, 3} {
		k := serveForward(t, 3, nil)
		c := k.forward(1, proto)
		for shard := range 3 {
			for n := range 20 {
				c.want(fmt.Sprintf("SET %d.cntcm 1", k.mid(shard, n)), "+OK")
			}
		}
		c.want("COUNTER.COUNT weibo", ":60")
		c.want("COUNTER.DROPRANGE weibo 9 9", "-ERR counter: a range of post ids from 9 on and below 9, want at least one id in it, and at most 9223372036854775808 as its end")
		c.want("COUNTER.COUNT weibo", ":60")
		k.dial(0, proto).want("COUNTER.DROPRANGE weibo 0 9223372036854775808", ":20")
		c.want("COUNTER.COUNT weibo", ":40")
		c.want("COUNTER.DROPRANGE weibo 0 9223372036854775808", ":40")
		c.want("COUNTER.COUNT weibo", ":0")
	}
}
