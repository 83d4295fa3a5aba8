package source

import (
	"io"
	"strconv"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/rdb"
	"github.com/counterd/counterd/cmd/counterctl/internal/transfer"
)

// Loader makes items of the keys of one database of a snapshot.
type Loader struct {
	Rules *mapping.Rules
	DB    int
	Now   int64 // ms since 1970: keys that had expired by then are left out, as Redis does; 0: none are
	// Write is given items when there are many, and at the end. They are its own until it returns.
	Write func(items []mapping.Item) error
	// Unfit is told of a value that fits a rule and does not map. It may be nil.
	Unfit func(m mapping.Match, key, field []byte) error
	// Explain is told each key with its number; it may be nil.
	Explain func(items []mapping.Item, key, field, value []byte)
	// AtMost is how many keys are read between two calls of Write, about; 0: any number.
	AtMost uint64

	Keys, Expired, Expiring uint64
	Skipped                 mapping.Tally
	Selected                int // the database that the stream behind a snapshot for replicas begins in

	match   mapping.Match
	key     []byte
	items   []mapping.Item
	written uint64 // Keys at the last Write
}

var _ rdb.Handler = (*Loader)(nil)

// Load reads a snapshot to its end. Only if the error is nil was it whole.
func (l *Loader) Load(r io.Reader) error {
	if _, err := rdb.Read(r, l); err != nil {
		return err
	}
	return l.flush()
}

// Aux implements rdb.Handler.
func (l *Loader) Aux(name, value string) error {
	if name == "repl-stream-db" {
		if db, err := strconv.Atoi(value); err == nil {
			l.Selected = db
		}
	}
	return nil
}

// shapes are those of values in terms of rules.
var shapes = map[rdb.Shape]mapping.Shape{rdb.String: mapping.String, rdb.Hash: mapping.Hash, rdb.Zset: mapping.SortedSet}

// Key implements rdb.Handler.
func (l *Loader) Key(k *rdb.Key) (want bool, err error) {
	if k.DB != uint64(l.DB) {
		return false, nil
	}
	if l.Keys++; l.AtMost > 0 && l.Keys-l.written >= l.AtMost {
		if err := l.flush(); err != nil {
			return false, err
		}
	}
	m, ok := l.Rules.Key(k.Name, &l.Skipped)
	if !ok {
		return false, nil
	}
	if k.Expires > 0 && k.Expires <= l.Now {
		l.Expired++
		m.Vanished(&l.Skipped)
		return false, nil
	}
	if shape, some := shapes[k.Shape]; !some || shape != m.Shape() {
		m.Wrong(k.Shape.String(), &l.Skipped)
		return false, nil
	}
	if k.Expires > 0 {
		l.Expiring++
	}
	l.key = append(l.key[:0], k.Name...) // the match holds on to it
	l.match, _ = l.Rules.Find(l.key)
	return true, nil
}

// Value implements rdb.Handler.
func (l *Loader) Value(value []byte) error {
	from, before := len(l.items), l.Skipped.Total()
	l.items = l.match.Value(l.items, value, &l.Skipped)
	return l.given(from, nil, value, l.Skipped.Total() == before)
}

// Pair implements rdb.Handler.
func (l *Loader) Pair(field, value []byte, expires int64) error {
	if expires > 0 && expires <= l.Now {
		return nil
	}
	from, before := len(l.items), l.Skipped.Total()-l.Skipped.Count(mapping.NoField)
	l.items = l.match.Pair(l.items, field, value, &l.Skipped)
	return l.given(from, field, value, l.Skipped.Total()-l.Skipped.Count(mapping.NoField) == before)
}

// Long implements rdb.Handler.
func (l *Loader) Long() error {
	l.Skipped.Skip(mapping.Malformed, l.key, nil, []byte("(more than 64 MB)"))
	return l.given(len(l.items), nil, nil, false)
}

// given reports the keys read, and writes items when they are many.
func (l *Loader) given(from int, field, value []byte, fits bool) error {
	if l.Explain != nil && len(l.items) > from {
		l.Explain(l.items[from:], l.key, field, value)
	}
	if !fits && l.Unfit != nil {
		if err := l.Unfit(l.match, l.key, field); err != nil {
			return err
		}
	}
	if len(l.items) < transfer.ChunkSize {
		return nil
	}
	return l.flush()
}

func (l *Loader) flush() error {
	if l.written = l.Keys; len(l.items) == 0 && l.AtMost == 0 {
		return nil
	}
	err := l.Write(l.items)
	l.items = l.items[:0]
	return err
}
