package logfile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// readClaimFile returns the newest claim of an open file; number is 0 where there is none.
func readClaimFile(f vfs.File, name string) (number uint64, c format.Claim, err error) {
	for slot := range format.ClaimSlots {
		b, err := vfs.ReadAtMost(f, make([]byte, format.ClaimLen), int64(slot)*format.ClaimSlotLen)
		if err != nil {
			return 0, format.Claim{}, err
		}
		n, found, ok, err := format.DecodeClaim(b, name)
		if err != nil {
			return 0, format.Claim{}, err
		}
		if ok && n > number {
			number, c = n, found
		}
	}
	return number, c, nil
}

// ReadClaim returns the claim of a data directory. The zero value: there is none that counts. A version that is not
// known gives ErrUnsupportedFormat. Of a directory in use it must be read before the log is listed.
func ReadClaim(fsys vfs.FS, dir string) (c format.Claim, err error) {
	name := format.ClaimPath(dir)
	f, err := fsys.Open(name)
	if vfs.IsNotExist(err) {
		return format.Claim{}, nil
	}
	if err != nil {
		return format.Claim{}, err
	}
	_, c, err = readClaimFile(f, name)
	if err = errors.Join(err, f.Close()); err != nil {
		return format.Claim{}, err
	}
	past, err := ReadLineage(fsys, dir)
	if errors.Is(err, format.ErrCorrupt) {
		return c, nil // nobody opens the log until that is mended
	}
	if err != nil {
		return format.Claim{}, err
	}
	if len(past.Terms) == 0 {
		return c, nil
	}
	i := slices.IndexFunc(past.Terms, func(t format.Term) bool { return t.ReplID == c.ReplID })
	if i < 0 {
		return format.Claim{}, nil
	}
	c.Offset = min(c.Offset, past.End(i, c.Offset))
	return c, nil
}

// VerifyClaim returns a *CorruptError if a slot of the file DURABLE is damaged. That does no harm: see above.
func VerifyClaim(fsys vfs.FS, dir string) error {
	name := format.ClaimPath(dir)
	b, err := vfs.ReadFile(fsys, name, format.ClaimFileLen)
	if vfs.IsNotExist(err) || err == nil && len(b) == 0 {
		return nil
	}
	bad := func(off int64, want, got string) error {
		return &format.CorruptError{File: name, Offset: off, Want: want, Got: got}
	}
	if errors.Is(err, vfs.ErrTooLarge) || err == nil && len(b) != format.ClaimFileLen {
		return bad(int64(len(b)), fmt.Sprintf("%d bytes", format.ClaimFileLen), "another length")
	}
	for off := 0; err == nil && off < len(b); off += format.ClaimSlotLen {
		slot := b[off : off+format.ClaimSlotLen]
		var ok bool
		if _, _, ok, err = format.DecodeClaim(slot, name); err == nil && !(ok && format.AllZero(slot[format.ClaimLen:]) || format.AllZero(slot)) {
			err = bad(int64(off), "a claim or zeros", "something else")
		}
	}
	return err
}

// DropClaim removes the claim of a data directory durably, as its log is about to end before it, or does already. The
// log must not be open.
func DropClaim(fsys vfs.FS, dir string) error {
	if err := RemoveClaim(fsys, dir); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// RemoveClaim is DropClaim for a caller that syncs the directory.
func RemoveClaim(fsys vfs.FS, dir string) error {
	return vfs.RemoveIfThere(fsys, format.ClaimPath(dir))
}

// ClaimFile writes the file DURABLE of an open log. NOT safe for concurrent use.
type ClaimFile struct {
	FS     vfs.FS
	Dir    string
	file   vfs.File // nil: not open
	number uint64   // of the newest claim in the file
}

// Write makes a claim durable. After an error the descriptor is not used again.
func (c *ClaimFile) Write(claim format.Claim) error {
	return c.write(claim, format.ClaimLen)
}

// Rewrite writes a claim into every slot, and zeros behind it, as the file was damaged, or is another than the open one.
func (c *ClaimFile) Rewrite(claim format.Claim) error {
	err := c.Close()
	for range format.ClaimSlots {
		if err == nil {
			err = c.write(claim, format.ClaimSlotLen)
		}
	}
	return err
}

// write writes a claim, and zeros up to n bytes.
func (c *ClaimFile) write(claim format.Claim, n int) error {
	err := c.open()
	if err == nil {
		number := c.number + 1
		slot := append(format.AppendClaim(nil, number, claim), make([]byte, n-format.ClaimLen)...)
		_, err = c.file.WriteAt(slot, int64(number%format.ClaimSlots)*format.ClaimSlotLen)
		if err == nil {
			err = c.file.Sync()
		}
		if err == nil {
			c.number = number
			return nil
		}
	}
	return fmt.Errorf("%s: %w", format.ClaimPath(c.Dir), errors.Join(err, c.Close()))
}

// open opens the file, and makes it where there is none of the right size: its blocks are then on the disk, and later
// syncs change no metadata.
func (c *ClaimFile) open() (err error) {
	if c.file != nil {
		return nil
	}
	name := format.ClaimPath(c.Dir)
	info, err := c.FS.Stat(name)
	if vfs.IsNotExist(err) || err == nil && info.Size() != format.ClaimFileLen {
		err = vfs.WriteFileAtomic(c.FS, name, make([]byte, format.ClaimFileLen))
	}
	if err != nil {
		return err
	}
	if c.file, err = c.FS.OpenRW(name); err != nil {
		c.file = nil
		return err
	}
	c.number, _, err = readClaimFile(c.file, name)
	return err
}

func (c *ClaimFile) Close() error {
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	c.file = nil
	return err
}
