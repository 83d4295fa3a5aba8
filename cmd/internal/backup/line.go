package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/counterd/counterd/persist/format"
)

// A place may hold backups of several stores. Those of one store are a line: each backup in it is an earlier state of
// the newest one, which is the line's end. Whatever counts backups counts them by line: a backup of one store is none of
// another.
//
// An older backup x is of the line that ends with y if the log of y begins with the log of x, as their histories tell,
// or if both were made of one directory and share a term: then y lives on, and a crash or a cut took back what only x
// has. A directory that was restored elsewhere shares the past with the one it comes from: backups of that past are of
// both lines.
type lines struct {
	list  []*Index // oldest first
	pasts map[*Index]*format.Lineage
}

// maxPast bounds the text of a HISTORY that is fetched.
const maxPast = format.MaxLineageText

// newLines reads the histories of backups, which List returned.
func newLines(ctx context.Context, s Store, list []*Index) (*lines, error) {
	l := &lines{list: list, pasts: make(map[*Index]*format.Lineage)}
	for _, x := range list {
		past, err := Past(ctx, s, x)
		if err != nil {
			return nil, err
		}
		l.pasts[x] = past
	}
	return l, nil
}

// Past returns the history of a backup. Of older programs the index has only the id at its end, and the copy of the
// file the rest; where that is damaged the id has to do, and the log may need a snapshot.
func Past(ctx context.Context, s Store, x *Index) (*format.Lineage, error) {
	text := []byte(x.Past)
	for _, f := range x.Files {
		if x.Past != "" || f.Path != "HISTORY" || f.Bytes > maxPast {
			continue
		}
		r, err := s.Get(ctx, object(f.SHA256))
		if errors.Is(err, ErrNone) {
			break
		}
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		err = unpack(&out, r, f)
		if err = errors.Join(err, r.Close()); err != nil && !errors.Is(err, ErrDamaged) {
			return nil, fmt.Errorf("%s: backup %s: %s: %w", s, x.Name, f.Path, err)
		}
		text = out.Bytes()
	}
	past, err := format.ParseLineage("HISTORY", text)
	if err == nil && len(past.Terms) > 0 {
		return &past, nil
	}
	past = format.Lineage{NeedsSnapshot: past.NeedsSnapshot || err != nil && len(text) > 0} // nobody knows whether a damaged one said so
	if id, err := format.ParseReplID(x.History); err == nil {
		past.Add(format.Term{ReplID: id})
	}
	return &past, nil
}

// strangers tells whether two backups share no term.
func (l *lines) strangers(x, y *Index) bool {
	return !slices.ContainsFunc(l.pasts[x].Terms, func(a format.Term) bool {
		return slices.ContainsFunc(l.pasts[y].Terms, func(b format.Term) bool { return a.ReplID == b.ReplID })
	})
}

// continues tells whether y, which is newer, is of the line that x is of.
func (l *lines) continues(y, x *Index) bool {
	if x.Source == y.Source && (!l.strangers(x, y) || len(l.pasts[x].Terms)+len(l.pasts[y].Terms) == 0) {
		return true
	}
	common, ok := l.pasts[x].Common(x.End, l.pasts[y], y.End)
	return ok && common == x.End
}

// ends returns the newest backup of each line, oldest first.
func (l *lines) ends() (ends []*Index) {
	for i, x := range l.list {
		if !slices.ContainsFunc(l.list[i+1:], func(y *Index) bool { return l.continues(y, x) }) {
			ends = append(ends, x)
		}
	}
	return ends
}

// line returns the backups of the line that ends with y, oldest first.
func (l *lines) line(y *Index) (line []*Index) {
	for _, x := range l.list {
		if x == y {
			return append(line, y)
		}
		if l.continues(y, x) {
			line = append(line, x)
		}
	}
	return line
}

// Stores returns, of backups that List returned, the newest of each store, oldest first. Backups that share a part of
// their history are of one store here.
func Stores(ctx context.Context, s Store, list []*Index) ([]*Index, error) {
	l, err := newLines(ctx, s, list)
	if err != nil {
		return nil, err
	}
	var stores []*Index
	for i, x := range list {
		if !slices.ContainsFunc(list[i+1:], func(y *Index) bool { return x.Source == y.Source && x.History == y.History || !l.strangers(x, y) }) {
			stores = append(stores, x)
		}
	}
	return stores, nil
}
