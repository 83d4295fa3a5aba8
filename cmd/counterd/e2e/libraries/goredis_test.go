package libraries

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/redis/go-redis/v9"
)

func TestGoRedisCommands(t *testing.T) {
	harness.EachProtocol(t, func(t *testing.T, ctx context.Context, c *redis.Client) {
		ok, err := c.Set(ctx, "1.cntcm", 5, 0).Result()
		harness.Same(t, "Set", ok, err, "OK")
		n, err := c.Incr(ctx, "1.cntcm").Result()
		harness.Same(t, "Incr", n, err, 6)
		n, err = c.IncrBy(ctx, "1.cntcm", 10).Result()
		harness.Same(t, "IncrBy", n, err, 16)
		n, err = c.DecrBy(ctx, "1.cntcm", 4).Result()
		harness.Same(t, "DecrBy", n, err, 12)
		n, err = c.Get(ctx, "1.cntcm").Int64()
		harness.Same(t, "Get", n, err, 12)
		if err := c.Get(ctx, "2.cntcm").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("Get of an absent item: %v, want redis.Nil", err)
		}
		if err := c.Get(ctx, "no such key").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("Get of a key of no form: %v, want redis.Nil", err)
		}
		mget, err := c.MGet(ctx, "1.cntcm", "2.cntcm", "1.cntrn", "probe").Result()
		if want := []any{"12", nil, "0", nil}; err != nil || !slices.Equal(mget, want) {
			t.Errorf("MGet: got %v, %v; want %v", mget, err, want)
		}
		ok, err = c.MSet(ctx, "n:1", 7, "n:2", 8).Result()
		harness.Same(t, "MSet", ok, err, "OK")
		exists, err := c.Exists(ctx, "n:1", "n:2", "n:3", "1").Result()
		harness.Same(t, "Exists", exists, err, 3)
		hash, err := c.HGetAll(ctx, "1").Result()
		if err != nil || len(hash) != 3 || hash["comment"] != "12" || hash["repost"] != "0" || hash["attitude"] != "0" {
			t.Errorf("HGetAll of an item: %v, %v", hash, err)
		}
		hash, err = c.HGetAll(ctx, "3").Result()
		if err != nil || len(hash) != 0 {
			t.Errorf("HGetAll of an absent item: %v, %v", hash, err)
		}
		fields, err := c.HMGet(ctx, "1", "comment", "cntrn").Result()
		if want := []any{"12", "0"}; err != nil || !slices.Equal(fields, want) {
			t.Errorf("HMGet: got %v, %v; want %v", fields, err, want)
		}
		n, err = c.HIncrBy(ctx, "1", "repost", 3).Result()
		harness.Same(t, "HIncrBy", n, err, 3)
		n, err = c.Del(ctx, "1", "n:1", "n:9").Result()
		harness.Same(t, "Del", n, err, 2)
	})
}

func TestGoRedisUnusual(t *testing.T) {
	harness.EachProtocol(t, func(t *testing.T, ctx context.Context, c *redis.Client) {
		old, err := c.SetArgs(ctx, "n:1", 5, redis.SetArgs{Get: true}).Result()
		if !errors.Is(err, redis.Nil) {
			t.Errorf("SetArgs GET of an absent item: %q, %v, want redis.Nil", old, err)
		}
		old, err = c.SetArgs(ctx, "n:1", 6, redis.SetArgs{Mode: "XX", Get: true}).Result()
		harness.Same(t, "SetArgs XX GET", old, err, "5")
		if err := c.SetArgs(ctx, "n:1", 7, redis.SetArgs{Mode: "NX"}).Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("SetArgs NX of a present item: %v, want redis.Nil", err)
		}
		if err := c.Set(ctx, "n:1", 9, time.Minute).Err(); err == nil {
			t.Error("Set with an expiry was not refused")
		}
		set, err := c.SetNX(ctx, "n:2", 1, 0).Result()
		harness.Same(t, "SetNX", set, err, true)
		old, err = c.Do(ctx, "getset", "n:2", 3).Text()
		harness.Same(t, "getset", old, err, "1")
		typ, err := c.Type(ctx, "n:2").Result()
		harness.Same(t, "Type", typ, err, "string")
		typ, err = c.Type(ctx, "n:3").Result()
		harness.Same(t, "Type of an absent item", typ, err, "none")
		ttl, err := c.TTL(ctx, "n:2").Result()
		harness.Same(t, "TTL", ttl, err, -1)
		ttl, err = c.TTL(ctx, "n:3").Result()
		harness.Same(t, "TTL of an absent item", ttl, err, -2)
		ttl, err = c.PTTL(ctx, "n:3").Result()
		harness.Same(t, "PTTL of an absent item", ttl, err, -2)
		old, err = c.GetDel(ctx, "n:2").Result()
		harness.Same(t, "GetDel", old, err, "3")
		size, err := c.StrLen(ctx, "n:1").Result()
		harness.Same(t, "StrLen", size, err, 1)
		if err := c.Do(ctx, "nosuchcommand", "a", "b").Err(); err == nil || !strings.HasPrefix(err.Error(), "ERR unknown command 'nosuchcommand'") {
			t.Errorf("unknown command: %v", err)
		}
		if err := c.Set(ctx, "n:1", "abc", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "ERR ") {
			t.Errorf("Set of what is no number: %v", err)
		}
		cmds, err := c.Command(ctx).Result()
		if err != nil || cmds["get"] == nil || cmds["add"] == nil || cmds["counter.mget"] == nil {
			t.Errorf("Command: %d commands, %v; want get, add and counter.mget among them", len(cmds), err)
		}
		rows, err := c.Do(ctx, "counter.mget", "h", 1, 2).Slice()
		if err != nil || len(rows) != 2 || rows[0] != nil || rows[1] != nil {
			t.Errorf("COUNTER.MGET of absent items: %v, %v", rows, err)
		}
		if err := c.HSet(ctx, "h:2", "a", 1, "b", 2, "c", 3).Err(); err != nil {
			t.Errorf("HSet: %v", err)
		}
		rows, err = c.Do(ctx, "counter.mget", "h", 1, 2).Slice()
		if err != nil || fmt.Sprint(rows) != "[<nil> [1 2 3]]" {
			t.Errorf("COUNTER.MGET: %v, %v", rows, err)
		}
		sums, err := c.Do(ctx, "counter.mincrby", "n:1", 10, "2.ha", 5).Int64Slice()
		if err != nil || !slices.Equal(sums, []int64{16, 6}) {
			t.Errorf("COUNTER.MINCRBY: %v, %v, want [16 6]", sums, err)
		}
	})
}

func TestGoRedisPipelines(t *testing.T) {
	harness.EachProtocol(t, func(t *testing.T, ctx context.Context, c *redis.Client) {
		n := harness.Scaled(10_000)
		pipe := c.Pipeline()
		for i := range n {
			pipe.Incr(ctx, fmt.Sprintf("%d.cntcm", i%100))
		}
		cmds, err := pipe.Exec(ctx)
		if err != nil || len(cmds) != n {
			t.Fatalf("pipeline of %d: %d answers, %v", n, len(cmds), err)
		}
		for i, cmd := range cmds {
			if got, want := cmd.(*redis.IntCmd).Val(), int64(i/100+1); got != want {
				t.Fatalf("answer %d is %d, want %d", i, got, want)
			}
		}
		tx := c.TxPipeline()
		a, b := tx.Incr(ctx, "5.cntrn"), tx.IncrBy(ctx, "5.cntan", 7)
		wrong := tx.Set(ctx, "5.cntan", "abc", 0)
		c2 := tx.Get(ctx, "5.cntan")
		if _, err := tx.Exec(ctx); err == nil || wrong.Err() == nil {
			t.Errorf("a transaction with a failing command: %v, %v", err, wrong.Err())
		}
		if a.Val() != 1 || b.Val() != 7 || c2.Val() != "7" {
			t.Errorf("the other commands of the transaction: %d, %d, %s, want 1, 7, 7", a.Val(), b.Val(), c2.Val())
		}
	})
}

func TestGoRedisScan(t *testing.T) {
	harness.EachProtocol(t, func(t *testing.T, ctx context.Context, c *redis.Client) {
		n := harness.Scaled(10_000)
		want := make(map[string]bool, n)
		pipe := c.Pipeline()
		for i := range n {
			key := "n:" + strconv.Itoa(i*i)
			pipe.Set(ctx, key, i, 0)
			want[key] = true
		}
		pipe.Set(ctx, "5.cntcm", 1, 0)
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		it := c.Scan(ctx, 0, "n:*", 100).Iterator()
		for it.Next(ctx) {
			if !want[it.Val()] {
				t.Fatalf("SCAN returned %q, which is not there or was returned before", it.Val())
			}
			delete(want, it.Val())
		}
		if err := it.Err(); err != nil || len(want) > 0 {
			t.Errorf("SCAN left out %d of %d items, %v", len(want), n, err)
		}
	})
}

func TestGoRedisWatch(t *testing.T) {
	harness.EachProtocol(t, func(t *testing.T, ctx context.Context, c *redis.Client) {
		const workers = 4
		rounds := harness.Scaled(100)
		var wg sync.WaitGroup
		errs := make([]error, workers)
		for id := range workers {
			wg.Go(func() {
				for done := 0; done < rounds; {
					err := c.Watch(ctx, func(tx *redis.Tx) error {
						n, err := tx.Get(ctx, "1.cntcm").Int64()
						if err != nil && !errors.Is(err, redis.Nil) {
							return err
						}
						_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
							p.Set(ctx, "1.cntcm", n+1, 0)
							return nil
						})
						return err
					}, "1.cntcm")
					switch {
					case err == nil:
						done++
					case !errors.Is(err, redis.TxFailedErr):
						errs[id] = err
						return
					}
				}
			})
		}
		wg.Wait()
		for id, err := range errs {
			if err != nil {
				t.Errorf("worker %d: %v", id, err)
			}
		}
		n, err := c.Get(ctx, "1.cntcm").Int64()
		harness.Same(t, "counter after all transactions", n, err, int64(workers*rounds))
	})
}
