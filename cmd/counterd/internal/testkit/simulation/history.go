package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// outcome is what a client knows of its command.
type outcome uint8

const (
	acknowledged outcome = iota // done once, with this value
	refused                     // not done, and never will be
	uncertain                   // done once, or not at all
)

// attempt is one command on one key: an increment by one, or a read. A numbered increment is one attempt, however often it was
// sent.
type attempt struct {
	client     string
	read       bool
	numbered   bool
	from, till time.Duration // since the run's beginning
	value      int64
	outcome    outcome
}

func (a attempt) String() string {
	what := "INCR"
	if a.read {
		what = "GET"
	} else if a.numbered {
		what = "INCR numbered"
	}
	return fmt.Sprintf("%s %.3f..%.3f %s = %d (%s)", a.client, a.from.Seconds(), a.till.Seconds(), what, a.value,
		[]string{"acknowledged", "refused", "uncertain"}[a.outcome])
}

// History is what clients asked and were answered, by key.
type History struct {
	mu   sync.Mutex
	keys map[string][]attempt
	acks int
}

// Add notes an attempt that has ended.
func (h *History) Add(key string, a attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.keys == nil {
		h.keys = make(map[string][]attempt)
	}
	h.keys[key] = append(h.keys[key], a)
	if a.outcome == acknowledged {
		h.acks++
	}
}

// Acks is how many attempts were acknowledged.
func (h *History) Acks() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.acks
}

// Keys are all keys, sorted.
func (h *History) Keys() (keys []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.keys {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Check compares the history of a key, whose last value is final, with a counter that does one thing at a time: an increment adds
// one between its beginning and its answer. A counter that only rises is linearizable exactly if these rules hold, which take
// no search: each value was answered to one increment; no answer is below one that was given before the command began; and no
// answer is above the number of increments that had begun when it was given.
func (h *History) Check(key string, final int64) (faults []string) {
	h.mu.Lock()
	list := slices.Clone(h.keys[key])
	h.mu.Unlock()
	fault := func(format string, args ...any) { faults = append(faults, key+": "+fmt.Sprintf(format, args...)) }
	by := make(map[int64]attempt)
	acked, doubt := int64(0), int64(0)
	var begins []time.Duration
	for _, a := range list {
		if a.read || a.outcome == refused {
			continue
		}
		begins = append(begins, a.from)
		if a.outcome == uncertain {
			doubt++
			continue
		}
		acked++
		if other, ok := by[a.value]; ok {
			fault("two increments were answered alike: %s; %s", other, a)
		}
		by[a.value] = a
		if a.value > final {
			fault("a change is lost: the last value is %d: %s", final, a)
		}
	}
	if final < acked || final > acked+doubt {
		fault("the last value is %d, want %d..%d: %d increments were acknowledged, %d are uncertain", final, acked, acked+doubt, acked, doubt)
	}
	slices.Sort(begins)
	answers := slices.DeleteFunc(list, func(a attempt) bool { return a.outcome != acknowledged })
	slices.SortFunc(answers, func(a, b attempt) int { return cmp.Compare(a.till, b.till) })
	most := make([]attempt, 0, len(answers)) // the highest value so far, by the time of the answer
	for _, a := range answers {
		if i := len(most); i > 0 && most[i-1].value > a.value {
			a = attempt{value: most[i-1].value, till: a.till, client: most[i-1].client, from: most[i-1].from, read: most[i-1].read}
		}
		most = append(most, a)
	}
	for _, a := range answers {
		i, _ := slices.BinarySearchFunc(most, a.from, func(m attempt, from time.Duration) int { return cmp.Compare(m.till, from) })
		for i > 0 && most[i-1].till >= a.from {
			i--
		}
		least := int64(0)
		if i > 0 {
			least = most[i-1].value
		}
		if !a.read {
			least++
		}
		begun, _ := slices.BinarySearchFunc(begins, a.till, func(from, till time.Duration) int {
			if from <= till {
				return -1
			}
			return 1
		})
		if a.value < least {
			fault("an answer goes back: want at least %d, as %s: %s", least, most[i-1], a)
		}
		if a.value > int64(begun) {
			fault("an answer is too high: only %d increments had begun: %s", begun, a)
		}
	}
	return faults
}
