package tier

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/rangecopy"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// ErrElsewhere: the log does not end at the offset that a range is to be compared or mended at.
var ErrElsewhere = errors.New("counter: the log does not end at this offset")

// RewriteFrom says what becomes of rows of the old file that cannot be read. The zero value: the old block stays.
type RewriteFrom struct {
	Lose  bool            // they are left out
	Posts *OtherPosts     // these take the place of all rows of the file
	Again *coldstore.File // a whole copy of the damaged file
}

// fit tells why a block cannot be written so. REQUIRES b.Mu and the gate held.
func (f *RewriteFrom) fit(s *core.Data, ks *block.Keyspace, b *block.Block) error {
	switch {
	case f.Posts != nil:
		return f.Posts.fit(s, b)
	case f.Again == nil:
		return ks.FoldAll(b)
	case b.Cold == nil || b.Cold.Entry.CRC != f.Again.Checksum() || b.Lo != f.Again.Meta().Lo || b.Hi != f.Again.Meta().Hi:
		return fmt.Errorf("%w: [%d,%d) has another file by now", ErrNoBlock, b.Lo, b.Hi)
	}
	return nil
}

// moved returns the posts whose columns are to be written over those of the new file: partial rows, of which only some columns are known.
// REQUIRES b.Mu held.
func (f *RewriteFrom) moved(b *block.Block) map[uint64]struct{} {
	mids := make(map[uint64]struct{})
	if f.Posts != nil || f.Again != nil {
		for mid := range b.Cold.Partial {
			mids[mid] = struct{}{}
		}
	}
	return mids
}

// OtherPosts are those of another node.
type OtherPosts struct {
	Lo, Hi    uint64 // the range of the block
	Since, At uint64 // log offsets: each post is as it was somewhere between them
	Rows      []rangecopy.Row
}

// fit tells why the posts cannot take the place of a block's file. REQUIRES b.Mu and the gate held.
func (o *OtherPosts) fit(s *core.Data, b *block.Block) error {
	switch {
	case b.Cold == nil || b.Lo != o.Lo || b.Hi != o.Hi:
		return fmt.Errorf("%w: [%d,%d) is no cold block", ErrNoBlock, o.Lo, o.Hi)
	case s.Log.Position() < o.At || s.Altered > o.Since:
		return ErrElsewhere
	}
	return nil
}

// file writes the posts to a cold file of their own, beside the one that is being made, and opens it. done removes it.
func (o *OtherPosts) file(fsys vfs.FS, path string, meta coldstore.Meta) (file *coldstore.File, done func(), err error) {
	temp := filepath.Join(filepath.Dir(path), "other-"+filepath.Base(path)+format.TempSuffix) // one that is left goes at the next start
	w, err := coldstore.Create(fsys, temp, meta)
	if err != nil {
		return nil, nil, err
	}
	for i := range o.Rows {
		if len(o.Rows[i].Values) != len(meta.Columns) {
			err = fmt.Errorf("counter: post %d of another node has %d columns, want %d", o.Rows[i].Mid, len(o.Rows[i].Values), len(meta.Columns))
		} else {
			err = w.Add(o.Rows[i].Mid, o.Rows[i].Values)
		}
		if err != nil {
			return nil, nil, errors.Join(err, w.Abort(), vfs.RemoveIfThere(fsys, temp))
		}
	}
	if _, err = w.Finish(); err != nil {
		err = errors.Join(err, w.Abort())
	} else {
		file, err = coldstore.Open(fsys, temp, nil)
	}
	if err != nil {
		return nil, nil, errors.Join(err, vfs.RemoveIfThere(fsys, temp))
	}
	return file, func() { _ = errors.Join(file.Close(), fsys.Remove(temp)) }, nil
}
