package schema

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/counterd/counterd/internal/decay"
)

// DecayedSum is the column of Derived.Space where additions decay: the sum as package decay stores it. The order of the stored sums is that of the
// values, at each moment.
const DecayedSum = 0

// Limits of columns that decay.
const (
	// MaxWeight is by how much additions to a column are multiplied at most.
	MaxWeight = 1_000_000
	// maxTerms is how many columns a derived one adds up at most.
	maxTerms    = 8
	minHalfLife = 60
	maxHalfLife = 366 * day
	// stepsOfHalfLife is how often the time moves on in a half-life: a value is too old by 0.3 % of itself at most.
	stepsOfHalfLife = 240
	// sweepsOfHalfLife is how often posts with sums that have faded are removed in a half-life.
	sweepsOfHalfLife = 2
)

// Step is after how many seconds the column reads other values: a bucket ends, or a small part of a half-life.
func (d *Derived) Step() int64 {
	if d.Decays() {
		return max(d.HalfLife/stepsOfHalfLife, 1)
	}
	return d.Window.Bucket
}

// SweepEvery is after how many seconds the items of Space that count no more are looked for.
func (d *Derived) SweepEvery() int64 {
	if d.Decays() {
		return d.HalfLife / sweepsOfHalfLife
	}
	return d.Window.Length / 8
}

// sumHint is the width of a stored sum: until 2038 of one addition, and more for long.
func (d *Derived) sumHint() uint8 {
	return uint8(32 + bits.Len64(math.MaxInt32/uint64(d.HalfLife)+1))
}

// term is a column in the attribute of=, and the weight of its additions.
type term struct {
	column string
	weight uint64
}

// parseTerms reads the value of the attribute of, as repost*2+comment.
func parseTerms(of string) (terms []term, err error) {
	for part := range strings.SplitSeq(of, "+") {
		name, weight, weighs := strings.Cut(part, "*")
		t := term{name, 1}
		if err := checkName("column", name); err != nil {
			return nil, err
		}
		if weighs {
			if t.weight, err = strconv.ParseUint(weight, 10, 32); err != nil || t.weight < 1 || t.weight > MaxWeight {
				return nil, fail(ErrAttribute, "of", "the weight %s of column %s is out of range: want 1 to %d", quote(weight), name, MaxWeight)
			}
		}
		for _, u := range terms {
			if u.column == name {
				return nil, fail(ErrAttribute, "of", "of= names column %s twice", name)
			}
		}
		if terms = append(terms, t); len(terms) > maxTerms {
			return nil, fail(ErrAttribute, "of", "of= names more than %d columns", maxTerms)
		}
	}
	return terms, nil
}

// termsText is the value of the attribute of.
func termsText(terms []term) string {
	var b []byte
	for i, t := range terms {
		if i > 0 {
			b = append(b, '+')
		}
		b = append(b, t.column...)
		if t.weight != 1 {
			b = strconv.AppendUint(append(b, '*'), t.weight, 10)
		}
	}
	return string(b)
}

// checkDecay holds a half-life and the columns it is for to the rules that need no schema, and brings their text in its only form.
func (st *Statement) checkDecay() error {
	if st.HalfLife < minHalfLife || st.HalfLife > maxHalfLife {
		return fail(ErrAttribute, "decay", "decay=%ds is out of range: want a half-life of %dm to %dd", st.HalfLife, minHalfLife/60, maxHalfLife/day)
	}
	terms, err := parseTerms(st.Of)
	if err == nil {
		st.Of = termsText(terms)
	}
	return err
}

// parseDecay reads the value of the attribute decay.
func parseDecay(value string) (int64, error) {
	halfLife, err := parseRetain(value)
	if err != nil || halfLife == 0 {
		return 0, fail(ErrAttribute, "decay", "decay=%s is no half-life: want a number of s, m, h or d (as 6h)", quote(value))
	}
	return halfLife, nil
}

// decayText is the attribute decay, or none.
func decayText(halfLife int64) string {
	if halfLife == 0 {
		return "none"
	}
	return string(appendRetain(nil, halfLife))
}

// Faded are the stored sums that are worth next to nothing at a moment: this one, and all below it.
func (d *Derived) Faded(now int64) uint64 { return decay.At(now, d.HalfLife).Faded() }

// alterDerived changes the length of the top list of derived column number k of counter i.
func (d *draft) alterDerived(i, k int, st Statement) error {
	old := d.counters[i].Derived[k]
	switch {
	case old.Top == st.Top:
		return nil
	case old.Top == 0:
		if err := roomForTop(d.counters[i], st.Column); err != nil {
			return err
		}
	}
	line := old.statement(d.counters[i])
	d.shrink(line)
	line.Top, line.SaysTop = st.Top, st.Top > 0
	if err := d.grow(line); err != nil {
		return err
	}
	line.id = old.ID
	c := d.own(i)
	c.Derived[k] = newDerived(c, &line)
	return nil
}

// attributeHead is head for an attribute of a column: of= may name several columns.
func attributeHead[W ~string | ~[]byte](w W) string {
	const of = "of="
	if len(w) > len(of) && strings.EqualFold(string(w[:len(of)]), of) {
		return cut(w, len(of)+maxTerms*headMax)
	}
	return head(w)
}

// cut is a word of at most limit bytes. A longer word ends with a sign that no valid one has: zeros before a number may fill
// the limit, and the rest of the word must not be passed over.
func cut[W ~string | ~[]byte](w W, limit int) string {
	if len(w) > limit {
		return string(w[:limit]) + "…"
	}
	return string(w)
}
