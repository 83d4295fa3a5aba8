package counter

import (
	"context"
	"errors"
	"fmt"
	"io"

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

// Archive prepares an archive, which must be closed. It reads all images of the newest snapshot. The error is
// ErrInMemory, format.ErrGone where there is no snapshot and the log does not begin at 0, or says what could not be
// read.
func (a Admin) Archive() (*Archive, error) {
	s := a.s
	if s.data.Log == nil {
		return nil, ErrInMemory
	}
	pin, err := s.pins.PinSnapshot()
	if err != nil {
		return nil, err
	}
	if first := s.data.Log.Stats().First; pin.Manifest == nil && first != 0 {
		pin.Release()
		return nil, fmt.Errorf("there is no snapshot and the log begins at %d: one must be made first: %w", first, format.ErrGone)
	}
	if pin.Manifest != nil {
		if err := pin.VerifyImages(); err != nil {
			pin.Release()
			return nil, fmt.Errorf("images of the snapshot are damaged and are written anew, try again: %w", err)
		}
	}
	w, err := archive.NewWriter(s.data.Config.FS, s.data.Dir.Path(), s.data.Log, pin.Manifest, s.repl.Lineage())
	if err != nil {
		pin.Release()
		return nil, err
	}
	return &Archive{pin, w}, nil
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

// SaveDiverged saves the store's data in its directory, as an archive, where it stays when another primary's data takes
// its place: see past.SaveDiverged. No change may be made meanwhile that is to be in it: the store is a replica.
func (r *Replication) SaveDiverged(ctx context.Context) (path string, removed []string, err error) {
	a, err := r.archive()
	if err != nil {
		return "", nil, err
	}
	path, removed, err = past.SaveDiverged(ctx, r.s.Config.FS, r.s.Dir.Path(), a.w)
	return path, removed, errors.Join(err, a.Close())
}
