package producers

import (
	"github.com/counterd/counterd/persist/format"
)

// MaxPlaces is how many numbers there are: they take 3 bytes at most in the log.
const MaxPlaces = format.MaxProducers

// none is the number of no producer.
const none = MaxPlaces

// Limits bound the contents of a table.
type Limits struct {
	Producers int   // at most MaxPlaces
	Bytes     int64 // see package comment
	MinIdle   int64 // s that a producer keeps its place for, unused

	links     int // the share of links, in tests; 0: see share
	linkBytes int64
}

// Table is all producers. It is not safe for concurrent use. New and Load make one.
type Table struct {
	limits Limits
	places []*producer       // by number; nil: free
	byID   map[string]uint32 // numbers
	hole   uint32            // no lower number is free
	bytes  int64
	stats  Stats

	links     int   // producers that are links: see isLink
	linkBytes int64 // of bytes

	// The producers by last use, as a list through producer.older and newer: used does not fall from oldest to newest,
	// but where the clock did.
	oldest, newest uint32
	kept           uint32 // those older than it have nothing to shed, as a rule: see findShed

	results, numbers int // of all producers

	forget []uint32 // of the last Try
	floors []Floor
}

// New returns an empty table.
func New(l Limits) *Table {
	t := &Table{byID: make(map[string]uint32), oldest: none, newest: none, kept: none}
	t.SetLimits(l)
	return t
}

// SetLimits changes them. Producers above the new limits stay until they are idle and a place is needed.
func (t *Table) SetLimits(l Limits) {
	l.Producers = min(l.Producers, MaxPlaces)
	t.limits = l
}

// Resume tells that nobody could be served from the last use of any producer until now: that time is nobody's idleness.
// Otherwise a producer that waits for the server to come back would lose its place, and its repeats would count twice. All
// producers count as used later by that time, so that it is not counted after another outage either. A use in the future is
// one by a clock that was ahead: such producers are all idle from now on.
func (t *Table) Resume(now int64) {
	pause := t.Quiet(now)
	for _, p := range t.places {
		if p != nil {
			p.used = min(p.used+pause, now)
		}
	}
}

// Quiet is for how many seconds no producer was used.
func (t *Table) Quiet(now int64) int64 {
	if t.newest == none {
		return 0
	}
	return max(0, now-t.places[t.newest].used)
}

// Len is the number of producers.
func (t *Table) Len() int { return len(t.byID) }

// Bytes is the memory that they are charged with.
func (t *Table) Bytes() int64 { return t.bytes }

// at is the producer with a number, nil if there is none.
func (t *Table) at(number uint32) *producer {
	if int(number) < len(t.places) {
		return t.places[number]
	}
	return nil
}

// find looks up an id, at the hint first.
func (t *Table) find(id []byte, hint uint32) (uint32, *producer) {
	if p := t.at(hint); p != nil && p.id == string(id) {
		return hint, p
	}
	if number, ok := t.byID[string(id)]; ok {
		return number, t.places[number]
	}
	return none, nil
}

// free is the lowest number without a producer.
func (t *Table) free() uint32 {
	for t.at(t.hole) != nil {
		t.hole++
	}
	return t.hole
}

// add makes a producer. REQUIRES: the number is free and the id unknown.
func (t *Table) add(number uint32, id []byte, now int64) *producer {
	p := &producer{id: string(id), used: now}
	for int(number) >= len(t.places) {
		t.places = append(t.places, nil)
	}
	t.places[number] = p
	t.byID[p.id] = number
	t.bytes += p.cost()
	if isLink(p.id) {
		t.links++
		t.linkBytes += p.cost()
	}
	t.link(number, p)
	return p
}

// forgetPlace frees a number, if a producer has it.
func (t *Table) forgetPlace(number uint32) {
	p := t.at(number)
	if p == nil {
		return
	}
	t.unlink(number, p)
	t.bytes -= p.cost()
	if isLink(p.id) {
		t.links--
		t.linkBytes -= p.cost()
	}
	t.results -= int(p.ring.n)
	t.numbers -= int(p.ring.n) + int(p.made.count)
	delete(t.byID, p.id)
	t.places[number] = nil
	t.hole = min(t.hole, number)
	t.stats.Taken++
}

// touch notes that p was used. Once a second it becomes the newest, which is as exact as used is.
func (t *Table) touch(number uint32, p *producer, now int64) {
	if p.used == now {
		return
	}
	p.used = now
	if t.newest != number {
		t.unlink(number, p)
		t.link(number, p)
	}
}

// link appends p as the one used last.
func (t *Table) link(number uint32, p *producer) {
	p.older, p.newer = t.newest, none
	if t.newest != none {
		t.places[t.newest].newer = number
	} else {
		t.oldest = number
	}
	t.newest = number
	if t.kept == none {
		t.kept = number
	}
}

func (t *Table) unlink(number uint32, p *producer) {
	if t.kept == number {
		t.kept = p.newer
	}
	if p.older != none {
		t.places[p.older].newer = p.newer
	} else {
		t.oldest = p.newer
	}
	if p.newer != none {
		t.places[p.newer].older = p.older
	} else {
		t.newest = p.older
	}
}

// Last returns the highest seq that was applied, and the offset that the log must have reached before the client is told. It
// is false where the producer is unknown or never made anything.
func (t *Table) Last(id []byte) (seq, logged uint64, ok bool) {
	_, p := t.find(id, 0)
	if p == nil {
		return 0, 0, false
	}
	if seq, ok = p.highest(); !ok && p.from > 0 { // the highest that has expired was made
		seq, ok = p.from-1, true
	}
	return seq, p.logged, ok
}

// Define gives a producer a number, epoch and base, as a record of the log says: limits are not asked. Another producer that
// had the number is forgotten, and so is this id's entry at another number; without an id the number is freed. now is the
// frame's time in seconds. The error matches format.ErrCorrupt; nothing was changed then.
func (t *Table) Define(number uint32, epoch, base uint64, id []byte, now int64) error {
	switch {
	case number >= MaxPlaces:
		return corrupt("producer number %d, want below %d", number, MaxPlaces)
	case len(id) > format.MaxProducerID:
		return corrupt("producer id of %d bytes, want at most %d", len(id), format.MaxProducerID)
	case len(id) == 0:
		t.forgetPlace(number)
		return nil
	}
	p := t.at(number)
	if p == nil || p.id != string(id) {
		t.forgetPlace(number)
		if old, ok := t.byID[string(id)]; ok {
			t.forgetPlace(old)
		}
		p = t.add(number, id, now)
	} else {
		t.touch(number, p, now)
	}
	p.epoch, p.base = epoch, base
	return nil
}

// Apply makes an entry, as a record of the log says: seq is base and less. A present entry is replaced; a seq that has expired, or
// has no result any more, is passed over. known is false where there is no such number or result, and nothing was changed.
func (t *Table) Apply(number uint32, less uint64, hash uint32, group uint8, r format.Result, now int64) (known bool) {
	p := t.at(number)
	if p == nil || p.base+less < less || !kept(r) {
		t.stats.Unknown++
		return false
	}
	t.touch(number, p, now)
	seq := p.base + less
	i, found := p.ring.find(seq)
	if !found && (seq < p.from || p.made.has(seq)) {
		return true
	}
	t.put(p, i, found, seq, newMeta(hash, r.Kind, group), r)
	return true
}

// put is producer.put, charged.
func (t *Table) put(p *producer, i uint32, found bool, seq uint64, meta uint32, r format.Result) {
	before := p.size()
	p.put(i, found, seq, meta, r)
	t.charge(p, before)
}

// charge counts how p changed.
func (t *Table) charge(p *producer, before size) {
	now := p.size()
	t.bytes += now.bytes - before.bytes
	if isLink(p.id) {
		t.linkBytes += now.bytes - before.bytes
	}
	t.results += now.results - before.results
	t.numbers += now.numbers - before.numbers
}

// kept tells whether a table holds results of this kind.
func kept(r format.Result) bool {
	return r.Kind >= format.ResultInt && r.Kind <= format.ResultGone && len(r.Blob) <= format.MaxResult
}
