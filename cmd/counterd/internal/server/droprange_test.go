// Scenario: COUNTER.DROPRANGE beside transactions, clients that keep keys, feeds and replicas.

package server

import (
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
