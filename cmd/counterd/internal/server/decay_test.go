// Scenario: a column decays. It is read like any other, its list is kept, and only additions to its sources change it.

package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
)

// halve moves the time of the log on by a half-life.
func halve(t *testing.T, store *counter.Store, halfLife time.Duration) {
	t.Helper()
	if err := store.Windows().Tick(time.Unix(store.Windows().Time(), 0).Add(halfLife), nil); err != nil {
		t.Fatal(err)
	}
}

func TestDecayColumn(t *testing.T) {
	const halfLife = 60 * 24 * time.Hour // nothing decays but by halve
	s := feedServe(t)
	for _, proto := range []int{2, 3} {
		c := wireDial(t, s, proto)
		c.want("FLUSHALL", "+OK")
		c.do("DROP COLUMN weibo heat")
		c.want("ADD COLUMN weibo heat decay=60d of=repost*2+comment top=2", "+OK")
		c.want("ADD COLUMN weibo heat decay=1440h of=repost*2+comment", "+OK")
		at, _ := feedOf(t, c.do("COUNTER.FEED FROM NOW"))
		c.want("INCRBY 10.cntcm 4", ":4")
		c.want("INCRBY 20.cntrn 20", ":20")
		c.want("DECR 20.cntrn", ":19")
		c.want("SET 30.cntcm 9", "+OK")
		_, changes := feedOf(t, c.do("COUNTER.FEED FROM "+at+" COUNT 10"))
		if len(changes) != 4 || strings.Contains(strings.Join(changes, ""), "heat") {
			t.Errorf("the feed shows %q, want four changes and no derived column", changes)
		}
		c.want("GET 20.heat", `"40"`)
		c.want("GET 30.heat", `"0"`)
		c.want("GET 40.heat", "nil")
		c.want("MGET 10.heat 10.cntcm 40.heat 20.heat", `["4" "4" nil "40"]`)
		c.want("HGET 20 heat", `"40"`)
		c.want("HMGET 20 heat repost", `["40" "19"]`)
		c.want("HVALS 20", `["0" "19" "40"]`)
		c.want("COUNTER.MGET weibo 10 20 30 40", "[[:4 :0 :4] [:0 :19 :40] [:9 :0 :0] nil]")
		c.want("COUNTER.MGET weibo 20 COLUMNS heat", "[[:40]]")
		c.want("COUNTER.FIND weibo WHERE heat > 39 COLUMNS heat", "[[:20 :40]]")
		c.want("COUNTER.FIND weibo WHERE heat < 40 AND comment > 0 COLUMNS heat", "[[:10 :4] [:30 :0]]")
		c.want("COUNTER.COUNT weibo WHERE heat >= 1", ":2")
		c.want("COUNTER.SUM weibo heat", ":44")
		c.want("COUNTER.MAX weibo heat", ":40")
		c.want("COUNTER.TOP weibo heat 1", "[[:20 :40]]")
		c.want("COUNTER.TOP weibo heat 5", "[[:20 :40] [:10 :4] [:30 :0]]")
		c.want("COUNTER.TOP weibo heat 5 WHERE comment > 0", "[[:10 :4] [:30 :0]]")

		halve(t, s.Store(), halfLife)
		c.want("MGET 20.heat 10.heat", `["20" "2"]`)
		c.want("INCRBY 10.cntcm 19", ":23")
		c.want("COUNTER.TOP weibo heat 2", "[[:10 :21] [:20 :20]]")
		c.want("COUNTER.TOP weibo heat 2 WHERE comment >= 0", "[[:10 :21] [:20 :20]]")
		c.want("COUNTER.FIND weibo WHERE heat > 20 COLUMNS heat", "[[:10 :21]]")
		for range 2 {
			halve(t, s.Store(), halfLife)
		}
		c.want("MGET 20.heat 10.heat", `["5" "5"]`)
		c.want("COUNTER.TOP weibo heat 3 WHERE comment >= 0", "[[:10 :5] [:20 :5] [:30 :0]]") // the sums rank more finely
		c.want("COUNTER.TOP weibo heat 3", "[[:10 :5] [:20 :5] [:30 :0]]")

		for _, line := range []string{"SET 10.heat 1", "INCR 10.heat", "HSET 10 heat 1", "DEL 10.heat", "HDEL 10 heat", "MSET 10.cntcm 1 10.heat 1", "COUNTER.MSET weibo 10 1 COLUMNS heat", "INCR 10.heat IDMP p 1"} {
			if got := c.do(line).Raw; !strings.HasPrefix(got, "-ERR counter: the column is derived") {
				t.Errorf("%s: got %q", line, got)
			}
		}
		for _, line := range []string{"DROP COLUMN weibo comment", "COUNTER.UPDATE weibo WHERE heat > 0 INCR comment 1", "ADD COLUMN weibo hotter decay=6h of=heat"} {
			if got := c.do(line).Raw; !strings.HasPrefix(got, "-ERR") {
				t.Errorf("%s: got %q", line, got)
			}
		}
		c.want("COUNTER.MINCRBY 11.cntcm 1 11.cntrn 2", "[:1 :2]")
		c.want("GET 11.heat", `"5"`)
		c.want("MULTI", "+OK")
		c.want("INCR 11.cntcm", "+QUEUED")
		c.want("GET 11.heat", "+QUEUED")
		c.want("EXEC", `[:2 "6"]`)
		for range 2 {
			c.want(fmt.Sprintf("INCR 11.cntcm IDMP p %d", 10+proto), ":3")
		}
		c.want("COUNTER.UPDATE weibo MID = 11 INCR comment 3 INCR repost 1", ":1")
		c.want("HGET 11 heat", `"12"`)
		c.want("ALTER COLUMN weibo heat top=off", "+OK")
		c.want("COUNTER.TOP weibo heat 1", "[[:11 :12]]")
		c.want("ALTER COLUMN weibo heat top=2", "+OK")
		c.want("GET 11.heat", `"12"`)
		c.want("DEL 11", ":1")
		c.want("COUNTER.TOP weibo heat 1", "[[:10 :5]]")
		c.want("INCR 11.cntcm", ":1")
		c.want("GET 11.heat", `"1"`)
		c.want("COUNTER.DROPRANGE weibo 0 15", ":2")
		c.want("SET 10.cntcm 1", "+OK")
		c.want("GET 10.heat", `"0"`)
		c.want("COUNTER.TOP weibo heat 1", "[[:20 :5]]")
	}
}

// TestDecayTracked: clients that keep a column that decays are told of additions to its sources.
func TestDecayTracked(t *testing.T) {
	s := wireServe(t, nil)
	w, c := wireDial(t, s, 2), wireDial(t, s, 3)
	w.want("ADD COLUMN weibo heat decay=60d of=comment", "+OK")
	w.want("INCR 10.cntcm", ":1")
	c.want("CLIENT TRACKING ON", "+OK")
	c.want("GET 10.heat", `"1"`)
	w.want("INCR 10.cntrn", ":1")
	c.nothing()
	w.want("INCR 10.cntcm", ":2")
	c.told(invalid("10.heat"))
}

// TestDecayHotlist: subscribers on a primary and a replica are told which posts enter and leave the list of a column that decays, also by time alone.
func TestDecayHotlist(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	w := a.dial()
	w.want("ADD COLUMN weibo heat decay=60d of=repost*2+comment top=2", "+OK")
	w.want("COUNTER.MINCRBY 1.cntrn 5 2.cntcm 20 3.cntrn 1", "[:5 :20 :1]")
	until(t, "the replica follows", func() bool { return b.dial().do("GET 3.cntrn").Text == "1" })
	hear := hotSubscribers(t, "__hot__:weibo.heat", a, b)
	hear(`{"whole":true,"entered":[[2,20],[1,10]],"left":[]}`)
	halve(t, a.srv.Store(), 60*24*time.Hour)
	w.want("INCRBY 3.cntcm 50", ":50")
	hear(`{"whole":false,"entered":[[3,51]],"left":[1]}`)
	for range 5 {
		halve(t, a.srv.Store(), 60*24*time.Hour)
	}
	hear(`{"whole":false,"entered":[],"left":[2]}`)
	same(t, a, b)
}
