// Scenario: clients are told of changes to the keys that they read, by every name of a post.

package server

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/tracking"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// told reads the next push and checks it.
func (c *wireClient) told(want string) {
	c.t.Helper()
	if got := c.read().String(); got != want {
		c.t.Fatalf("got %s, want %s", got, want)
	}
}

func invalid(keys ...string) string {
	for i := range keys {
		keys[i] = fmt.Sprintf("%q", keys[i])
	}
	return `>"invalidate" [` + strings.Join(keys, " ") + "]<"
}

// nothing checks that no message was sent: the next bytes are the answer to PING.
func (c *wireClient) nothing() {
	c.t.Helper()
	c.want("PING", "+PONG")
}

// TestTrackingNames: a change by one name of a post is told to the clients that read it by any name, in their own
// spelling, and to no others.
func TestTrackingNames(t *testing.T) {
	s := wireServe(t, nil)
	w, c := wireDial(t, s, 2), wireDial(t, s, 3)
	c.want("CLIENT TRACKING ON", "+OK")
	for _, name := range []struct{ read, change, told string }{
		{"GET 1.cntcm", "SET 1.cntcm 5", "1.cntcm"},
		{"GET 1.cntcm", "INCR weibo:{1}.cntcm", "1.cntcm"},
		{"GET {weibo:1}.cntcm", "HINCRBY 1 comment 1", "{weibo:1}.cntcm"},
		{"GET 0001.cntcm", "HSET weibo:1 comment 7", "0001.cntcm"},
		{"HGETALL weibo:1", "INCR 1.cntrn", "weibo:1"},
		{"HGET 1 comment", "DECR 1.cntcm", "1"},
		{"COUNTER.MGET weibo 1", "COUNTER.MINCRBY 1.cntcm 2", "weibo:1"},
		{"COUNTER.MGET weibo 1", "COUNTER.MSET weibo 1 2 3 COLUMNS repost comment", "weibo:1"},
		{"GET 1.cntcm", "COUNTER.MSET weibo 5 1 1 1 2 3", "1.cntcm"},
		{"EXISTS 1", "DEL 1", "1"},
		{"GET 77.cntcm", "INCR 77.cntrn", "77.cntcm"}, // absent; then there with its default
		{"STRLEN 1.cntcm", "COUNTER.DRAIN 1.cntcm", "1.cntcm"},
		{"MGET 9.cntcm 1.cntcm", "MSET 1.cntcm 9", "1.cntcm"},
		{"GET 1.cntcm", "GETSET 1.cntcm 4", "1.cntcm"},
		{"GET 1.cntcm", "GETDEL 1.cntcm", "1.cntcm"},
		{"GET 1.cntcm", "HDEL 1 comment", "1.cntcm"},
		{"GET 1.cntcm", "COUNTER.UPDATE weibo MID = 1 SET comment 4", "1.cntcm"},
		{"TYPE 1", "UNLINK 1", "1"},
		{"GET 78.cntcm", "SETNX 78.cntrn 1", "78.cntcm"},
		{"TTL 1.cntcm", "INCR 1.cntcm IDMP p 1", "1.cntcm"},
	} {
		if v := c.do(name.read); v.Kind == '-' {
			t.Fatalf("%s: %s", name.read, v)
		}
		if v := w.do(name.change); v.Kind == '-' {
			t.Fatalf("%s: %s", name.change, v)
		}

		if got, want := c.read().String(), invalid(name.told); got != want {
			t.Fatalf("%s, %s: got %s, want %s", name.read, name.change, got, want)
		}
		w.do("INCR 1.cntcm") // told once
		c.nothing()
	}
	for _, quiet := range [][2]string{{"GET 1.cntcm", "INCR 1.cntrn"}, {"GET 1.cntcm", "INCR 2.cntcm"}, {"GET no.such", "INCR 3.cntcm"},
		{"GET 1.cntcm", "INCR 1.cntcm IDMP p 1"}, {"GET 1.cntcm", "SETNX 1.cntcm 1"}, {"GET 1.cntcm", "INCRBY 1.cntcm -100000"}, {"GET 1.cntcm", "SET 1.cntcm 1 NX"},
		{"SET 5.cntcm 1", "INCR 5.cntcm"}, {"COUNTER.COUNT weibo", "INCR 6.cntcm"}} {
		c.do(quiet[0])
		w.do(quiet[1])
		c.nothing()
	}
	// A key that becomes one, or another, by the schema; and everything.
	for _, change := range []string{"ADD COLUMN weibo like hint=8 max=32 suffix=cntlk", "DROP COLUMN weibo like", "FLUSHALL"} {
		c.do("GET 1.cntlk")
		w.want(change, "+OK")
		c.told(`>"invalidate" nil<`)
		w.do("SET 1.cntcm 3")
		c.nothing()
	}
	// A key of a length that nobody wants to keep is told at once, behind its value.
	long := strings.Repeat("0", 300) + "1.cntcm"
	c.want("GET "+long, `"3"`)
	c.told(invalid(long))
	if f := s.tracking.Sizes(); f.Keys != 0 || f.Items != 0 {
		t.Errorf("the table has %+v, want nothing left", f)
	}
}

// TestTrackingModes: the messages of each mode, their receivers and their order.
func TestTrackingModes(t *testing.T) {
	s := wireServe(t, nil)
	w, c := wireDial(t, s, 2), wireDial(t, s, 3)
	w.want("MSET 1.cntcm 1 2.cntcm 1", "+OK")
	is := func(command, want string) { t.Helper(); c.want(command, want) }

	// Its own changes, behind their replies; and in a transaction behind all of them.
	is("CLIENT TRACKING ON", "+OK")
	is("GET 1.cntcm", `"1"`)
	is("INCR 1.cntcm", ":2")
	c.told(invalid("1.cntcm"))
	is("MULTI", "+OK")
	is("GET 1.cntcm", "+QUEUED")
	is("INCR 1.cntcm", "+QUEUED")
	is("GET 1.cntcm", "+QUEUED")
	is("EXEC", `["2" :3 "3"]`)
	c.told(invalid("1.cntcm"))
	is("GET 1.cntcm", `"3"`)
	is("FLUSHALL", "+OK")
	c.told(`>"invalidate" nil<`)

	is("CLIENT TRACKING ON NOLOOP", "+OK")
	is("GET 1.cntcm", "nil")
	is("INCR 1.cntcm", ":1")
	c.nothing()
	w.want("INCR 1.cntcm", ":2") // it may have read behind its change
	c.told(invalid("1.cntcm"))
	is("GET 1.cntcm", `"2"`)
	w.want("INCR 1.cntcm", ":3")
	c.told(invalid("1.cntcm"))

	is("CLIENT TRACKING OFF", "+OK")
	is("CLIENT TRACKING ON OPTIN", "+OK")
	is("GET 1.cntcm", `"3"`)
	w.want("INCR 1.cntcm", ":4")
	is("CLIENT CACHING YES", "+OK")
	is("CLIENT TRACKINGINFO", `("flags" {"on" "optin" "caching-yes"} "redirect" :0 "prefixes" [])`)
	is("GET 1.cntcm", `"4"`)
	is("GET 2.cntcm", "nil") // not that any more
	w.want("INCR 2.cntcm", ":1")
	w.want("INCR 1.cntcm", ":5")
	c.told(invalid("1.cntcm"))
	is("CLIENT CACHING YES", "+OK")
	is("MULTI", "+OK")
	is("PTTL 1.cntcm", "+QUEUED")
	is("GET 1.cntcm", "+QUEUED")
	is("EXEC", `[:-1 "5"]`)
	is("GET 2.cntcm", `"1"`)
	w.want("INCR 2.cntcm", ":2")
	w.want("INCR 1.cntcm", ":6")
	c.told(invalid("1.cntcm"))
	is("CLIENT CACHING YES", "+OK")
	is("GET", "-ERR wrong number of arguments for 'get' command (usage: GET key)")
	is("GET 1.cntcm", `"6"`)
	w.want("INCR 1.cntcm", ":7")
	c.nothing()

	is("CLIENT TRACKING OFF", "+OK")
	is("CLIENT TRACKING ON OPTOUT", "+OK")
	is("CLIENT CACHING NO", "+OK")
	is("GET 1.cntcm", `"7"`)
	w.want("INCR 1.cntcm", ":8")
	is("GET 1.cntcm", `"8"`)
	w.want("INCR 1.cntcm", ":9")
	c.told(invalid("1.cntcm"))

	is("CLIENT TRACKING OFF", "+OK")
	is("CLIENT TRACKING ON BCAST PREFIX 1 PREFIX weibo: NOLOOP", "+OK")
	is("CLIENT TRACKINGINFO", `("flags" {"on" "bcast" "noloop"} "redirect" :0 "prefixes" ["1" "weibo:"])`)
	w.want("INCR 1.cntcm", ":10")
	c.toldAny(invalid("1", "1.cntcm"), invalid("weibo:1", "weibo:1.cntcm", "weibo:{1}", "weibo:{1}.cntcm"))
	w.want("INCR 22.cntcm", ":1") // a new post: all its columns
	c.told(invalid("weibo:22", "weibo:22.cntcm", "weibo:22.cntrn", "weibo:{22}", "weibo:{22}.cntcm", "weibo:{22}.cntrn"))
	is("INCR 1.cntcm", ":11")
	c.nothing()
	is("CLIENT TRACKING ON BCAST PREFIX {", "+OK")
	w.want("INCR 2.cntcm", ":3")
	c.toldAny(invalid("{2}", "{2}.cntcm", "{weibo:2}", "{weibo:2}.cntcm"), invalid("weibo:2", "weibo:2.cntcm", "weibo:{2}", "weibo:{2}.cntcm"))
	is("RESET", "+RESET")
	if f := s.tracking.Sizes(); f.Clients != 0 || f.Prefixes != 0 || f.Keys != 0 {
		t.Errorf("the table has %+v, want nothing left", f)
	}
}

// toldAny is told for some pushes in any order.
func (c *wireClient) toldAny(want ...string) {
	c.t.Helper()
	for range want {
		got := c.read().String()
		i := 0
		for i < len(want) && want[i] != got {
			i++
		}
		if i == len(want) {
			c.t.Fatalf("got %s, want one of %s", got, want)
		}
		want[i] = ""
	}
}

// TestTrackingRedirect: another connection is told, by a message if it speaks RESP2 and subscribes to something; a
// client that has lost it is told so.
func TestTrackingRedirect(t *testing.T) {
	s := wireServe(t, nil)
	w, c := wireDial(t, s, 2), wireDial(t, s, 2)
	to := wireDial(t, s, 2)
	id := to.do("CLIENT ID").N
	to.want("SUBSCRIBE __redis__:invalidate", `["subscribe" "__redis__:invalidate" :1]`)
	w.want("SET 1.cntcm 1", "+OK")
	c.want(fmt.Sprint("CLIENT TRACKING ON REDIRECT ", id), "+OK")
	c.want("CLIENT GETREDIR", fmt.Sprint(":", id))
	c.want("GET 1.cntcm", `"1"`)
	w.want("INCR 1.cntcm", ":2")
	to.told(`["message" "__redis__:invalidate" ["1.cntcm"]]`)
	c.want("GET 1.cntcm", `"2"`)
	w.want("FLUSHALL", "+OK")
	to.told(`["message" "__redis__:invalidate" nil]`)
	if line := c.do("CLIENT LIST").Text; !strings.Contains(line, fmt.Sprintf(" redir=%d ", id)) || !strings.Contains(line, "flags=tU ") {
		t.Errorf("CLIENT LIST: %s", line)
	}
	// To a client that speaks RESP3 and does nothing else.
	three := wireDial(t, s, 3)
	c.want(fmt.Sprint("CLIENT TRACKING ON REDIRECT ", three.do("CLIENT ID").N), "+OK")
	c.want("GET 1.cntcm", "nil")
	w.want("INCR 1.cntcm", ":1")
	three.told(invalid("1.cntcm"))

	c.proto = 3
	c.do("HELLO 3")
	lost := three.do("CLIENT ID").N
	three.conn.Close()
	until(t, "it is gone", func() bool { return s.front.Session(lost) == nil })
	c.want("GET 1.cntcm", `"1"`)
	w.want("INCR 1.cntcm", ":2")
	c.told(fmt.Sprintf(`>"tracking-redir-broken" :%d<`, lost))
	c.want("CLIENT TRACKINGINFO", fmt.Sprintf(`("flags" {"on" "broken_redirect"} "redirect" :%d "prefixes" [])`, lost))
	if line := c.do("CLIENT INFO").Text; !strings.Contains(line, "flags=tRU ") {
		t.Errorf("CLIENT INFO: %s", line)
	}
	c.want("CLIENT TRACKING ON", "+OK")
	c.want("CLIENT TRACKINGINFO", `("flags" {"on"} "redirect" :0 "prefixes" [])`)
	// A connection that is told by itself in RESP2 hears nothing.
	to.want("RESET", "+RESET")
	to.want("CLIENT TRACKING ON", "+OK")
	to.want("GET 1.cntcm", `"2"`)
	w.want("INCR 1.cntcm", ":3")
	to.nothing()
}

// TestTrackingErrors are Redis's, word for word.
func TestTrackingErrors(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	c.want("CLIENT GETREDIR", ":-1")
	c.want("CLIENT TRACKINGINFO", `["flags" ["off"] "redirect" :-1 "prefixes" []]`)
	for command, text := range map[string]string{
		"CLIENT CACHING YES":                                          "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
		"CLIENT TRACKING MAYBE":                                       "syntax error",
		"CLIENT TRACKING ON MAYBE":                                    "syntax error",
		"CLIENT TRACKING ON PREFIX":                                   "syntax error",
		"CLIENT TRACKING ON REDIRECT 77777":                           "The client ID you want redirect to does not exist",
		"CLIENT TRACKING ON REDIRECT x":                               "value is not an integer or out of range",
		"CLIENT TRACKING ON PREFIX a":                                 "PREFIX option requires BCAST mode to be enabled",
		"CLIENT TRACKING ON BCAST OPTIN":                              "OPTIN and OPTOUT are not compatible with BCAST",
		"CLIENT TRACKING ON OPTIN OPTOUT":                             "You can't specify both OPTIN mode and OPTOUT mode",
		"CLIENT TRACKING ON BCAST PREFIX FOOBAR PREFIX FOO":           "Prefix 'FOOBAR' overlaps with another provided prefix 'FOO'. Prefixes for a single client must not overlap.",
		"CLIENT TRACKING ON BCAST PREFIX A PREFIX B PREFIX BC":        "Prefix 'B' overlaps with another provided prefix 'BC'. Prefixes for a single client must not overlap.",
		"CLIENT TRACKING ON BCAST PREFIX " + strings.Repeat("x", 257): "a prefix has at most 256 bytes",
		"CLIENT TRACKING ON BCAST" + prefixList(1025):                 "a connection has at most 1024 prefixes",
	} {
		c.want(command, "-ERR "+text)
		c.want("CLIENT TRACKINGINFO", `["flags" ["off"] "redirect" :-1 "prefixes" []]`)
	}
	c.want("CLIENT TRACKING ON OPTIN", "+OK")
	c.want("CLIENT CACHING NO", "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	c.want("CLIENT CACHING MAYBE", "-ERR syntax error")
	c.want("CLIENT TRACKING ON BCAST", "-ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.")
	c.want("CLIENT TRACKING ON OPTOUT", "-ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.")
	c.want("CLIENT TRACKING OFF", "+OK")
	c.want("CLIENT TRACKING ON BCAST PREFIX a", "+OK")
	c.want("CLIENT TRACKING ON BCAST PREFIX ab", "-ERR Prefix 'ab' overlaps with an existing prefix 'a'. Prefixes for a single client must not overlap.")
	c.want("CLIENT CACHING YES", "-ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	if line := c.do("CLIENT INFO").Text; !strings.Contains(line, "flags=tBU ") || !strings.Contains(line, " redir=0 ") {
		t.Errorf("CLIENT INFO: %s", line)
	}
}

func prefixList(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " PREFIX %05d", i)
	}
	return b.String()
}

// TestTrackingLimit: above tracking-table-max-keys keys are told as if they had changed. A connection that ends leaves
// nothing behind.
func TestTrackingLimit(t *testing.T) {
	s := wireServe(t, nil)
	w, c := wireDial(t, s, 2), wireDial(t, s, 3)
	c.want("CLIENT TRACKING ON", "+OK")
	for i := range 250 {
		c.want(fmt.Sprintf("GET %d.cntcm", i), "nil")
	}
	w.want("CONFIG SET tracking-table-max-keys 10", "+OK")
	seen := map[string]bool{}
	for range 240 {
		v := c.read()
		seen[v.List[1].List[0].Text] = true
	}
	if len(seen) != 240 {
		t.Errorf("%d keys were told", len(seen))
	}
	c.nothing()
	info := w.do("INFO stats").Text + w.do("INFO clients").Text
	for _, field := range []string{"tracking_total_keys:10\r\n", "tracking_total_items:10\r\n", "tracking_total_prefixes:0\r\n", "tracking_clients:1\r\n"} {
		if !strings.Contains(info, field) {
			t.Errorf("INFO has no %s", field)
		}
	}
	for i := range 100 {
		c.send(fmt.Sprintf("GET %d.cntcm", 1000+i))
	}
	told := 0
	c.send("PING") // behind all
	for v := c.read(); v.Text != "PONG"; v = c.read() {
		if v.Kind == '>' {
			told++
		}
	}
	for range 100 - told - s.tracking.Sizes().Keys + 10 { // of this turn
		if c.read().Kind == '>' {
			told++
		}
	}
	if f := s.tracking.Sizes(); f.Keys > 40 || told < 60 { // of 64 parts each may keep one, but no part is looked at that nobody uses
		t.Errorf("%d keys are kept, %d were told; the limit is 10", f.Keys, told)
	}
	c.conn.Close()
	until(t, "nothing left", func() bool { return s.tracking.Sizes().Clients == 0 })
	if f := s.tracking.Sizes(); f.Keys != 0 {
		t.Errorf("%d keys of nobody", f.Keys)
	}
}

// TestTrackingSilence: under CLIENT REPLY OFF keys are told all the same, and at once to a client that waits in a
// command.
func TestTrackingSilence(t *testing.T) {
	s := wireServeStore(t, t.TempDir(), counter.Options{SnapshotGrowth: -1}, nil)
	w, c := wireDial(t, s, 2), wireDial(t, s, 3)
	c.want("CLIENT TRACKING ON", "+OK")
	c.want("GET 1.cntcm", "nil")
	c.send("CLIENT REPLY OFF")
	c.send("GET 2.cntcm")
	w.want("INCR 1.cntcm", ":1")
	c.told(invalid("1.cntcm"))
	c.send("INCR 2.cntcm")
	c.told(invalid("2.cntcm"))
	c.want("CLIENT REPLY ON", "+OK")
	c.want("GET 1.cntcm", `"1"`)
	c.send("CLIENT REPLY SKIP")
	c.send("INCR 1.cntcm")
	c.told(invalid("1.cntcm"))
	c.want("GET 1.cntcm", `"2"`)
	c.send("WAIT 1 0")
	until(t, "it waits", func() bool { return s.front.Blocked() == 1 })
	w.want("INCR 1.cntcm", ":3")
	c.told(invalid("1.cntcm"))
	w.want(fmt.Sprint("CLIENT UNBLOCK ", s.front.Sessions()[1].ID()), ":1")
	c.told(":0")
	c.want("GET 1.cntcm", `"3"`)
	c.want("SUBSCRIBE a", `>"subscribe" "a" :1<`)
	c.want("GET 2.cntcm", `"1"`)
	w.want("INCR 1.cntcm", ":4")
	c.told(invalid("1.cntcm"))
	w.want("PUBLISH a x", ":1")
	c.told(`>"message" "a" "x"<`)
	w.want("INCR 2.cntcm", ":2")
	c.told(invalid("2.cntcm"))
}

// TestTrackingReplica: a replica tells its clients what the primary changed, by commands, by the schema, and by a full
// copy, which is other data; and goes on when it becomes a primary. A port for reads only tracks too.
func TestTrackingReplica(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	w := a.dial()
	w.want("SET 1.cntcm 1", "+OK")
	b.start(a.addr())
	same(t, a, b)
	c := b.dial()
	c.proto = 3
	c.do("HELLO 3")
	c.want("CLIENT TRACKING ON", "+OK")
	read := func(command, want string) { t.Helper(); c.want(command, want) }
	for _, change := range []string{"INCR weibo:1.cntcm", "HSET 1 comment 2", "COUNTER.UPDATE weibo WHERE comment = 2 INCR comment 1", "DEL 1", "SET 1.cntrn 4", "MSET 1.cntcm 2 2.cntcm 3"} {
		c.do("GET {1}.cntcm")
		if v := w.do(change); v.Kind == '-' {
			t.Fatal(v)
		}
		c.told(invalid("{1}.cntcm"))
	}
	for _, command := range []string{"MULTI", "INCR 1.cntcm", "INCR 2.cntcm", "EXEC"} {
		c.do("MGET 1.cntcm 2.cntcm")
		w.do(command)
	}
	c.toldAny(invalid("1.cntcm"), invalid("2.cntcm"))
	for _, change := range []string{"ADD COLUMN weibo like hint=8 max=32 suffix=cntlk", "FLUSHALL"} {
		c.do("GET 1.cntlk")
		w.want(change, "+OK")
		c.told(`>"invalidate" nil<`)
	}
	same(t, a, b)

	other := newReplNode(t).start("")
	other.dial().want("SET 1.cntcm 9", "+OK")
	other.dial().save()
	read("GET 1.cntcm", "nil")
	b.dial().want("REPLICAOF "+other.addr(), "+OK")
	same(t, other, b)
	c.told(`>"invalidate" nil<`)
	read("GET 1.cntcm", `"9"`)
	b.dial().want("REPLICAOF NO ONE", "+OK")
	b.dial().want("INCR 1.cntcm", ":10")
	c.told(invalid("1.cntcm"))
	read("GET 1.cntcm", `"10"`)
	c.nothing()
}

// TestTrackingRedirectEnds: a connection that ends while it is made the target of another counts as gone all the same.
func TestTrackingRedirectEnds(t *testing.T) {
	s := wireServe(t, nil)
	w, c := wireDial(t, s, 2), wireDial(t, s, 2)
	id := c.do("CLIENT ID").N
	target := s.front.Session(id).Handler().(*client)
	c.conn.Close()
	until(t, "the target to end", func() bool { return s.front.Session(id) == nil })
	reader := tracking.NewClient(1000, func() {})
	if err := s.tracking.Enable(reader, tracking.Mode{}, target.tracker.enter(), nil); err != nil {
		t.Fatal(err)
	}
	def := s.store().Schema().Counter("weibo")
	s.tracking.Remember(reader, schema.Key{Counter: def, Mid: 1}, []byte("1.cntcm"))
	w.want("INCR 1.cntcm", ":1")
	if told, _ := reader.Take(); told.Broken != id {
		t.Errorf("told %+v, want that %d is gone", told, id)
	}
	s.tracking.End(reader)
}

// TestTrackingOwnWrite: a connection's own change is told before the reply to a later read in the same pipeline, and a
// key read in this way is told when it changes again.
func TestTrackingOwnWrite(t *testing.T) {
	for _, reads := range []string{"GET 1.cntrn", "PING\r\nGET 1.cntrn", "MGET 1.cntrn 2.cntrn", "HGETALL 1"} {
		for _, change := range []string{"INCR 1.cntrn", "SET 1.cntrn 7", "DEL 1"} {
			s := wireServe(t, nil)
			c, other := wireDial(t, s, 3), wireDial(t, s, 3)
			other.want("SET 1.cntrn 5", "+OK")
			c.want("CLIENT TRACKING ON", "+OK")
			c.want("GET 1.cntrn", `"5"`)
			if _, err := io.WriteString(c.conn, change+"\r\n"+reads+"\r\n"); err != nil {
				t.Fatal(err)
			}
			c.read()
			var got []string
			for range 2 + strings.Count(reads, "\n") {
				got = append(got, c.read().String())
			}
			told := slices.IndexFunc(got, func(s string) bool { return strings.HasPrefix(s, `>"invalidate"`) })
			if told < 0 || told == len(got)-1 {
				t.Errorf("%s, %s: got %q, want the invalidation before the last reply", change, reads, got)
			}
			other.want("SET 1.cntrn 9", "+OK")
			if got := c.do("PING").String(); !strings.HasPrefix(got, `>"invalidate"`) {
				if got = c.read().String(); !strings.HasPrefix(got, `>"invalidate"`) {
					t.Errorf("%s, %s: a later change: got %s", change, reads, got)
				}
			}
		}
	}
}

// TestTrackingOwnWriteInTransaction: a key that a transaction reads behind a change of its own is told when it changes
// again. The transaction's own change may be told to another connection before EXEC is answered, so it must not be the last.
func TestTrackingOwnWriteInTransaction(t *testing.T) {
	s := wireServe(t, nil)
	for i, read := range []string{"GET 1.cntrn", "INCR 2.cntrn|GET 1.cntrn", "GET 3.cntrn|HGETALL 1"} {
		for j, mode := range []string{"", " NOLOOP", " REDIRECT"} {
			c, other, to := wireDial(t, s, 3), wireDial(t, s, 3), wireDial(t, s, 3)
			told := c
			if mode == " REDIRECT" {
				told, mode = to, fmt.Sprint(mode, " ", to.do("CLIENT ID").N)
			}
			c.want("CLIENT TRACKING ON"+mode, "+OK")
			for _, command := range strings.Split("MULTI|INCR 1.cntrn|"+read+"|EXEC", "|") {
				if v := c.do(command); v.Kind == '-' {
					t.Fatal(command, v)
				}
			}
			told.want("PING", "+PONG") // nothing was tracked when the transaction changed it
			other.want("SET 1.cntrn 9", "+OK")
			if got := told.read().String(); !strings.HasPrefix(got, `>"invalidate"`) {
				t.Errorf("%d %d: a change behind the transaction: got %s", i, j, got)
			}
			c.conn.Close()
		}
	}
}

// TestFlushForgetsTracked: however all posts are dropped, no key is tracked any more.
func TestFlushForgetsTracked(t *testing.T) {
	s := wireServe(t, nil)
	c, other := wireDial(t, s, 3), wireDial(t, s, 2)
	c.want("CLIENT TRACKING ON", "+OK")
	for _, flush := range []string{"FLUSHALL", "FLUSHALL ASYNC", "FLUSHALL SYNC", "FLUSHDB ASYNC"} {
		c.do("GET 1.cntrn")
		if got := infoField(t, other, "tracking_total_keys"); got != "1" {
			t.Errorf("tracking_total_keys:%s, want 1", got)
		}
		other.want(flush, "+OK")
		if got := infoField(t, other, "tracking_total_keys"); got != "0" {
			t.Errorf("behind %s tracking_total_keys:%s", flush, got)
		}
		c.read()
	}
}
