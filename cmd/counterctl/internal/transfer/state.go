package transfer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"

	"github.com/counterd/counterd/internal/atomicfile"
	"github.com/counterd/counterd/internal/slot"
)

// stateVersion is that of the resume file.
const stateVersion = 1

// State is how far an import is, and all that its report says. The resume file is it, as JSON, always whole: it is
// written beside, synced and renamed.
//
// Invariant: Position, Keys, Sums and Skipped are of the same chunks, all of which the target has acknowledged.
// Pending, if there is one, is the chunk behind them, written before its first command is sent.
type State struct {
	Version  int      `json:"version"`
	Source   string   `json:"source"`   // Source.Identity
	Target   string   `json:"target"`   // its address
	Rules    []string `json:"rules"`    // the rules that map keys to columns
	Columns  []string `json:"columns"`  // whose Sums are
	Add      bool     `json:"add"`      // values are added, not set
	Complete bool     `json:"complete"` // there is nothing left to read
	Verified bool     `json:"verified"` // and it was compared, with whatever result

	Position json.RawMessage `json:"position,omitempty"`
	Keys     uint64          `json:"keys"`
	Sums     []Sum           `json:"sums"`
	Skipped  mapping.Tally   `json:"skipped"`
	Refused  uint64          `json:"refused"` // additions that would have left their column's range
	Before   []Sum           `json:"before"`  // the target's, before the first write; Values is not known
	Elapsed  time.Duration   `json:"elapsed"`
	Mark     string          `json:"mark,omitempty"` // Marker.Mark before the first read, where values are added

	Producer string    `json:"producer,omitempty"` // of additions
	Seq      uint64    `json:"seq,omitempty"`      // its last number
	Sharded  bool      `json:"sharded,omitempty"`  // into a cluster: there is a producer for each group of hash slots
	Seqs     []uint64  `json:"seqs,omitempty"`     // their last numbers
	Pending  *pending  `json:"pending,omitempty"`
	At       *position `json:"at,omitempty"`   // in the target's log, behind the chunks
	Lost     string    `json:"lost,omitempty"` // which of them the target has lost; nothing can be added behind that
	Saved    time.Time `json:"saved"`
}

// pending is a chunk of additions that may have been sent.
type pending struct {
	Items    []byte          `json:"items"` // packed
	Keys     uint64          `json:"keys"`
	Skipped  mapping.Tally   `json:"skipped"`
	Position json.RawMessage `json:"position"`
	Complete bool            `json:"complete"`
}

// StateError is a resume file that this import cannot go on from.
type StateError struct{ Path, Text string }

func (e *StateError) Error() string { return fmt.Sprintf("%s: %s", e.Path, e.Text) }

// loadState reads a resume file; nil: there is none.
func loadState(path string) (*State, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	s := &State{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, &StateError{path, fmt.Sprintf("is no resume file: %v", err)}
	}
	if s.Version != stateVersion || len(s.Sums) != len(s.Columns) || len(s.Before) != len(s.Columns) || s.Seqs != nil && len(s.Seqs) != slot.Groups {
		return nil, &StateError{path, fmt.Sprintf("is no resume file of version %d", stateVersion)}
	}
	return s, nil
}

// save replaces the content of the resume file with the state.
func (s *State) save(path string) error {
	if path == "" {
		return nil
	}
	s.Saved = time.Now()
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	err = atomicfile.Replace(path, 0o600, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
	if err != nil {
		return fmt.Errorf("resume file: %w", err)
	}
	return nil
}

// fits says why an import cannot go on from a state, or "".
func (s *State) fits(want *State) string {
	switch {
	case s.Target != want.Target:
		return fmt.Sprintf("is of an import into %s, not %s", s.Target, want.Target)
	case s.Sharded != want.Sharded:
		return "is of an import into a cluster, or this one is: want the same"
	case s.Add != want.Add:
		return "is of an import with --add, or this one is: want the same"
	case !slices.Equal(s.Rules, want.Rules):
		return fmt.Sprintf("is of an import with the rules %q, not %q", s.Rules, want.Rules)
	case !slices.Equal(s.Columns, want.Columns):
		return fmt.Sprintf("is of an import of the columns %q, not %q", s.Columns, want.Columns)
	}
	return ""
}

// forgotten is how long after its last number a producer may be forgotten by a server (its idmp-min-idle is 10 minutes).
const forgotten = 9 * time.Minute

// old tells whether the producer may be forgotten by now. So it is where the clock was set back since, which hides how long it was.
func (s *State) old() bool {
	passed := time.Since(s.Saved)
	return passed < 0 || passed > forgotten
}

// numbered tells whether some addition may have been sent.
func (s *State) numbered() bool {
	return s.Seq > 0 || s.Pending != nil || slices.Max(append(s.Seqs, 0)) > 0
}

// merge notes a chunk that the target has.
func (s *State) merge(c *Chunk) {
	s.Keys += c.Keys
	s.Skipped.Merge(&c.Skipped)
	for _, i := range c.Items {
		s.Sums[i.Column].Add(uint64(i.Value))
	}
	s.Position = c.Position
}

// Values returns how many values were written.
func (s *State) Values() (n uint64) {
	for i := range s.Sums {
		n += s.Sums[i].Values
	}
	return n
}

// The items of a pending chunk, one behind the other:
//
//	+-------------+--------+-------------+-------------+
//	| mid         | op     | column      | value       |
//	| uvarint     | u8     | uvarint     | varint      |
//	+-------------+--------+-------------+-------------+
func packItems(dst []byte, items []mapping.Item) []byte {
	for _, i := range items {
		dst = binary.AppendUvarint(dst, i.Mid)
		dst = append(dst, byte(i.Op))
		dst = binary.AppendUvarint(dst, uint64(i.Column))
		dst = binary.AppendVarint(dst, i.Value)
	}
	return dst
}

var errItems = errors.New("transfer: damaged items in a resume file")

func unpackItems(b []byte, columns int) (items []mapping.Item, err error) {
	for len(b) > 0 && len(items) < ChunkMax {
		mid, n := binary.Uvarint(b)
		if n <= 0 || n >= len(b) {
			return nil, errItems
		}
		op := mapping.Op(b[n])
		b = b[n+1:]
		column, n := binary.Uvarint(b)
		if n <= 0 || column >= uint64(columns) || op > mapping.Delete {
			return nil, errItems
		}
		b = b[n:]
		value, n := binary.Varint(b)
		if n <= 0 {
			return nil, errItems
		}
		b = b[n:]
		items = append(items, mapping.Item{Mid: mid, Op: op, Column: uint16(column), Value: value})
	}
	if len(b) > 0 {
		return nil, errItems
	}
	return items, nil
}
