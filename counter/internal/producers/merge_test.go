package producers

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

// mergeInto applies records as a store that takes groups over does, and logs into replica what a log would have.
func mergeInto(t *testing.T, table, replica *Table, records []byte, now int64) {
	t.Helper()
	type source struct {
		id          string
		epoch, base uint64
	}
	names := map[uint32]source{}
	var rec format.Record
	var y Try
	for len(records) > 0 {
		n, err := format.DecodeRecord(records, &rec)
		if err != nil {
			t.Fatal(err)
		}
		records = records[n:]
		s := names[rec.Number]
		if rec.Kind == format.KindDefine {
			s = source{string(rec.Text), rec.Epoch, rec.Seq}
			names[rec.Number] = s
		}
		r := Request{ID: []byte(s.id), Epoch: s.epoch, Seq: rec.Seq, Hash: rec.Hash, Room: len(rec.Text), Now: now}
		if rec.Kind == format.KindOnce {
			r.Seq += s.base
		}
		table.BeginMerge(&r, &y)
		if y.Verdict == Full {
			t.Fatal("full")
		}
		for _, to := range []*Table{table, replica} {
			for _, number := range y.Forget {
				if err := to.Define(number, 0, 0, nil, now); err != nil {
					t.Fatal(err)
				}
			}
			if y.Define {
				if err := to.Define(y.Number, y.Epoch, y.Base, r.ID, now); err != nil {
					t.Fatal(err)
				}
			}
			switch {
			case rec.Kind == format.KindFloor:
				to.Floor(y.Number, rec.Seq)
			case rec.Kind == format.KindOnce && y.Verdict == Fresh:
				to.Apply(y.Number, r.Seq-y.Base, rec.Hash, rec.Group, format.Result{Kind: rec.Result, N: rec.Value, Blob: rec.Text}, now)
			}
		}
	}
}

// TestMerge gives two tables changes of the same producers, one for groups below 128 and the other for the rest, and merges
// some groups of the first into the second: whatever was done in these groups or in the second's is a repeat there or has
// expired, and is never fresh. A request that was never executed is fresh if its seq is above all forgotten ones.
func TestMerge(t *testing.T) {
	t.Logf("-seed=%d", *seed)
	for run := range 40 {
		rng := rand.New(rand.NewPCG(*seed, uint64(run)))
		limits := Limits{Producers: 1000, Bytes: 1 << 30}
		a, b, replica := New(limits), New(limits), New(limits)
		groups := slot.Set{rng.Uint64(), rng.Uint64()}
		type change struct {
			id  string
			seq uint64
			in  bool // known to b behind the merge
		}
		var done []change
		next, highest := map[string]uint64{}, map[string]uint64{}
		var y Try
		for range 1 + rng.IntN(2000) {
			id := fmt.Sprint("p", rng.IntN(6))
			next[id] += 1 + uint64(rng.IntN(3)*rng.IntN(3))
			if rng.IntN(300) == 0 {
				next[id] += 1 << 20
			}
			seq, group := next[id], uint8(rng.UintN(256))
			r := Request{ID: []byte(id), Seq: seq, Hash: uint32(seq) & (1<<hashBits - 1), Room: 9, Now: 1}
			result := format.Result{Kind: format.ResultInt, N: seq}
			if rng.IntN(5) == 0 {
				result = format.Result{Kind: format.ResultBlob, Blob: []byte("blob")}
			}
			table := a
			if group >= 128 {
				table = b
			}
			if table.Begin(&r, &y); y.Verdict != Fresh {
				t.Fatalf("run %d: %s %d: %v", run, id, seq, y.Verdict)
			}
			if table == b {
				if y.Define {
					if err := replica.Define(y.Number, y.Epoch, y.Base, r.ID, 1); err != nil {
						t.Fatal(err)
					}
				}
				replica.Apply(y.Number, seq-y.Base, r.Hash, group, result, 1)
			}
			table.Insert(&r, &y, result, group, 1)
			done = append(done, change{id, seq, table == b || groups.Has(group)})
			highest[id] = seq
		}
		at := 0
		var records []byte
		records = a.AppendGroups(records, &groups, 0, func(n int) {
			if n <= at {
				t.Fatal("a mark that does not rise")
			}
			at = n
		})
		if at != len(records) {
			t.Fatalf("marks up to %d of %d bytes", at, len(records))
		}
		for range 2 { // a second time changes nothing
			mergeInto(t, b, replica, records, 2)
			if err := b.check(); err != nil {
				t.Fatal(err)
			}
			if err := b.sameAs(replica); err != nil {
				t.Fatalf("run %d: a replica of the log: %v", run, err)
			}
		}
		image := b.AppendImage(nil)
		if _, err := Load(image, limits); err != nil {
			t.Fatal(err)
		}
		repeats, known := 0, 0
		for _, c := range done {
			r := Request{ID: []byte(c.id), Seq: c.seq, Hash: uint32(c.seq) & (1<<hashBits - 1), Now: 3}
			b.Begin(&r, &y)
			if c.in {
				known++
			}
			switch {
			case c.in && y.Verdict == Repeat:
				if repeats++; y.Result.Kind != format.ResultGone && y.Result.N != c.seq && string(y.Result.Blob) != "blob" {
					t.Fatalf("%s %d: result %+v", c.id, c.seq, y.Result)
				}
			case c.in && y.Verdict != Expired:
				t.Fatalf("run %d: %s %d, which was made: %v", run, c.id, c.seq, y.Verdict)
			case c.in && highest[c.id]-c.seq < 40: // far inside both windows
				t.Fatalf("run %d: %s %d of %d has expired", run, c.id, c.seq, highest[c.id])
			}
		}
		if repeats == 0 && known > 0 {
			t.Errorf("run %d: nothing of %d is remembered", run, known)
		}
		for id, seq := range highest {
			r := Request{ID: []byte(id), Seq: seq + 1, Now: 3}
			if b.Begin(&r, &y); y.Verdict != Fresh {
				t.Fatalf("run %d: %s %d, which is new: %v", run, id, seq+1, y.Verdict)
			}
		}
	}
}
