// Scenario: groups move to a node whose clock is days ahead of the time of its log.

package move

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
)

// timeLog is the log of a mover.
type timeLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *timeLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

func (l *timeLog) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// windowOf reads what each post of a node counts in its window.
func (n *simNode) windowOf(t *testing.T, mids []uint64) (list []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.store.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	def := b.Schema().Counter("a")
	for _, mid := range mids {
		b.Add(counter.Op{Kind: counter.OpGet, Counter: def, Mid: mid, Column: int16(len(def.Columns))})
	}
	b.Run()
	for i, mid := range mids {
		list = append(list, fmt.Sprint(mid, " ", b.Op(i).Value, b.Op(i).Err))
	}
	return list
}

// TestMoveWaitsForTime moves all groups of a node to another one. Its clock is three days ahead of the time of its log from the beginning, or goes ahead while the posts
// come, or when all of them are there. The move waits for ten minutes until the time has moved on. Its log says so once, the source is asked for nothing meanwhile, and the posts have their counts
// in the window.
func TestMoveWaitsForTime(t *testing.T) {
	for _, when := range []string{"before", "posts", "hold"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newSimCluster(t, &dice{rng: rand.New(rand.NewPCG(*seed, 1))})
				source, target := k.nodes[0], k.nodes[1]
				log := &timeLog{}
				target.mover.conf.Log = slog.New(slog.NewTextHandler(log, nil)) // before a move is there
				tick := func(n *simNode) {
					n.mu.Lock()
					defer n.mu.Unlock()
					if err := n.store.Windows().Tick(n.clock(), nil); err != nil {
						t.Error(err)
					}
				}
				c := &simClient{k: k, posts: map[uint64]uint64{}, results: map[uint64][2]uint64{}}
				c.change(1, 1, 0) // both nodes lead
				c.change(977, 1, 0)
				time.Sleep(time.Second)
				for _, n := range k.nodes {
					if err := n.store.AlterScript("add column a recent window=1h/5m of=v"); err != nil {
						t.Fatal(err)
					}
					tick(n)
				}
				source.ahead.Store(int64(3 * 24 * time.Hour))
				tick(source)
				if when == "before" {
					target.ahead.Store(source.ahead.Load())
				}
				m, err := k.etcd.Map()
				if err != nil {
					t.Fatal(err)
				}
				groups := m.Shard(1).Groups
				var mids []uint64
				for mid := uint64(1 << 20); len(mids) < 300; mid++ {
					if groups.Has(slot.Group(mid)) {
						mids = append(mids, mid)
						c.change(mid, 1+mid%7, 0)
					}
				}
				want := source.windowOf(t, mids)
				opened := func() int { return int(source.opens.Load()) }
				jump := func() { target.ahead.Store(source.ahead.Load()) }
				switch when {
				case "posts":
					source.onRows = jump
				case "hold":
					source.onHold = jump
				}
				admin := k.etcd.Open(nil)
				k.change(admin, func(m *topology.Map) (topology.Change, error) {
					return topology.StartMove(m, "move", groups, 1, 2, time.Now())
				})
				time.Sleep(10 * time.Minute)
				before := 0
				if when != "before" {
					before = 1
				}
				if n, waits := opened(), log.count("a move of groups is waiting"); n != before || waits != 1 {
					t.Errorf("the source was asked %d times, and %d lines say that the move waits, want %d and 1", n, waits, before)
				}
				if n := log.count("retrying"); n != before {
					t.Errorf("%d lines say that the move failed, want %d", n, before)
				}
				tick(target)
				time.Sleep(10 * time.Second)
				if m, err = k.etcd.Map(); err != nil || len(m.Moves) > 0 || log.count("a move of groups goes on") != 1 {
					t.Errorf("the move does not end: %v, %+v", err, target.mover.Progress())
				}
				tick(target)
				if got := target.windowOf(t, mids); !slices.Equal(got, want) {
					t.Errorf("the posts have in the window\n%s\nwant\n%s", got, want)
				}
				if err := admin.Close(); err != nil {
					t.Error(err)
				}
				k.end()
			})
		})
	}
}
