// Scenario: COUNTER.UPDATE with a number changes posts once.

package server

import (
	"fmt"
	"strings"
	"testing"
)

// TestFindOnce: an UPDATE with a number is made once, and answered the same, whatever has changed since, over both
// versions of the protocol and a restart.
func TestFindOnce(t *testing.T) {
	n := newReplNode(t).start("")
	c2, c3 := n.dial(), n.dial()
	c3.proto = 3
	c3.do("HELLO 3")
	for i := range 100 {
		c2.want(fmt.Sprintf("HSET %d repost %d comment 1", i, i), ":2")
	}
	forms := []struct{ command, reply string }{
		{"COUNTER.UPDATE weibo WHERE repost < 10 INCR comment 5 INCR repost 1000", ":10"},
		{"COUNTER.UPDATE weibo WHERE repost = 50 SET comment 9 LIMIT 3 RETURNING OLD", "[[:50 :1 :50]]"},
		{"COUNTER.UPDATE weibo WHERE repost = 50 DECR repost 50 LIMIT 3 RETURNING NEW", "[[:50 :9 :0]]"},
		{"COUNTER.UPDATE weibo WHERE repost = 4321 INCR comment 1", ":0"},
		{"COUNTER.UPDATE weibo WHERE repost > 90 AND repost < 1000 DEL LIMIT 4", ":4"},
		{"COUNTER.UPDATE weibo MID < 50 DECR comment 4294967295", ":0"},
	}
	for round := range 3 {
		for i, f := range forms {
			before := c2.do("COUNTER.DIGEST").Raw
			tail := fmt.Sprintf(" IDMP p %d", i)
			c2.want(f.command+tail, f.reply)
			if round == 0 {
				before = c2.do("COUNTER.DIGEST").Raw
			}
			c3.want(f.command+tail+" EPOCH 0", f.reply)
			if got := c2.do("COUNTER.DIGEST").Raw; got != before {
				t.Fatalf("%s was made again", f.command)
			}
		}
		c2.want("COUNTER.UPDATE weibo INCR comment 1 IDMP p 2", "-IDMPMISMATCH "+strings.TrimPrefix(c2.do("INCR 1.cntcm IDMP p 2").Text, "IDMPMISMATCH "))
		switch round {
		case 0: // also while it would be refused, and when it could not be read any more
			c2.want("ADD COUNTER other", "+OK")
			c2.want("CLIENT IDMP p 3", "+OK")
			c2.want(forms[3].command, ":0")
			c2.want("CLIENT IDMP OFF", "+OK")
		case 1:
			n.stop()
			n.start("")
			c2, c3 = n.dial(), n.dial()
			c3.proto = 3
			c3.do("HELLO 3")
		}
	}
	// Refused: nothing is changed, and the number is free.
	digest := c2.do("COUNTER.DIGEST").Raw
	for command, want := range map[string]string{
		"COUNTER.UPDATE weibo WHERE nosuch > 1 DEL IDMP p 50":   "-ERR no column 'nosuch' in counter 'weibo' (see SCHEMA)",
		"COUNTER.UPDATE weibo SET comment 4294967296 IDMP p 50": "-ERR value is not an integer or out of range",
		"COUNTER.UPDATE weibo INCR comment 1 IDMP p x":          "-ERR IDMP: want a sequence number of 0 to 18446744073709551615",
	} {
		c2.want(command, want)
	}
	if got := c2.do("COUNTER.DIGEST").Raw; got != digest {
		t.Error("a refused UPDATE has changed something")
	}
	c2.want("IDMP LAST p", ":5")
}

// TestFindOnceMany: an UPDATE with a number is one change, and so is bounded; others wait for it and see all or
// nothing.
func TestFindOnceMany(t *testing.T) {
	s := wireServe(t, nil)
	c, reader := wireDial(t, s, 2), wireDial(t, s, 2)
	const posts = 10_001
	for i := range posts {
		c.send(fmt.Sprintf("SET %d.cntrn 1", i))
		if i%500 == 499 || i == posts-1 {
			for range i%500 + 1 {
				c.read()
			}
		}
	}
	c.want("COUNTER.UPDATE weibo INCR repost 1 IDMP p 1", "-ERR more than 10000 posts match the conditions: want LIMIT 1..10000 with IDMP")
	c.want("COUNTER.UPDATE weibo INCR repost 1 RETURNING NEW", "-ERR more than 10000 posts match the conditions: want LIMIT 1..10000 with RETURNING")
	c.want("COUNTER.COUNT weibo WHERE repost = 1", fmt.Sprintf(":%d", posts))
	if rows := c.do("COUNTER.FIND weibo").List; len(rows) != 10_000 {
		t.Errorf("FIND without LIMIT answered %d rows, want 10000", len(rows))
	}
	if rows := c.do("COUNTER.FIND weibo CURSOR 0").List[1].List; len(rows) != 100 {
		t.Errorf("a page has %d rows, want 100", len(rows))
	}
	if rows := c.do("COUNTER.UPDATE weibo MID < 1500 SET comment 3 RETURNING NEW").List; len(rows) != 1500 || rows[1499].String() != "[:1499 :3 :1]" {
		t.Errorf("an UPDATE that returns all its rows answered %d, the last %s", len(rows), rows[len(rows)-1])
	}
	c.want("COUNTER.COUNT weibo WHERE comment = 3", ":1500")
	for i := range 5 {
		c.send(fmt.Sprintf("COUNTER.UPDATE weibo MID < 1000 INCR repost 1 IDMP p %d", 2+i))
	}
	for ended := false; !ended; {
		ended = reader.do("GET 999.cntrn").Text == "6"
		page := reader.do("MGET 0.cntrn 500.cntrn 999.cntrn")
		if a, b := page.List[0].Text, page.List[2].Text; a != b && !ended {
			// A page is read post by post: only one frozen moment shows all alike.
			reader.want("MULTI", "+OK")
			reader.want("MGET 0.cntrn 500.cntrn 999.cntrn", "+QUEUED")
			v := reader.do("EXEC").List[0]
			if v.List[0].Text != v.List[2].Text {
				t.Fatalf("a part of an UPDATE with a number was seen: %s", v)
			}
		}
	}
	for range 5 {
		if got := c.read().String(); got != ":1000" {
			t.Errorf("got %s, want :1000", got)
		}
	}
}
