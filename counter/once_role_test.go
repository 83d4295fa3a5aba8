// Scenario: numbered changes, and reads, while the store's role or its snapshots change.

package counter

import (
	"errors"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

// TestOnceOnReplica: a store that leads no more does not answer a repeat: its log may be cut before the change.
func TestOnceOnReplica(t *testing.T) {
	s := openDir(t, t.TempDir(), Options{Manual: true}, seedScript)
	incr := Op{Kind: OpAdd, Mid: 7, Column: 1, Arg: 1}
	first, _ := numbered(t, s, Once{Producer: []byte("p"), Seq: 1}, incr)
	wantResult(t, "the first", first, false, Result{Kind: ResultInt, N: 1})
	if err := s.Replication().Yield(); err != nil {
		t.Fatal(err)
	}
	for seq := range uint64(2) {
		if o, _ := numbered(t, s, Once{Producer: []byte("p"), Seq: 1 + seq}, incr); !errors.Is(o.Err, ErrReplica) || o.Repeat {
			t.Errorf("number %d: %+v, want ErrReplica", 1+seq, o)
		}
	}
	if _, err := s.Replication().Lead(); err != nil {
		t.Fatal(err)
	}
	again, _ := numbered(t, s, Once{Producer: []byte("p"), Seq: 1}, incr)
	wantResult(t, "a repeat", again, true, Result{Kind: ResultInt, N: 1})
}

// TestOnceEpochInSnapshot: an epoch that only a repeat brought is in the next snapshot.
func TestOnceEpochInSnapshot(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{Manual: true, SnapshotGrowth: -1}, seedScript)
	incr := Op{Kind: OpAdd, Mid: 7, Column: 1, Arg: 1}
	numbered(t, s, Once{Producer: []byte("p"), Epoch: 1, Seq: 1}, incr)
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	again, _ := numbered(t, s, Once{Producer: []byte("p"), Epoch: 2, Seq: 1}, incr)
	wantResult(t, "a repeat of the next epoch", again, true, Result{Kind: ResultInt, N: 1})
	if err := errors.Join(s.Snapshot(), s.Snapshot(), s.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Options{Manual: true, SnapshotGrowth: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var fenced *FencedError
	if o, _ := numbered(t, s, Once{Producer: []byte("p"), Epoch: 1, Seq: 2}, incr); !errors.As(o.Err, &fenced) || fenced.Want != 2 {
		t.Errorf("a number of the epoch before: %+v, want that it is fenced", o)
	}
}

// TestReadBeforeYield: a value that a primary showed is not safe because a replica showed another value behind it.
func TestReadBeforeYield(t *testing.T) {
	s := openElected(t, vfs.NewSim(), nil)
	defer close1(t, s)
	if _, err := s.Replication().LeadAt(1); err != nil {
		t.Fatal(err)
	}
	s.Replication().Confirm(Everywhere)
	if err := s.AlterScript(seedScript); err != nil {
		t.Fatal(err)
	}
	s.Replication().Confirm(s.Replication().Position())
	def := s.Schema().Counter("weibo")
	run := func(ops ...Op) *Batch {
		t.Helper()
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		for _, op := range ops {
			op.Counter = def
			b.Add(op)
		}
		b.Run()
		b.End()
		return b
	}
	run(Op{Kind: OpSet, Mid: 1, Arg: 7}) // of a client that waits
	var a Ack
	read := run(Op{Kind: OpGet, Mid: 1})
	if read.Op(0).Value != 7 {
		t.Fatalf("read %+v", read.Op(0))
	}
	read.Defer(&a)
	if err := s.Replication().Yield(); err != nil {
		t.Fatal(err)
	}
	run(Op{Kind: OpGet, Mid: 1}).Defer(&a)
	var uncertain *UncertainError
	if err := a.Commit(); !errors.As(err, &uncertain) {
		t.Errorf("%v: a value is shown that the next primary may lack", err)
	}
}
