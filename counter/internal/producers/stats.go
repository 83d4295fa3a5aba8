package producers

// Info describes a producer.
type Info struct {
	ID       string
	Epoch    uint64
	Highest  uint64 // seq, if there are Numbers
	Floor    uint64 // the lowest seq that has not expired
	Entries  int    // seqs with results
	Numbers  int    // seqs that are remembered, those included
	Bytes    int64  // that it is charged with
	LastUsed int64  // s since 1970
}

// Each calls fn for each producer, with its number, its id, and the base of its sequence numbers in the log.
func (t *Table) Each(fn func(number uint32, id string, base uint64)) {
	for number, p := range t.places {
		if p != nil {
			fn(uint32(number), p.id, p.base)
		}
	}
}

// List describes the producers used last, at most limit.
func (t *Table) List(limit int) []Info {
	list := make([]Info, 0, max(0, min(limit, len(t.byID))))
	for number := t.newest; number != none && len(list) < limit; number = t.places[number].older {
		p := t.places[number]
		i := Info{ID: p.id, Epoch: p.epoch, Floor: p.from, Entries: int(p.ring.n), Bytes: p.cost(), LastUsed: p.used}
		i.Numbers = i.Entries + int(p.made.count)
		i.Highest, _ = p.highest()
		list = append(list, i)
	}
	return list
}

// Stats are metrics of a table. The fields after Bytes count since the table was made.
type Stats struct {
	Producers                                  int
	Entries                                    int   // seqs with results
	Numbers                                    int   // seqs that are remembered, those included
	Bytes                                      int64 // charged
	Repeats, Mismatches, Expired, Fenced, Full uint64
	Taken                                      uint64 // producers that were forgotten for others
	Unknown                                    uint64 // entries from the log without a producer
}

// Stats counts.
func (t *Table) Stats() Stats {
	s := t.stats
	s.Producers, s.Bytes, s.Entries, s.Numbers = len(t.byID), t.bytes, t.results, t.numbers
	return s
}
