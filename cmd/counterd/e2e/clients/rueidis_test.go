package clients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// TestRueidis: its default client, which has a cache, connects; what it caches is right after changes by any name of
// a post, and in all modes that it knows.
func TestRueidis(t *testing.T) {
	t.Parallel()
	addr := start(t)
	for _, mode := range []struct {
		name    string
		options []string // of CLIENT TRACKING; nil: rueidis's own, OPTIN
	}{
		{"default", nil},
		{"BCAST", []string{"BCAST", "PREFIX", "1", "PREFIX", "2", "PREFIX", "3", "PREFIX", "weibo:", "PREFIX", "{"}},
		{"NOLOOP", []string{"OPTIN", "NOLOOP"}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			ctx := t.Context()
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ClientTrackingOptions: mode.options})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			other, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			do := func(words ...string) {
				t.Helper()
				if err := other.Do(ctx, other.B().Arbitrary(words...).Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
					t.Fatalf("%v: %v", words, err)
				}
			}
			get := func(key string) rueidis.RedisResult {
				return client.DoCache(ctx, client.B().Get().Key(key).Cache(), time.Hour)
			}
			is := func(key, want string) {
				t.Helper()
				eventually(t, key+" is "+want, func() bool {
					got, err := get(key).ToString()
					return err == nil && got == want
				})
			}
			do("FLUSHALL")
			do("SET", "1.cntrn", "5")
			is("1.cntrn", "5")
			eventually(t, "it comes from the cache", func() bool { return get("1.cntrn").IsCacheHit() })
			do("HINCRBY", "weibo:1", "repost", "1")
			is("1.cntrn", "6")
			is("{weibo:1}.cntrn", "6")
			do("COUNTER.UPDATE", "weibo", "WHERE", "repost", "=", "6", "SET", "repost", "9")
			is("{weibo:1}.cntrn", "9")
			is("1.cntrn", "9")
			do("DEL", "1")
			eventually(t, "it is gone", func() bool { return rueidis.IsRedisNil(get("1.cntrn").Error()) })
			do("INCR", "1.cntcm") // the post is there again, with a default
			is("1.cntrn", "0")
			do("FLUSHALL")
			eventually(t, "all is gone", func() bool { return rueidis.IsRedisNil(get("1.cntrn").Error()) })
			random(ctx, t, client, other)
		})
	}
}

// random reads through the cache while others change what is read: in the end each answer of the cache is the server's.
func random(ctx context.Context, t *testing.T, client, other rueidis.Client) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	key := func(rng *rand.Rand) string {
		return fmt.Sprintf([]string{"%d.cntrn", "weibo:%d.cntcm", "{%d}.cntan", "weibo:{%d}.cntrn"}[rng.IntN(4)], 1+rng.IntN(3))
	}
	var all sync.WaitGroup
	for i := range 4 {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for range 500 {
				if i%2 == 0 {
					_ = client.DoCache(ctx, client.B().Get().Key(key(rng)).Cache(), time.Hour).Error()
					continue
				}
				words := []string{"INCR", key(rng)}
				switch rng.IntN(8) {
				case 0:
					words = []string{"DEL", fmt.Sprint(1 + rng.IntN(3))}
				case 1:
					words = []string{"HSET", fmt.Sprintf("weibo:%d", 1+rng.IntN(3)), "repost", fmt.Sprint(rng.IntN(100))}
				}
				_ = other.Do(ctx, other.B().Arbitrary(words...).Build()).Error()
			}
		})
	}
	all.Wait()
	for _, form := range []string{"%d.cntrn", "weibo:%d.cntcm", "{%d}.cntan", "weibo:{%d}.cntrn"} {
		for mid := 1; mid <= 3; mid++ {
			key := fmt.Sprintf(form, mid)
			want, werr := other.Do(ctx, other.B().Get().Key(key).Build()).ToString()
			eventually(t, fmt.Sprintf("%s is %q, %v", key, want, werr), func() bool {
				got, err := client.DoCache(ctx, client.B().Get().Key(key).Cache(), time.Hour).ToString()
				return got == want && rueidis.IsRedisNil(err) == rueidis.IsRedisNil(werr)
			})
		}
	}
}
