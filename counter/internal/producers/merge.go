package producers

import (
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

// Groups of hash slots move from one table to another while producers go on: requests executed in those groups come as
// records, and are merged with this table's memory of the same producers. A number that either has is a repeat; a request
// that either table has forgotten has expired.

// AppendGroups appends the table's memory of changes in groups as records of a log: of each producer its define, the onces
// of these groups and of updates (see UpdateHash), and a floor where numbers have fallen out of its window, whatever groups they were of. mark is called
// with the length of dst behind each producer.
//
// A producer that was idle for MinIdle at now, and has no epoch, gets nothing but its define, and so takes no place in the other table. Any new producer may have its place
// here, and if the other table had no place left, the groups could not come. With now 0 no producer counts as idle.
func (t *Table) AppendGroups(dst []byte, groups *slot.Set, now int64, mark func(n int)) []byte {
	for number := t.oldest; number != none; number = t.places[number].newer {
		p := t.places[number]
		dst = format.AppendDefine(dst, number, p.epoch, p.base, []byte(p.id))
		if p.epoch == 0 && now-p.used >= t.limits.MinIdle {
			mark(len(dst))
			continue
		}
		for i := range p.ring.n {
			e := p.ring.at(i)
			group, hash, result, ok := MovedOnce(groups, e.group(), e.hash(), p.result(e))
			if !ok {
				continue
			}
			if e.seq < p.base || e.seq-p.base > MaxSeqLess { // the base has moved since
				dst = format.AppendDefine(dst, number, p.epoch, e.seq, []byte(p.id))
				dst = format.AppendOnce(dst, number, 0, hash, group, result)
				dst = format.AppendDefine(dst, number, p.epoch, p.base, []byte(p.id))
				continue
			}
			dst = format.AppendOnce(dst, number, e.seq-p.base, hash, group, result)
		}
		from := p.from
		if p.made.count > 0 {
			from = p.made.highest() + 1 // no overflow: made by seqs that higher ones pushed out
		}
		if from > 0 {
			dst = format.AppendFloor(dst, number, from)
		}
		mark(len(dst))
	}
	return dst
}

// BeginMerge is Begin for a number that another table has, or, with Seq, has forgotten all below: Fresh if it is to be
// applied, Repeat or Expired if not, or Full. No epoch is too low. Where Define is set that is to be said in any case.
func (t *Table) BeginMerge(r *Request, y *Try) {
	number, p := t.find(r.ID, r.Hint)
	if p != nil {
		r.Epoch = max(r.Epoch, p.epoch)
	}
	*y = Try{Number: number, Epoch: r.Epoch, p: p}
	if t.look(r, y, p); y.Elsewhere && r.Hash != elsewhere && r.Hash != 0 { // 0: a define or a floor
		t.replace(r, y)
	}
	if y.Verdict == Mismatch {
		y.Verdict = Repeat // two changes with one number: the producer broke its word, and the first counts
	}
}

// Floor says that numbers of a producer below from are not known any more, as a record of the log says. It is no use of the producer: an idle
// producer gets a floor when its results take room that others need, and its place is freed later. known is false where there is no such
// producer.
func (t *Table) Floor(number uint32, from uint64) (known bool) {
	p := t.at(number)
	if p == nil {
		t.stats.Unknown++
		return false
	}
	t.floor(p, from)
	return true
}

// ForgetGroups removes the entries of changes in groups, as a record of the log says: the changes were brought by a move
// that did not come to its end, and may never have been made. Numbers of updates, the producers, their epochs and their floors stay.
func (t *Table) ForgetGroups(groups *slot.Set) {
	for _, p := range t.places {
		if p == nil {
			continue
		}
		before, kept := p.size(), uint32(0)
		for i := range p.ring.n {
			e := p.ring.at(i)
			if groups.Has(e.group()) && e.hash() != elsewhere && !ownUpdate(e.group(), e.hash()) {
				p.drop(e)
				continue
			}
			p.ring.set(kept, e)
			kept++
		}
		p.ring.n = kept
		if p.made.count > 0 {
			p.forgetBelow(p.made.highest() + 1)
		}
		t.charge(p, before)
	}
}
