package simulation

import (
	"math/rand/v2"
	"testing"
	"time"

	testseed "github.com/counterd/counterd/internal/testkit/seed"
)

// TestSearchOrder: histories with a flush that have an order, and some that have none.
func TestSearchOrder(t *testing.T) {
	at := func(from, till int, a attempt) attempt {
		a.client, a.from, a.till = "c1", time.Duration(from)*time.Second, time.Duration(till)*time.Second
		return a
	}
	incr, read := func(v int64) attempt { return attempt{value: v} }, func(v int64) attempt { return attempt{read: true, value: v} }
	set := func(v int64) attempt { return attempt{set: true, value: v} }
	flush, doubt, doubtful := attempt{flush: true}, attempt{flush: true, outcome: uncertain}, attempt{outcome: uncertain}
	for _, c := range []struct {
		name  string
		list  []attempt
		fault bool
	}{
		{"a flush between", []attempt{at(1, 2, incr(1)), at(3, 4, flush), at(5, 6, incr(1)), at(7, 8, read(1))}, false},
		{"a flush that did nothing", []attempt{at(1, 2, incr(1)), at(3, 4, flush), at(5, 6, incr(2))}, true},
		{"an increment that came back behind a flush", []attempt{at(1, 2, incr(1)), at(3, 4, flush), at(5, 6, read(0)), at(7, 8, read(1))}, true},
		{"a flush that came later", []attempt{at(1, 2, incr(1)), at(3, 4, doubt), at(5, 6, incr(2)), at(7, 8, read(0))}, false},
		{"a flush that came twice", []attempt{at(1, 2, incr(1)), at(3, 4, flush), at(5, 6, incr(1)), at(7, 8, read(0))}, true},
		{"an increment beside a flush, before it", []attempt{at(1, 4, incr(1)), at(2, 3, flush), at(5, 6, read(0))}, false},
		{"an increment beside a flush, behind it", []attempt{at(1, 4, incr(1)), at(2, 3, flush), at(5, 6, read(1))}, false},
		{"two increments without an answer", []attempt{at(1, 2, doubtful), at(1, 2, doubtful), at(5, 6, read(1)), at(7, 8, flush), at(9, 10, read(1))}, false},
		{"one too few", []attempt{at(1, 2, doubtful), at(5, 6, read(1)), at(7, 8, flush), at(9, 10, read(1))}, true},
		{"versions", []attempt{at(1, 2, set(7)), at(3, 4, read(7)), at(5, 6, flush), at(7, 8, read(0)), at(9, 10, set(8)), at(11, 12, read(8))}, false},
		{"a version that was flushed is seen", []attempt{at(1, 2, set(7)), at(5, 6, flush), at(7, 8, read(7))}, true},
	} {
		if faults, ok := searchOrder("n", searchable(c.list, nil)); !ok || (len(faults) > 0) != c.fault {
			t.Errorf("%s: %q, want a fault: %t", c.name, faults, c.fault)
		}
	}
}

// TestSearchAgrees: of histories without a flush, the search finds all that the rules for counters that only rise find, and nothing in a
// right one. It may find more: that a value was read before the increment that has the next one.
func TestSearchAgrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Of(t), 1))
	wrong := 0
	for range 3000 {
		var h History
		planted := false
		now, value := time.Duration(0), int64(0)
		for range 2 + rng.IntN(12) {
			from := now
			now += time.Duration(1+rng.IntN(3)) * time.Second
			a := attempt{client: "c1", from: from - time.Duration(rng.IntN(4))*time.Second, till: now - time.Duration(rng.IntN(2))*time.Second, read: rng.IntN(2) == 0}
			switch {
			case a.read:
			case rng.IntN(6) == 0:
				if a.outcome = uncertain; rng.IntN(2) == 0 {
					value++
				}
			default:
				value++
			}
			a.value = value
			if rng.IntN(25) == 0 {
				was := a.value
				a.value = max(0, a.value-1+int64(rng.IntN(3)))
				planted = planted || a.value != was
			}
			h.Add("n", a)
		}
		last := attempt{client: "op", read: true, value: value, from: now + time.Hour, till: now + 2*time.Hour}
		rules := h.Check("n", value, false)
		found, _ := searchOrder("n", searchable(append(h.keys["n"], last), nil))
		if len(found) > 0 {
			wrong++
		}
		if len(rules) > 0 && len(found) == 0 || len(found) > 0 && !planted {
			t.Fatalf("of %v the rules say %q, the search %q", h.keys["n"], rules, found)
		}
	}
	if wrong < 100 {
		t.Errorf("%d histories were wrong, want 100", wrong)
	}
}

// TestSearchGivesUp: a search that is too large says so. A part of the states tells nothing, as the state with the right order may be one of the others.
func TestSearchGivesUp(t *testing.T) {
	var list []attempt
	for range 60 {
		list = append(list, attempt{till: time.Second, outcome: uncertain})
	}
	for v := range int64(30) {
		list = append(list, attempt{from: 2 * time.Second, till: 3 * time.Second, value: 2*v + 1})
	}
	if faults, ok := searchOrder("n", searchable(list, nil)); !ok || len(faults) > 0 {
		t.Errorf("the counter only rises: got %.200q, given up: %t", faults, !ok)
	}
	flush := attempt{flush: true, from: time.Hour, till: 2 * time.Hour}
	if faults, ok := searchOrder("n", searchable(list, []attempt{flush})); ok {
		t.Errorf("each of thirty increments may be one without an answer: got %.200q, and it was not given up", faults)
	}
}
