// Scenario: files of a primary and of its replica are damaged and repaired while they follow each other.

package counter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// harm damages one file of a node, and says how.
func (p *pair) harm(t *testing.T, sim *vfs.Sim) string {
	t.Helper()
	files := slices.DeleteFunc(sim.Files("data"), func(path string) bool {
		return strings.HasSuffix(path, "/LOCK") || strings.Contains(path, ".broken-") || strings.Contains(path, "/diverged-")
	})
	path := files[p.rng.IntN(len(files))]
	how := ""
	if err := sim.Damage(path, func(content []byte) []byte {
		used := len(strings.TrimRight(string(content), "\x00"))
		switch k := p.rng.IntN(5); {
		case k == 0:
			how = "deleted"
			return nil
		case k == 1 && used > 0:
			n := p.rng.IntN(used)
			how = fmt.Sprintf("cut to %d of %d bytes", n, used)
			return content[:n]
		case k == 2 && used > 0:
			at := p.rng.IntN(used) / 512 * 512
			how = fmt.Sprintf("zeros at %d of %d bytes", at, used)
			clear(content[at:min(at+512, len(content))])
		case used > 0:
			at := p.rng.IntN(used)
			how = fmt.Sprintf("bit at %d of %d bytes", at, used)
			content[at] ^= 1 << p.rng.IntN(8)
		}
		return content
	}); err != nil {
		t.Fatal(err)
	}
	return path + ": " + how
}

// damage is one damage of a node: the node, its disk before, and the story for a failure.
type damage struct {
	*pair
	n     *pairNode
	whole *vfs.Sim // its disk before
	did   []string
}

func (d *damage) failf(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(d.did, "\n"))
}

func (d *damage) close(t *testing.T) {
	t.Helper()
	if err := d.n.s.Close(); err != nil {
		d.failf(t, "%v", err)
	}
}

// undo has the node, which is closed, as it was before.
func (d *damage) undo(t *testing.T, why string) {
	t.Helper()
	d.counts[why]++
	d.n.sim = d.whole
	d.n.open(t)
	d.n.forget(d.n.s.data.Log.Position())
	d.n.check(t)
}

// damaged stops a node, damages one or two of its files, and starts it again, behind a repair where that is needed. The node then has the
// state of the end of its log, unless repair has named a loss. A replica that lacks something follows on, or copies its primary. A primary
// that lost changes goes on without them, or the damage is undone.
func (p *pair) damaged(t *testing.T) {
	t.Helper()
	p.counts["damaged"]++
	d := &damage{pair: p, n: p.nodes[p.rng.IntN(2)]}
	n := d.n
	replica, before := n.s.Replica(), n.s.data.Log.Written()
	sim := n.sim.Kill()
	if p.rng.IntN(2) == 0 {
		d.close(t)
		sim = n.sim.Kill()
	} else {
		_ = n.s.Close()
	}
	d.whole, n.sim = sim.Kill(), sim
	d.did = append(d.did, fmt.Sprintf("a primary: %t, its log ended at %d", !replica, before))
	for range 1 + p.rng.IntN(2) {
		d.did = append(d.did, p.harm(t, sim))
	}
	lacks, ok := d.mend(t)
	if !ok {
		return
	}
	told := strings.Join(d.did, "\n")
	if n.s.Replica() != replica {
		if !strings.Contains(told, "/HISTORY: ") || !strings.Contains(told, "/HISTORY.copy") { // damaged too, or older than the log
			d.failf(t, "replica %t became %t", replica, n.s.Replica())
		}
		d.close(t) // nothing else knows of a role that was changed without a new segment
		d.undo(t, "role forgotten")
		return
	}
	end := n.s.data.Log.Position()
	switch _, ok := n.states[end]; {
	case strings.Contains(told, "full copy"): // its state is not that of the end of its log
		d.apart(t)
		return
	case unreadable(t, n.s):
		d.close(t)
		d.undo(t, "unreadable")
		return
	case n.s.Schema().Counter("b") == nil: // it was cut before the schema of newPair
		if d.close(t); replica {
			p.copy(t, n)
		} else {
			d.undo(t, "nothing left")
		}
		return
	case !ok:
		d.failf(t, "the log ends at %d, where no change ended", end)
	}
	n.forget(end)
	p.same(t, n, d.did)
	switch {
	case lacks:
		p.counts["lost"]++
	case end < before:
		p.counts["shorter"]++
	default:
		p.counts["whole"]++
	}
}

// mend starts the node, with a repair where check finds something. lacks: the repair has cut the log. It returns false where the damage was undone.
func (d *damage) mend(t *testing.T) (lacks, ok bool) {
	t.Helper()
	n := d.n
	err := n.tryOpen()
	if err == nil {
		if !unreadable(t, n.s) {
			d.same(t, n, d.did)
		}
		d.close(t)
	} else if d.did = append(d.did, "start: "+err.Error()); !errors.Is(err, format.ErrCorrupt) {
		d.failf(t, "a start is refused")
	}
	report, checkErr := datadir.Check(n.sim, "data", datadir.CheckOptions{Cold: ColdVerifier(n.sim)})
	if checkErr != nil || err != nil && report.OK() {
		d.failf(t, "check finds nothing: %v", checkErr)
	}
	if !report.OK() || d.rng.IntN(4) == 0 { // a start does not read all of the log
		switch err := datadir.Repair(n.sim, "data", datadir.RepairOptions{Cold: ColdVerifier(n.sim), Lacks: func() error { lacks = true; return nil },
			Say: func(line string) { d.did = append(d.did, "repair: "+line) }}); {
		case errors.Is(err, datadir.ErrUnrepairable), errors.Is(err, format.ErrCorrupt):
			d.undo(t, "not repairable")
			return false, false
		case err != nil:
			d.failf(t, "repair: %v", err)
		}
	}
	if err := n.tryOpen(); err != nil {
		if d.did = append(d.did, "start: "+err.Error()); !errors.Is(err, format.ErrCorrupt) {
			d.failf(t, "a start behind a repair is refused")
		}
		d.undo(t, "not startable")
		return false, false
	}
	return lacks, true
}

// stepOrDamage is a step, or a damage.
func (p *pair) stepOrDamage(t *testing.T) {
	t.Helper()
	if p.rng.IntN(15) == 0 {
		p.damaged(t)
	} else {
		p.step(t)
	}
}

// same sees that a node has the state of the end of its log.
func (p *pair) same(t *testing.T, n *pairNode, did []string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log(strings.Join(did, "\n"))
		}
	}()
	n.check(t)
}

// unreadable tells whether a post answers an error.
func unreadable(t *testing.T, s *Store) bool {
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		items, next, err := NewReader(b).Scan(nil, cursor, 50)
		if err != nil {
			return true
		}
		b.Reset()
		for _, i := range items {
			b.Add(Op{Kind: OpRead, Counter: i.Counter, Mid: i.Mid})
		}
		b.Run()
		for i := range items {
			if b.Op(i).Err != nil {
				return true
			}
		}
		cursor = next
	}
	return len(DamagedRanges(s)) > 0
}

// apart is for a node whose state is not of the end of its log any more: it has no past in common with the other node.
func (d *damage) apart(t *testing.T) {
	t.Helper()
	n, other := d.n, d.nodes[0]
	if other == n {
		other = d.nodes[1]
	}
	mine, its := n.s.repl.Lineage(), other.s.repl.Lineage()
	at, ok := its.Common(other.s.data.Log.Written(), &mine, n.s.data.Log.Position())
	if back, backOK := mine.Common(n.s.data.Log.Written(), &its, other.s.data.Log.Position()); ok && at > 0 || backOK && back > 0 {
		d.failf(t, "the two nodes have a past in common, up to %d or %d", at, back)
	}
	if d.close(t); n.s.Replica() {
		d.counts["apart"]++
		d.copy(t, n)
		return
	}
	d.undo(t, "apart, undone")
}

// reach sees to it that the replica can follow the primary: where a repair has taken their past in common, or the beginning of the primary's log, it copies
// the primary.
func (p *pair) reach(t *testing.T) {
	t.Helper()
	if p.counts["damaged"] == 0 {
		return
	}
	primary, replica := p.nodes[p.lead].s, p.nodes[1-p.lead]
	mine, its := primary.repl.Lineage(), replica.s.repl.Lineage()
	common, ok := mine.Common(primary.data.Log.Written(), &its, replica.s.data.Log.Position())
	if ok {
		var itsErr error
		if end := replica.s.data.Log.Position(); common < end { // it will be cut
			if err := replica.s.data.Log.Commit(end); err != nil {
				t.Fatal(err)
			}
			_, itsErr = readLog(replica.s, common)
		}
		_, err := readLog(primary, common)
		if err == nil && itsErr == nil {
			return
		}
		for _, err := range []error{err, itsErr} { // damage that no start meets
			if err != nil && !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrGone) {
				t.Fatal(err)
			}
		}
	}
	if err := replica.s.Close(); err != nil {
		t.Fatal(err)
	}
	p.copy(t, replica)
}

// TestReplicaRepairModel is TestReplicaModel with damaged files: a node that was repaired goes on as a primary or as a replica, changes roles, loses its power, is
// damaged again, and never has another state than that of its log.
func TestReplicaRepairModel(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	playPairs(t, 9, []string{"lost", "whole", "copied"}, (*pair).stepOrDamage)
}
