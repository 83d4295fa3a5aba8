package counter

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// Salvager returns what persist.Repair calls to save what is left of a damaged cold file: the rows of its good pages, if it can be opened at
// all, and on top of them the rows of its overlay, which were changed since it was written. Both go to one new cold file.
func Salvager(fsys vfs.FS, dir string) func(m *persist.Manifest, c *persist.CounterFiles, cold, overlay *persist.BlockFile, id uint64) (*persist.BlockFile, error) {
	return func(m *persist.Manifest, c *persist.CounterFiles, cold, overlay *persist.BlockFile, id uint64) (*persist.BlockFile, error) {
		s := salvage{fsys: fsys, dir: dir, entry: *cold}
		s.entry.Block, s.entry.Name = id, persist.ColdName(id, cold.Offset)
		sch, err := schema.ParseDurable([]byte(strings.Join(m.Schema, "\n") + "\n"))
		if err != nil {
			return nil, err
		}
		if def := sch.CounterByID(c.ID); def != nil {
			for i := range def.Columns {
				col := &def.Columns[i]
				s.columns = append(s.columns, coldstore.Column{ID: col.ID, Max: col.Max, Default: col.Default})
			}
		}
		if overlay != nil {
			if _, s.overlay, _, err = readTable(fsys, overlay.Path(dir)); err != nil {
				return nil, err
			}
			s.addColumns(s.overlay.Layout())
		}
		if err := s.write(c.ID, cold); err != nil {
			return nil, err
		}
		return &s.entry, nil
	}
}

type salvage struct {
	fsys    vfs.FS
	dir     string
	entry   persist.BlockFile  // of the new file
	columns []coldstore.Column // of the new file, by id
	overlay *hot.Table         // nil: none
}

// addColumns adds those of an overlay that were made after the manifest's schema: the log is not replayed for them.
func (s *salvage) addColumns(l *schema.Layout) {
	for f := range l.Fields {
		field := &l.Fields[f]
		known := field.ID == stateColumn
		for _, c := range s.columns {
			known = known || c.ID == field.ID
		}
		if !known && len(s.columns) < schema.MaxColumns {
			s.columns = append(s.columns, coldstore.Column{ID: field.ID, Max: field.Max, Default: field.Default})
		}
	}
}

// write makes the new file.
func (s *salvage) write(counter uint32, damaged *persist.BlockFile) (err error) {
	path := s.entry.Path(s.dir)
	temp := path + vfs.TempSuffix
	if _, err := vfs.RemoveTemps(s.fsys, filepath.Dir(path)); err != nil {
		return err
	}
	w, err := coldstore.Create(s.fsys, temp, coldstore.Meta{Counter: counter, Lo: s.entry.Lo, Hi: s.entry.Hi, Offset: s.entry.Offset, Columns: s.columns})
	if err != nil {
		return err
	}
	if err := s.rows(damaged.Path(s.dir), w.Add); err != nil {
		return errors.Join(err, w.Abort())
	}
	if _, err := w.Finish(); err != nil {
		return errors.Join(err, w.Abort())
	}
	if err := s.fsys.Rename(temp, path); err != nil {
		return err
	}
	file, err := coldstore.Open(s.fsys, path, nil)
	if err != nil {
		return err
	}
	stats := file.Stat()
	s.entry.Items, s.entry.Bytes, s.entry.CRC = stats.Items, uint64(stats.Bytes), file.Checksum()
	return file.Close()
}

// rows calls add for the rows of the file that can be read and of the overlay, in order of mid.
func (s *salvage) rows(path string, add func(mid uint64, vals []uint64) error) error {
	var over []tableRow
	if s.overlay != nil {
		over = sortedRows(s.overlay)
	}
	vals := make([]uint64, len(s.columns))
	fromOverlay := func(row tableRow) error {
		l := s.overlay.Layout()
		if state := l.Index(stateColumn); state >= 0 && s.overlay.Get(row.slot, state) == rowGone {
			return nil
		}
		for i, c := range s.columns {
			vals[i] = c.Default
			if f := l.Index(c.ID); f >= 0 {
				vals[i] = s.overlay.Get(row.slot, f)
			}
		}
		return add(row.mid, vals)
	}
	upTo := func(mid uint64) error { // of the overlay, mid included
		for len(over) > 0 && over[0].mid <= mid {
			if err := fromOverlay(over[0]); err != nil {
				return err
			}
			over = over[1:]
		}
		return nil
	}
	file, err := coldstore.Open(s.fsys, path, nil)
	switch {
	case err == nil:
		_, err = coldRows(file, func(mid uint64, row []uint64) error {
			shadowed := s.overlay != nil && s.overlay.Len() > 0
			if shadowed {
				_, shadowed = s.overlay.Find(mid)
			}
			if err := upTo(mid); err != nil || shadowed {
				return err
			}
			for i, c := range s.columns {
				vals[i] = c.Default
				if at, ok := file.Meta().Column(c.ID); ok {
					vals[i] = row[at]
				}
			}
			return add(mid, vals)
		})
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
	case isNotExist(err), errors.Is(err, coldstore.ErrCorrupt), errors.Is(err, coldstore.ErrUnreadable):
		// nothing can be read: the overlay is what is left
	default:
		return err
	}
	return upTo(s.entry.Hi)
}
