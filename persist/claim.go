package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/counterd/counterd/persist/vfs"
)

// Claim is what the file DURABLE of a data directory says: all bytes of this directory's log below Offset were durable.
// A log that ends before it was damaged, also where no frame and no header says so: a replica's frames carry the claims
// of another disk, and behind the last sync of a primary that has nothing more to do comes no frame.
type Claim struct {
	Offset uint64
	ReplID ReplID // of the term in force when the claim was made
}

// The file DURABLE has two slots, at 0 and at 4096, each with a claim:
//
//	 0        8         12          16         24         32        52       56
//	+--------+---------+-----------+----------+----------+---------+--------+
//	| magic  | version | zero      | number   | offset   | replid  | crc32c |
//	+--------+---------+-----------+----------+----------+---------+--------+
//	  u64      u32       u32         u64        u64        20        u32
//
// Little-endian; the rest of each 4096 bytes is zero. number counts the claims of the file: claim n stands in slot n
// mod 2, so that a write never touches the newest claim, and a crash leaves one of the two. The valid slot with the
// higher number counts. crc32c covers the 52 bytes before it. A slot that is not valid is none, and a file without a
// valid slot is as no file: a start then believes the claims of frames and headers alone.
//
// # Order
//
// A claim is written only after the sync of the log that it speaks of returned. Whoever takes bytes from the end of the
// log (finishCut, wipe, and tools by DropClaim) drops the file durably before the log's new end can count. Within one
// process the durable offset never falls.
//
// A claim counts for the log of its history alone: while HISTORY has terms, one of them must be the claim's, and the
// claim counts up to the end of that term. What is behind the end are the bytes of another term: a program that does not
// know this file, or a copy of another state, has cut the log.
const (
	claimName     = "DURABLE"
	claimMagic    = "CTRDDURA"
	claimVersion  = 1
	claimLen      = 56
	claimSlotLen  = 4096
	claimFileLen  = 2 * claimSlotLen
	claimSlots    = 2
	claimChecksum = claimLen - 4
)

// ClaimPath returns the path of the file DURABLE.
func ClaimPath(dir string) string { return filepath.Join(dir, claimName) }

// appendClaim appends the 56 bytes of a slot.
func appendClaim(dst []byte, number uint64, c Claim) []byte {
	n := len(dst)
	dst = append(dst, claimMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, claimVersion)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint64(dst, number)
	dst = binary.LittleEndian.AppendUint64(dst, c.Offset)
	dst = append(dst, c.ReplID[:]...)
	return binary.LittleEndian.AppendUint32(dst, crc32c(dst[n:]))
}

// decodeClaim is the inverse of appendClaim. ok is false where there is no claim.
func decodeClaim(b []byte, name string) (number uint64, c Claim, ok bool, err error) {
	if len(b) < claimLen || string(b[:8]) != claimMagic || binary.LittleEndian.Uint32(b[claimChecksum:]) != crc32c(b[:claimChecksum]) {
		return 0, c, false, nil
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != claimVersion {
		return 0, c, false, &VersionError{File: name, Found: v, Oldest: claimVersion, Newest: claimVersion}
	}
	c.Offset = binary.LittleEndian.Uint64(b[24:])
	copy(c.ReplID[:], b[32:])
	return binary.LittleEndian.Uint64(b[16:]), c, true, nil
}

// readClaimFile returns the newest claim of an open file; number is 0 where there is none.
func readClaimFile(f vfs.File, name string) (number uint64, c Claim, err error) {
	for slot := range claimSlots {
		b, err := readAtMost(f, make([]byte, claimLen), int64(slot)*claimSlotLen)
		if err != nil {
			return 0, Claim{}, err
		}
		n, found, ok, err := decodeClaim(b, name)
		if err != nil {
			return 0, Claim{}, err
		}
		if ok && n > number {
			number, c = n, found
		}
	}
	return number, c, nil
}

// ReadClaim returns the claim of a data directory. The zero value: there is none that counts. A version that is not
// known gives ErrUnsupportedFormat. Of a directory in use it must be read before the log is listed.
func ReadClaim(fsys vfs.FS, dir string) (c Claim, err error) {
	name := ClaimPath(dir)
	f, err := fsys.Open(name)
	if isNotExist(err) {
		return Claim{}, nil
	}
	if err != nil {
		return Claim{}, err
	}
	_, c, err = readClaimFile(f, name)
	if err = errors.Join(err, f.Close()); err != nil {
		return Claim{}, err
	}
	past, err := ReadLineage(fsys, dir)
	if errors.Is(err, ErrCorrupt) {
		return c, nil // nobody opens the log until that is mended
	}
	if err != nil {
		return Claim{}, err
	}
	if len(past.Terms) == 0 {
		return c, nil
	}
	i := slices.IndexFunc(past.Terms, func(t Term) bool { return t.ReplID == c.ReplID })
	if i < 0 {
		return Claim{}, nil
	}
	c.Offset = min(c.Offset, past.end(i, c.Offset))
	return c, nil
}

// VerifyClaim returns a *CorruptError if a slot of the file DURABLE is damaged. That does no harm: see above.
func VerifyClaim(fsys vfs.FS, dir string) error {
	name := ClaimPath(dir)
	b, err := vfs.ReadFile(fsys, name, claimFileLen)
	if isNotExist(err) || err == nil && len(b) == 0 {
		return nil
	}
	bad := func(off int64, want, got string) error {
		return &CorruptError{File: name, Offset: off, Want: want, Got: got}
	}
	if errors.Is(err, vfs.ErrTooLarge) || err == nil && len(b) != claimFileLen {
		return bad(int64(len(b)), fmt.Sprintf("%d bytes", claimFileLen), "another length")
	}
	for off := 0; err == nil && off < len(b); off += claimSlotLen {
		slot := b[off : off+claimSlotLen]
		var ok bool
		if _, _, ok, err = decodeClaim(slot, name); err == nil && !(ok && allZero(slot[claimLen:]) || allZero(slot)) {
			err = bad(int64(off), "a claim or zeros", "something else")
		}
	}
	return err
}

// DropClaim removes the claim of a data directory durably, as its log is about to end before it, or does already. The
// log must not be open.
func DropClaim(fsys vfs.FS, dir string) error {
	if err := removeClaim(fsys, dir); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// removeClaim is DropClaim for a caller that syncs the directory.
func removeClaim(fsys vfs.FS, dir string) error { return removeIfThere(fsys, ClaimPath(dir)) }

// claimFile writes the file DURABLE of an open log. NOT safe for concurrent use.
type claimFile struct {
	fsys   vfs.FS
	dir    string
	file   vfs.File // nil: not open
	number uint64   // of the newest claim in the file
}

// write makes a claim durable. After an error the descriptor is not used again.
func (c *claimFile) write(claim Claim) error {
	err := c.open()
	if err == nil {
		number := c.number + 1
		_, err = c.file.WriteAt(appendClaim(nil, number, claim), int64(number%claimSlots)*claimSlotLen)
		if err == nil {
			err = c.file.Sync()
		}
		if err == nil {
			c.number = number
			return nil
		}
	}
	return fmt.Errorf("%s: %w", ClaimPath(c.dir), errors.Join(err, c.close()))
}

// open opens the file, and makes it where there is none of the right size: its blocks are then on the disk, and later
// syncs change no metadata.
func (c *claimFile) open() (err error) {
	if c.file != nil {
		return nil
	}
	name := ClaimPath(c.dir)
	info, err := c.fsys.Stat(name)
	if isNotExist(err) || err == nil && info.Size() != claimFileLen {
		err = vfs.WriteFileAtomic(c.fsys, name, make([]byte, claimFileLen))
	}
	if err != nil {
		return err
	}
	if c.file, err = c.fsys.OpenRW(name); err != nil {
		c.file = nil
		return err
	}
	c.number, _, err = readClaimFile(c.file, name)
	return err
}

func (c *claimFile) close() error {
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	c.file = nil
	return err
}

// judgeClaim asks for a claim where nothing else will vouch for what is durable: no frame was synced since the last time
// it was asked, or frames carry the claims of another disk. REQUIRES: mu; asked once each SyncEvery, behind the sync.
func (l *Log) judgeClaim() {
	durable := l.durable.Load()
	still := durable == l.durableBefore
	l.durableBefore = durable
	if durable > l.claimed && (still || l.files.history.Replica) && !l.wantClaim {
		l.wantClaim = true
		wake(l.prepare)
	}
}

// makeClaim writes the claim that is asked for. REQUIRES: one caller at a time.
func (l *Log) makeClaim() {
	l.mu.Lock()
	want := l.wantClaim && !l.closed && l.refusals[reasonGone] == nil
	l.wantClaim = false
	claim := Claim{l.durable.Load(), l.files.history.ReplID}
	l.mu.Unlock()
	if !want {
		return
	}
	err := l.claims.write(claim)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claimMade(claim, err)
}

// claimMade takes down how writing a claim went. A disk that does not take it takes no log either, so that alone is
// trouble. REQUIRES: mu.
func (l *Log) claimMade(claim Claim, err error) {
	switch {
	case err == nil:
		l.claimed = claim.Offset
	case !l.claimFailed:
		l.opts.Logger.Warn("cannot record the durable log offset; damage of the newest records may be treated as a torn tail", "error", err)
	}
	l.claimFailed = err != nil
}
