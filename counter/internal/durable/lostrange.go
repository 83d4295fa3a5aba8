package durable

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// A block's image that cannot be used, and of which no snapshot has another, as both have one file for a block that did
// not change, takes the posts of the block's range with it, and no others. The block becomes a cold one whose file is
// missing (format.LostName), in the next snapshot as well: what the log says of the range since the image, and what is
// set from now on, is kept as partial rows; all else answers ErrCold. That of an overlay takes the cold file's rows
// with it, as nobody knows which of them are of the past.
//
// The image stays where it is as long as a manifest names the range. A start that can read it, as the disk is well or
// the file was put back, makes a cold file of it (regain), which completes the partial rows. Where the log has all changes
// (logfile.HasAll), the start reads it instead, and nothing is lost. The start is refused
//
//   - where the last block is concerned: all new posts are in its range, and nobody knows up to where there were any. A
//     node that takes none is of no use, and one that is down has a replica take its place
//   - for what an operator can set right (lostFile)
type leniency uint8

// The parts that recovery can do without, if it must.
const (
	nothingLost leniency = iota
	coldLost             // cold files
	imagesLost           // images too
)

// mayLose tells whether the range of an image goes on without it. err is why it cannot be used.
func (r *Recovery) mayLose(f *format.BlockFile, err error) bool {
	return r.lenient == imagesLost && lostFile(err) && (f.Hi != hot.EndMid || r.opts.GiveUp)
}

// lostRange makes the block of a range whose image cannot be used: f's, or that of the overlay above f.
func (r *Recovery) lostRange(f, overlay *format.BlockFile, err error) *block.Block {
	entry, names, bad := *f, []string{f.Name}, f
	if first := f.Remains(r.s.Dir.Path()); len(first) > 0 { // lost again: the name must not grow
		names[0] = filepath.Base(first[0])
	}
	if overlay != nil { // then the first records are of the past, and cannot be recovered
		names, bad = append(names, overlay.Name), overlay
	}
	entry.Tier, entry.Name = format.TierCold, format.LostName(names...)
	r.s.Config.Logger.Error("a block image is unusable and no snapshot has another copy; posts of its range cannot be read until they are set", "file", bad.Path(r.s.Dir.Path()),
		"lo", f.Lo, "hi", f.Hi, "items", f.Items, "error", err, "repair", format.RepairCommand(r.s.Dir.Path()))
	r.s.Broken.Add(1)
	r.s.Files.Keep(entry.Name)
	file := coldstore.Broken(bad.Path(r.s.Dir.Path()), coldstore.Meta{Lo: f.Lo, Hi: f.Hi}, f.Items, err)
	return &block.Block{Lo: f.Lo, Hi: f.Hi, ID: f.Block, From: f.Offset, Cold: &block.ColdRange{File: file, Entry: entry}}
}

// regain makes a cold file of the image that the entry of a lost range stands for. The error says why that cannot be
// done.
func (r *Recovery) regain(f *format.BlockFile) (file *coldstore.File, entry *format.BlockFile, err error) {
	image := f.Remains(r.s.Dir.Path())[0]
	info, tab, _, err := readTable(r.s.Config.FS, image)
	if err != nil {
		return nil, nil, err
	}
	if tab == nil || info.Kind != 0 || info.Block != f.Block || info.Lo != f.Lo || info.Hi != f.Hi || info.Items != f.Items || info.CRC != f.CRC {
		return nil, nil, corruptFile(r.s.Dir, image, fmt.Sprintf("block %d, range [%d,%d) with %d items, checksum %08x, as in the manifest", f.Block, f.Lo, f.Hi, f.Items, f.CRC),
			fmt.Sprintf("%d, [%d,%d), %d, %08x", info.Block, info.Lo, info.Hi, info.Items, info.CRC), nil)
	}
	meta := coldstore.Meta{Counter: info.Counter, Offset: f.Offset, Lo: f.Lo, Hi: f.Hi, OneGroup: tab.OneGroup(), Group: tab.Group()}
	fields := tab.Layout().Fields
	for i := range fields {
		meta.Columns = append(meta.Columns, coldstore.Column{ID: fields[i].ID, Max: fields[i].Max, Default: fields[i].Default})
	}
	path := filepath.Join(format.ColdDir(r.s.Dir.Path()), format.ColdName(f.Block, f.Offset))
	if err := writeTable(r.s.Config.FS, path, meta, tab); err != nil {
		return nil, nil, err
	}
	if file, err = openCold(r.s.Config.FS, path, r.s.Cache); err != nil {
		return nil, nil, err
	}
	r.s.Config.Logger.Warn("a block image is readable again; posts of its range are available", "file", image, "lo", f.Lo, "hi", f.Hi, "items", f.Items, "saved_to", path)
	back := *f
	back.Name, back.Items, back.Bytes, back.CRC = filepath.Base(path), file.Stat().Items, uint64(file.Stat().Bytes), file.Checksum()
	return file, &back, nil
}

// writeTable writes a table's rows to a cold file, durably.
func writeTable(fsys vfs.FS, path string, meta coldstore.Meta, tab *hot.Table) error {
	temp := path + vfs.TempSuffix
	w, err := coldstore.Create(fsys, temp, meta)
	if err != nil {
		return err
	}
	vals := make([]uint64, 0, len(meta.Columns))
	for _, row := range block.SortedRows(tab) {
		if vals = tab.AppendRow(vals[:0], row.Ref); err == nil {
			err = w.Add(row.Mid, vals)
		}
	}
	if err == nil {
		_, err = w.Finish()
	} else {
		err = errors.Join(err, w.Abort())
	}
	if err == nil {
		err = fsys.Rename(temp, path)
	}
	if err != nil {
		_ = fsys.Remove(temp) // leftovers go at the next start
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// fewestLost returns manifests in the order in which they are to be tried without what cannot be read of them. There
// are none without a log.
func (r *Recovery) fewestLost(manifests []*format.Manifest) ([]*format.Manifest, error) {
	if segs, err := logfile.Segments(r.s.Config.FS, r.s.Dir.Path()); err != nil || len(segs) == 0 {
		return nil, err
	}
	faults := make(map[*format.Manifest][]*snapfile.BlockFault, len(manifests))
	for _, m := range manifests {
		var err error
		if faults[m], err = snapfile.Faults(m, r.s.Config.FS, r.s.Dir.Path(), nil); err != nil {
			return nil, err
		}
	}
	sorted := slices.Clone(manifests)
	slices.SortStableFunc(sorted, func(a, b *format.Manifest) int { return snapfile.FewestLost(faults[a], faults[b]) })
	return sorted, nil
}
