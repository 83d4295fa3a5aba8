package durable

import (
	"context"
	"fmt"
	"io"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/persist/archive"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
)

// Archive is the store's state, about to be written as one file (archive.Writer): the newest snapshot's files and the
// log from there to where it ended when the archive was made. No snapshot is made for it, and nobody waits. Images are
// verified before. A damaged cold file goes in as it is, with zeros for unreadable bytes. No checksum fits them, so
// those posts are known to be lost wherever the archive is opened. The files and the log that it needs are kept on disk
// until it is closed. NOT safe for concurrent use.
type Archive struct {
	pin *Pin
	w   *archive.Writer
}

// Size returns the archive's size in bytes.
func (a *Archive) Size() int64 { return a.w.Size() }

// End returns the log offset that the state is of.
func (a *Archive) End() uint64 { return a.w.End() }

// WriteTo writes the archive, once. Errors as archive.Writer.WriteTo.
func (a *Archive) WriteTo(w io.Writer) (int64, error) { return a.w.WriteTo(w) }

// WriteCompressed writes the archive, once, compressed: its size is not known before. Errors as WriteTo.
func (a *Archive) WriteCompressed(w io.Writer) (int64, error) { return a.w.WriteCompressed(w) }

// Close lets files and log go.
func (a *Archive) Close() error {
	err := a.w.Close()
	a.pin.Release()
	return err
}

// NewArchive prepares an archive: see Admin.Archive.
func NewArchive(s *core.Data, pins *Pins, lineage func() format.Lineage) (*Archive, error) {
	if s.Log == nil {
		return nil, core.ErrInMemory
	}
	pin, err := pins.PinSnapshot()
	if err != nil {
		return nil, err
	}
	if first := s.Log.Stats().First; pin.Manifest == nil && first != 0 {
		pin.Release()
		return nil, fmt.Errorf("there is no snapshot and the log begins at %d: one must be made first: %w", first, format.ErrGone)
	}
	if pin.Manifest != nil {
		if err := pin.VerifyImages(); err != nil {
			pin.Release()
			return nil, fmt.Errorf("images of the snapshot are damaged and are written anew, try again: %w", err)
		}
	}
	w, err := archive.NewWriter(s.Config.FS, s.Dir.Path(), s.Log, pin.Manifest, lineage())
	if err != nil {
		pin.Release()
		return nil, err
	}
	return &Archive{pin, w}, nil
}

// SaveDiverged saves the archive in the directory of s, where it stays when another primary's data takes its place: see
// past.SaveDiverged.
func (a *Archive) SaveDiverged(ctx context.Context, s *core.Data) (path string, removed []string, err error) {
	return past.SaveDiverged(ctx, s.Config.FS, s.Dir.Path(), a.w)
}
