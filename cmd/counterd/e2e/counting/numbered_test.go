package counting

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/redis/go-redis/v9"
)

var killsFlag = flag.Int("kills", 0, "kills between a change and its reply in TestNumberedKills (0: a few)")

// TestNumberedRedisCLI: numbers by hand, as the documentation has them.
func TestNumberedRedisCLI(t *testing.T) {
	if _, ok := harness.Tool(t, "redis-cli"); !ok {
		return
	}
	s := harness.Start(t)
	harness.RunScript(t, s.Dial(t), harness.SchemaScript)
	got := s.Cli(t, `incrby 19089006004.cntcm 3 IDMP worker-7 1
incrby 19089006004.cntcm 3 IDMP worker-7 1
incrby 19089006004.cntcm 4 IDMP worker-7 1
counter.mincrby 1.cntcm 5 2.cntcm 6 QUIET IDMP worker-7 2
counter.mincrby 1.cntcm 5 2.cntcm 6 QUIET IDMP worker-7 2
counter.drain 1.cntcm 2.cntcm IDMP worker-7 3
counter.drain 1.cntcm 2.cntcm IDMP worker-7 3
idmp last worker-7
client idmp worker-8 1
incr 19089006004.cntrn
client idmp worker-8 1
incr 19089006004.cntrn
multi
incr 19089006004.cntrn
hget 19089006004 repost
exec
client idmp worker-8 2
multi
incr 19089006004.cntrn
hget 19089006004 repost
exec
idmp fence worker-8
incr 19089006004.cntrn
`)
	const want = `3
3
IDMPMISMATCH counter: the producer used this number for another command

2
2
5
6
5
6
3
OK
1
OK
1
OK
QUEUED
QUEUED
2
2
OK
OK
QUEUED
QUEUED
2
2
1
IDMPFENCED counter: epoch 0 of the producer is fenced: want 1 at least

`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestNumberedGoRedis: numbers by go-redis alone, in both protocols: by arguments, by a connection, in a transaction.
func TestNumberedGoRedis(t *testing.T) {
	harness.EachProtocol(t, func(t *testing.T, ctx context.Context, c *redis.Client) {
		for try := range 3 {
			n, err := c.Do(ctx, "INCRBY", "1.cntcm", 7, "IDMP", "p", 1).Int64()
			harness.Same(t, "INCRBY", n, err, 7)
			text, err := c.Do(ctx, "GETDEL", "1.cntcm", "IDMP", "p", 2, "EPOCH", 0).Text()
			harness.Same(t, "GETDEL", text, err, "7")
			if _, err := c.Do(ctx, "GETDEL", "999.cntcm", "IDMP", "p", 3).Text(); err != redis.Nil {
				t.Errorf("GETDEL of nothing: %v", err)
			}
			list, err := c.Do(ctx, "COUNTER.MINCRBY", "2.cntcm", 1, "3.cntcm", 2, "IDMP", "p", 4).Int64Slice()
			harness.Same(t, "MINCRBY", fmt.Sprint(list), err, "[1 2]")
			ok, err := c.Do(ctx, "MSET", "4.cntcm", 1, "5.cntcm", 2, "IDMP", "p", 5).Text()
			harness.Same(t, "MSET", ok, err, "OK")

			// go-redis has a connection for itself where its calls belong together.
			conn := c.Conn()
			if err := conn.Do(ctx, "CLIENT", "IDMP", "q", 10).Err(); err != nil {
				t.Fatal(err)
			}
			n, err = conn.Incr(ctx, "6.cntcm").Result()
			harness.Same(t, "Incr", n, err, 1)
			n, err = conn.HIncrBy(ctx, "6", "comment", 4).Result()
			harness.Same(t, "HIncrBy", n, err, 5)
			n, err = conn.Del(ctx, "6.cntrn").Result()
			harness.Same(t, "Del", n, err, 1)
			replies, err := conn.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Incr(ctx, "6.cntcm")
				p.HGetAll(ctx, "6")
				return nil
			})
			if err != nil || replies[0].(*redis.IntCmd).Val() != 6 || replies[1].(*redis.MapStringStringCmd).Val()["comment"] != "6" {
				t.Errorf("try %d: transaction: %v %v", try, replies, err)
			}
			conn.Close()
		}
		last, err := c.Do(ctx, "IDMP", "LAST", "q").Int64()
		harness.Same(t, "IDMP LAST", last, err, 13)
		list, err := c.Do(ctx, "COUNTER.PRODUCERS").Slice()
		harness.Same(t, "COUNTER.PRODUCERS", len(list), err, 2)
		if err := c.Do(ctx, "INCRBY", "1.cntcm", 8, "IDMP", "p", 1).Err(); err == nil || !strings.HasPrefix(err.Error(), "IDMPMISMATCH ") {
			t.Errorf("other arguments: %v", err)
		}
	})
}

// killedWriter is a client that numbers what it sends and knows every reply before it comes. What it was not answered it
// sends again.
type killedWriter struct {
	rng    *rand.Rand
	seq    int
	values map[string]int64
	open   []numberedOp // sent or to be sent, and not answered
}

type numberedOp struct {
	seq     int
	request []byte
	reply   string
}

// next makes a change of 20 posts.
func (w *killedWriter) next() numberedOp {
	key := func() string { return fmt.Sprintf("%d.cntcm", 19089006004+w.rng.IntN(20)) }
	add := func(key string, n int64) string {
		if w.values[key]+n < 0 {
			return "-ERR increment or decrement would overflow\r\n"
		}
		w.values[key] += n
		return fmt.Sprintf(":%d\r\n", w.values[key])
	}
	w.seq++
	var args []string
	var reply string
	switch k, n := key(), w.rng.Int64N(100)-20; w.rng.IntN(6) {
	default:
		for w.values[k]+n < 0 { // one that is refused would be tried again, when it may be in range
			n++
		}
		args, reply = []string{"INCRBY", k, strconv.FormatInt(n, 10)}, add(k, n)
	case 0:
		if _, ok := w.values[k]; !ok {
			w.values[k] = 0
		}
		reply = harness.BulkOf(strconv.FormatInt(w.values[k], 10))
		w.values[k] = 0
		args = []string{"COUNTER.DRAIN", k}
		reply = "*1\r\n" + reply
	case 1:
		k2 := key()
		args = []string{"COUNTER.MINCRBY", k, strconv.FormatInt(n, 10), k2, "3"}
		reply = "*2\r\n" + add(k, n)
		reply += add(k2, 3)
	case 2:
		w.values[k] = 5
		args, reply = []string{"MSET", k, "5"}, "+OK\r\n"
	}
	args = append(args, "IDMP", "killed", strconv.Itoa(w.seq))
	return numberedOp{w.seq, resptest.Append(nil, args...), reply}
}

// send writes all that is open, and n changes more.
func (w *killedWriter) send(c *harness.Conn, n int) error {
	for range n {
		w.open = append(w.open, w.next())
	}
	var packet []byte
	for _, op := range w.open {
		packet = append(packet, op.request...)
	}
	return c.TryWrite(packet)
}

// answered reads replies of what is open, at most n.
func (w *killedWriter) answered(c *harness.Conn, n int) error {
	for ; n > 0 && len(w.open) > 0; n-- {
		v, err := c.TryReply()
		if err != nil {
			return err
		}
		if v.Raw != w.open[0].reply {
			return fmt.Errorf("%s: got %q, want %q", w.open[0].request, v.Raw, w.open[0].reply)
		}
		w.open = w.open[1:]
	}
	return nil
}

// TestNumberedKills kills the server between changes and their replies, and sends what was not answered again, with the
// same numbers: each reply and the sums are as if nothing had happened.
//
//	go test ./cmd/counterd/e2e/counting -run TestNumberedKills -kills 2000 -timeout 1h
func TestNumberedKills(t *testing.T) {
	r, _ := harness.Random(t)
	dir := t.TempDir()
	w := &killedWriter{rng: r, values: map[string]int64{}}
	s := harness.StartIn(t, dir)
	harness.SeedSchema(t, s.Dial(t))
	for i := range 20 { // all posts are there, as DRAIN of nothing is nil
		key := fmt.Sprintf("%d.cntcm", 19089006004+i)
		s.Dial(t).Want("+OK\r\n", "SET", key, "0")
		w.values[key] = 0
	}
	s.Kill()
	want := *killsFlag
	if want == 0 {
		want = max(1, harness.Scaled(4))
	}
	began := time.Now()
	kills, between := 0, 0 // all, and those that took replies of changes that were made
	for ; between < want && kills < 20*want+100; kills++ {
		s := harness.StartIn(t, dir, "--appendfsync", []string{"always", "always", "everysec"}[kills%3], "--auto-aof-rewrite-min-size", "1mb")
		c, made := s.Dial(t), int64(0)
		if v := c.Do("IDMP", "LAST", "killed"); v.Kind == ':' {
			made, _ = v.Int()
		}
		if len(w.open) > 0 && made >= int64(w.open[0].seq) {
			between++
		}
		if err := w.send(c, min(1+r.IntN(40), 120-len(w.open))); err != nil { // no more than is remembered
			t.Fatal(err)
		}
		if kills%8 == 0 {
			other := s.Dial(t)
			other.Do("BGSAVE")
		}
		if r.IntN(4) == 0 {
			if err := w.answered(c, r.IntN(len(w.open))); err != nil {
				t.Fatalf("after %d kills: %v", kills, err)
			}
		} else {
			time.Sleep(time.Duration(r.Int64N(int64(3 * time.Millisecond))))
		}
		s.Kill()
		for len(w.open) > 0 { // what came before the end
			if err := w.answered(c, 1); err != nil {
				if strings.Contains(err.Error(), "want") {
					t.Fatalf("after %d kills: %v", kills, err)
				}
				break
			}
			if r.IntN(10) == 0 { // and some of it the client never saw
				break
			}
		}
		c.Close()
		s.CheckLog()
	}
	s = harness.StartIn(t, dir)
	c := s.Dial(t)
	if err := w.send(c, 5); err != nil {
		t.Fatal(err)
	}
	if err := w.answered(c, len(w.open)); err != nil {
		t.Fatal(err)
	}
	for key, value := range w.values {
		c.Want(harness.BulkOf(strconv.FormatInt(value, 10)), "GET", key)
	}
	s.Stop()
	harness.WantCtl(t, 0, []string{"check", dir}, "nothing is damaged")
	t.Logf("%d kills in %v, %d between a change and its reply: %d changes, each made once", kills, time.Since(began).Round(time.Second), between, w.seq)
	if between < want {
		t.Errorf("%d kills came between a change and its reply, want %d", between, want)
	}
}
