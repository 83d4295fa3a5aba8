package simulation

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Where counters do not only rise (FLUSHALL empties all posts), the rules of History.Check do not hold. search looks for an order of
// all attempts instead, as any checker of linearizability does: it goes through beginnings and answers by time, and keeps every state
// that the counter may be in. At an answer, all orders are tried that place the attempt behind those it follows. No state is left if
// no order explains the answer.
//
// The search stays small as most answers tell the value. Increments without an answer are all alike, so their number is kept and not
// which of them were made; they are tried only where an answer needs a higher value.

// searched is a state that a counter may be in. Of two states that differ in doubtful alone, the one with fewer says more.
type searched struct {
	value    int64
	made     uint64 // open attempts that were made, a bit each
	doubtful int    // increments without an answer that were made
}

// search is the search for an order of the attempts of one key.
type search struct {
	open   [64]*attempt // that have begun and are not answered; nil: a free place
	most   int          // increments without an answer that have begun
	states map[searched]struct{}
	// answered are the values that increments were answered, in a history in which the counter only rises: that increment made the value, and no increment
	// without an answer did. nil: the counter is emptied or set, and may have a value again.
	answered map[int64]bool
}

// maxStates is from where on a search gives up and says nothing. Histories of a minute have a few dozen states.
const maxStates = 200_000

// searchable is the list of attempts on one key without those that were refused, and with flushes of all keys. A change that sets
// the counter has the attempt's value.
func searchable(list, flushes []attempt) (all []attempt) {
	for _, a := range slices.Concat(list, flushes) {
		if a.outcome == refused || a.read && a.outcome != acknowledged {
			continue
		}
		if a.outcome == uncertain {
			a.till = math.MaxInt64
		}
		all = append(all, a)
	}
	return all
}

// searchOrder looks for an order of the attempts in which each answer is right. The fault names the first answer without one.
// !ok: the search was given up.
func searchOrder(name string, all []attempt) (faults []string, ok bool) {
	type event struct {
		at     time.Duration
		answer bool
		a      *attempt
	}
	var events []event
	for i := range all {
		a := &all[i]
		events = append(events, event{a.from, false, a})
		if a.till != math.MaxInt64 {
			events = append(events, event{a.till, true, a})
		}
	}
	slices.SortStableFunc(events, func(x, y event) int {
		if x.at != y.at {
			return cmp.Compare(x.at, y.at)
		}
		return toInt(x.answer) - toInt(y.answer) // an attempt that begins as another ends may come before it
	})
	s := search{states: map[searched]struct{}{{}: {}}, answered: risingTo(all)}
	for i, e := range events {
		if !e.answer {
			if !s.begin(e.a) {
				return nil, false
			}
			continue
		}
		before := s.values()
		if s.close(); len(s.states) > maxStates {
			return nil, false
		}
		s.answer(e.a)
		if len(s.states) > 0 {
			continue
		}
		text := fmt.Sprintf("%s: no order of changes explains an answer; the value before was one of %v: %s", name, before, e.a)
		for _, o := range s.open {
			if o != nil && o != e.a {
				text += fmt.Sprintf("; beside it: %s", o)
			}
		}
		for _, o := range events[max(0, i-6):i] {
			if o.answer {
				text += fmt.Sprintf("; before it: %s", o.a)
			}
		}
		return []string{text}, true
	}
	return nil, true
}

// begin notes that an attempt has begun. !ok: too many are open.
func (s *search) begin(a *attempt) (ok bool) {
	if a.till == math.MaxInt64 && a.adds() {
		s.most++
		return true
	}
	i := slices.Index(s.open[:], nil)
	if i < 0 {
		return false
	}
	s.open[i] = a
	return true
}

// risingTo returns the values that increments were answered, unless something else changes the counter.
func risingTo(all []attempt) map[int64]bool {
	values := make(map[int64]bool)
	for i := range all {
		a := &all[i]
		if a.flush || a.set {
			return nil
		}
		if a.adds() && a.outcome == acknowledged {
			values[a.value] = true
		}
	}
	return values
}

// answer keeps the states in which the attempt was made.
func (s *search) answer(a *attempt) {
	i := slices.Index(s.open[:], a)
	kept := make(map[searched]struct{})
	for st := range s.states {
		if st.made&(1<<i) != 0 {
			st.made &^= 1 << i
			kept[st] = struct{}{}
		}
	}
	s.open[i] = nil
	s.states = fewest(kept)
}

// close adds all states that open attempts lead to.
func (s *search) close() {
	highest := int64(0) // that an open attempt needs
	for _, a := range s.open {
		if a != nil && !a.flush && !a.set {
			highest = max(highest, a.value-int64(toInt(!a.read)))
		}
	}
	var queue []searched
	for st := range s.states {
		queue = append(queue, st)
	}
	add := func(st searched) {
		if _, ok := s.states[st]; !ok {
			s.states[st] = struct{}{}
			queue = append(queue, st)
		}
	}
	for len(queue) > 0 && len(s.states) <= maxStates {
		st := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if st.doubtful < s.most && st.value < highest && !s.answered[st.value+1] {
			add(searched{st.value + 1, st.made, st.doubtful + 1})
		}
		doubt := false // an earlier flush without an answer was not made
		for i, a := range s.open {
			if a == nil || st.made&(1<<i) != 0 {
				continue
			}
			if a.flush && a.outcome == uncertain { // all such are alike, so the first ones were made
				if doubt {
					continue
				}
				doubt = true
			}
			if value, ok := a.after(st.value); ok {
				add(searched{value, st.made | 1<<i, st.doubtful})
			}
		}
	}
}

// fewest leaves out states that another one has with fewer doubtful increments.
func fewest(states map[searched]struct{}) map[searched]struct{} {
	least := make(map[searched]int)
	for st := range states {
		k := searched{value: st.value, made: st.made}
		if n, ok := least[k]; !ok || st.doubtful < n {
			least[k] = st.doubtful
		}
	}
	kept := make(map[searched]struct{}, len(least))
	for k, n := range least {
		k.doubtful = n
		kept[k] = struct{}{}
	}
	return kept
}

// values are those of all states, sorted.
func (s *search) values() (values []int64) {
	for st := range s.states {
		values = append(values, st.value)
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// adds tells whether the attempt is an increment.
func (a *attempt) adds() bool { return !a.read && !a.flush && !a.set }

// after is the counter's value behind the attempt. !ok: the attempt was answered otherwise.
func (a *attempt) after(value int64) (next int64, ok bool) {
	switch {
	case a.flush:
		return 0, true
	case a.set:
		return a.value, true
	case a.read:
		return value, value == a.value
	}
	return value + 1, a.value == value+1
}
