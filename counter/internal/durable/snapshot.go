package durable

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/counter/internal/pace"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
)

// snapshot is one being made.
type snapshot struct {
	s        *core.Data
	by       *Snapshots
	manifest *format.Manifest
	memory   arena.Span // of buf
	buf      []byte
	wrote    []wroteImage
	images   int
	bytes    uint64
	pace     pace.Pace
	out      snapfile.Images

	wroteProducers *format.BlockFile // as wrote; nil: it was not written
}

// wroteImage is an image that no manifest names yet.
type wroteImage struct {
	b    *block.Block
	file *format.BlockFile
}

func (w *snapshot) make() error {
	s := w.s
	defer func() { s.Copies.Free(w.memory) }()
	w.out = snapfile.Images{FS: s.Config.FS, Dir: s.Dir.Path(), Rest: w.pace.Rest}
	m := &format.Manifest{History: s.Log.History(), TimeMS: s.Config.Now().UnixMilli(), SlotGroups: s.SlotGroups}
	w.manifest = m
	if past := w.by.lineage(); len(past.Terms) > 1 {
		m.OldReplID, m.OldEnd, _ = past.Before()
	}
	s.Applying.RLock()
	s.Gate.RLock()
	if s.Closed {
		s.Gate.RUnlock()
		s.Applying.RUnlock()
		return core.ErrClosed
	}
	m.Replay = s.Log.Position()
	m.Offset = m.Replay
	sch := s.Schema.Load()
	m.Moving, m.Tick = s.Moving.Saved(), uint64(s.Time.Seconds())
	s.Gate.RUnlock()
	s.Applying.RUnlock()
	m.Schema = strings.Split(strings.TrimSuffix(string(sch.AppendText(nil)), "\n"), "\n")
	for _, def := range sch.All() {
		files := format.CounterFiles{ID: def.ID, Name: def.Name}
		if err := w.counter(&files); err != nil {
			return err
		}
		m.Counters = append(m.Counters, files)
		m.NextCounter = max(m.NextCounter, def.ID+1)
	}
	if err := w.producers(m); err != nil {
		return err
	}
	if err := w.cursors(m); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	_ = m.Files(func(_ *format.CounterFiles, b *format.BlockFile) error { // fn returns nil
		m.Offset = max(m.Offset, b.Offset)
		return nil
	})
	m.NextBlock = s.BlockIDs.Load() + 1
	m.LogPacked = w.by.packing.on.Load() || s.Log.Stats().Packed > 0
	if err := s.Log.Sync(); err != nil {
		return err
	}
	if err := s.Dir.WriteManifest(m); err != nil {
		return err
	}
	if err := w.by.retention.RemoveOrphans(); err != nil {
		return err
	}
	return s.Log.Segments().DropBefore(w.by.retention.dropBefore())
}

// counter lists, and where needed writes, the blocks of one counter, group after group. Of a counter that is dropped
// nothing is listed: the log tells. The snapshot stands behind the drop then, as it stands behind every block's offset:
// replay that ends before would find the counter, without its posts.
func (w *snapshot) counter(files *format.CounterFiles) error {
	for group := range w.s.Parts() {
		if dropped, err := w.group(files, uint8(group)); dropped || err != nil {
			files.Blocks = nil
			return err
		}
	}
	return nil
}

// group is counter of one group. A FLUSHALL, or the drop of a range, meanwhile makes it begin anew. A group without items is not listed either.
func (w *snapshot) group(files *format.CounterFiles, group uint8) (dropped bool, err error) {
	s, listed := w.s, len(files.Blocks)
	var ks *block.Keyspace
	for lo := uint64(0); ; {
		s.Applying.RLock()
		s.Gate.RLock()
		unlock := func() {
			s.Gate.RUnlock()
			s.Applying.RUnlock()
		}
		if s.Closed {
			unlock()
			return false, core.ErrClosed
		}
		sp := s.Spaces[files.ID]
		if sp == nil {
			w.manifest.Offset = max(w.manifest.Offset, s.Log.Position())
			unlock()
			return true, nil
		}
		if now := sp[group]; now != ks {
			ks, lo, files.Blocks = now, 0, files.Blocks[:listed]
		}
		before := len(files.Blocks)
		b := ks.Lock(lo)
		if b.Lo < lo { // it took the place of blocks that were dropped, some of which are listed: begin anew
			b.Mu.Unlock()
			unlock()
			lo, files.Blocks = 0, files.Blocks[:listed]
			continue
		}
		h := format.ImageHeader{Counter: files.ID, Block: b.ID, Lo: b.Lo, Hi: b.Hi, Items: uint64(b.Tab.Len())}
		appendImage := b.Tab.AppendImage
		h.Offset = s.Log.Position()
		if s.SlotGroups && b.Lo == 0 && b.Open() && b.Tab.Len() == 0 { // 256 files of nothing are saved
			b.Mu.Unlock()
			w.manifest.Offset = max(w.manifest.Offset, h.Offset)
			unlock()
			return false, nil
		}
		tier, image := format.TierHot, true
		if b.Cold != nil {
			entry := b.Cold.Entry
			entry.Group, entry.Offset = group, h.Offset
			files.Blocks = append(files.Blocks, entry)
			tier, image, h.Kind = format.TierOverlay, b.Tab.Len() > 0, overlayImage
			if n := len(b.Cold.Partial); n > 0 {
				h.Items += uint64(n)
				image, h.Kind, appendImage = true, partialImage, b.AppendPartial
			}
		}
		saved := b.Image
		write := image && (b.Dirty || saved == nil || w.writesTwice(b, saved, h.Offset))
		if need := b.Tab.Bytes() + core.ImageSlack; write && cap(w.buf) < need { // new memory costs as much as the copy
			b.Mu.Unlock()
			unlock()
			s.Copies.Free(w.memory)
			if w.memory, err = s.Copies.Alloc(need+need/4, true); err != nil {
				return false, err
			}
			arena.Populate(w.memory.Data)
			w.buf = w.memory.Data[:0]
			files.Blocks = files.Blocks[:before]
			continue
		}
		if write {
			w.buf = appendImage(w.buf[:0])
			b.Dirty = false
		}
		b.Mu.Unlock()
		unlock()
		if write {
			if saved, err = w.image(b, tier, h); err != nil {
				return false, err
			}
			w.pace.Rest()
		}
		if image {
			entry := *saved
			entry.Group, entry.Offset = group, h.Offset
			files.Blocks = append(files.Blocks, entry)
		}
		if h.Hi == hot.EndMid {
			return false, nil
		}
		lo = h.Hi
	}
}

// writesTwice tells whether an image is written anew although the block did not change. No start goes on without the image of a last block
// (lostrange.go), so the two snapshots that are kept have a file each: damage of one makes the other count. By groups of hash slots
// there are 256 last blocks, and another node has their posts. At one log offset both snapshots have one file.
func (w *snapshot) writesTwice(b *block.Block, saved *format.BlockFile, offset uint64) bool {
	return b.Open() && !w.s.SlotGroups && saved.Name != format.ImageName(b.ID, offset)
}

// cursors lists the cursors of the feed. Some may have been set behind Replay: the log sets them again, and must reach that far.
func (w *snapshot) cursors(m *format.Manifest) error {
	s := w.s
	s.Applying.RLock()
	s.Gate.RLock()
	defer s.Applying.RUnlock()
	defer s.Gate.RUnlock()
	if s.Closed {
		return core.ErrClosed
	}
	if m.Cursors = s.Cursors.List(); len(m.Cursors) > 0 {
		m.Offset = max(m.Offset, s.Log.Position())
	}
	return nil
}

// producers lists, and where needed writes, the table of producers.
func (w *snapshot) producers(m *format.Manifest) error {
	s := w.s
	s.Applying.RLock()
	s.Gate.RLock()
	if s.Closed {
		s.Gate.RUnlock()
		s.Applying.RUnlock()
		return core.ErrClosed
	}
	var h format.ImageHeader
	var saved *format.BlockFile
	w.buf, h, saved = s.Producers.CopyTo(w.s, w.buf)
	h.Kind = producersImage
	s.Gate.RUnlock()
	s.Applying.RUnlock()
	if h.Items == 0 {
		return nil
	}
	if saved == nil {
		info, err := w.out.Write(h, w.buf)
		if err == nil {
			saved = &format.BlockFile{Tier: format.TierProducers, Block: h.Block, Items: h.Items, Bytes: info.Bytes, CRC: info.CRC, Name: info.Name}
			w.images++
			w.bytes += info.Bytes
			w.wroteProducers = saved
		}
		if s.Producers.Wrote(saved); err != nil {
			return err
		}
	}
	entry := *saved
	entry.Offset = h.Offset
	m.Producers = &entry
	return nil
}

// Kinds of images; hot blocks' is 0.
const (
	overlayImage   = 1 // of an overlay
	partialImage   = 2 // of an overlay and partial rows: see appendPartial
	producersImage = 3 // of the table of producers
)

// image writes w.buf as the image of b.
func (w *snapshot) image(b *block.Block, tier format.Tier, h format.ImageHeader) (*format.BlockFile, error) {
	info, err := w.out.Write(h, w.buf)
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if err != nil {
		b.Dirty = true
		return nil, err
	}
	w.images++
	w.bytes += info.Bytes
	saved := &format.BlockFile{Tier: tier, Block: h.Block, Lo: h.Lo, Hi: h.Hi, Items: h.Items, Bytes: info.Bytes, CRC: info.CRC, Name: info.Name}
	b.Image = saved
	w.wrote = append(w.wrote, wroteImage{b, saved})
	return saved, nil
}

// undo removes the images of a snapshot that failed. The next one could use only those of blocks that do not change
// meanwhile, and each attempt would leave the others: a disk that is almost full would fill up with them.
func (w *snapshot) undo() {
	s := w.s
	w.out.Abort()
	if w.manifest != nil && w.manifest.Generation > 0 { // it may be in force though an error came back
		name := filepath.Join(s.Dir.Path(), format.ManifestName(w.manifest.Generation))
		if _, err := s.Config.FS.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	for _, i := range w.wrote {
		i.b.Mu.Lock()
		if i.b.Image == i.file {
			i.b.Image, i.b.Dirty = nil, true
		}
		i.b.Mu.Unlock()
		_ = s.Config.FS.Remove(i.file.Path(s.Dir.Path())) // an orphan, removed with the next ones
	}
	if w.wroteProducers != nil {
		s.Producers.Lose(func(image *format.BlockFile) bool { return image == w.wroteProducers })
		_ = s.Config.FS.Remove(w.wroteProducers.Path(s.Dir.Path()))
	}
}
