// Scenario: a file of a primary is damaged, and the node is whole again, with the data of its replicas.

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestPrimaryHeals damages a file of a stopped primary that had a change which its replica lacks. Nobody was told to lead. The
// primary starts, never gives a wrong answer, and leads again with everything. The last change is there, or the node says
// that it is lost.
func TestPrimaryHeals(t *testing.T) {
	p := newDamagePair(t)
	for _, cell := range cells(t) {
		kind, d := damageKinds[cell[0]], damages[cell[1]]
		if kind.name == "PRIMARY" {
			continue // a primary has none
		}
		t.Run(kind.name+"/"+d.name, func(t *testing.T) {
			p.t = t
			p.reset(t)
			p.a.start("")
			p.b.start("")
			same(t, p.a, p.b)
			until(t, "the replica is noted", func() bool { _, err := os.Stat(filepath.Join(p.a.dir, "REPLICAS")); return err == nil })
			p.b.stop()
			w := p.a.dial()
			w.want("INCR 4.cntcm", ":14")
			var want []string
			for i := range p.posts {
				want = append(want, w.do(fmt.Sprintf("GET %d.cntcm", i)).String())
			}
			p.a.stop()
			damageFile(t, kind.find(t, p.a.dir), d.make)
			p.b.start("")
			p.a.start("")
			until(t, "the primary is whole", func() bool {
				whole := p.honest(p.a, want)
				if !whole && p.a.said("changes that only this node had are lost") {
					whole, want[4] = true, `"13"`
				}
				return whole && p.a.info("counterd_healing") == "0" && p.a.info("role") == "master" && p.a.info("cold_files_unusable") == "0"
			})
			until(t, "the replica follows", func() bool { return p.b.info("master_link_status") == "up" })
			if !p.honest(p.a, want) {
				t.Error("posts are missing")
			}
			p.a.dial().want("SET 7.cntcm 700", "+OK")
			samePosts(t, p.a, p.b)
			p.a.stop()
			p.a.start("")
			want[7] = `"700"`
			until(t, "it is whole behind a restart", func() bool { return p.honest(p.a, want) })
			samePosts(t, p.a, p.b)
			p.sameCounts()
		})
	}
}

// TestPrimaryHealsWhereItWas: the directory of a primary is useless, and its log whole. The changes that its replica lacks come from the
// log that was set aside. With the replica told to lead meanwhile, the node follows it.
func TestPrimaryHealsWhereItWas(t *testing.T) {
	for _, promoted := range []bool{false, true} {
		a, b := newReplNode(t), newReplNode(t)
		a.start("")
		b.start(a.addr())
		w := a.dial()
		w.want("SET 1.cntcm 5", "+OK")
		same(t, a, b)
		until(t, "the replica is noted", func() bool { _, err := os.Stat(filepath.Join(a.dir, "REPLICAS")); return err == nil })
		b.stop()
		w.want("SET 2.cntcm 6", "+OK")
		a.stop()
		ruin(t, a.dir)
		b.start("")
		if promoted {
			b.dial().want("REPLICAOF NO ONE", "+OK")
		}
		a.start("")
		role, second := "master", `"6"`
		if promoted {
			role, second = "slave", "nil"
		}
		until(t, "it is whole", func() bool { return a.info("counterd_healing") == "0" && a.info("role") == role })
		r := a.dial()
		r.want("GET 1.cntcm", `"5"`)
		if got := r.do("GET 2.cntcm").String(); got != second {
			t.Errorf("promoted %v: the change that the replica lacked: %s, want %s", promoted, got, second)
		}
		if a.info("counterd_healed") != "1" {
			t.Errorf("healed %s times", a.info("counterd_healed"))
		}
		leader, follower := a, b
		if promoted {
			leader, follower = b, a
		}
		leader.dial().want("SET 3.cntcm 7", "+OK")
		same(t, leader, follower)
		a.stop()
		b.stop()
	}
}

// TestLostEndIsSaid: the end of a primary's log is damaged, and nothing says how far it had come. The primary leads with the frames of its replica
// and says that more may be lost.
func TestLostEndIsSaid(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	b.start(a.addr())
	w := a.dial()
	for i := range 20 {
		w.want(fmt.Sprintf("SET %d.cntcm 5", i), "+OK")
	}
	same(t, a, b)
	a.noted()
	a.stop()
	damageFile(t, fileLike("log/*.aof", true)(t, a.dir), damages[4].make) // truncated
	if err := os.Remove(filepath.Join(a.dir, "DURABLE")); err != nil {
		t.Fatal(err)
	}
	a.start("")
	until(t, "it leads", func() bool { return a.info("role") == "master" && a.info("counterd_healing") == "0" })
	for i := range 20 {
		a.dial().want(fmt.Sprintf("GET %d.cntcm", i), `"5"`)
	}
	if len(setAside(t, a.dir)) > 0 || !a.said("changes that only this node had may be lost") {
		t.Error("it has set files aside, or does not say that changes may be lost")
	}
	same(t, a, b)
}
