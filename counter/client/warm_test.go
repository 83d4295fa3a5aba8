package client

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestWarm opens as many connections as the options say, and fails where there is no server.
func TestWarm(t *testing.T) {
	for _, idle := range []int{0, 5} {
		f := newFake(t)
		rdb := f.dial(func(o *redis.Options) { o.PoolSize, o.MinIdleConns = 30, idle })
		c, err := New(rdb, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Warm(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := uint32(30)
		if idle > 0 {
			want = uint32(idle)
		}
		if stats := rdb.PoolStats(); stats.IdleConns < want || stats.TotalConns < want {
			t.Errorf("MinIdleConns %d: %d connections, %d idle, want %d", idle, stats.TotalConns, stats.IdleConns, want)
		}
		if n := len(f.seen("SCHEMA")); n != 1 {
			t.Errorf("SCHEMA was asked %d times", n)
		}
		f.stop()
		other := newTest(t, f, Options{RetryBurst: 1})
		if err := other.Warm(t.Context()); !IsTransient(err) {
			t.Errorf("without a server: %v", err)
		}
	}
}
