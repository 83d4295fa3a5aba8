package clients

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	redis "github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// admin runs one command.
func admin(t *testing.T, addr string, command ...string) {
	t.Helper()
	conn, err := redis.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	args := make([]any, len(command)-1)
	for i, a := range command[1:] {
		args[i] = a
	}
	if _, err := conn.Do(command[0], args...); err != nil {
		t.Fatal(command, err)
	}
}

// checklist notes the steps that went well.
type checklist struct {
	t    *testing.T
	done []string
}

func (l *checklist) ok(step string, good bool, err error) {
	l.t.Helper()
	if !good || err != nil {
		l.t.Errorf("%s: good %v, error %v", step, good, err)
		return
	}
	l.done = append(l.done, step)
}

// counted is what 100 additions of 2 answer.
func counted(got []int64) bool {
	for i, n := range got {
		if n != int64(2*i+2) {
			return false
		}
	}
	return len(got) == 100
}

// survives repeats a read until the client has found its way back.
func survives(read func() (string, error)) (value string, err error) {
	for began := time.Now(); time.Since(began) < patience/4; time.Sleep(50 * time.Millisecond) {
		if value, err = read(); err == nil {
			return value, nil
		}
	}
	return value, err
}

func goRedis(t *testing.T, to target) ([]string, bool) {
	l, ctx := &checklist{t: t}, t.Context()
	make := func() *goredis.Client {
		c := goredis.NewClient(&goredis.Options{Addr: to.addr(), Username: to.user, Password: to.pass, Protocol: to.proto, TLSConfig: to.tls(t)})
		t.Cleanup(func() { c.Close() })
		return c
	}
	c, other := make(), make()
	err := c.Set(ctx, "1.cntcm", 41, 0).Err()
	n, _ := c.Incr(ctx, "1.cntcm").Result()
	list, _ := c.MGet(ctx, "1.cntcm", "999.cntcm").Result()
	l.ok("values", n == 42 && len(list) == 2 && list[0] == "42" && list[1] == nil, err)
	err = c.HSet(ctx, "2", "comment", 3, "repost", 4).Err()
	post, _ := c.HGetAll(ctx, "2").Result()
	l.ok("posts", len(post) == 3 && post["comment"] == "3" && post["attitude"] == "0", err)
	p := c.Pipeline()
	for range 100 {
		p.IncrBy(ctx, "3.cntcm", 2)
	}
	replies, err := p.Exec(ctx)
	var sums []int64
	for _, r := range replies {
		sums = append(sums, r.(*goredis.IntCmd).Val())
	}
	l.ok("pipeline", counted(sums), err)
	tx := c.TxPipeline()
	a, b := tx.Incr(ctx, "4.cntcm"), tx.IncrBy(ctx, "4.cntcm", 5)
	_, err = tx.Exec(ctx)
	l.ok("transaction", a.Val() == 1 && b.Val() == 6, err)
	sub := c.Subscribe(ctx, "news")
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		t.Error(err)
	}
	err = other.Publish(ctx, "news", "hello").Err()
	select {
	case m := <-sub.Channel():
		l.ok("pubsub", m.Payload == "hello", err)
	case <-time.After(patience):
		t.Error("nothing was heard")
	}
	err = other.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err()
	value, rerr := survives(func() (string, error) { return c.Get(ctx, "1.cntcm").Result() })
	l.ok("reconnect", value == "42" && rerr == nil, err)
	err = c.Do(ctx, "SETEX", "1.cntcm", 10, 1).Err()
	l.ok("refused", err != nil && strings.Contains(err.Error(), "counters do not expire"), nil)
	return l.done, true
}

func redigo(t *testing.T, to target) ([]string, bool) {
	l := &checklist{t: t}
	make := func() redis.Conn {
		options := []redis.DialOption{redis.DialUsername(to.user), redis.DialPassword(to.pass)}
		if to.ca != "" {
			options = append(options, redis.DialUseTLS(true), redis.DialTLSConfig(to.tls(t)))
		}
		c, err := redis.Dial("tcp", to.addr(), options...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	c, other := make(), make()
	_, err := c.Do("SET", "1.cntcm", 41)
	n, _ := redis.Int(c.Do("INCR", "1.cntcm"))
	list, _ := redis.Strings(c.Do("MGET", "1.cntcm", "999.cntcm"))
	l.ok("values", n == 42 && slices.Equal(list, []string{"42", ""}), err)
	_, err = c.Do("HSET", "2", "comment", 3, "repost", 4)
	post, _ := redis.StringMap(c.Do("HGETALL", "2"))
	l.ok("posts", len(post) == 3 && post["comment"] == "3" && post["attitude"] == "0", err)
	var sums []int64
	for range 100 {
		err = c.Send("INCRBY", "3.cntcm", 2)
	}
	_ = c.Flush()
	for range 100 {
		n, _ := redis.Int64(c.Receive())
		sums = append(sums, n)
	}
	l.ok("pipeline", counted(sums), err)
	_ = c.Send("MULTI")
	_ = c.Send("INCR", "4.cntcm")
	_ = c.Send("INCRBY", "4.cntcm", 5)
	both, err := redis.Ints(c.Do("EXEC"))
	l.ok("transaction", slices.Equal(both, []int{1, 6}), err)
	sub := redis.PubSubConn{Conn: make()}
	err = sub.Subscribe("news")
	sub.Receive()
	_, _ = other.Do("PUBLISH", "news", "hello")
	m, _ := sub.Receive().(redis.Message)
	l.ok("pubsub", string(m.Data) == "hello", err)
	_, err = other.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	value, rerr := survives(func() (string, error) {
		value, err := redis.String(c.Do("GET", "1.cntcm"))
		if err != nil {
			c = make() // its pool does that
		}
		return value, err
	})
	l.ok("reconnect", value == "42" && rerr == nil, err)
	_, err = c.Do("SETEX", "1.cntcm", 10, 1)
	l.ok("refused", err != nil && strings.Contains(err.Error(), "counters do not expire"), nil)
	return l.done, true
}

func rueidisSteps(t *testing.T, to target) ([]string, bool) {
	l, ctx := &checklist{t: t}, t.Context()
	make := func() rueidis.Client {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{to.addr()}, Username: to.user, Password: to.pass, TLSConfig: to.tls(t),
			AlwaysRESP2: to.proto == 2, DisableCache: to.proto == 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	c, other := make(), make()
	err := c.Do(ctx, c.B().Set().Key("1.cntcm").Value("41").Build()).Error()
	n, _ := c.Do(ctx, c.B().Incr().Key("1.cntcm").Build()).AsInt64()
	list, _ := c.Do(ctx, c.B().Mget().Key("1.cntcm", "999.cntcm").Build()).AsStrSlice()
	l.ok("values", n == 42 && slices.Equal(list, []string{"42", ""}), err)
	err = c.Do(ctx, c.B().Hset().Key("2").FieldValue().FieldValue("comment", "3").FieldValue("repost", "4").Build()).Error()
	post, _ := c.Do(ctx, c.B().Hgetall().Key("2").Build()).AsStrMap()
	l.ok("posts", len(post) == 3 && post["comment"] == "3" && post["attitude"] == "0", err)
	var commands []rueidis.Completed
	for range 100 {
		commands = append(commands, c.B().Incrby().Key("3.cntcm").Increment(2).Build())
	}
	var sums []int64
	for _, r := range c.DoMulti(ctx, commands...) {
		n, _ := r.AsInt64()
		sums = append(sums, n)
	}
	l.ok("pipeline", counted(sums), nil)
	var both []int64
	err = c.Dedicated(func(d rueidis.DedicatedClient) error {
		replies := d.DoMulti(ctx, d.B().Multi().Build(), d.B().Incr().Key("4.cntcm").Build(), d.B().Incrby().Key("4.cntcm").Increment(5).Build(), d.B().Exec().Build())
		both, _ = replies[3].AsIntSlice()
		return replies[3].Error()
	})
	l.ok("transaction", slices.Equal(both, []int64{1, 6}), err)
	heard, subscribed := newSignal(), newSignal()
	listening, stop := context.WithTimeout(ctx, patience)
	defer stop()
	go func() {
		hooked := rueidis.WithOnSubscriptionHook(listening, func(rueidis.PubSubSubscription) { subscribed.give("") })
		_ = c.Receive(hooked, c.B().Subscribe().Channel("news").Build(), func(m rueidis.PubSubMessage) { heard.give(m.Message) })
	}()
	subscribed.wait(t)
	err = other.Do(ctx, other.B().Publish().Channel("news").Message("hello").Build()).Error()
	l.ok("pubsub", heard.wait(t) == "hello", err)
	if to.proto == 3 {
		read := func() string {
			value, _ := c.DoCache(ctx, c.B().Get().Key("5.cntcm").Cache(), time.Hour).ToString()
			return value
		}
		err = other.Do(ctx, other.B().Set().Key("5.cntcm").Value("1").Build()).Error()
		first, again := read(), c.DoCache(ctx, c.B().Get().Key("5.cntcm").Cache(), time.Hour)
		_ = other.Do(ctx, other.B().Set().Key("5.cntcm").Value("2").Build()).Error()
		eventually(t, "the cache is told of the change", func() bool { return read() == "2" })
		l.ok("cache", first == "1" && again.IsCacheHit(), err)
	}
	err = other.Do(ctx, other.B().ClientKill().TypeNormal().SkipmeYes().Build()).Error()
	value, rerr := survives(func() (string, error) { return c.Do(ctx, c.B().Get().Key("1.cntcm").Build()).ToString() })
	l.ok("reconnect", value == "42" && rerr == nil, err)
	// The client has several connections, and the kill may have ended another one than that of the read.
	refusal, err := survives(func() (string, error) {
		err := c.Do(ctx, c.B().Arbitrary("SETEX").Keys("1.cntcm").Args("10", "1").Build()).Error()
		if reply, answered := rueidis.IsRedisErr(err); answered {
			return reply.Error(), nil
		}
		return "", err
	})
	l.ok("refused", strings.Contains(refusal, "counters do not expire"), err)
	return l.done, true
}

// signal hands over one text.
type signal chan string

func newSignal() signal { return make(signal, 1) }

func (s signal) give(text string) {
	select {
	case s <- text:
	default:
	}
}

func (s signal) wait(t *testing.T) string {
	t.Helper()
	select {
	case text := <-s:
		return text
	case <-time.After(patience):
		t.Error("nothing came")
		return ""
	}
}
