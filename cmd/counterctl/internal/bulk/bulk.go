// Package bulk reads files of posts for a build: many lines at once, in order of mid at last.
//
// One goroutine reads, decompresses and cuts pieces of whole lines; the others parse them; what they made is taken in
// the files' order (ordered.go). Where posts come in order of mid that is all: 30 ns of processor time a post.
//
// Where they do not they are sorted (sort.go): batches of pieces are parsed, sorted and written as cold files of the
// package coldstore, 2 to 5 bytes a post, and these runs are merged (merge.go), each processor a range of mids of its
// own. So memory is bounded by Options.Memory, whatever there is to sort.
package bulk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/tsv"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// Duplicates says what becomes of posts that stand more than once.
type Duplicates string

// The possible treatments.
const (
	Refuse Duplicates = "refuse" // it is an error
	Last   Duplicates = "last"   // the last line counts
	Sum    Duplicates = "sum"    // numbers are added, also the defaults of columns that a file lacks
)

// Options select the input. Inputs and Counter must be given.
type Options struct {
	Inputs     []string // paths; "-" is Stdin
	Stdin      io.Reader
	TSV        tsv.Options // Comma 0: a comma for .csv, else a tab. Max is set by Read
	Tabs       bool        // tabs in .csv files too
	Counter    *schema.Counter
	Duplicates Duplicates // default Refuse
	SkipBad    int        // how many lines that do not hold what they should are passed over
	Sort       bool
	Memory     int64  // of sorting; default 1 GiB
	Temp       string // a directory for sorting; it is made, and removed

	Progress func(what string, bytes uint64) // of the inputs, as they are read; nil: nobody is told
	Bad      func(error)                     // told of each line that is passed over; nil: nobody
}

// Stats count the input.
type Stats struct {
	Bytes      uint64 // as the files have them
	Posts      uint64 // given to add
	Duplicates uint64 // lines whose post stands elsewhere too
	Bad        int
	Runs       int // sorted; 0: the posts came in order
}

// ErrOrder is matched by each *OrderError.
var ErrOrder = errors.New("posts do not come in order of mid")

// OrderError is a post that comes behind a higher one.
type OrderError struct {
	File        string
	Line        int
	Mid, Before uint64
}

func (e *OrderError) Error() string {
	return fmt.Sprintf("%s:%d: post %d stands behind %d, want rising mids, or --sort", e.File, e.Line, e.Mid, e.Before)
}

// Is makes errors.Is(err, ErrOrder) true.
func (e *OrderError) Is(target error) bool { return target == ErrOrder }

// DuplicateError is a post that stands twice.
type DuplicateError struct {
	Mid   uint64
	Where []string // file:line, as far as known
}

func (e *DuplicateError) Error() string {
	at := ""
	if len(e.Where) > 0 {
		at = e.Where[len(e.Where)-1] + ": "
	}
	s := fmt.Sprintf("%spost %d stands twice", at, e.Mid)
	if len(e.Where) > 1 {
		s += ", first at " + e.Where[0]
	}
	return s + " (--duplicates last or sum says what it means)"
}

// TooManyBadError ends reading at a line that may not be passed over.
type TooManyBadError struct {
	Limit int
	Err   error // the line
}

func (e *TooManyBadError) Error() string {
	if e.Limit == 0 {
		return fmt.Sprintf("%v (--skip-bad N passes over so many of such lines)", e.Err)
	}
	return fmt.Sprintf("%v (and %d lines before were passed over, as many as may be)", e.Err, e.Limit)
}

// Unwrap returns the line's error.
func (e *TooManyBadError) Unwrap() error { return e.Err }

// defaultMemory of sorting. A run of it has 8 M posts of three counters on two processors.
const defaultMemory = 1 << 30

// pieceBytes is the size of a piece: 150,000 posts, some ms of work.
const pieceBytes = 4 << 20

// reading is one call of Read.
type reading struct {
	o       Options
	workers int
	stats   Stats
}

// Read gives all posts of the inputs to add, in order of mid. The posts belong to add.
func Read(ctx context.Context, o Options, add func(counter.Posts) error) (Stats, error) {
	if o.Duplicates == "" {
		o.Duplicates = Refuse
	}
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Progress == nil {
		o.Progress = func(string, uint64) {}
	}
	if o.Bad == nil {
		o.Bad = func(error) {}
	}
	o.TSV.Max = func(column string) uint64 {
		if i, ok := o.Counter.Field([]byte(column)); ok {
			return o.Counter.Col(i).Limit()
		}
		return schema.MaxValue
	}
	r := &reading{o: o, workers: runtime.GOMAXPROCS(0)}
	var err error
	if o.Sort {
		err = r.sorted(ctx, add)
	} else {
		err = r.ordered(ctx, add)
	}
	if err == nil {
		err = ctx.Err()
	}
	return r.stats, err
}

// Again tells whether all inputs can be read a second time.
func Again(inputs []string) bool {
	for _, path := range inputs {
		if info, err := os.Stat(path); path == "-" || err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// options are those of one file.
func (o *Options) options(path string) tsv.Options {
	opts := o.TSV
	name := strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".zst")
	if opts.Comma == 0 && !o.Tabs && strings.EqualFold(filepath.Ext(name), ".csv") {
		opts.Comma = ','
	}
	return opts
}

// open opens an input, whose bytes are counted as they are read.
func (r *reading) open(path string, what string) (name string, src io.ReadCloser, err error) {
	if path == "-" {
		name, src = "standard input", io.NopCloser(r.o.Stdin)
	} else {
		name = path
		if src, err = os.Open(path); err != nil {
			return "", nil, err
		}
	}
	return name, &counted{ReadCloser: src, r: r, what: what}, nil
}

// counted counts the bytes that are read.
type counted struct {
	io.ReadCloser
	r    *reading
	what string
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.r.stats.Bytes += uint64(n)
	c.r.o.Progress(c.what, c.r.stats.Bytes)
	return n, err
}

// header has the names of a file's columns.
type header interface {
	Columns() []string
	Without(column func(name string) bool) string
}

// fields finds the counter's column of each value of a file's rows.
func (r *reading) fields(name string, in header) ([]int, error) {
	c, values := r.o.Counter, in.Columns()
	columns := make([]int, len(values))
	seen := map[int]string{}
	for k, value := range values {
		i, ok := c.Field([]byte(value))
		if !ok {
			return nil, fmt.Errorf("%s: counter %s has no column %q (--columns names the file's columns, - passes one over)", name, c.Name, value)
		}
		if c.IsDerived(i) {
			return nil, fmt.Errorf("%s: column %q of counter %s is derived: additions to another column make it, and nothing can be imported into it; to pass it over:\n  --columns %s",
				name, value, c.Name, in.Without(c.HasDerived))
		}
		if was, twice := seen[i]; twice {
			return nil, fmt.Errorf("%s: %q and %q are one column of counter %s", name, was, value, c.Name)
		}
		seen[i], columns[k] = value, i
	}
	return columns, nil
}

// posts makes posts of a file's rows: columns that the file lacks have their defaults. The memory of the rows goes on.
func (r *reading) posts(rows *tsv.Rows, columns []int) counter.Posts {
	p := counter.Posts{Mids: rows.IDs, Columns: make([][]uint64, len(r.o.Counter.Columns))}
	for k, i := range columns {
		p.Columns[i] = rows.Columns[k]
	}
	for i, col := range p.Columns {
		if col == nil {
			col = make([]uint64, len(p.Mids))
			if d := r.o.Counter.Columns[i].Default; d != 0 {
				for k := range col {
					col[k] = d
				}
			}
			p.Columns[i] = col
		}
	}
	return p
}

// clearTemp removes the directory of an earlier sort.
func clearTemp(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := fsys.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return fsys.Remove(dir)
}
