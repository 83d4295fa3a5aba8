package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
)

// printCommands prints commands that make an empty server what this one is. The engine itself reads the directory,
// through the view, so the output has the values that a server would serve.
func (d *dumper) printCommands(manifests []*format.Manifest) error {
	if len(manifests) > 0 {
		if err := d.noteLost(manifests[0]); err != nil {
			return err
		}
	}
	store, err := d.OpenStore()
	if err != nil {
		return err
	}
	err = d.printStore(store)
	return errors.Join(err, store.Close())
}

// noteLost tells of cold files whose posts cannot be printed.
func (d *dumper) noteLost(m *format.Manifest) error {
	verify := counter.ColdVerifier(d.FS)
	return m.Files(func(c *format.CounterFiles, b *format.BlockFile) error {
		if b.Tier != format.TierCold {
			return nil
		}
		err := verify(b.Path(d.Path), c, b)
		var fault *snapfile.BlockFault
		if errors.As(err, &fault) && !fault.Unusable { // else opening will tell
			d.note("left out: %v", err)
			return nil
		}
		if fault != nil {
			return nil
		}
		return err
	})
}

// itemsAtOnce is how many items are read with one batch.
const itemsAtOnce = 1024

func (d *dumper) printStore(store *counter.Store) error {
	var line []byte
	words := func(args ...string) {
		line = d.appendCommand(line[:0], args...)
		_, _ = d.w.Write(line) // the error is Flush's
	}
	s := store.Schema()
	for text := range strings.Lines(s.String()) {
		if statement := strings.Fields(text); d.dumpOptions.counter == "" || len(statement) > 2 && statement[2] == d.dumpOptions.counter {
			words(statement...)
		}
	}
	b := store.NewBatch()
	if err := b.Begin(); err != nil {
		return err
	}
	defer b.End()
	var items []counter.ScanItem
	args := make([]string, 0, 16)
	// Groups of hash slots come one after the other; else mids rise.
	cursor, end, first := d.mids.Lo, d.mids.Hi, true
	if store.SlotGroups() {
		cursor, end = 0, 1<<63
	}
	for first || cursor != 0 && cursor&coldstore.MaxMid < end { // after posts that cannot be listed it has one more bit
		first = false
		if err := d.ctx.Err(); err != nil {
			return err
		}
		var err error
		if items, cursor, err = counter.NewReader(b).Scan(items[:0], cursor, itemsAtOnce); err != nil {
			var lost *counter.LostError
			if !errors.As(err, &lost) {
				return err
			}
			cursor = lost.Resume
			d.note("left out: %v", err) // noteLost has told of damage, but a server may have removed the file since
		}
		b.Reset()
		for _, it := range items {
			b.Add(counter.Op{Kind: counter.OpRead, Counter: it.Counter, Mid: it.Mid})
		}
		b.Run()
		for i, it := range items {
			op := b.Op(i)
			if op.Err != nil {
				d.note("%s:%d is left out: %v", it.Counter.Name, it.Mid, op.Err)
				continue
			}
			if row := b.Row(op); row != nil && d.wants(it.Counter.Name, it.Mid) {
				args = append(args[:0], "HSET", fmt.Sprintf("%s:%d", it.Counter.Name, it.Mid))
				for c, v := range row[:len(it.Counter.Columns)] { // derived ones cannot be set
					args = append(args, it.Counter.Columns[c].Name, strconv.FormatUint(v, 10))
				}
				words(args...)
			}
		}
	}
	return nil
}

// appendCommand appends a command in the form asked for. Names have no spaces, so inline needs no quotes.
func (d *dumper) appendCommand(dst []byte, args ...string) []byte {
	if !d.resp {
		for i, a := range args {
			if i > 0 {
				dst = append(dst, ' ')
			}
			dst = append(dst, a...)
		}
		return append(dst, '\r', '\n')
	}
	dst = append(strconv.AppendInt(append(dst, '*'), int64(len(args)), 10), '\r', '\n')
	for _, a := range args {
		dst = append(strconv.AppendInt(append(dst, '$'), int64(len(a)), 10), '\r', '\n')
		dst = append(append(dst, a...), '\r', '\n')
	}
	return dst
}
