package libraries

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/counter/client"
	"github.com/redis/go-redis/v9"
)

// cpuOf is the processor time of a process so far, by /proc: it counts in hundredths of a second.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip("no /proc")
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// ownCPU is that of this process, exactly.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measured runs b.N operations on some goroutines and reports the processor time of one, here and at the server.
func measured(b *testing.B, s *harness.Server, goroutines int, operate func(i int) error) {
	b.Helper()
	b.ResetTimer()
	here, there := ownCPU(), cpuOf(b, s.Cmd.Process.Pid)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for {
				const batch = 16 // of what is shared out: the goroutines do not meet at each
				from := int(next.Add(batch)) - batch
				for i := from; i < min(from+batch, b.N); i++ {
					if err := operate(i); err != nil {
						b.Error(err)
						return
					}
				}
				if from >= b.N {
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(ownCPU()-here)/float64(b.N), "client-cpu-ns/op")
	b.ReportMetric(float64(cpuOf(b, s.Cmd.Process.Pid)-there)/float64(b.N), "server-cpu-ns/op")
}

// BenchmarkClientIncr is an increment by go-redis alone, with the hook, and by the client, also over an AutoPipeliner,
// which go-redis has for goroutines that share connections.
func BenchmarkClientIncr(b *testing.B) {
	for _, goroutines := range []int{1, 1000} {
		for _, kind := range []string{"goredis", "hook", "client", "client-autopipeline"} {
			b.Run(fmt.Sprintf("goroutines=%d/by=%s", goroutines, kind), func(b *testing.B) {
				s := harness.Start(b)
				harness.RunScript(b, s.Dial(b), harness.SchemaScript)
				rdb := redis.NewClient(&redis.Options{Addr: s.Addr, PoolTimeout: time.Minute})
				defer rdb.Close()
				var universal redis.UniversalClient = rdb
				switch kind {
				case "hook":
					rdb.AddHook(client.NewHook())
				case "client-autopipeline":
					pipeliner, err := rdb.AutoPipeline()
					if err != nil {
						b.Fatal(err)
					}
					defer pipeliner.Close()
					universal = pipeliner
				}
				c, err := client.New(universal, client.Options{})
				if err != nil {
					b.Fatal(err)
				}
				if err := c.Warm(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				if strings.HasPrefix(kind, "client") {
					measured(b, s, goroutines, func(i int) error {
						_, err := c.Incr(b.Context(), uint64(i%1000), "repost")
						return err
					})
				} else {
					measured(b, s, goroutines, func(i int) error { return rdb.IncrBy(b.Context(), strconv.Itoa(i%1000)+".cntrn", 1).Err() })
				}
			})
		}
	}
}

// BenchmarkClientAggregator adds to 1,000 posts by an aggregator, as fast as it goes and at a million a second.
func BenchmarkClientAggregator(b *testing.B) {
	for _, rate := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			s := harness.Start(b)
			harness.RunScript(b, s.Dial(b), harness.SchemaScript)
			c := counting(b, s.Port)
			a, err := c.NewAggregator(client.AggregatorOptions{})
			if err != nil {
				b.Fatal(err)
			}
			if err := a.Add(b.Context(), 0, "repost", 0); err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			measured(b, s, 4, func(i int) error {
				if rate > 0 && i%1000 == 0 {
					time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))))
				}
				return a.Incr(b.Context(), uint64(i)*2654435761%1000, "repost")
			})
			if err := a.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
			took := time.Since(began)
			stats := a.Stats()
			b.ReportMetric(float64(b.N)/took.Seconds(), "adds/s")
			b.ReportMetric(float64(stats.Commands)/took.Seconds(), "commands/s")
			sum := int64(0)
			conn := s.Dial(b)
			for post := range 1000 {
				n, err := conn.Do("GET", strconv.Itoa(post)+".cntrn").Int()
				if err != nil && b.N > 1000 {
					b.Fatal(err)
				}
				sum += n
			}
			if sum != int64(b.N) {
				b.Errorf("counted %d of %d", sum, b.N)
			}
		})
	}
}

// BenchmarkClientPage reads pages of 20 posts with three columns, by the client and by COUNTER.MGET alone.
func BenchmarkClientPage(b *testing.B) {
	for _, kind := range []string{"counter.mget", "client"} {
		b.Run("by="+kind, func(b *testing.B) {
			s := harness.Start(b)
			harness.RunScript(b, s.Dial(b), harness.SchemaScript)
			c := counting(b, s.Port)
			for mid := range uint64(1000) {
				if err := c.Set(b.Context(), mid, "repost", int64(mid)); err != nil {
					b.Fatal(err)
				}
			}
			rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
			defer rdb.Close()
			b.ReportAllocs()
			measured(b, s, 1, func(i int) error {
				if kind == "client" {
					mids := make([]uint64, 20)
					for k := range mids {
						mids[k] = uint64((i + k*37) % 1000)
					}
					rows, err := c.Page(b.Context(), mids)
					if err == nil && rows[1].Values[1] != int64((i+37)%1000) {
						err = fmt.Errorf("row %+v", rows[1])
					}
					return err
				}
				args := []any{"counter.mget", "weibo"}
				for k := range 20 {
					args = append(args, (i+k*37)%1000)
				}
				return rdb.Do(b.Context(), args...).Err()
			})
		})
	}
}
