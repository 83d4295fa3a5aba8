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

// attempt is one command on one key: an increment by one, or a read; in runs with FLUSHALL also a flush of all keys, or a value that
// the owner of a page sets. A numbered increment is one attempt, however often it was sent.
type attempt struct {
	client     string
	read       bool
	flush, set bool
	numbered   bool
	confirmed  bool          // WAIT said that all replicas have it
	from, till time.Duration // since the run's beginning
	value      int64
	outcome    outcome
}

func (a attempt) String() string {
	what := "INCR"
	if a.read {
		what = "GET"
	} else if a.flush {
		what = "FLUSHALL"
	} else if a.set {
		what = "SET"
	} else if a.numbered {
		what = "INCR numbered"
	}
	return fmt.Sprintf("%s %.3f..%.3f %s = %d (%s)", a.client, a.from.Seconds(), a.till.Seconds(), what, a.value,
		[]string{"acknowledged", "refused", "uncertain"}[a.outcome])
}

// History is what clients asked and were answered, by key.
type History struct {
	mu      sync.Mutex
	keys    map[string][]attempt
	acks    int
	changes bool // reads are left out
}

// OmitReads leaves out all reads of what is checked: those that saw changes which nobody acknowledged may be taken back.
func (h *History) OmitReads() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes = true
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

// of is the history of a key.
func (h *History) of(key string) []attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.Clone(h.keys[key])
	if h.changes {
		list = slices.DeleteFunc(list, func(a attempt) bool { return a.read })
	}
	return list
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
// one between its beginning and its answer. Of a counter that only rises these rules hold, which take no search and name the
// attempt that breaks them: each value was answered to one increment; no answer is below one that was given before the command began; and no
// answer is above the number of increments that had begun when it was given. Of a history whose changes may be lost
// (lossy), only doubled changes are found.
func (h *History) Check(key string, final int64, lossy bool) (faults []string) {
	list := h.of(key)
	fault := func(format string, args ...any) { faults = append(faults, key+": "+fmt.Sprintf(format, args...)) }
	by := make(map[int64]attempt)
	acked, doubt := int64(0), int64(0)
	var begins []time.Duration
	for _, a := range list {
		if a.read && a.outcome == acknowledged && a.value > final {
			fault("a read is taken back: the last value is %d: %s", final, a)
		}
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
	if lossy {
		if faults = nil; final > acked+doubt {
			fault("the last value is %d, and only %d increments were acknowledged or are uncertain", final, acked+doubt)
		}
		return faults
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
			because := "an increment answers 1 or more"
			if i > 0 {
				because = most[i-1].String()
			}
			fault("an answer goes back: want at least %d, as %s: %s", least, because, a)
		}
		if a.value > int64(begun) {
			fault("an answer is too high: only %d increments had begun: %s", begun, a)
		}
	}
	return faults
}

// CheckConfirmed compares the history of a key with its last value, where Sentinel decides and acknowledged changes may be lost. An
// increment that all replicas had (confirmed) is never lost: it has a value of its own, above those confirmed before it began.
func (h *History) CheckConfirmed(key string, final int64) (faults []string) {
	list := h.of(key)
	fault := func(format string, args ...any) { faults = append(faults, key+": "+fmt.Sprintf(format, args...)) }
	list = slices.DeleteFunc(list, func(a attempt) bool { return a.read || a.outcome == refused })
	made := int64(len(list))
	list = slices.DeleteFunc(list, func(a attempt) bool { return !a.confirmed })
	if final < int64(len(list)) || final > made {
		fault("the last value is %d, want %d..%d: as many increments were confirmed, and were made", final, len(list), made)
	}
	by := make(map[int64]attempt)
	for _, a := range list {
		if other, ok := by[a.value]; ok {
			fault("two confirmed increments were answered alike: %s; %s", other, a)
		}
		by[a.value] = a
		if a.value > final {
			fault("a confirmed change is lost: the last value is %d: %s", final, a)
		}
		for _, b := range list {
			if a.till < b.from && a.value > b.value {
				fault("a confirmed answer goes back: %s, and then %s", a, b)
			}
		}
	}
	return faults
}
