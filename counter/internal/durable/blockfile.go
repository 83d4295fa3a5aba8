package durable

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/counter/internal/producers"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// The file of one block, read and verified on its own: recovery and the tiers open cold files, a replica verifies what
// it copied, and counterctl shows rows (inspect.go).

// readTable reads an image into a table of its own memory; tab is nil if there are partial rows only.
func readTable(fsys vfs.FS, path string) (info format.ImageInfo, tab *hot.Table, partial map[uint64]block.PartialRow, err error) {
	img, err := snapfile.OpenImage(fsys, path)
	if err != nil {
		return info, nil, nil, err
	}
	defer func() { err = errors.Join(err, img.Close()) }()
	info = img.ImageInfo
	if err := knownKind(path, info.Kind, info.Kind <= partialImage); err != nil {
		return info, nil, nil, err
	}
	buf := make([]byte, img.Length()) // the file's size vouches for it
	if err := img.ReadInto(buf); err != nil {
		return info, nil, nil, err
	}
	if info.Kind == partialImage {
		if buf, partial, err = block.DecodePartial(buf, info.Lo, info.Hi); err != nil {
			return info, nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(buf) == 0 {
			return info, nil, partial, nil
		}
	}
	decoded, err := hot.DecodeImage(buf)
	if errors.Is(err, hot.ErrUnsupportedImage) {
		err = fmt.Errorf("%w: %w", format.ErrUnsupportedFormat, err)
	}
	if err != nil {
		return info, nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	t, err := decoded.Table(make([]byte, decoded.Config.Bytes()))
	if err != nil {
		return info, nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return info, &t, partial, nil
}

// knownKind refuses an image of an unknown kind, and of a kind that is not wanted.
func knownKind(path string, kind uint32, wanted bool) error {
	switch {
	case kind > producersImage:
		return fmt.Errorf("%s: image of kind %d, this program knows up to %d: %w", path, kind, producersImage, format.ErrUnsupportedFormat)
	case !wanted:
		return &format.CorruptError{File: path, Want: "an image of what the manifest says", Got: fmt.Sprintf("one of kind %d", kind)}
	}
	return nil
}

// openCold opens a cold file; one of another version gives format.ErrUnsupportedFormat, as every other file does.
func openCold(fsys vfs.FS, path string, cache *coldstore.Cache) (*coldstore.File, error) {
	file, err := coldstore.Open(fsys, path, cache)
	if errors.Is(err, coldstore.ErrUnsupportedFormat) {
		err = fmt.Errorf("%w: %w", format.ErrUnsupportedFormat, err)
	}
	return file, err
}

// ColdVerifier returns a function that verifies a cold file, page by page, against itself and its entry in a manifest.
// A fault comes as a *snapfile.BlockFault.
func ColdVerifier(fsys vfs.FS) func(path string, c *format.CounterFiles, b *format.BlockFile) error {
	return func(path string, c *format.CounterFiles, b *format.BlockFile) (err error) {
		fault := &snapfile.BlockFault{Path: path, Counter: c.Name, Block: *b}
		unusable := func(err error) error {
			fault.Unusable, fault.Err, fault.Lost = true, err, []snapfile.MidRange{{Lo: b.Lo, Hi: b.Hi}}
			return fault
		}
		file, err := openCold(fsys, path, nil)
		switch {
		case err != nil && lostFile(err):
			return unusable(err)
		case err != nil:
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		m := file.Meta()
		if m.Counter != c.ID || m.Lo != b.Lo || m.Hi != b.Hi || file.Stat().Items != b.Items || file.Checksum() != b.CRC {
			return unusable(fmt.Errorf("got counter %d, range [%d, %d), %d items, checksum %08x, want %d, [%d, %d), %d, %08x as in the manifest",
				m.Counter, m.Lo, m.Hi, file.Stat().Items, file.Checksum(), c.ID, b.Lo, b.Hi, b.Items, b.CRC))
		}
		if fault.Err = file.Verify(nil); fault.Err == nil {
			return nil
		}
		if fault.Lost, err = block.ReadableRows(file, func(uint64, []uint64) error { return nil }); err != nil {
			return err
		}
		return fault
	}
}

// CheckBlockFile reads the whole file of a block that a manifest names, and tells whether it agrees with the manifest
// and can be opened.
func CheckBlockFile(fsys vfs.FS, dir string, c *format.CounterFiles, b *format.BlockFile) error {
	err := snapfile.CheckBlock(fsys, dir, c, b, ColdVerifier(fsys))
	if err != nil || b.Tier == format.TierCold {
		return err
	}
	if b.Tier == format.TierProducers {
		_, _, err := readProducers(fsys, b.Path(dir), producers.Limits{})
		return err
	}
	_, tab, _, err := readTable(fsys, b.Path(dir))
	if err == nil && tab != nil && (tab.Lo() != b.Lo || tab.Hi() != b.Hi) {
		err = fmt.Errorf("%s: %w: range [%d,%d), want [%d,%d)", b.Path(dir), hot.ErrBadImage, tab.Lo(), tab.Hi(), b.Lo, b.Hi)
	}
	return err
}

// loadTable reads an image into b's table.
func (r *Recovery) loadTable(b *block.Block, f *format.BlockFile, buf []byte) ([]byte, error) {
	path := f.Path(r.s.Dir.Path())
	img, err := snapfile.OpenImage(r.s.Config.FS, path)
	if err != nil {
		if lostFile(err) && !errors.Is(err, format.ErrCorrupt) {
			err = corruptFile(r.s.Dir, path, "an image named by the manifest", err.Error(), err)
		}
		return buf, err
	}
	defer img.Close()
	// Its own offset may be higher: a repair that cuts the log lowers what it counts as.
	if img.Lo != f.Lo || img.Hi != f.Hi || img.Items != f.Items || img.CRC != f.CRC {
		return buf, corruptFile(r.s.Dir, path, fmt.Sprintf("range [%d,%d) with %d items, checksum %08x, as in the manifest", f.Lo, f.Hi, f.Items, f.CRC),
			fmt.Sprintf("[%d,%d), %d, %08x", img.Lo, img.Hi, img.Items, img.CRC), nil)
	}
	if n := int(img.Length()); cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:img.Length()]
	if err := img.ReadInto(buf); err != nil {
		if lostFile(err) && !errors.Is(err, format.ErrCorrupt) {
			err = corruptFile(r.s.Dir, path, "an image that can be read", err.Error(), err)
		}
		return buf, err
	}
	payload := buf
	if err := knownKind(path, img.Kind, img.Kind <= partialImage); err != nil {
		return buf, err
	}
	if img.Kind == partialImage && b.Cold != nil {
		var rows map[uint64]block.PartialRow
		if payload, rows, err = block.DecodePartial(buf, f.Lo, f.Hi); err != nil {
			return buf, corruptFile(r.s.Dir, path, "an image of an overlay with partial rows", err.Error(), err)
		}
		b.Cold.Partial = rows
		if len(payload) == 0 {
			return buf, nil
		}
	}
	h, err := hot.DecodeImage(payload)
	if errors.Is(err, hot.ErrUnsupportedImage) {
		return buf, fmt.Errorf("%s: %w: %w", path, format.ErrUnsupportedFormat, err)
	}
	if err == nil && h.Config.OneGroup && (!r.s.SlotGroups || h.Config.Group != f.Group) {
		err = fmt.Errorf("of group %d", h.Config.Group)
	}
	if err == nil && (h.Config.Lo != f.Lo || h.Config.Hi != f.Hi) {
		err = fmt.Errorf("range [%d,%d)", h.Config.Lo, h.Config.Hi)
	}
	if err != nil {
		return buf, corruptFile(r.s.Dir, path, fmt.Sprintf("a block image of range [%d,%d)", f.Lo, f.Hi), err.Error(), err)
	}
	if b.Span, err = r.s.Arena.Alloc(h.Config.Bytes(), h.Config.Hi == hot.EndMid); err != nil {
		return buf, err
	}
	if h.Config.Hi != hot.EndMid { // else it has room for posts to come
		arena.Populate(b.Span.Data)
	}
	if b.Tab, err = h.Table(b.Span.Data); err != nil {
		r.s.Arena.Free(b.Span)
		b.Span = arena.Span{}
		return buf, corruptFile(r.s.Dir, path, "a block image", err.Error(), err)
	}
	if r.s.SlotGroups {
		b.FindNewest()
	}
	return buf, nil
}
