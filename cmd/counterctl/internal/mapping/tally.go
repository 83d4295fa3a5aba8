package mapping

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Reason is why something did not map.
type Reason uint8

// The reasons, in the order in which they are reported.
const (
	NoRule     Reason = iota // the key fits no rule
	NoField                  // a hash's field, or a member, that fits no rule of the key's
	LargeMid                 // the id is above 2^63-1, or a remainder is not below its divisor
	WrongType                // the key is of another type than its rule's
	NotANumber               // the value is not a whole number
	Negative                 // the value is below 0
	TooWide                  // the value is above the column's maximum
	Malformed                // a packed value of other parts than its rule's
	Vanished                 // the key was gone, or had expired, when it was read
	reasons
)

var reasonTexts = [reasons]string{"no rule for the key", "no rule for the field", "id out of range", "another type than the rule's",
	"not a whole number", "below 0", "more than the column holds", "packed otherwise than the rule says", "gone when it was read"}

func (r Reason) String() string { return reasonTexts[r] }

// examplesMax is how many examples of a reason are kept, exampleLen how many bytes of each part of one are shown.
const (
	examplesMax = 5
	exampleLen  = 64
)

// Tally counts what did not map, by reason, with the first examples of each. The zero Tally is empty. It is not safe
// for concurrent use.
type Tally struct {
	counts   [reasons]uint64
	examples [reasons][]string
}

// Skipped is the entry of a Tally for one reason.
type Skipped struct {
	Reason   Reason
	Count    uint64
	Examples []string // quoted, shortened
}

// Skip counts one thing that did not map. Field and value may be nil; the slices are not kept.
func (t *Tally) Skip(r Reason, key, field, value []byte) {
	t.counts[r]++
	if len(t.examples[r]) == examplesMax {
		return
	}
	text := Quote(key)
	if field != nil {
		text += " " + Quote(field)
	}
	if value != nil {
		text += " = " + Quote(value)
	}
	t.examples[r] = append(t.examples[r], text)
}

// Merge adds what another Tally has counted.
func (t *Tally) Merge(o *Tally) {
	for r := range reasons {
		t.counts[r] += o.counts[r]
		room := examplesMax - len(t.examples[r])
		t.examples[r] = append(t.examples[r], o.examples[r][:min(room, len(o.examples[r]))]...)
	}
}

// Reset empties the Tally.
func (t *Tally) Reset() { *t = Tally{} }

// Count returns how often a reason was met.
func (t *Tally) Count(r Reason) uint64 { return t.counts[r] }

// Total returns how much did not map.
func (t *Tally) Total() (n uint64) {
	for _, c := range t.counts {
		n += c
	}
	return n
}

// List returns the reasons that were met.
func (t *Tally) List() (list []Skipped) {
	for r, n := range t.counts {
		if n > 0 {
			list = append(list, Skipped{Reason(r), n, t.examples[r]})
		}
	}
	return list
}

// tallied is one reason of a Tally in JSON. Reasons are named by their text, so that the order may change.
type tallied struct {
	Reason   string   `json:"reason"`
	Count    uint64   `json:"count"`
	Examples []string `json:"examples,omitempty"`
}

// MarshalJSON writes the Tally as a list of reasons.
func (t Tally) MarshalJSON() ([]byte, error) {
	list := []tallied{}
	for _, s := range t.List() {
		list = append(list, tallied{s.Reason.String(), s.Count, s.Examples})
	}
	return json.Marshal(list)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *Tally) UnmarshalJSON(b []byte) error {
	var list []tallied
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	t.Reset()
next:
	for _, s := range list {
		for r, text := range reasonTexts {
			if text == s.Reason {
				t.counts[r] += s.Count
				t.examples[r] = s.Examples[:min(len(s.Examples), examplesMax)]
				continue next
			}
		}
		return fmt.Errorf("mapping: no reason is called %q", s.Reason)
	}
	return nil
}

// Quote shows a key, a field or a value: quoted where it holds more than plain text, and shortened.
func Quote(b []byte) string {
	more := ""
	if len(b) > exampleLen {
		more = fmt.Sprintf("... (%d bytes)", len(b))
		b = b[:exampleLen]
	}
	plain := len(b) > 0
	for _, c := range b {
		plain = plain && c > ' ' && c < 0x7f && c != '"' && c != '\\'
	}
	if plain {
		return string(b) + more
	}
	return strconv.QuoteToASCII(string(b)) + more
}
