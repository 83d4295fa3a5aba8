package rangecopy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// Row is a post with the values of all its columns, in schema order. No values: there is no such post.
type Row struct {
	Mid    uint64
	Values []uint64
}

// Judge knows what the log says about the posts of a range: records have values after the change, so the last one that is
// kept of a column is its value. It knows nothing of what was not changed since the log begins, nor of what FLUSHALL, an
// import of hash slots or their drop was the last to change. NOT safe for concurrent use; must be closed.
type Judge struct {
	def    *schema.Counter
	lo, hi uint64
	group  int // of hash slots; negative: of all
	log    *persist.Reader
	rec    format.Record
	posts  map[uint64]loggedPost
}

// loggedPost is what the log says about a post.
type loggedPost struct {
	gone   bool              // it was deleted, and nothing was set since
	all    bool              // it was deleted: columns that were not set since have their defaults
	values map[uint16]uint64 // by id of the column
}

// NewJudge begins to read a log for what it says about a range in a group of hash slots; a negative group: in all.
func NewJudge(def *schema.Counter, group int, lo, hi uint64, log *persist.Reader) *Judge {
	return &Judge{def: def, group: group, lo: lo, hi: hi, log: log, posts: make(map[uint64]loggedPost)}
}

// Close closes the log.
func (j *Judge) Close() error { return j.log.Close() }

// Read reads the log up to an offset, which must be written. rest is called after each frame.
func (j *Judge) Read(to uint64, rest func()) error {
	for j.log.Pos() < to {
		f, err := j.log.TryNext()
		if err != nil {
			return err
		}
		if f == nil {
			return fmt.Errorf("the log is readable up to %d, want %d", j.log.Pos(), to)
		}
		if err := f.Records(&j.rec, f.Start, func(_ uint64, rec *format.Record) error { return j.add(rec) }); err != nil {
			return err
		}
		rest()
	}
	return nil
}

// add takes a record.
func (j *Judge) add(rec *format.Record) error {
	switch rec.Kind {
	case format.KindSet:
		j.set(rec, rec.Column, rec.Value)
	case format.KindSetItem:
		for _, c := range rec.Columns {
			j.set(rec, c.Column, c.Value)
		}
	case format.KindDelete:
		if j.ours(rec) {
			j.posts[rec.Mid] = loggedPost{gone: true, all: true}
		}
	case format.KindDropRange:
		for mid := range j.posts {
			if rec.Counter == j.def.ID && mid >= rec.Mid && mid < rec.Value && rec.Groups.Has(slot.Group(mid)) {
				j.posts[mid] = loggedPost{gone: true, all: true}
			}
		}
	case format.KindDefine, format.KindOnce, format.KindFloor, format.KindCursor, format.KindTick:
	case format.KindSchema:
		return j.alter(rec.Text)
	default:
		clear(j.posts)
	}
	return nil
}

// alter takes a schema, and forgets values of counters and columns that the schema lacks: a schema that a node adopts, as it joins a cluster, may give the
// ids of dropped ones again.
func (j *Judge) alter(text []byte) error {
	next, err := schema.ParseDurable(text)
	if err != nil {
		return err
	}
	def := next.CounterByID(j.def.ID)
	if def == nil {
		clear(j.posts)
		return nil
	}
	for _, p := range j.posts {
		maps.DeleteFunc(p.values, func(id uint16, _ uint64) bool { return def.Index(id) < 0 })
	}
	return nil
}

func (j *Judge) ours(rec *format.Record) bool {
	return rec.Counter == j.def.ID && rec.Mid >= j.lo && rec.Mid < j.hi && (j.group < 0 || int(slot.Group(rec.Mid)) == j.group)
}

func (j *Judge) set(rec *format.Record, column uint16, v uint64) {
	if !j.ours(rec) {
		return
	}
	p := j.posts[rec.Mid]
	if p.gone = false; p.values == nil {
		p.values = make(map[uint16]uint64)
	}
	p.values[column] = v
	j.posts[rec.Mid] = p
}

// Correct compares rows of a part of the range, in order of mid, with what the log says up to where it was read. It returns
// the rows as they should be, and how many of them are wrong. Other values stay as they are. def is the counter
// when the rows were copied: with other columns than at the beginning the judge says nothing, as values stand in schema order.
func (j *Judge) Correct(def *schema.Counter, lo, hi uint64, rows []Row) (want []Row, wrong int) {
	if def == nil || !slices.EqualFunc(def.Columns, j.def.Columns, func(a, b schema.Column) bool { return a.ID == b.ID }) {
		return rows, 0
	}
	seen := make(map[uint64]bool, len(rows))
	for _, row := range rows {
		seen[row.Mid] = true
		p, known := j.posts[row.Mid]
		switch right, ok := j.values(p, row.Values); {
		case known && p.gone:
			wrong++
		case known && ok && !slices.Equal(right, row.Values):
			wrong++
			want = append(want, Row{row.Mid, right})
		default:
			want = append(want, row)
		}
	}
	for mid, p := range j.posts {
		if seen[mid] || p.gone || mid < lo || mid >= hi {
			continue
		}
		if right, ok := j.values(p, nil); ok {
			wrong++
			want = append(want, Row{mid, right})
		}
	}
	slices.SortFunc(want, func(a, b Row) int {
		if a.Mid < b.Mid {
			return -1
		}
		return 1
	})
	return want, wrong
}

// values are those of a post by the log, and for columns that the log does not know those of have. ok is false if neither
// knows one.
func (j *Judge) values(p loggedPost, have []uint64) (right []uint64, ok bool) {
	for i := range j.def.Columns {
		col := &j.def.Columns[i]
		v, known := p.values[col.ID]
		switch {
		case known:
		case have != nil:
			v = have[i]
		case p.all:
			v = col.Default
		default:
			return nil, false
		}
		right = append(right, v)
	}
	return right, true
}
