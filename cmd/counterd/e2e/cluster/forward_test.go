package cluster

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// updater changes all of its posts by COUNTER.UPDATE on forward ports, and compares each of them after every command.
type updater struct {
	nodes  []string
	base   uint64
	values [200]int64
	counts map[string]int
}

// post is the i-th of its posts. They are neighbours, so that a condition on mids finds them and no others.
func (u *updater) post(i int) uint64 { return u.base + uint64(i) }

// read reads all posts, from some node that answers.
func (u *updater) read() (values [200]int64, err error) {
	var mids []string
	for i := range u.values {
		mids = append(mids, fmt.Sprint(u.post(i)))
	}
	for deadline := time.Now().Add(forwardPatience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, node := range u.nodes {
			conn, e := harness.DialTimeout("tcp", node, time.Second)
			if err = e; e != nil {
				continue
			}
			v, e := conn.TryDo(append([]string{"COUNTER.MGET", "weibo"}, mids...)...)
			conn.Close()
			if err = e; e != nil {
				continue
			}
			if err = fmt.Errorf("%.200q", v.Raw); len(v.List) != len(mids) {
				continue
			}
			for i, row := range v.List {
				if len(row.List) == 1 {
					if values[i], err = row.List[0].Int(); err != nil {
						return values, err
					}
				}
			}
			return values, nil
		}
	}
	return values, fmt.Errorf("nobody answers COUNTER.MGET: %w", err)
}

// once adds one to all posts. The answer says how many were changed: all. Behind an error that is no UNCERTAIN none was. Behind
// UNCERTAIN, and behind a lost connection, each was changed or not.
func (u *updater) once(node string) error {
	said := "no reply"
	if conn, err := harness.DialTimeout("tcp", node, time.Second); err != nil {
		said = "-refused"
	} else {
		_ = conn.Nc.SetDeadline(time.Now().Add(20 * time.Second))
		if v, err := conn.TryDo("COUNTER.UPDATE", "weibo", "MID", ">=", fmt.Sprint(u.base), "AND", "MID", "<", fmt.Sprint(u.post(len(u.values))), "INCR", "repost", "1"); err == nil {
			said = v.Raw
		}
		conn.Close()
	}
	values, err := u.read()
	if err != nil {
		return err
	}
	least, most := int64(0), int64(2) // a shard that lost its group and the shard that got it may both have made it
	switch {
	case said == fmt.Sprintf(":%d\r\n", len(u.values)):
		least, most = 1, 1
		u.counts["made"]++
	case said[0] == '-' && !strings.HasPrefix(said, "-UNCERTAIN"):
		most = 0
		u.counts["refused"]++
	case said[0] == ':':
		return fmt.Errorf("COUNTER.UPDATE of %d posts answered %q", len(u.values), said)
	default:
		u.counts["in doubt"]++
	}
	for i, v := range values {
		if d := v - u.values[i]; d < least || d > most {
			return fmt.Errorf("post %d held %d and holds %d after COUNTER.UPDATE answered %q: want %d to %d more", u.post(i), u.values[i], v, said, least, most)
		}
	}
	u.values = values
	return nil
}

// TestForwardMoves sends numbered INCRs, and COUNTER.UPDATE of posts of all shards, to forward ports while groups move and primaries
// are killed. Each INCR counts once. An update that answers has changed each post once, and a refused one none.
func TestForwardMoves(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	c, ok := newCluster(t, clusterOptions{members: 1, shards: 2, replicas: 1, timeout: *nodeTimeoutFlag, fsync: "everysec"})
	if !ok {
		return
	}
	c.fill(5000)
	stop, moved := make(chan struct{}), make(chan struct{})
	var work, moving sync.WaitGroup
	writers := c.startForwardWriters(&work, 3, rng, stop, 2*time.Millisecond)
	u := &updater{nodes: writers[0].nodes, base: 11 << 56, counts: map[string]int{}}
	for i := range u.values {
		w := harness.DialAddr(t, "tcp", u.nodes[0])
		w.Want(":1\r\n", "INCR", nKey(u.post(i)))
		w.Close()
		u.values[i] = 1
	}
	updates := rand.New(rand.NewPCG(rng.Uint64(), 5))
	work.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			if err := u.once(one(updates, u.nodes)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var moves atomic.Int64
	moving.Go(func() {
		if err := c.moveAlways(rand.New(rand.NewPCG(rng.Uint64(), 3)), moved, &moves); err != nil {
			t.Error(err)
		}
	})
	for round := range 3 {
		n := moves.Load() + 2
		harness.Eventually(t, 2*time.Minute, "groups move", func() bool { return t.Failed() || moves.Load() >= n })
		if t.Failed() {
			break
		}
		m, err := c.load()
		if err != nil {
			t.Fatal(err)
		}
		p := c.primary(m, m.Shards[round%len(m.Shards)])
		if p == nil {
			continue
		}
		back := c.killed(p)
		time.Sleep(harness.RandomPause(rng, 500*time.Millisecond, 2*time.Second))
		back()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && harness.Ask(p.Addr, "PING") != "+PONG\r\n"; {
			time.Sleep(20 * time.Millisecond)
		}
	}
	close(moved)
	moving.Wait()
	close(stop)
	work.Wait()
	repeats, made := 0, 0
	for _, w := range writers {
		if err := w.check(); err != nil {
			t.Error(err)
		}
		repeats, made = repeats+w.repeats, made+len(w.made)
	}
	t.Logf("%d moves; %d numbered increments, %d repeats; updates: %v", moves.Load(), made, repeats, u.counts)
	if u.counts["made"] == 0 {
		t.Error("no update was made")
	}
}
