package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// feedReply is the reply with changes of one post each, whose positions are their numbers.
func feedReply(from, to int) string {
	reply := fmt.Sprintf("*2\r\n$%d\r\n%d\r\n*%d\r\n", len(fmt.Sprint(to)), to, to-from)
	for n := from + 1; n <= to; n++ {
		reply += fmt.Sprintf("*3\r\n$%d\r\n%d\r\n:1700000000000\r\n*2\r\n*5\r\n$3\r\nset\r\n$5\r\nweibo\r\n:%d\r\n$6\r\nrepost\r\n:5\r\n*3\r\n$3\r\ndel\r\n$5\r\nweibo\r\n:9\r\n", len(fmt.Sprint(n)), n, n)
	}
	return reply
}

// TestFeed reads a feed through refusals, connections that break and a server that is away for a while: each change comes once.
func TestFeed(t *testing.T) {
	f := newFake(t)
	last, calls := 0, 0
	f.feed = func(args []string) string {
		var from int
		if _, err := fmt.Sscan(args[1], &from); err != nil && args[1] != FeedOldest {
			return "-ERR not a position"
		}
		if calls++; calls%4 == 0 {
			return "-LOADING counterd is loading\r\n"
		}
		last = max(last, min(from+3, 30))
		return feedReply(from, min(from+3, 30))
	}
	f.fates = func(args []string) fate { return fate{lose: args[0] == "COUNTER.FEED" && calls%5 == 3} }
	rdb := redis.NewClient(&redis.Options{Addr: f.addr, MaxRetries: -1})
	defer rdb.Close()
	c, err := New(rdb, Options{Counter: "weibo"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var got []string
	for change, err := range c.Feed(ctx, FeedOldest) {
		if errors.Is(err, context.Canceled) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if p := change.Parts; len(p) != 2 || p[0].Kind != "set" || p[0].Counter != "weibo" || fmt.Sprint(p[0].Mid) != change.Position || !slices.Equal(p[0].Columns, []string{"repost"}) ||
			!slices.Equal(p[0].Values, []int64{5}) || p[1].Kind != "del" || p[1].Mid != 9 || !change.Time.Equal(time.UnixMilli(1700000000000)) {
			t.Fatalf("got %+v", change)
		}
		if got = append(got, change.Position); len(got) == 15 { // it goes away, and comes again
			f.stop()
			f.start()
		}
		if len(got) == 30 {
			cancel()
		}
	}
	for i, position := range got {
		if position != fmt.Sprint(i+1) {
			t.Fatalf("got %v", got)
		}
	}
	if len(got) != 30 {
		t.Errorf("%d changes", len(got))
	}
}

// TestFeedNumbered: a change has its producer and number if the server knows them.
func TestFeedNumbered(t *testing.T) {
	for _, c := range []struct {
		fields   []any
		numbered bool
		producer string
		seq      uint64
	}{
		{nil, false, "", 0}, {[]any{nil, nil}, true, "", 0}, {[]any{"p", int64(7)}, true, "p", 7}, {[]any{"p", "18446744073709551615"}, true, "p", 1<<64 - 1},
	} {
		_, changes, err := parseFeed([]any{"1", []any{append([]any{"1", int64(1), []any{[]any{"flush"}}}, c.fields...)}})
		if err != nil || len(changes) != 1 || changes[0].Value.Numbered != c.numbered || changes[0].Value.Producer != c.producer || changes[0].Value.Seq != c.seq {
			t.Errorf("%v: got %+v, %v", c.fields, changes, err)
		}
	}
	if _, _, err := parseFeed([]any{"1", []any{[]any{"1", int64(1), []any{}, "p", "x"}}}); !errors.Is(err, errFeedReply) {
		t.Errorf("a number that is none: %v", err)
	}
}

// TestFeedOld: a part has the values before it, if the log tells.
func TestFeedOld(t *testing.T) {
	post := func(kind string, rest ...any) []any { return append([]any{kind, "weibo", int64(7)}, rest...) }
	for _, c := range []struct {
		part []any
		want FeedPart
	}{
		{post("set", "repost", int64(5)), FeedPart{Columns: []string{"repost"}, Values: []int64{5}}},
		{post("set", "repost", int64(5), nil), FeedPart{Columns: []string{"repost"}, Values: []int64{5}}},
		{post("set", "repost", int64(5), []any{}), FeedPart{Columns: []string{"repost"}, Values: []int64{5}, Old: &FeedOld{}}},
		{post("set", "repost", int64(5), []any{"repost", int64(4)}), FeedPart{Columns: []string{"repost"}, Values: []int64{5}, Old: &FeedOld{[]string{"repost"}, []int64{4}}}},
		{post("set", []any{}), FeedPart{Old: &FeedOld{}}},
		{post("del"), FeedPart{}},
		{post("del", nil), FeedPart{}},
		{post("del", []any{"repost", int64(4), "comment", int64(0)}), FeedPart{Old: &FeedOld{[]string{"repost", "comment"}, []int64{4, 0}}}},
	} {
		c.want.Kind, c.want.Counter, c.want.Mid = c.part[0].(string), "weibo", 7
		_, changes, err := parseFeed([]any{"1", []any{[]any{"1", int64(1), []any{c.part}}}})
		if err != nil || len(changes) != 1 || !reflect.DeepEqual(changes[0].Value.Parts, []FeedPart{c.want}) {
			t.Errorf("%v: got %+v, %v", c.part, changes, err)
		}
	}
	if _, _, err := parseFeed([]any{"1", []any{[]any{"1", int64(1), []any{post("set", "repost", int64(5), []any{"repost"})}}}}); !errors.Is(err, errFeedReply) {
		t.Errorf("a column without a value: %v", err)
	}
	var o feedOptions
	FeedWithOld()(&o)
	FeedSafe(2)(&o)
	if got := o.words(); !slices.Equal(got, []any{"SAFE", 2, "WITH", "OLD"}) {
		t.Errorf("words %v", got)
	}
}

// TestFeedEnds: a feed ends with an error that says why it cannot go on.
func TestFeedEnds(t *testing.T) {
	f := newFake(t)
	rdb := redis.NewClient(&redis.Options{Addr: f.addr, MaxRetries: -1})
	defer rdb.Close()
	c, err := New(rdb, Options{Counter: "weibo"})
	if err != nil {
		t.Fatal(err)
	}
	for reply, check := range map[string]func(err error) bool{
		"-POSGONE 1-a no longer kept\r\n": func(err error) bool {
			e, ok := errors.AsType[*PositionError](err)
			return ok && !e.History && e.Next == "1-a"
		},
		"-POSHISTORY - another\r\n": func(err error) bool {
			e, ok := errors.AsType[*PositionError](err)
			return ok && e.History && e.Next == ""
		},
		"-NOPERM no\r\n":                      func(err error) bool { return err != nil },
		"*2\r\n$1\r\n1\r\n:5\r\n":             func(err error) bool { return errors.Is(err, errFeedReply) },
		"*2\r\n$1\r\n1\r\n*1\r\n*1\r\n:1\r\n": func(err error) bool { return errors.Is(err, errFeedReply) },
		"*1\r\n$1\r\n1\r\n":                   func(err error) bool { return errors.Is(err, errFeedReply) },
	} {
		f.set(func() { f.feed = func([]string) string { return reply } })
		n := 0
		for _, err := range c.Feed(t.Context(), "1") {
			if n++; n > 1 || !check(err) {
				t.Errorf("%q: got %v", reply, err)
			}
		}
	}
	nodes := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{f.addr}})
	defer nodes.Close()
	if c, err = New(nodes, Options{Counter: "weibo"}); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"", "1-a", "c1", "c1,", "c1,1", "c1,1=", "c1,x=1-a", "c1,1=1-a,1=1-b", "c2,1=1-a"} {
		ended := false
		for _, err := range c.Feed(t.Context(), from) {
			ended = err != nil
		}
		if !ended {
			t.Errorf("from %q: no error", from)
		}
	}
	if c, err = New(rdb, Options{Counter: "weibo", Cluster: true}); err != nil {
		t.Fatal(err)
	}
	for _, err := range c.Feed(t.Context(), FeedNow) {
		if !errors.Is(err, errFeedCluster) {
			t.Errorf("a cluster whose nodes are not known: got %v", err)
		}
	}
}

// TestFeedHeadless: a shard without a primary is an error, as its number is not known. One without nodes is none. A node that was just started knows no
// shard.
func TestFeedHeadless(t *testing.T) {
	for health, want := range map[string]error{"fail": errNoLeader, "": nil, "started": errNoLeader} {
		n := &feedNodes{options: &redis.ClusterOptions{}, find: func(ctx context.Context) *redis.ClusterShardsCmd {
			shards := redis.NewClusterShardsCmd(ctx)
			var nodes []redis.Node
			if health != "" {
				nodes = []redis.Node{{Endpoint: "127.0.0.1", Port: 1, Role: "master", Health: health}}
			}
			if health != "started" {
				shards.SetVal([]redis.ClusterShard{{Nodes: nodes}})
			}
			return shards
		}}
		if ids, err := n.look(t.Context()); !errors.Is(err, want) || len(ids) > 0 {
			t.Errorf("health %q: got %v, %v, want %v", health, ids, err, want)
		}
		n.close()
	}
}

// TestFeedSafe: a feed that asks for changes which replicas have goes on where a replica answers, as a primary may have become one.
func TestFeedSafe(t *testing.T) {
	f := newFake(t)
	calls := 0
	f.feed = func(args []string) string {
		if !slices.Equal(args[2:4], []string{"SAFE", "1"}) {
			return "-ERR no SAFE 1\r\n"
		}
		if calls++; calls == 2 {
			return "-" + errSafeReplica + ": another node leads\r\n"
		}
		return feedReply(calls, calls+1)
	}
	rdb := redis.NewClient(&redis.Options{Addr: f.addr, MaxRetries: -1})
	defer rdb.Close()
	c, err := New(rdb, Options{Counter: "weibo"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range c.Feed(t.Context(), "1", FeedSafe(1)) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 3 {
			break
		}
	}
}
