package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// TestTroubles: a trouble that a server reports is in the node's key while it lasts, and a text that changes all the time
// is not written all the time.
func TestTroubles(t *testing.T) {
	scene(t, three, func(t *testing.T, w *world) {
		m := w.replica(t)
		told := func() []topology.Trouble {
			tm, err := w.etcd.Map()
			if err != nil || tm.Live[m.id] == nil {
				t.Fatalf("the node has no key: %v", err)
			}
			return tm.Live[m.id].Troubles
		}
		report := func(list func() []topology.Trouble) {
			if err := m.proc.agent.loop.ask(t.Context(), func() { m.proc.agent.loop.conf.Troubles = list }); err != nil {
				t.Fatal(err)
			}
		}
		begun, said := time.Now(), 0
		report(func() []topology.Trouble {
			return []topology.Trouble{{ID: "disk", Severity: topology.SevereError, Text: fmt.Sprint("late by ", time.Since(begun))}}
		})
		last := ""
		until(t, time.Second, "the trouble in etcd", func() bool { return len(told()) == 1 && told()[0].ID == "disk" })
		for time.Since(begun) < 35*time.Second {
			if text := told()[0].Text; text != last {
				last, said = text, said+1
			}
			time.Sleep(50 * time.Millisecond)
		}
		if said < 2 || said > 5 {
			t.Errorf("the text was written %d times in 35 s, want once in 10 s", said)
		}
		many := make([]topology.Trouble, 20)
		for i := range many {
			many[i] = topology.Trouble{ID: fmt.Sprint("t", i), Severity: topology.SevereWarning, Text: "x"}
		}
		report(func() []topology.Trouble { return many })
		until(t, time.Second, "no more than a key may have", func() bool { return len(told()) == topology.MaxTroubles })
		report(nil)
		until(t, time.Second, "no trouble any more", func() bool { return len(told()) == 0 })
	})
}

// TestTroubleEtcd: a node whose writes etcd refuses says so in its own INFO, and not in etcd, until etcd takes them again.
func TestTroubleEtcd(t *testing.T) {
	scene(t, three, func(t *testing.T, w *world) {
		m := w.primary(t)
		says := func(part string) bool {
			for _, trouble := range m.proc.agent.Troubles() {
				if trouble.ID == "etcd" && strings.Contains(trouble.Text, part) {
					return true
				}
			}
			return false
		}
		w.etcd.SetFull(true)
		w.kill(w.replica(t)) // something is to be written
		until(t, 20*time.Second, "etcd's refusal is reported", func() bool { return says("database space exceeded") })
		w.etcd.SetFull(false)
		until(t, 5*time.Second, "no trouble any more", func() bool { return len(m.proc.agent.Troubles()) == 0 })
		w.etcd.SetDown(true)
		until(t, 20*time.Second, "etcd's absence is reported", func() bool { return says("does not answer") })
		w.etcd.SetDown(false)
		until(t, 20*time.Second, "no trouble any more", func() bool { return len(m.proc.agent.Troubles()) == 0 })
	})
}

// TestTroubleLacks: a node that does not follow a primary which lacks acknowledged changes, and does not take over, says so
// in etcd.
func TestTroubleLacks(t *testing.T) {
	scene(t, three, func(t *testing.T, w *world) {
		m := w.replica(t)
		lacks := func(epoch uint64) {
			w.mu.Lock()
			m.proc.link.Lacks = epoch
			w.mu.Unlock()
		}
		if err := m.proc.agent.loop.ask(t.Context(), func() { m.proc.agent.election.saved = 1 }); err != nil { // it did so once
			t.Fatal(err)
		}
		lacks(1)
		until(t, time.Second, "the trouble is reported", func() bool { return w.reports(t, m, "primary-lacks") })
		lacks(0)
		until(t, time.Second, "no trouble any more", func() bool { return !w.reports(t, m, "primary-lacks") })
		if s := w.shard(t); s.Primary == m.id {
			t.Error("it took over again for what was confirmed in the same epoch")
		}
	})
}
