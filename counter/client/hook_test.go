package client

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestHook lets go-redis repeat lost commands: single commands, long pipelines and transactions count once.
func TestHook(t *testing.T) {
	rng := random(t)
	f := newFake(t)
	rdb := f.dial(func(o *redis.Options) { o.MaxRetries = 20 })
	rdb.AddHook(NewHook())
	ctx := t.Context()
	if err := rdb.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	f.set(func() {
		f.fates = func([]string) (ft fate) {
			ft.lose = rng.IntN(60) == 0
			ft.late = rng.IntN(60) == 0
			return ft
		}
	})
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 50 {
				if err := rdb.Incr(ctx, "1.cntrn").Err(); err != nil {
					t.Error(err)
				}
				if err := rdb.IncrBy(ctx, "2.cntrn", 3).Err(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if f.value("1.cntrn") != 500 || f.value("2.cntrn") != 1500 {
		t.Errorf("counted %d, %d, want 500, 1500", f.value("1.cntrn"), f.value("2.cntrn"))
	}
	if ok, err := rdb.Set(ctx, "3.cntrn", 7, 0).Result(); ok != "OK" || err != nil {
		t.Errorf("Set: %q, %v", ok, err)
	}
	if v, err := rdb.GetDel(ctx, "3.cntrn").Result(); v != "7" || err != nil {
		t.Errorf("GetDel: %q, %v", v, err)
	}
	if err := rdb.GetDel(ctx, "3.cntrn").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("GetDel of nothing: %v", err)
	}

	// One command in 60 is too many for a pipeline of 200, all of which has to pass in one of 20 tries: some seeds gave up.
	f.set(func() {
		f.fates = func([]string) (ft fate) {
			ft.lose = rng.IntN(400) == 0
			ft.late = rng.IntN(400) == 0
			return ft
		}
	})
	pipe := rdb.Pipeline()
	for i := range 150 {
		pipe.Incr(ctx, fmt.Sprintf("%d.cntcm", i%10))
		if i%3 == 0 {
			pipe.Get(ctx, "1.cntrn")
		}
	}
	cmds, err := pipe.Exec(ctx)
	if err != nil || len(cmds) != 200 {
		t.Fatalf("%d answers, %v", len(cmds), err)
	}
	last := map[string]int64{}
	for _, cmd := range cmds {
		if incr, ok := cmd.(*redis.IntCmd); ok {
			key := incr.Args()[1].(string)
			if last[key]++; incr.Val() != last[key] || len(incr.Args()) != 2 {
				t.Fatalf("%v after %d", incr, last[key]-1)
			}
		} else if v := cmd.(*redis.StringCmd).Val(); v != "500" {
			t.Fatalf("%v", cmd)
		}
	}
	for _, args := range f.seen("INCR") {
		if n := len(args); n < 5 || args[n-3] != "IDMP" {
			t.Fatalf("sent %v", args)
		}
	}
	f.set(func() { f.fates = fates(fate{lose: true}) })
	tx := func() ([]redis.Cmder, error) {
		return rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Incr(ctx, "9.cntan")
			p.IncrBy(ctx, "9.cntan", 4)
			return nil
		})
	}
	if _, err := tx(); err == nil { // go-redis does not repeat a transaction whose reply was lost
		t.Error("a transaction whose reply was lost succeeded")
	}
	if cmds, err := tx(); err != nil || cmds[1].(*redis.IntCmd).Val() != 10 {
		t.Errorf("a transaction: %v, %v", cmds, err)
	}
	if execs := f.seen("EXEC"); len(execs) != 2 || len(execs[0]) != 4 || execs[0][1] != "IDMP" {
		t.Errorf("sent %v", execs)
	}
	// A command that has a number keeps it.
	if err := rdb.Do(ctx, "INCR", "9.cntan", "IDMP", "me", 1).Err(); err != nil || len(f.seen("INCR")[len(f.seen("INCR"))-1]) != 5 {
		t.Errorf("a numbered command: %v, %v", err, f.seen("INCR"))
	}
}

// TestHookPipelineCut cuts a pipeline for good: commands that were not sent are not reported as done.
func TestHookPipelineCut(t *testing.T) {
	f := newFake(t)
	rdb := f.dial(func(o *redis.Options) { o.MaxRetries = -1 })
	rdb.AddHook(NewHook())
	f.set(func() {
		n := 0
		f.fates = func([]string) (ft fate) {
			n++
			ft.lose = n == 40
			return ft
		}
	})
	pipe := rdb.Pipeline()
	for i := range 100 {
		pipe.Incr(t.Context(), strconv.Itoa(i)+".cntrn")
	}
	cmds, err := pipe.Exec(t.Context())
	if err == nil {
		t.Fatal("a pipeline that was cut succeeded")
	}
	for i, cmd := range cmds {
		// The answers to 32..38 may be lost with the connection.
		if i < 32 && cmd.Err() != nil || i >= 39 && cmd.Err() == nil {
			t.Errorf("command %d: %v", i, cmd.Err())
		}
		if i >= 64 && f.value(strconv.Itoa(i)+".cntrn") != 0 {
			t.Errorf("command %d was sent", i)
		}
	}
}

func TestBatch(t *testing.T) {
	f := newFake(t)
	f.limit = 100
	c := newTest(t, f, Options{})
	if err := c.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if results, err := c.Batch().Do(t.Context()); results != nil || err != nil {
		t.Errorf("an empty batch: %v, %v", results, err)
	}
	f.set(func() { f.fates = fates(fate{lose: true}, fate{refuse: "READONLY"}, fate{late: true}) })
	b := c.Batch().Add(1, "repost", 60).Add(1, "cntrn", 60).Add(2, "comment", 7).Add(1, "repost", -1)
	results, err := b.Do(t.Context())
	if err != nil || len(results) != 4 {
		t.Fatalf("%v, %v", results, err)
	}
	if results[0] != (BatchResult{60, nil}) || results[1].Err == nil || results[2] != (BatchResult{7, nil}) || results[3] != (BatchResult{59, nil}) {
		t.Errorf("%v", results)
	}
	if n := len(f.seen("COUNTER.MINCRBY")); n != 4 || f.value("1.cntrn") != 59 {
		t.Errorf("sent %d times, counted %d", n, f.value("1.cntrn"))
	}
	if _, err := c.Batch().Add(1, "share", 1).Do(t.Context()); ClassOf(err) != Permanent {
		t.Errorf("an unknown column: %v", err)
	}
	b.Reset()
	for range MaxBatch + 1 {
		b.Add(1, "repost", 1)
	}
	if _, err := b.Do(t.Context()); ClassOf(err) != Permanent || err.Error() != "client: a batch of 257 additions, want at most 256" {
		t.Errorf("a long batch: %v", err)
	}
}

// TestTakesNumber: which commands the hook numbers. A field, a key or a column may be called idmp.
func TestTakesNumber(t *testing.T) {
	for text, want := range map[string]bool{
		"INCR 1.cntrn": true, "increx 1.cntrn BYINT 5": true, "counter.drain 1.cntrn": true, "COUNTER.UPDATE weibo DEL": true, "exec": true, "get 1.cntrn": false,
		"hset 7 idmp 5": true, "hset 7 idmp 5 comment 3": true, "incr idmp": true, "counter.mset weibo 7 5 COLUMNS idmp": true,
		"incr 1.cntrn IDMP me 1": false, "incr 1.cntrn idmp me 1 epoch 3": false, "exec IDMP me 1": false,
	} {
		var args []any
		for word := range strings.FieldsSeq(text) {
			args = append(args, word)
		}
		if got := takesNumber(redis.NewCmd(t.Context(), args...)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if takesNumber(redis.NewCmd(t.Context(), "incr", "1.cntrn", []byte("IDMP"), "me", 1)) {
		t.Error("a number in bytes was not seen")
	}
}
