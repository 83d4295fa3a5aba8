package source

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/rdb"
	"github.com/counterd/counterd/cmd/counterctl/internal/transfer"
)

// DumpOptions select the data of a snapshot of Redis or Valkey.
type DumpOptions struct {
	Path  string // "-" is standard input; plain, or packed by gzip or zstd, whatever its name
	Name  string // for people; Path unless given
	DB    int
	Rules *mapping.Rules
	// Progress is told of bytes that were checked; it may be nil.
	Progress func(done, total uint64)
	Log      func(text string)
}

// Dump is a snapshot in a file. It makes Sources that read it, as often as wanted.
type Dump struct {
	o        DumpOptions
	name     string
	identity string
	file     *os.File
	size     int64
	keys     uint64
}

// NewDump reads a file once, to its end: a damaged or incomplete file is refused before any of its data are written.
// Close frees what it takes.
func NewDump(ctx context.Context, o DumpOptions) (d *Dump, err error) {
	d = &Dump{o: o, name: cmp.Or(o.Name, o.Path)}
	info, err := os.Stat(o.Path)
	switch {
	case o.Path == "-":
		d.name = "standard input"
		d.file, err = spool(ctx, os.Stdin)
	case err == nil && info.IsDir():
		err = fmt.Errorf("%s is a directory", o.Path)
	case err == nil:
		if d.file, err = os.Open(o.Path); err != nil {
			break
		}
		if !info.Mode().IsRegular() {
			pipe := d.file
			d.file, err = spool(ctx, pipe)
			pipe.Close()
			break
		}
		var abs string
		abs, err = filepath.Abs(o.Path)
		d.identity = fmt.Sprintf("file %s, %d bytes, of %s, database %d", abs, info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano), o.DB)
	}
	if err == nil {
		d.size, err = d.file.Seek(0, io.SeekEnd)
	}
	if err == nil {
		err = d.check(ctx)
	}
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// Close closes the file.
func (d *Dump) Close() error {
	if d.file == nil {
		return nil
	}
	return d.file.Close()
}

// reader begins to read the file.
func (d *Dump) reader(ctx context.Context, show func(done, total uint64)) (io.Reader, func(), error) {
	packed := bufio.NewReaderSize(&watched{ctx: ctx, r: io.NewSectionReader(d.file, 0, d.size), total: uint64(d.size), show: show}, 256<<10)
	magic, _ := packed.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		r, err := gzip.NewReader(packed)
		return r, func() {}, err
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		r, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, nil, err
		}
		return r, r.Close, nil
	}
	return packed, func() {}, nil
}

// watched tells how much was read, and ends with a context.
type watched struct {
	ctx         context.Context
	r           io.Reader
	done, total uint64
	show        func(done, total uint64)
}

func (w *watched) Read(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	n, err := w.r.Read(p)
	if w.done += uint64(n); w.show != nil {
		w.show(w.done, w.total)
	}
	return n, err
}

// check reads the file to its end.
func (d *Dump) check(ctx context.Context) error {
	r, done, err := d.reader(ctx, d.o.Progress)
	if err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	defer done()
	c := &counting{db: uint64(d.o.DB), in: map[uint64]uint64{}}
	result, err := rdb.Read(r, c)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%s: %w (nothing was imported)", d.name, err)
	case !result.Checked && d.o.Log != nil:
		d.o.Log(fmt.Sprintf("%s (%s) has no checksum: damage would not be noticed", d.name, result.Version))
	}
	if d.keys = c.in[c.db]; d.keys == 0 && len(c.in) > 0 && d.o.Log != nil {
		d.o.Log(fmt.Sprintf("database %d has no keys, others have (--db): %v", c.db, c.in))
	}
	return nil
}

// counting counts keys by database.
type counting struct {
	db uint64
	in map[uint64]uint64
}

func (c *counting) Aux(string, string) error         { return nil }
func (c *counting) Value([]byte) error               { return nil }
func (c *counting) Pair([]byte, []byte, int64) error { return nil }
func (c *counting) Long() error                      { return nil }
func (c *counting) Key(k *rdb.Key) (want bool, err error) {
	if c.in[k.DB] == 0 && len(c.in) > 1000 {
		return false, nil
	}
	c.in[k.DB]++
	return false, nil
}

// Open makes a Source that begins at the file's start.
func (d *Dump) Open(ctx context.Context) (transfer.Source, error) {
	ctx, cancel := context.WithCancel(ctx)
	return &dumped{d: d, ctx: ctx, cancel: cancel}, nil
}

// dumped reads a snapshot once. A goroutine reads ahead by a chunk.
type dumped struct {
	d      *Dump
	ctx    context.Context
	cancel func()
	chunks chan transfer.Chunk // nil: not begun
	free   chan []mapping.Item
	ended  chan error
}

var _ transfer.Source = (*dumped)(nil)

func (s *dumped) Name() string { return s.d.name }

func (s *dumped) Identity(context.Context) (string, error) { return s.d.identity, nil }

func (s *dumped) Total() uint64 { return s.d.keys }

// Seek is never called with a position, as chunks have none.
func (s *dumped) Seek(json.RawMessage) error {
	return errors.New("a snapshot is read from its start")
}

func (s *dumped) Close() error {
	s.cancel()
	if s.chunks != nil {
		for range s.chunks { // the goroutine ends
		}
	}
	return nil
}

// Next fills a chunk.
func (s *dumped) Next(ctx context.Context, c *transfer.Chunk) error {
	if s.chunks == nil {
		s.chunks, s.free, s.ended = make(chan transfer.Chunk), make(chan []mapping.Item, 2), make(chan error, 1)
		s.free <- nil
		s.free <- nil
		go s.read(c.Most, c.Explain)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case next, ok := <-s.chunks:
		if !ok {
			err := <-s.ended
			s.ended <- err
			return err
		}
		items := c.Items
		c.Items, c.Keys, c.Skipped, c.Examples = append(items, next.Items...), next.Keys, next.Skipped, next.Examples
		s.free <- next.Items
		return nil
	}
}

// read makes chunks of the file.
func (s *dumped) read(most uint64, explain int) {
	defer close(s.chunks)
	r, done, err := s.d.reader(s.ctx, nil)
	if err != nil {
		s.ended <- err
		return
	}
	defer done()
	var before uint64 // keys
	var examples []string
	l := &Loader{Rules: s.d.o.Rules, DB: s.d.o.DB, Now: time.Now().UnixMilli(), AtMost: most}
	l.Write = func(items []mapping.Item) error {
		var room []mapping.Item
		select {
		case room = <-s.free:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
		c := transfer.Chunk{Items: append(room[:0], items...), Keys: l.Keys - before, Skipped: l.Skipped, Examples: examples}
		before, l.Skipped, examples = l.Keys, mapping.Tally{}, nil
		select {
		case s.chunks <- c:
			return nil
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
	if explain > 0 {
		l.Explain = func(items []mapping.Item, key, field, value []byte) {
			if len(examples) < explain {
				examples = append(examples, explained(s.d.o.Rules, items, key, field, value))
			}
		}
	}
	if err = l.Load(r); err == nil {
		l.AtMost = 1
		err = l.flush() // the counts since
	}
	if err == nil {
		if err = io.EOF; l.Expiring > 0 && s.d.o.Log != nil {
			s.d.o.Log(fmt.Sprintf("%d keys are to expire: here numbers stay", l.Expiring))
		}
	}
	s.ended <- err
}
