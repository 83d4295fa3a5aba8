package core

import (
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/producers"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

// A series is neighbouring additions of one producer, each a numbered change of its own, whose numbers follow each other: a pipeline of numbered INCRs.
// A number alone takes a look at the table of producers, an append to the log and an entry. A series takes these once:
//
//	look       at the lowest number: the others are new if it is above all numbers of the producer
//	changes    of posts in memory, under the locks of their blocks, as those of a stretch: for each a once and its set
//	append     all of them
//	entries    all of them, and their blocks are unlocked
//
// The table is locked from the look to the entries, behind the first block. So a further block is locked if nobody has it, and else everything is appended
// and entered before the series waits for it. Other operations go the way of a numbered change alone, behind an append and the entries of all
// before them: a number that is not above all others, a post that is new, in a file, or of another shard, a column with a top list or derived columns, and
// everything while changes are refused or the disk fails.
//
// Invariant between runs: entries is empty. Within one, they are those of the changes whose records are in the stretch.
type series struct {
	entries []producers.Entry
	fresh   int // further numbers that the last look found to be new
}

// RepeatedError says that a change of a series was made before, and that its first answer is no number.
type RepeatedError struct{ Result Result }

func (e *RepeatedError) Error() string {
	return "counter: the change was made before, and answered " + e.Result.Kind.String()
}

// OnceSeries makes each operation of b, from number first on, a numbered change of its own: a series. They are OpAdds with a hash (Op.SetHash).
// The first operation has number seq of the producer, whose bytes must not change until Run returns, and the others have those behind it. The caller may set
// Hint of the Once that is returned, and Run does. Each operation has its outcome, not the Once: Err and Value of a repeat are those of its first
// execution, and a *RepeatedError where that answered something else. Found and Done of a repeat are false.
//
// A series that goes on with the last one, as its last operation and its last number are the ones before, becomes a part of that: the Once of both is
// returned then.
func OnceSeries(b *Batch, first int, producer []byte, epoch, seq uint64) (o *Once, number int) {
	r := &b.changeSets
	if n := len(r.list); n > 0 && r.list[n-1].series && r.list[n-1].to == first {
		g := &r.list[n-1]
		if o = &r.onces[g.once-1]; o.Seq+uint64(o.N) == seq && seq > o.Seq && o.Epoch == epoch && string(o.Producer) == string(producer) {
			g.to = len(b.ops)
			o.N = g.to - g.from
			return o, g.once - 1
		}
	}
	_, number = b.Once(first)
	b.Once(len(b.ops)) // a place for one operation of the series: see single
	r.list = r.list[:len(r.list)-1]
	r.list[len(r.list)-1].series = true
	o = &r.onces[number]
	o.Producer, o.Epoch, o.Seq = producer, epoch, seq
	return o, number
}

// runSeries runs a series.
func (r *changeSets) runSeries(g changeSet) {
	peek(r.b.ops[g.from:g.to])
	for at := g.from; at < g.to; {
		if at = r.runNeighbours(g, at); at < g.to {
			r.runAlone(g, at)
			at++
		}
	}
}

// runNeighbours runs the operations of a series from number from on, up to an operation that is not owned, may wait for the disk, or changes
// derived columns. It returns the number of that operation.
func (r *changeSets) runNeighbours(g changeSet, from int) (to int) {
	b, l, run := r.b, &r.b.data.Producers, &r.onces[g.once-1]
	// Else each number is looked at alone, which tells the error.
	simple := b.refused == nil && !b.seen.failing && !b.silent && !b.exclusive && !r.pending
	var cur *block.Block
	for to = from; to < g.to; {
		op := &b.ops[to]
		if op.block == nil || op.block.Cold != nil || op.derives() {
			break
		}
		if op.block != cur {
			cur = r.nextOfSeries(op, cur)
		}
		if r.series.fresh == 0 && simple {
			r.enter(cur)
			r.req = producers.Request{ID: run.Producer, Epoch: run.Epoch, Seq: run.Seq + uint64(to-g.from), Now: r.seconds(), Hint: run.Hint}
			if r.series.fresh = l.Table.BeginSeries(&r.req, g.to-to, &r.lookup); r.series.fresh > 0 {
				run.Hint = r.lookup.Number
			}
		}
		if r.series.fresh > 0 {
			var done int
			if cur, done = r.addSeries(g, to, cur); done > 0 {
				to += done
				continue
			}
		}
		r.enter(cur)
		r.series.fresh = 0
		o := r.single(g, to)
		cur = r.runLocked(o, op, cur, to)
		run.Hint = o.Hint
		answerAlone(o, op)
		to++
	}
	if cur != nil {
		b.stretch.leave(cur)
		r.enter(nil)
		r.series.fresh = 0
		l.Mu.Unlock()
	}
	return to
}

// nextOfSeries lets go of cur, if it is not nil and nothing in it waits to be logged, and returns the block of op, locked, with the table.
func (r *changeSets) nextOfSeries(op *Op, cur *block.Block) *block.Block {
	l, s := &r.b.data.Producers, &r.b.stretch
	s.leave(cur)
	if cur != nil {
		if blk := s.further(op); blk != nil {
			return blk
		}
		r.enter(nil)
		r.series.fresh = 0 // others may change the table
		l.Mu.Unlock()
	}
	blk := op.ks.LockFor(op.block, op.Mid)
	l.Mu.Lock()
	return blk
}

// addSeries makes the additions of a series from number first on, as far as their numbers are new and they are simple ones of posts of blk. It
// returns how many these are, and the block that is locked afterwards. REQUIRES blk, the block of the first one, and the table to be locked.
func (r *changeSets) addSeries(g changeSet, first int, blk *block.Block) (_ *block.Block, done int) {
	b, s := r.b, &r.b.stretch
	ops := b.ops[first:min(g.to, first+r.series.fresh)]
	ks := ops[0].ks
	if ks.Noted || blk.Shape != ks.Layout {
		return blk, 0
	}
	seq := r.onces[g.once-1].Seq + uint64(first-g.from)
	number, less := r.lookup.Number, seq-r.lookup.Base
	col, limit, column := &ks.Def.Columns[0], uint64(0), int16(-1)
	for done < len(ops) {
		op := &ops[done]
		if op.block != blk || op.ks != ks || op.Kind != OpAdd {
			break
		}
		if op.Column != column {
			column, col = op.Column, &ks.Def.Columns[op.Column]
			limit = col.Limit()
		}
		ref, found := blk.Tab.FindAt(op.home)
		if !found {
			break
		}
		old, value, ok := blk.Tab.Add(ref, int(column), int64(op.Arg), limit)
		op.Found = true
		done++
		if !ok { // its number stays free
			op.Value, op.Err = old, ErrOutOfRange
			b.seen.noteSeen(blk.Logged)
			continue
		}
		op.Value, op.Done = value, true
		if blk.Moved != nil {
			blk.Moved[op.Mid] = struct{}{}
		}
		group := op.in // see findInGroups
		if !b.data.SlotGroups {
			group = slot.Group(op.Mid)
		}
		i := uint64(done - 1)
		r.series.entries = append(r.series.entries, producers.Entry{Seq: seq + i, Value: value, Hash: op.hash(), Group: group})
		if b.data.Log != nil {
			s.records = format.AppendOnceSet(s.records, number, less+i, op.hash(), op.Counter.ID, col.ID, op.Mid, value)
			if !s.held {
				s.blocks, s.held = append(s.blocks, blk), true
			}
		}
		if blk.Crowded() || len(s.records) >= maxStretchBytes {
			break
		}
	}
	r.series.fresh -= done
	if done == 0 {
		return blk, 0
	}
	blk.Used = b.now
	blk.Work += uint32(done)
	blk.Dirty = true
	switch {
	case blk.Crowded():
		r.enter(blk)
		blk = ks.Widen(blk, ops[done-1].Mid)
	case len(s.records) >= maxStretchBytes:
		r.enter(blk)
	}
	return blk, done
}

// enter logs the changes of the stretch, makes the entries, and unlocks all blocks but cur; nil: the caller is in none.
func (r *changeSets) enter(cur *block.Block) {
	l := &r.b.data.Producers
	if len(r.series.entries) == 0 {
		return
	}
	r.b.stretch.log(cur)
	l.Table.InsertSeries(&r.lookup, r.series.entries, r.req.Now, r.b.pos)
	l.Dirty, l.Logged = true, r.b.pos
	r.series.entries = r.series.entries[:0]
}

// single is the Once of operation i of a series.
func (r *changeSets) single(g changeSet, i int) *Once {
	run, o := &r.onces[g.once-1], &r.onces[g.once]
	*o = Once{Producer: run.Producer, Epoch: run.Epoch, Seq: run.Seq + uint64(i-g.from), Hash: r.b.ops[i].hash(), Hint: run.Hint, First: i, N: 1}
	return o
}

// runAlone runs operation i of a series as a change set of its own.
func (r *changeSets) runAlone(g changeSet, i int) {
	o, one := r.single(g, i), changeSet{from: i, to: i + 1, once: g.once + 1}
	switch {
	case r.disowned(one):
	case r.derivesAlone(one):
		r.runChanges(one)
	default:
		r.runOne(one)
	}
	r.onces[g.once-1].Hint = o.Hint
	answerAlone(o, &r.b.ops[i])
}

// answerAlone gives an operation of a series the outcome of its number.
func answerAlone(o *Once, op *Op) {
	switch {
	case o.Err != nil:
		op.Err = o.Err
	case !o.Repeat:
	case o.Result.Kind == ResultInt:
		op.Value = o.Result.N
	default:
		op.Err = &RepeatedError{o.Result}
	}
}
