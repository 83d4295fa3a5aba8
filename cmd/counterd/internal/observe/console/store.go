package console

import "github.com/counterd/counterd/counter"

// Restorer lists what counterctl restore can go back to. It remembers the snapshots, as counting their files takes long where
// there are many. The zero Restorer is ready.
type Restorer struct{ points []Point }

// Of lists what a store can go back to: every state since the oldest snapshot that is kept, or since the beginning while
// the log has all. retain is the log that is kept for replicas.
func (s *Restorer) Of(store *counter.Store, retain uint64) *Restore {
	r := &Restore{Retain: retain, FromStart: store.Replication().First() == 0}
	manifests := store.Replication().Manifests()
	if len(manifests) == 0 {
		s.points = nil
	} else if len(s.points) != len(manifests) || s.points[0].Generation != manifests[0].Generation {
		s.points = nil
		for _, m := range manifests {
			p := Point{Generation: m.Generation, At: m.TimeMS, Offset: m.Offset}
			p.Blocks, p.Bytes = m.Size()
			s.points = append(s.points, p)
		}
	}
	r.Points = s.points
	if n := len(r.Points); n > 0 && !r.FromStart {
		r.From, r.Offset = r.Points[n-1].At, r.Points[n-1].Offset
	}
	return r
}

// walkStep is how many blocks are looked at while the schema stands still: some 0.1 ms.
const walkStep = 512

// WalkBlocks calls f for all blocks of a store. The batch is open for one step at a time: commands that need the store for
// themselves, as EXEC, wait for one step at most.
func WalkBlocks(store *counter.Store, f func(Block)) error {
	b := store.NewBatch()
	for id := 0; ; {
		if err := b.Begin(); err != nil {
			return err
		}
		counters := b.Schema().Counters()
		if id >= len(counters) {
			b.End()
			return nil
		}
		def := counters[id]
		for at, done := (counter.BlockPlace{}), false; !done; {
			left := walkStep
			done = counter.NewReader(b).BlocksFrom(def, at, func(i counter.BlockInfo) bool {
				f(Block{Counter: i.Counter.Name, Lo: i.Lo, Hi: i.Hi, Open: i.Open, Cold: i.Tier == counter.TierCold, Lost: i.Lost, Posts: i.Items,
					Overlay: i.Overlay, Bytes: i.Bytes, Index: i.Index, FileBytes: i.FileBytes, Uses: i.Uses, Idle: i.Idle})
				at, left = i.Next(), left-1
				return left > 0
			})
			if done {
				break
			}
			b.End()
			b.Reset()
			if err := b.Begin(); err != nil {
				return err
			}
			if def = b.Schema().CounterNamed([]byte(def.Name)); def == nil { // it was dropped
				break
			}
		}
		b.End()
		b.Reset()
		id++
	}
}
