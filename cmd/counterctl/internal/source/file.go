package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/transfer"
	"github.com/counterd/counterd/internal/tsv"
	"github.com/counterd/counterd/schema"
)

// FileOptions select the data of a file.
type FileOptions struct {
	Path    string // "-" is standard input
	TSV     tsv.Options
	Counter *schema.Counter
	// KeepGoing passes lines over that do not hold what they should, and counts them. Otherwise the whole file is read once
	// before, and one such line refuses it.
	KeepGoing bool
	// Progress is told of rows that were checked; it may be nil.
	Progress func(rows uint64)
}

// File is a file of posts. It makes Sources that read it, as often as wanted.
type File struct {
	o        FileOptions
	identity string
	spooled  *os.File // input that can be read only once; else nil
	rows     uint64   // 0: not counted
	names    []string // of the file's values
}

// NewFile finds out the format of a file. Close frees what it takes.
func NewFile(ctx context.Context, o FileOptions) (f *File, err error) {
	f = &File{o: o}
	info, err := os.Stat(o.Path)
	switch {
	case o.Path == "-":
		f.o.Path = "standard input"
		f.spooled, err = spool(ctx, os.Stdin)
	case err == nil && !info.Mode().IsRegular() && !info.IsDir():
		var pipe *os.File
		if pipe, err = os.Open(o.Path); err == nil {
			f.spooled, err = spool(ctx, pipe)
			pipe.Close()
		}
	case err == nil:
		var abs string
		abs, err = filepath.Abs(o.Path)
		f.identity = fmt.Sprintf("file %s, %d bytes, of %s", abs, info.Size(), info.ModTime().UTC().Format("2006-01-02T15:04:05.999999999Z"))
	}
	if err != nil {
		return nil, err
	}
	f.o.TSV.Max = func(column string) uint64 {
		if i, ok := o.Counter.Field([]byte(column)); ok {
			return o.Counter.Col(i).Limit()
		}
		return schema.MaxValue
	}
	if err := f.look(ctx); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// look finds the columns, and checks all rows unless lines may be passed over.
func (f *File) look(ctx context.Context) error {
	r, err := f.reader()
	if err != nil {
		return err
	}
	defer r.Close()
	f.names = r.Columns()
	for _, name := range f.names {
		i, ok := f.o.Counter.Field([]byte(name))
		if ok && f.o.Counter.IsDerived(i) {
			return fmt.Errorf("%s: column %q of counter %s is derived: additions to another column make it, and nothing can be imported into it; to pass it over:\n  --columns %s",
				f.o.Path, name, f.o.Counter.Name, r.Without(f.o.Counter.HasDerived))
		}
		if !ok {
			return fmt.Errorf("%s: counter %s has no column %q (--columns names the file's columns, - passes one over); to add it:\n  ADD COLUMN %s %s hint=8 max=32",
				f.o.Path, f.o.Counter.Name, name, f.o.Counter.Name, name)
		}
	}
	if f.o.KeepGoing {
		return nil
	}
	row := make([]uint64, len(f.names))
	for ; ; f.rows++ {
		if f.rows%4096 == 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if f.o.Progress != nil {
				f.o.Progress(f.rows)
			}
		}
		if _, err := r.Read(row); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("%w (nothing was imported; --keep-going passes such lines over)", err)
		}
	}
}

// Columns are the columns of the items that the file's sources return.
func (f *File) Columns() (columns []mapping.Column) {
	for _, name := range f.names {
		i, _ := f.o.Counter.Field([]byte(name))
		columns = append(columns, mapping.Column{Counter: f.o.Counter, Index: i})
	}
	return columns
}

// Close frees the temporary file, if there is one.
func (f *File) Close() error {
	if f.spooled == nil {
		return nil
	}
	return f.spooled.Close()
}

func (f *File) reader() (*tsv.Reader, error) {
	if f.spooled != nil {
		size, err := f.spooled.Seek(0, io.SeekEnd)
		if err != nil {
			return nil, err
		}
		return tsv.New(f.o.Path, io.NewSectionReader(f.spooled, 0, size), f.o.TSV)
	}
	return tsv.Open(f.o.Path, f.o.TSV)
}

// Open makes a Source that begins at the file's start.
func (f *File) Open(context.Context) (transfer.Source, error) {
	r, err := f.reader()
	if err != nil {
		return nil, err
	}
	return &rows{f: f, r: r, row: make([]uint64, len(f.names))}, nil
}

// rows reads a file once.
type rows struct {
	f    *File
	r    *tsv.Reader
	row  []uint64
	read uint64 // rows and lines that were passed over
}

var _ transfer.Source = (*rows)(nil)

func (s *rows) Name() string { return s.f.o.Path }

func (s *rows) Identity(context.Context) (string, error) { return s.f.identity, nil }

func (s *rows) Total() uint64 { return s.f.rows }

func (s *rows) Close() error { return s.r.Close() }

// filePosition is how many rows were read.
type filePosition struct {
	Rows uint64 `json:"rows"`
}

// Seek passes over the rows that were read.
func (s *rows) Seek(text json.RawMessage) error {
	var p filePosition
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	for ; s.read < p.Rows; s.read++ {
		if _, err := s.r.Read(s.row); err != nil && !s.bad(err) {
			return fmt.Errorf("the file has %d rows, want %d at least", s.read, p.Rows)
		}
	}
	return nil
}

// bad tells whether an error is of a line that may be passed over.
func (s *rows) bad(err error) bool {
	var line *tsv.Error
	return s.f.o.KeepGoing && errors.As(err, &line) && !strings.Contains(line.Got, "over ") // behind a line that is too long nothing can be read
}

// Next fills a chunk.
func (s *rows) Next(ctx context.Context, c *transfer.Chunk) error {
	for !c.Full() && (c.Most == 0 || c.Keys < c.Most) {
		if c.Keys%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		mid, err := s.r.Read(s.row)
		if err == io.EOF {
			if err := s.mark(c); err != nil {
				return err
			}
			return io.EOF
		} else if err != nil && !s.bad(err) {
			return err
		}
		s.read++
		c.Keys++
		if err != nil {
			c.Skipped.Skip(mapping.Malformed, []byte(err.Error()), nil, nil)
			continue
		}
		for i, v := range s.row {
			c.Items = append(c.Items, mapping.Item{Mid: mid, Value: int64(v), Column: uint16(i)})
		}
		if len(c.Examples) < c.Explain {
			c.Examples = append(c.Examples, s.example(mid))
		}
	}
	return s.mark(c)
}

// mark notes where the next chunk begins. A pipe cannot be read again.
func (s *rows) mark(c *transfer.Chunk) (err error) {
	if s.f.spooled == nil {
		c.Position, err = json.Marshal(filePosition{s.read})
	}
	return err
}

// example shows a row.
func (s *rows) example(mid uint64) string {
	text := fmt.Sprintf("row %d  ->", s.read)
	for i, c := range s.f.Columns() {
		text += fmt.Sprintf("  %s of %d = %d", c.Name(), mid, s.row[i])
	}
	return text
}
