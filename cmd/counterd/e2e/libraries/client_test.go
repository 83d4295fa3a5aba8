package libraries

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/counter/client"
	"github.com/counterd/counterd/internal/testkit/cutproxy"
	"github.com/redis/go-redis/v9"
)

// counting makes a client of package client that may repeat as often as it likes.
func counting(t testing.TB, port int, change ...func(*redis.Options)) *client.Client {
	t.Helper()
	o := &redis.Options{Addr: "127.0.0.1:" + strconv.Itoa(port), DialTimeout: harness.IoTimeout, ReadTimeout: harness.IoTimeout, DialerRetries: 1, PoolSize: 40}
	for _, ch := range change {
		ch(o)
	}
	rdb := redis.NewClient(o)
	t.Cleanup(func() { rdb.Close() })
	c, err := client.New(rdb, client.Options{Counter: "weibo", RetryBurst: 1_000_000, RetryFor: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestClientCommands walks the client's calls on a real server.
func TestClientCommands(t *testing.T) {
	s := harness.Start(t)
	harness.RunScript(t, s.Dial(t), harness.SchemaScript)
	for _, protocol := range []int{2, 3} {
		c := counting(t, s.Port, func(o *redis.Options) { o.Protocol = protocol })
		ctx := t.Context()
		mid := uint64(19089006000 + protocol)
		if err := c.Warm(ctx); err != nil {
			t.Fatal(err)
		}
		n, err := c.Incr(ctx, mid, "repost")
		harness.Same(t, "Incr", n, err, 1)
		n, err = c.Add(ctx, mid, "cntrn", -1)
		harness.Same(t, "Add", n, err, 0)
		if _, err = c.Add(ctx, mid, "cntrn", -1); client.ClassOf(err) != client.Permanent {
			t.Errorf("an addition out of range: %v", err)
		}
		harness.Same(t, "Set", struct{}{}, c.Set(ctx, mid, "comment", 5), struct{}{})
		n, ok, err := c.Get(ctx, mid, "comment")
		harness.Same(t, "Get", n, err, 5)
		harness.Same(t, "Get", ok, err, true)
		row, err := c.Row(ctx, mid)
		harness.Same(t, "Row", fmt.Sprint(row), err, fmt.Sprintf("{%d true [5 0 0] [comment repost attitude]}", mid))
		rows, err := c.Page(ctx, []uint64{mid, 1}, "repost", "comment")
		harness.Same(t, "Page", fmt.Sprint(rows), err, fmt.Sprintf("[{%d true [0 5] [repost comment]} {1 false [] [repost comment]}]", mid))
		n, ok, err = c.Take(ctx, mid, "comment")
		harness.Same(t, "Take", n, err, 5)
		harness.Same(t, "Take", ok, err, true)
		_, ok, err = c.Take(ctx, 1, "comment")
		harness.Same(t, "Take of nothing", ok, err, false)
		set, err := c.SetRows(ctx, []client.Row{{Mid: mid + 1000, Values: []int64{3, 4}}, {Mid: mid + 2000, Values: []int64{5, 6}}}, "repost", "cntcm")
		harness.Same(t, "SetRows", set, err, 2)
		rows, err = c.Page(ctx, []uint64{mid + 2000, mid + 1000}, "comment", "repost")
		harness.Same(t, "Page", fmt.Sprint(rows), err, fmt.Sprintf("[{%d true [6 5] [comment repost]} {%d true [4 3] [comment repost]}]", mid+2000, mid+1000))

		var told []*client.SumsError
		a, err := c.NewAggregator(client.AggregatorOptions{OnError: func(e *client.SumsError) { told = append(told, e) }})
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint64(1000) {
			if err := a.Incr(ctx, mid+10*(i%3), "attitude"); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(a.Add(ctx, 7, "attitude", -1), a.Close(ctx)); err != nil {
			t.Fatal(err)
		}
		n, _, err = c.Get(ctx, mid, "attitude")
		harness.Same(t, "the sum", n, err, 334)
		if len(told) != 1 || told[0].Refused != 1 || !errors.Is(told[0], client.ErrRange) {
			t.Errorf("told %v of an addition out of range", told)
		}
	}
}

// TestHookCommands sends all commands that the hook numbers, in the forms that go-redis has for them, and counts at the
// server what was numbered.
func TestHookCommands(t *testing.T) {
	s := harness.Start(t)
	harness.RunScript(t, s.Dial(t), harness.SchemaScript)
	for _, protocol := range []int{2, 3} {
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: protocol})
		defer rdb.Close()
		rdb.AddHook(client.NewHook())
		ctx := t.Context()
		post := strconv.Itoa(100 + protocol)
		key, other := post+".cntrn", post+".cntcm"
		n, err := rdb.Incr(ctx, key).Result()
		harness.Same(t, "Incr", n, err, 1)
		n, err = rdb.IncrBy(ctx, key, 9).Result()
		harness.Same(t, "IncrBy", n, err, 10)
		n, err = rdb.Decr(ctx, key).Result()
		harness.Same(t, "Decr", n, err, 9)
		n, err = rdb.DecrBy(ctx, key, 4).Result()
		harness.Same(t, "DecrBy", n, err, 5)
		n, err = rdb.HIncrBy(ctx, post, "comment", 3).Result()
		harness.Same(t, "HIncrBy", n, err, 3)
		text, err := rdb.Set(ctx, key, 7, 0).Result()
		harness.Same(t, "Set", text, err, "OK")
		text, err = rdb.SetArgs(ctx, key, 8, redis.SetArgs{Mode: "XX", Get: true}).Result()
		harness.Same(t, "SetArgs", text, err, "7")
		ok, err := rdb.SetNX(ctx, key, 9, 0).Result()
		harness.Same(t, "SetNX", ok, err, false)
		text, err = rdb.Do(ctx, "getset", key, 20).Text()
		harness.Same(t, "GETSET", text, err, "8")
		text, err = rdb.GetDel(ctx, key).Result()
		harness.Same(t, "GetDel", text, err, "20")
		n, err = rdb.HSet(ctx, post, "comment", 1, "repost", 2).Result()
		harness.Same(t, "HSet", n, err, 0)
		ok, err = rdb.HMSet(ctx, post, "comment", 4).Result()
		harness.Same(t, "HMSet", ok, err, true)
		ok, err = rdb.HSetNX(ctx, post, "comment", 5).Result()
		harness.Same(t, "HSetNX", ok, err, false)
		text, err = rdb.MSet(ctx, key, 6, other, 7).Result()
		harness.Same(t, "MSet", text, err, "OK")
		sums, err := rdb.Do(ctx, "counter.mincrby", key, 1, other, 1).Int64Slice()
		harness.Same(t, "COUNTER.MINCRBY", fmt.Sprint(sums), err, "[7 8]")
		n, err = rdb.Do(ctx, "counter.mset", "weibo", post, 7, 8, "columns", "repost", "comment").Int64()
		harness.Same(t, "COUNTER.MSET", n, err, 1)
		drained, err := rdb.Do(ctx, "counter.drain", key, other).Slice()
		harness.Same(t, "COUNTER.DRAIN", fmt.Sprint(drained), err, "[7 8]")
		n, err = rdb.Do(ctx, "counter.update", "weibo", "MID", "=", post, "INCR", "repost", 5).Int64()
		harness.Same(t, "COUNTER.UPDATE", n, err, 1)
		cmds, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Incr(ctx, key)
			p.HGetAll(ctx, post)
			return nil
		})
		if err != nil || cmds[0].(*redis.IntCmd).Val() != 6 || cmds[1].(*redis.MapStringStringCmd).Val()["repost"] != "6" {
			t.Errorf("a transaction: %v, %v", cmds, err)
		}
		cmds, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for range 100 {
				p.Incr(ctx, key)
			}
			return nil
		})
		if err != nil || cmds[99].(*redis.IntCmd).Val() != 106 {
			t.Errorf("a pipeline: %v, %v", cmds[99], err)
		}
		numbers := int64(0)
		for _, producer := range s.Dial(t).Do("COUNTER.PRODUCERS").List {
			n, err := producer.Get(t, "seq").Int()
			if err != nil {
				t.Fatal(err)
			}
			numbers += n
		}
		harness.Same(t, "numbers that the server had", numbers, nil, map[int]int64{2: 119, 3: 239}[protocol])
		n, err = rdb.Del(ctx, post).Result() // is numbered too: it is one more in the second round
		harness.Same(t, "Del", n, err, 1)
	}
}

// TestClientFind asks for posts by condition.
func TestClientFind(t *testing.T) {
	s := harness.Start(t)
	harness.RunScript(t, s.Dial(t), harness.SchemaScript)
	c, ctx := counting(t, s.Port), t.Context()
	for mid := range uint64(1000) {
		b := c.Batch().Add(mid, "repost", int64(mid*7%1000)).Add(mid, "comment", int64(mid%3))
		if _, err := b.Do(ctx); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := c.Find(ctx, client.Query{From: 10, To: 900, Desc: true, Limit: 2, Columns: []string{"repost"},
		Where: []client.Condition{{Column: "repost", Op: ">", Value: 500}, {Column: "cntcm", Op: "=", Value: 1}}})
	harness.Same(t, "Find", fmt.Sprint(rows), err, fmt.Sprint(expectFound(10, 900, 2)))
	rows, err = c.Find(ctx, client.Query{Mids: []uint64{5, 2000, 7}})
	harness.Same(t, "Find of a list", fmt.Sprint(rows), err, "[{5 true [2 35 0] [comment repost attitude]} {7 true [1 49 0] [comment repost attitude]}]")
	seen := 0
	for row, err := range c.Each(ctx, client.Query{Limit: 70, Where: []client.Condition{{Column: "comment", Op: "!=", Value: 0}}}) {
		if err != nil || row.Values[0] == 0 {
			t.Fatalf("Each: %+v, %v", row, err)
		}
		seen++
	}
	n, err := c.Count(ctx, client.Query{Where: []client.Condition{{Column: "comment", Op: "!=", Value: 0}}})
	harness.Same(t, "Count", n, err, 666)
	harness.Same(t, "Each", seen, nil, 666)
	top, err := c.Top(ctx, "repost", 3, client.Query{To: 500})
	harness.Same(t, "Top", fmt.Sprint(top), err, "[{428 996} {285 995} {142 994}]")
	n, err = c.Update(ctx, client.Query{From: 990, Where: []client.Condition{{Column: "comment", Op: "=", Value: 0}}},
		client.Change{Do: client.SetTo, Column: "attitude", N: 4}, client.Change{Do: client.Increase, Column: "repost", N: 1000},
		client.Change{Do: client.Reset, Column: "comment"})
	harness.Same(t, "Update", n, err, 4)
	rows, err = c.Find(ctx, client.Query{Columns: []string{"repost"}, Where: []client.Condition{{Column: "attitude", Op: ">", Value: 0}}})
	harness.Same(t, "what Update changed", fmt.Sprint(rows), err, "[{990 true [1930] [repost]} {993 true [1951] [repost]} {996 true [1972] [repost]} {999 true [1993] [repost]}]")
	rows, err = c.Find(ctx, client.Query{Columns: []string{"repost"}, Where: []client.Condition{{Column: "attitude", Op: ">", Value: 0}}, Offset: 1, Limit: 2})
	harness.Same(t, "Offset", fmt.Sprint(rows), err, "[{993 true [1951] [repost]} {996 true [1972] [repost]}]")
	rows, err = c.Find(ctx, client.Query{Offset: 998, Columns: []string{"comment"}})
	harness.Same(t, "Offset without Limit", fmt.Sprint(rows), err, "[{998 true [2] [comment]} {999 true [0] [comment]}]")
	rows, err = c.UpdateRows(ctx, client.ReturnOld, client.Query{Mids: []uint64{990, 993}}, client.Change{Do: client.SetTo, Column: "attitude", N: 9})
	harness.Same(t, "UpdateRows", fmt.Sprint(rows), err, "[{990 true [0 1930 4] [comment repost attitude]} {993 true [0 1951 4] [comment repost attitude]}]")
	rows, err = c.UpdateRows(ctx, client.ReturnNew, client.Query{Mids: []uint64{990, 1 << 40}}, client.Change{Do: client.Increase, Column: "attitude", N: 1})
	harness.Same(t, "UpdateRows", fmt.Sprint(rows), err, "[{990 true [0 1930 10] [comment repost attitude]}]")
	ten := client.Query{From: 1, To: 10}
	n, err = c.Sum(ctx, "repost", ten)
	harness.Same(t, "Sum", n, err, 7*55)
	n, _, err = c.Min(ctx, "repost", ten)
	harness.Same(t, "Min", n, err, 7)
	n, found, err := c.Max(ctx, "cntrn", ten)
	harness.Same(t, "Max", n, err, 70)
	harness.Same(t, "Max has a post", found, nil, true)
	_, found, err = c.Min(ctx, "repost", client.Query{From: 1 << 40})
	harness.Same(t, "Min of no post", found, err, false)
	rows, err = c.Drain(ctx, []uint64{4, 1 << 40, 5}, "repost", "cntcm")
	harness.Same(t, "Drain", fmt.Sprint(rows), err, "[{4 true [28 1] [repost comment]} {1099511627776 false [] [repost comment]} {5 true [35 2] [repost comment]}]")
	rows, err = c.Page(ctx, []uint64{4, 5}, "repost")
	harness.Same(t, "what Drain left", fmt.Sprint(rows), err, "[{4 true [0] [repost]} {5 true [0] [repost]}]")
	n, err = c.Update(ctx, client.Query{From: 10, Limit: 5}, client.Change{Do: client.Delete})
	harness.Same(t, "Update that deletes", n, err, 5)
	for _, err := range c.Each(ctx, client.Query{Where: []client.Condition{{Column: "share", Op: "=", Value: 1}}}) {
		if client.ClassOf(err) != client.Permanent {
			t.Errorf("an unknown column: %v", err)
		}
	}
}

// expectFound is the answer to the first question of TestClientFind.
func expectFound(from, to uint64, limit int) (rows []client.Row) {
	for mid := to; mid >= from && len(rows) < limit; mid-- {
		if reposts := int64(mid * 7 % 1000); reposts > 500 && mid%3 == 1 {
			rows = append(rows, client.Row{Mid: mid, Exists: true, Values: []int64{reposts}, Columns: []string{"repost"}})
		}
	}
	return rows
}

// TestClientExact lets goroutines count through a proxy that loses replies, by increments and by an aggregator, while
// the server is killed and started again and again: each sum is exact.
func TestClientExact(t *testing.T) {
	t.Parallel()
	r, _ := harness.Random(t)
	dir := t.TempDir()
	s := harness.StartIn(t, dir)
	harness.RunScript(t, s.Dial(t), harness.SchemaScript)
	proxy := cutproxy.New(t, s.Port, r.Uint64(), false)
	c := counting(t, proxy.Port())
	if err := c.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Lose(0.03)
	a, err := c.NewAggregator(client.AggregatorOptions{Interval: 2 * time.Millisecond, Keys: 20, Shards: 2,
		OnError: func(e *client.SumsError) { t.Errorf("the aggregator: %v", e) }})
	if err != nil {
		t.Fatal(err)
	}
	const posts, goroutines = 50, 8
	var single, summed [posts]atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g; !stop.Load(); i++ {
				post, n := i*i%posts, int64(1+i%3)
				if _, err := c.Add(t.Context(), uint64(post), "repost", n); err != nil {
					t.Errorf("Add: %v", err)
					return
				}
				single[post].Add(n)
				for range 10 {
					if err := a.Add(t.Context(), uint64(post), "comment", n); err != nil {
						t.Errorf("Aggregator.Add: %v", err)
						return
					}
					summed[post].Add(n)
				}
			}
		})
	}
	rounds := harness.Scaled(12)
	for range rounds {
		time.Sleep(harness.RandomPause(r, 20*time.Millisecond, 200*time.Millisecond))
		s.Kill()
		s.CheckLog()
		s = harness.StartIn(t, dir)
		proxy.SetPort(s.Port)
	}
	stop.Store(true)
	wg.Wait()
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
	conn := s.Dial(t)
	var increments, sums int64
	for post := range posts {
		for suffix, want := range map[string]int64{".cntrn": single[post].Load(), ".cntcm": summed[post].Load()} {
			if got, err := conn.Do("GET", strconv.Itoa(post)+suffix).Int(); want > 0 && (err != nil || got != want) {
				t.Errorf("post %d%s: counted %d (%v), want %d", post, suffix, got, err, want)
			}
		}
		increments += single[post].Load()
		sums += summed[post].Load()
	}
	t.Logf("%d kills, %d pieces lost; sums of %d by increments, %d by an aggregator: %+v", rounds, proxy.Lost(), increments, sums, a.Stats())
}

// TestClientStuck lets replies never come: their requests are stuck until the time limit, while others of the same
// producers go on, thousands in that time. None of those that are stuck falls out of the server's window.
func TestClientStuck(t *testing.T) {
	t.Parallel()
	r, _ := harness.Random(t)
	s := harness.Start(t)
	harness.RunScript(t, s.Dial(t), harness.SchemaScript)
	proxy := cutproxy.New(t, s.Port, r.Uint64(), false)
	c := counting(t, proxy.Port(), func(o *redis.Options) { o.ReadTimeout = 300 * time.Millisecond })
	if _, err := c.Columns(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Stall(0.002)
	const goroutines = 40
	increments := harness.Scaled(40_000)
	var next, acknowledged atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for next.Add(1) <= int64(increments) {
				if _, err := c.Incr(t.Context(), 1, "repost"); err != nil {
					t.Errorf("Incr: %v", err)
					return
				}
				acknowledged.Add(1)
			}
		})
	}
	wg.Wait()
	if n, _, err := c.Get(t.Context(), 1, "repost"); err != nil || n != acknowledged.Load() {
		t.Errorf("counted %d (%v), want %d", n, err, acknowledged.Load())
	}
	t.Logf("%d increments, %d of them stuck for a while", acknowledged.Load(), proxy.Lost())
}

// TestClientAutoPipeline lets many goroutines count over connections that go-redis shares among them: what is lost is
// the answer to many at once, and each is sent again by its own goroutine.
func TestClientAutoPipeline(t *testing.T) {
	t.Parallel()
	r, _ := harness.Random(t)
	s := harness.Start(t)
	harness.RunScript(t, s.Dial(t), harness.SchemaScript)
	proxy := cutproxy.New(t, s.Port, r.Uint64(), false)
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + strconv.Itoa(proxy.Port()), DialTimeout: harness.IoTimeout, ReadTimeout: harness.IoTimeout})
	defer rdb.Close()
	pipeliner, err := rdb.AutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	defer pipeliner.Close()
	c, err := client.New(pipeliner, client.Options{RetryBurst: 1_000_000, RetryFor: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Lose(0.2)
	const goroutines, posts = 300, 20
	each := harness.Scaled(60)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				if _, err := c.Incr(t.Context(), uint64((g+i)%posts), "repost"); err != nil {
					t.Errorf("Incr: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	conn, sum := s.Dial(t), int64(0)
	for post := range posts {
		n, err := conn.Do("GET", strconv.Itoa(post)+".cntrn").Int()
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if sum != int64(goroutines*each) || proxy.Lost() == 0 {
		t.Errorf("counted %d, want %d; %d pieces lost", sum, goroutines*each, proxy.Lost())
	}
	t.Logf("%d increments, %d pieces lost", goroutines*each, proxy.Lost())
}

// TestClientHistory records what clients do to few posts through a proxy that loses many replies, so that much is sent
// several times, while the server is killed now and then, and lets porcupine find an order in which each was done once.
func TestClientHistory(t *testing.T) {
	t.Parallel()
	r, _ := harness.Random(t)
	dir := t.TempDir()
	s := harness.StartIn(t, dir)
	harness.RunScript(t, s.Dial(t), harness.SchemaScript)
	proxy := cutproxy.New(t, s.Port, r.Uint64(), false)
	c := counting(t, proxy.Port())
	if err := c.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Lose(0.1)
	const goroutines, posts, each = 6, 3, 150 // at most 900 operations a post
	unknown := 0
	histories := harness.Scaled(4)
	for h := range histories {
		began := time.Now()
		history := make([]porcupine.Operation, 0, goroutines*each)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for g := range goroutines {
			seed := r.Uint64()
			wg.Go(func() {
				for range each {
					seed = seed*6364136223846793005 + 1442695040888963407
					in := harness.HistoryInput{Kind: []rune("+++++=??-")[seed>>33%9], Post: uint64(h*posts) + seed>>40%posts, N: int64(1 + seed>>50%9)}
					call := time.Since(began).Nanoseconds()
					out := harness.Operate(t.Context(), c, in)
					op := porcupine.Operation{ClientId: g, Input: in, Call: call, Output: out, Return: time.Since(began).Nanoseconds()}
					mu.Lock()
					if out.Lost {
						unknown++
						op.Return = int64(time.Hour)
					}
					history = append(history, op)
					mu.Unlock()
				}
			})
		}
		if h%2 == 1 {
			time.Sleep(harness.RandomPause(r, 0, 300*time.Millisecond))
			s.Kill()
			s = harness.StartIn(t, dir)
			proxy.SetPort(s.Port)
		}
		wg.Wait()
		if result := porcupine.CheckOperationsTimeout(harness.CounterModel, history, 5*time.Minute); result != porcupine.Ok {
			t.Fatalf("history %d: %v", h, result)
		}
	}
	t.Logf("%d histories of %d operations, %d pieces lost, %d unknown", histories, goroutines*each, proxy.Lost(), unknown)
}

// TestHistoryCheck plants a change that was made twice: the model must see it.
func TestHistoryCheck(t *testing.T) {
	history := []porcupine.Operation{
		{Input: harness.HistoryInput{Kind: '+', Post: 1, N: 5}, Call: 0, Output: harness.HistoryOutput{N: 5}, Return: 10},
		{Input: harness.HistoryInput{Kind: '+', Post: 1, N: 1}, Call: 5, Output: harness.HistoryOutput{N: 6}, Return: 30},
		{Input: harness.HistoryInput{Kind: '?', Post: 1, N: 0}, Call: 40, Output: harness.HistoryOutput{N: 7, Ok: true}, Return: 50},
	}
	if porcupine.CheckOperations(harness.CounterModel, history) {
		t.Error("an increment that counted twice was not seen")
	}
	history[2].Output = harness.HistoryOutput{N: 6, Ok: true}
	if !porcupine.CheckOperations(harness.CounterModel, history) {
		t.Error("a history without fault was refused")
	}
}

// TestClientSentinel lets a client that asks Sentinel who leads count through failovers. After a planned one sums are
// exact. After a kill what no replica had is lost, as for every client; but nothing is counted twice, though much was
// in doubt when the primary died. In neither is the client told of an error.
func TestClientSentinel(t *testing.T) {
	if _, ok := harness.Tool(t, "redis-sentinel"); !ok {
		return
	}
	t.Parallel() // it waits most of the time
	g := harness.NewGroup(t, "counterd", harness.CounterdPath, 1, false, *harness.DownAfterFlag)
	harness.Eventually(t, time.Minute, "the group is at rest", func() bool { return g.Settled() == g.Nodes[0] })
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: g.Sentinels, DialerRetries: 1,
		DialTimeout: time.Second, ReadTimeout: harness.IoTimeout})
	defer rdb.Close()
	c, err := client.New(rdb, client.Options{RetryFor: 5 * time.Minute, RetryBurst: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.NewAggregator(client.AggregatorOptions{OnError: func(e *client.SumsError) { t.Errorf("the aggregator: %v", e) }})
	if err != nil {
		t.Fatal(err)
	}
	// Each round counts in posts of its own.
	rounds := max(2, harness.Scaled(2))
	single, summed := make([]atomic.Int64, rounds+1), make([]atomic.Int64, rounds+1)
	var round atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				r := round.Load()
				if _, err := c.Add(t.Context(), uint64(2*r), "n", 3); err != nil {
					t.Errorf("Add: %v", err)
					return
				}
				single[r].Add(3)
				if err := a.Incr(t.Context(), uint64(2*r+1), "n"); err != nil {
					t.Errorf("Incr: %v", err)
					return
				}
				summed[r].Add(1)
				time.Sleep(time.Millisecond) // Sentinel and the nodes want the processor too
			}
		})
	}
	leader := g.Nodes[0]
	for r := range rounds {
		counted := func(what string) {
			t.Helper()
			from := single[r].Load()
			harness.Eventually(t, 2*time.Minute, what, func() bool { return single[r].Load() > from+500 })
		}
		counted("the client counts")
		old := leader
		if r%2 == 0 {
			if got := harness.Ask(g.Sentinels[0], "SENTINEL", "FAILOVER", "mymaster"); got != "+OK\r\n" {
				t.Fatalf("SENTINEL FAILOVER: %q", got)
			}
		} else {
			old.Kill()
		}
		harness.Eventually(t, 2*time.Minute, "Sentinel names another", func() bool { leader = g.Named(); return leader != nil && leader != old })
		counted("the client goes on")
		if r%2 == 1 {
			old.Start()
		}
		harness.Eventually(t, 2*time.Minute, "the group is at rest", func() bool { leader = g.Settled(); return leader != nil && leader != old })
		round.Add(1)
		// What this round counted is on the replicas before the next round kills: the aggregator's last sums too.
		if err := a.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, time.Minute, "the next round counts", func() bool { return single[r+1].Load() > 100 })
		at, err := strconv.ParseInt(harness.ReplicationField(leader.Server, "master_repl_offset"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, time.Minute, "the replicas have it", func() bool {
			behind := 2
			for i := range 2 {
				_, offset, _ := strings.Cut(harness.ReplicationField(leader.Server, "slave"+strconv.Itoa(i)), "offset=")
				offset, _, _ = strings.Cut(offset, ",")
				if n, err := strconv.ParseInt(offset, 10, 64); err == nil && n >= at {
					behind--
				}
			}
			return behind == 0
		})
	}
	stop.Store(true)
	wg.Wait()
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
	var lost, all int64
	for r := range rounds {
		for mid, want := range map[int]int64{2 * r: single[r].Load(), 2*r + 1: summed[r].Load()} {
			reply := strings.Fields(harness.Ask(leader.Direct, "GET", strconv.Itoa(mid)+".n"))
			got, err := strconv.ParseInt(reply[len(reply)-1], 10, 64)
			if err != nil || got > want || r%2 == 0 && got != want {
				t.Errorf("round %d, post %d: counted %d (%v), want %d", r, mid, got, err, want)
			}
			lost, all = lost+want-got, all+want
		}
	}
	t.Logf("%d failovers: %d counted, none twice; %d lost with a primary that was killed; the aggregator: %+v", rounds, all-lost, lost, a.Stats())
}
