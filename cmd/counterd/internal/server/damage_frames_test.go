// Scenario: a start meets damage, and fetches no more than the damaged part.

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/format"
)

// setAside are the files and folders of a node that were set aside.
func setAside(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.damaged-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// noted waits until a primary has noted its replicas.
func (n *replNode) noted() {
	n.t.Helper()
	until(n.t, "the replica is noted", func() bool { _, err := os.Stat(filepath.Join(n.dir, "REPLICAS")); return err == nil })
}

// TestLogHealsByFrames damages the last segment of a stopped node's log, which its start needs. The node gets the damaged frames from the
// other one, and keeps all its files: a replica from its primary, and a primary from a replica that has all.
func TestLogHealsByFrames(t *testing.T) {
	p := newDamagePair(t)
	rng := seed.Rand(t)
	for _, who := range []string{"replica", "primary"} {
		ways := rng.Perm(len(damages))
		if !*allDamage {
			ways = ways[:1]
		}
		for _, way := range ways {
			t.Run(who+"/"+damages[way].name, func(t *testing.T) {
				p.t = t
				p.reset(t)
				p.a.start("")
				p.b.start("")
				p.a.noted()
				w := p.a.dial()
				for i := range 30 { // several frames
					w.want(fmt.Sprintf("SET %d.cntcm %d", 100+i, i), "+OK")
				}
				var want []string
				for i := range p.posts {
					want = append(want, w.do(fmt.Sprintf("GET %d.cntcm", i)).String())
				}
				same(t, p.a, p.b)
				n := map[string]*replNode{"replica": p.b, "primary": p.a}[who]
				n.stop()
				damageFile(t, fileLike("log/*.aof", true)(t, n.dir), damages[way].make)
				n.start("")
				until(t, "both have all", func() bool {
					return p.honest(n, want) && p.a.info("role") == "master" && p.b.info("master_link_status") == "up"
				})
				if found := setAside(t, n.dir); len(found) > 0 || n.info("counterd_healed") != "0" || n.info("counterd_refilled_log_segments") != "1" {
					t.Errorf("set aside: %q, healed %s times, %s segments were mended", found, n.info("counterd_healed"), n.info("counterd_refilled_log_segments"))
				}
				p.a.dial().want("SET 7.cntcm 700", "+OK")
				same(t, p.a, p.b)
				n.stop()
				n.start("")
				same(t, p.a, p.b)
			})
		}
	}
}

// TestFramesOfAnOlderTerm: the primary was started again while the replica with the damaged log was away. It gives the frames of the term
// before.
func TestFramesOfAnOlderTerm(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	b.start(a.addr())
	w := a.dial()
	for i := range 50 {
		w.want(fmt.Sprintf("SET %d.cntcm %d", i, i), "+OK")
	}
	same(t, a, b)
	b.stop()
	a.stop()
	a.start("")
	a.dial().want("SET 7.cntcm 700", "+OK")
	damageFile(t, fileLike("log/*.aof", true)(t, b.dir), damages[1].make)
	b.start("")
	until(t, "the replica follows", func() bool { return b.info("master_link_status") == "up" })
	same(t, a, b)
	if found := setAside(t, b.dir); len(found) > 0 {
		t.Errorf("set aside: %q", found)
	}
}

// TestReplicasAndLogDamaged: REPLICAS and the log of a stopped primary are damaged. The copy of REPLICAS names the replica that has all.
func TestReplicasAndLogDamaged(t *testing.T) {
	for _, d := range []int{1, 5, 6} {
		a, b := newReplNode(t), newReplNode(t)
		a.start("")
		b.start(a.addr())
		a.dial().want("SET 1.cntcm 5", "+OK")
		same(t, a, b)
		a.noted()
		a.stop()
		damageFile(t, filepath.Join(a.dir, "REPLICAS"), damages[d].make)
		damageFile(t, fileLike("log/*.aof", true)(t, a.dir), damages[4].make)
		a.start("")
		until(t, "it leads", func() bool { return a.info("role") == "master" && a.info("counterd_healing") == "0" })
		a.dial().want("GET 1.cntcm", `"5"`)
		a.dial().want("SET 2.cntcm 6", "+OK")
		same(t, a, b)
		a.stop()
		b.stop()
	}
}

// TestReplicaofNamesHelper: the directory of a primary is useless, and the only replica that it remembers does not answer. It waits. REPLICAOF
// says which node has the data: Sentinel says so when it has made another node the primary.
func TestReplicaofNamesHelper(t *testing.T) {
	for _, sentinel := range []bool{false, true} {
		a, b := newReplNode(t), newReplNode(t)
		a.start("")
		b.start(a.addr())
		a.dial().want("SET 1.cntcm 5", "+OK")
		same(t, a, b)
		a.noted()
		a.stop()
		b.stop()
		b.port = freeport.Take(t) // nobody is where the replica was
		b.start("")
		b.dial().want("REPLICAOF NO ONE", "+OK")
		b.dial().want("SET 2.cntcm 6", "+OK")
		ruin(t, a.dir)
		said := make(chan string, 1)
		a.listening = func() {
			go func() {
				until(t, "the node waits", func() bool { return a.info("counterd_healing_waits") == "1" })
				c := a.dial()
				refused := c.do("REPLICAOF NO ONE").Text + c.do("GET 1.cntcm").Text
				name := func() string { return c.do("REPLICAOF " + b.addr()).Text }
				if sentinel {
					name = func() string {
						c.do("MULTI")
						c.do("SLAVEOF " + b.addr())
						c.do("CONFIG REWRITE")
						c.do("CLIENT KILL TYPE normal")
						return c.do("EXEC").String()
					}
				}
				got := name()
				for strings.Contains(got, "LOADING") || strings.Contains(got, "EXECABORT") { // between two searches nobody listens; Sentinel says it again, too
					time.Sleep(10 * time.Millisecond)
					got = name()
				}
				said <- refused + got
			}()
		}
		a.start("")
		const loading = "LOADING counterd is loading the dataset in memory"
		want := loading + loading + "OK"
		if sentinel {
			want = loading + loading + "[+OK"
		}
		if got := <-said; len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("it said %q", got)
		}
		until(t, "it is whole", func() bool { return a.info("counterd_healing") == "0" && a.info("role") == "slave" })
		a.dial().want("GET 2.cntcm", `"6"`)
		same(t, b, a)
		a.stop()
		b.stop()
	}
}

// TestFormerPrimaryGetsFrames: the log of a primary is damaged, and its replica was promoted meanwhile. The former primary gets the damaged
// frames from it, and follows it with the files that it has. Changes that the new primary lacks are cut as in any failover.
func TestFormerPrimaryGetsFrames(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	a.dial().want("SET 1.cntcm 4", "+OK")
	b.start(a.addr())
	same(t, a, b)
	a.noted()
	for i := range 20 {
		a.dial().want(fmt.Sprintf("SET %d.cntcm 5", i), "+OK")
	}
	same(t, a, b)
	b.stop()
	a.dial().want("SET 30.cntcm 5", "+OK")
	a.stop()
	damageFile(t, fileLike("log/*.aof", false)(t, a.dir), func(path string, b []byte) error {
		b[format.SegmentHeaderLen+format.FrameHeaderLen+2] ^= 1
		return os.WriteFile(path, b, 0o640)
	})
	b.start("")
	b.dial().want("REPLICAOF NO ONE", "+OK")
	b.dial().want("SET 31.cntcm 6", "+OK")
	a.start("")
	until(t, "it follows", func() bool { return a.info("role") == "slave" && a.info("master_link_status") == "up" })
	same(t, b, a)
	a.dial().want("GET 31.cntcm", `"6"`)
	a.dial().want("GET 30.cntcm", "nil")
	if found := setAside(t, a.dir); len(found) > 0 || a.info("counterd_refilled_log_segments") != "1" || a.info("counterd_diverged_files") != "1" {
		t.Errorf("set aside: %q, %s segments were mended, %s tails were cut", found, a.info("counterd_refilled_log_segments"), a.info("counterd_diverged_files"))
	}
}

// TestFirstSegmentGone: the log of a stopped primary has lost the segment that its start reads first, and that of a replica all segments. The
// node gets the frames from the other one, and keeps all its files.
func TestFirstSegmentGone(t *testing.T) {
	for _, primary := range []bool{false, true} {
		a, b := newReplNode(t), newReplNode(t)
		a.start("")
		b.start(a.addr())
		for i := range 20 {
			a.dial().want(fmt.Sprintf("SET %d.cntcm 5", i), "+OK")
		}
		same(t, a, b)
		a.noted()
		n := b
		if primary {
			n = a
		}
		n.stop()
		n.start("") // in another segment
		a.dial().want("SET 21.cntcm 6", "+OK")
		same(t, a, b)
		n.stop()
		segs, err := filepath.Glob(filepath.Join(n.dir, "log", "*.aof"))
		if err != nil || len(segs) < 2 {
			t.Fatalf("segments %q, %v", segs, err)
		}
		if primary {
			segs = segs[:len(segs)-1]
		}
		for _, path := range segs {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		n.start("")
		until(t, "both are whole", func() bool { return a.info("role") == "master" && b.info("master_link_status") == "up" })
		a.dial().want("SET 22.cntcm 7", "+OK")
		same(t, a, b)
		n.dial().want("GET 19.cntcm", `"5"`)
		if found := setAside(t, n.dir); len(found) > 0 || n.info("counterd_refilled_log_segments") != "1" {
			t.Errorf("primary %t: set aside: %q, %s segments were mended", primary, found, n.info("counterd_refilled_log_segments"))
		}
		n.stop()
		n.start("")
		same(t, a, b)
		a.stop()
		b.stop()
	}
}
