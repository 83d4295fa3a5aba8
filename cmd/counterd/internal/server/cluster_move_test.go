// Scenario: groups of hash slots move between shards under load.

package server

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// TestMoveGroups moves half of the groups to a shard that has none, and back, while four clients change posts of both and
// follow MOVED: no other error is seen, and each post has each change once, with what was done by number.
func TestMoveGroups(t *testing.T) {
	t.Parallel()
	k := joinTwoShards(t)
	waitsForComing(t, k)
	const posts = 400
	var stop atomic.Bool
	var wg sync.WaitGroup
	var counts [posts]atomic.Int64
	for i := range 4 {
		conns := [2]*wireClient{wireDial(t, k.nodes[0], 2), wireDial(t, k.nodes[1], 2)}
		wg.Go(func() {
			at := 0
			for n := 0; !stop.Load(); n++ {
				mid := (n*7 + i*100) % posts
				command := fmt.Sprintf("INCR {%d}.cntcm", mid)
				again := n%3 == 0
				if again {
					command = fmt.Sprintf("INCREX {%d}.cntcm BYINT 1 IDMP client%d %d", mid, i, n+1)
				}
				got := ""
				for range 100 {
					got = conns[at].do(command).String()
					if !strings.HasPrefix(got, "-MOVED") {
						break
					}
					at = 1 - at
				}
				if strings.HasPrefix(got, "-") {
					t.Errorf("%s: %s", command, got)
					return
				}
				counts[mid].Add(1)
				if !again {
					continue
				}
				if repeat := conns[at].do(command).String(); repeat != got && !strings.HasPrefix(repeat, "-MOVED") {
					t.Errorf("%s: %s, and again: %s", command, got, repeat)
					return
				}
			}
		})
	}
	var half slot.Set
	for g := range slot.Groups / 2 {
		half.Add(uint8(2 * g))
	}
	for i := range 2 {
		from, to := topology.ShardID(1+i), topology.ShardID(2-i)
		id := fmt.Sprint("move", i)
		k.do(func(m *topology.Map) (topology.Change, error) {
			return topology.StartMove(m, id, half, from, to, time.Now())
		})
		k.await("the groups have moved", func() bool { m := k.view(); return m.Move(id) == nil && m.Owner(0).ID == to })
	}
	stop.Store(true)
	wg.Wait()
	for mid := range posts {
		n := k.nodes[0]
		if v, _, err := n.Store().Get(fmt.Sprintf("%d.cntcm", mid)); err != nil || int64(v) != counts[mid].Load() {
			t.Errorf("post %d: %d, %v, want %d", mid, v, err, counts[mid].Load())
		}
	}
	w := wireDial(t, k.nodes[1], 2)
	if got := w.do("COUNTER.MOVE PROGRESS").String(); !strings.HasPrefix(got, "[") {
		t.Errorf("progress: %s", got)
	}
}

// waitsForComing: who asks the second node for a group that a move is about to bring waits until it is decided.
func waitsForComing(t *testing.T, k *joinedCluster) {
	expect := func(groups slot.Set) {
		st := *k.nodes[1].cluster.Now().Standing
		st.Coming = groups
		k.nodes[1].cluster.SetStanding(&st)
	}
	w := wireDial(t, k.nodes[1], 2)
	k.await("a read waits for a group that is on its way", func() bool {
		waited := false
		expect(slot.AllGroups())
		w.send("GET {42}.cntcm")
		for end := time.Now().Add(waitForSlot / 2); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if k.nodes[1].front.Blocked() == 1 {
				waited = true
				break
			}
		}
		expect(slot.Set{})
		if got := w.read().String(); !strings.HasPrefix(got, "-MOVED") {
			t.Fatalf("a read of what did not come after all: %s", got)
		}
		return waited
	})
}
