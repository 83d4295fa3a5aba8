package producers

import "slices"

// Room for a new producer, or for one more result, is made in two ways. Producers that were idle for ResultsFor lose their results and
// their seqs but the highest: that is a floor, and no repeat counts twice. Producers that were idle for Limits.MinIdle are forgotten.

// ResultsFor is for how many seconds the results of an idle producer are kept in any case.
const ResultsFor = 600

// Floor says that the seqs of a producer below From are not remembered any more.
type Floor struct {
	Number uint32
	From   uint64
}

// A change sheds and forgets so many producers at most: its records stay below 100 KB. If more memory is to be freed, as a limit was
// lowered, the next changes go on.
const (
	MaxShed   = 4 << 10
	MaxForget = 4 << 10
)

// place finds a number for the new producer id.
func (t *Table) place(y *Try, id []byte, room int, now int64) {
	y.Define = true
	if t.makeRoom(y, id, room, now); y.Verdict == Full {
		return
	}
	if len(y.Forget) == 0 {
		y.Number = t.free()
		return
	}
	y.Number, y.Forget = y.Forget[0], y.Forget[1:]
}

// makeRoom finds the producers that have to lose their results or to be forgotten so that one more entry of y.p, whose id is id, can be
// remembered. Where these are not enough the verdict is Full.
func (t *Table) makeRoom(y *Try, id []byte, room int, now int64) {
	places, bytes := lacking(t, isLink(string(id)))
	p := y.p
	if p == nil {
		p = &blank
		places.grow(1)
		bytes.grow(p.cost())
	} else {
		places = shortage{} // it has one
	}
	bytes.grow(p.growth(room))
	t.forget, t.floors = t.forget[:0], t.floors[:0]
	for number := t.oldest; !places.met() && len(t.forget) < MaxForget; number = t.places[number].newer {
		if !t.idle(number, t.limits.MinIdle, now) {
			y.Verdict = Full
			return
		}
		if v := t.places[number]; v != p && places.serves(isLink(v.id)) {
			t.forget = append(t.forget, number)
			places.free(isLink(v.id), 1)
			bytes.free(isLink(v.id), v.cost())
		}
	}
	t.findShed(p, &bytes, now)
	forgotten := t.forget // in order of the list
	for number := t.oldest; !bytes.met() && len(t.forget) < MaxForget && len(t.floors) < MaxShed; number = t.places[number].newer {
		if len(forgotten) > 0 && forgotten[0] == number {
			forgotten = forgotten[1:]
			continue
		}
		if !t.idle(number, t.limits.MinIdle, now) {
			y.Verdict, y.OfBytes = Full, true
			return
		}
		if v := t.places[number]; v != p && bytes.serves(isLink(v.id)) {
			t.forget = append(t.forget, number)
			bytes.free(isLink(v.id), v.cost()-v.sheds()) // the floors have that
		}
	}
	y.Forget, y.Shed = t.forget, t.floors
}

// findShed adds the longest idle producers to t.floors until bytes are free. The producer p keeps its results, as do producers that are forgotten anyway.
func (t *Table) findShed(p *producer, bytes *shortage, now int64) {
	for number := t.kept; !bytes.met() && len(t.floors) < MaxShed && t.idle(number, min(ResultsFor, t.limits.MinIdle), now); number = t.places[number].newer {
		v := t.places[number]
		freed := v.sheds()
		switch {
		case freed > 0 && v != p && bytes.serves(isLink(v.id)) && !slices.Contains(t.forget, number):
			t.floors = append(t.floors, Floor{number, v.shedFrom()})
			bytes.free(isLink(v.id), freed)
		case freed <= 0 && number == t.kept:
			t.kept = v.newer
		}
	}
}

// idle tells whether there is a producer with that number which was not used for some seconds.
func (t *Table) idle(number uint32, seconds, now int64) bool {
	if number == none {
		return false
	}
	v := t.places[number]
	v.used = min(v.used, now) // the clock was set back: from now on it counts
	return now-v.used >= seconds
}

// shedFrom is the floor of a producer that loses its results. Its highest seq is the likeliest to be repeated: it stays, unless
// its result is large. REQUIRES: there are seqs.
func (p *producer) shedFrom() uint64 {
	highest, _ := p.highest()
	if highest < 1<<64-1 && (p.ring.n == 0 || p.ring.highest() < highest || p.ring.at(p.ring.n-1).size > 0) {
		return highest + 1
	}
	return highest
}

// sheds is how many bytes that floor frees.
func (p *producer) sheds() int64 {
	if p.ring.n == 0 && p.made.count == 0 {
		return 0
	}
	least := fixedCost
	if highest, _ := p.highest(); p.shedFrom() == highest {
		least += int64(minRing*p.ring.stride()) * wordSize
	}
	return p.cost() - least
}

// floor lets the seqs of p below from expire, and gives back the memory.
func (t *Table) floor(p *producer, from uint64) {
	before := p.size()
	p.forgetBelow(from)
	p.shrink()
	t.charge(p, before)
}

var blank producer // of no entry
