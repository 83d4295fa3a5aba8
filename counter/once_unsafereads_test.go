// Scenario: repeats of numbered changes that are not durable yet.

package counter

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

// tryOnce tries to add 1 to post 9 as a numbered change.
func tryOnce(b *Batch, producer string, seq uint64, hash uint32) (*Once, error) {
	b.Reset()
	var o *Once
	err := with(b, func() error {
		b.Add(Op{Kind: OpAdd, Counter: b.Schema().Counter("a"), Mid: 9, Arg: 1})
		o, _ = b.Once(0)
		o.Producer, o.Seq, o.Hash = []byte(producer), seq, hash
		b.Run()
		return errors.Join(o.Err, b.Op(0).Err)
	})
	return o, err
}

// showOnce are all the ways to look at what is remembered of producer a, whose number 1000 was made last.
var showOnce = map[string]func(b *Batch) error{
	"repeat": func(b *Batch) error {
		o, err := tryOnce(b, "a", 1000, 0)
		if err == nil && !o.Repeat {
			err = errors.New("it was made again")
		}
		return err
	},
	"mismatch": func(b *Batch) error { _, err := tryOnce(b, "a", 1000, 1); return except(err, ErrMismatch) },
	"gone": func(b *Batch) error {
		o, err := tryOnce(b, "a", 10, 0)
		if err == nil && (!o.Repeat || o.Result.Kind != ResultGone) {
			err = fmt.Errorf("got %+v, want that it was made", o)
		}
		return err
	},
	"last": func(b *Batch) error {
		return with(b, func() error { _, _, err := b.Producers().Last([]byte("a")); return err })
	},
	"list": func(b *Batch) error {
		return with(b, func() error { _, err := b.Producers().List(10); return err })
	},
}

// TestShowOnce: what is remembered of a numbered change is not told before the log holds it.
func TestShowOnce(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncAlways, SyncEverySec, SyncNo} {
		for name, show := range showOnce {
			s, _ := openShow(t, policy)
			for seq := range uint64(130) {
				if _, err := tryOnce(s.NewBatch(), "a", 10+seq, 0); seq < 3 && err != nil {
					t.Fatal(err)
				}
				if seq%10 == 0 { // the column has 4 bits
					if err := s.Set("9.v", 0); err != nil {
						t.Fatal(err)
					}
				}
			}
			unwritten(t, s, func(b *Batch) {
				b.Add(Op{Kind: OpSet, Counter: b.Schema().Counter("a"), Mid: 9})
				b.Add(Op{Kind: OpAdd, Counter: b.Schema().Counter("a"), Mid: 9, Arg: 1})
				o, _ := b.Once(1)
				o.Producer, o.Seq = []byte("a"), 1000
				b.Run()
				if err := errors.Join(o.Err, b.Op(1).Err); err != nil {
					t.Fatal(err)
				}
			})
			before := s.data.Log.Position()
			if err := show(s.NewBatch()); err != nil {
				t.Fatalf("%v: %s: %v", policy, name, err)
			}
			if at := s.data.Log.Visible(); at < before {
				t.Errorf("%v: %s was told, up to log offset %d, and a crash goes back to %d", policy, name, before, at)
			}
		}
	}
}

// TestShowOnceOnBadDisk: while the disk fails, a repeat of a durable change is answered, and a repeat of another change is in doubt, as the change
// itself is. A list of producers acknowledges nothing: under appendfsync everysec it tells the newest numbers. Nothing new is made; when the disk is
// well, each change was made once.
func TestShowOnceOnBadDisk(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncAlways, SyncEverySec} {
		s, faulty := openShow(t, policy)
		for _, producer := range []string{"a", "b"} {
			if _, err := tryOnce(s.NewBatch(), producer, 1, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.data.Log.Sync(); err != nil {
			t.Fatal(err)
		}
		faulty.Inject(vfs.Rule{Ops: vfs.OpSync | vfs.OpSyncDir | vfs.OpCreate | vfs.OpWrite, Every: 1, Err: errIO})
		if o, err := tryOnce(s.NewBatch(), "a", 1, 0); err != nil || !o.Repeat {
			t.Errorf("%v: a repeat of what is durable: got repeat %v, %v", policy, o.Repeat, err)
		}
		uncertain := func(what string, err error, want bool) {
			t.Helper()
			if got := errors.As(err, new(*UncertainError)); got != want || !got && err != nil {
				t.Errorf("%v: %s with a disk that fails: %v", policy, what, err)
			}
		}
		_, err := tryOnce(s.NewBatch(), "a", 1000, 0)
		uncertain("a new one", err, true)
		for name, want := range map[string]bool{"repeat": true, "last": true, "list": policy == SyncAlways} {
			uncertain(name, showOnce[name](s.NewBatch()), want)
		}
		b := s.NewBatch() // the repeat is in doubt, the reader beside it is not
		if err := with(b, func() error {
			of := b.Schema().Counter("a")
			b.Add(Op{Kind: OpAdd, Counter: of, Mid: 9, Arg: 1})
			o, _ := b.Once(0)
			o.Producer, o.Seq = []byte("a"), 1000
			b.Add(Op{Kind: OpGet, Counter: of, Mid: 777_777})
			b.Run()
			uncertain("a repeat beside a reader", o.Err, true)
			return b.Op(1).Err
		}); err != nil {
			t.Errorf("%v: a reader beside a repeat: %v", policy, err)
		}
		if o, err := tryOnce(s.NewBatch(), "b", 1, 0); err != nil || !o.Repeat {
			t.Errorf("%v: a repeat of another's that is durable: got repeat %v, %v", policy, o.Repeat, err)
		}
		if _, err := tryOnce(s.NewBatch(), "b", 2, 0); !errors.Is(err, ErrNotReady) || errors.As(err, new(*UncertainError)) {
			t.Errorf("%v: a new one while none is taken: %v", policy, err)
		}
		faulty.Clear()
		recovers(t, s)
		for name, again := range map[string]bool{"a": true, "b": false} {
			if o, err := tryOnce(s.NewBatch(), name, map[string]uint64{"a": 1000, "b": 2}[name], 0); err != nil || o.Repeat != again {
				t.Errorf("%v: the disk is well: got repeat %v, %v", policy, o.Repeat, err)
			}
		}
		wantValue(t, s, "9.v", 4)
	}
}

// TestRepeatOnFullDisk: a numbered change that a full disk did not take is not acknowledged when it is sent again, whichever call of the disk
// failed: a kill takes it back, and its number is free then. Its column has a window in half of the rounds, as such changes are made in
// another way.
func TestRepeatOnFullDisk(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncEverySec, SyncNo} {
		for _, script := range []string{showScript, showScript + "\nadd column a w window=1h/5m of=v"} {
			for skip := range 8 {
				sim := vfs.NewSim()
				faulty := vfs.NewFaulty(sim)
				opts := Options{FS: faulty, AppendFsync: policy, Manual: true, SegmentBytes: 512, HashSeed: 1}
				s := openDir(t, "data", opts, script)
				faulty.Inject(vfs.Rule{Ops: vfs.OpMutating &^ vfs.OpMkdir, Skip: skip, Every: 1, Err: syscall.ENOSPC})
				acked := uint64(0) // the last number that was acknowledged, at once or when it was sent again
				var lost uint64
				for seq := uint64(1); lost == 0; seq++ {
					if _, err := tryOnce(s.NewBatch(), "a", seq, 0); errors.As(err, new(*UncertainError)) {
						lost = seq
					} else if acked = seq; err != nil || seq == 15 { // the column has 4 bits
						t.Fatalf("%v, %d calls: number %d: %v", policy, skip, seq, err)
					}
				}
				_, again := tryOnce(s.NewBatch(), "a", lost, 0)
				b := s.NewBatch()
				if last := with(b, func() error { _, _, err := b.Producers().Last([]byte("a")); return err }); (last == nil) != (again == nil) {
					t.Errorf("%v, %d calls: the last number: %v, and a repeat of it: %v", policy, skip, last, again)
				}
				if again == nil {
					acked = lost
				}
				killed := sim.Kill()
				faulty.Clear()
				close1(t, s)
				opts.FS = killed
				s = openDir(t, "data", opts, "")
				if v, _, err := s.Get("9.v"); err != nil || uint64(v) < acked {
					t.Errorf("%v, %d calls: %d numbers were acknowledged, and a kill left %d, %v", policy, skip, acked, v, err)
				}
				if o, err := tryOnce(s.NewBatch(), "a", lost, 0); err != nil || o.Result.N != lost {
					t.Errorf("%v, %d calls: number %d after the kill: %+v, %v", policy, skip, lost, o.Result, err)
				}
				close1(t, s)
			}
		}
	}
}
