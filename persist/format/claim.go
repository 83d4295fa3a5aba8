package format

import (
	"encoding/binary"
	"path/filepath"
)

// Claim is what the file DURABLE of a data directory says: all bytes of this directory's log below Offset were durable.
// A log that ends before it was damaged, also where no frame and no header says so: a replica's frames carry the claims
// of another disk, behind the last sync of a primary that has nothing more to do comes no frame, and a last segment that is gone
// has taken its frames and its header with it. So the file is written each second in which the log has grown.
type Claim struct {
	Offset uint64
	ReplID ReplID // of the term in force when the claim was made
	// Closed tells that the log was closed there: in this term it never had more.
	Closed bool
}

// The file DURABLE has two slots, at 0 and at 4096, each with a claim:
//
//	 0        8         12          16         24         32        52       56
//	+--------+---------+-----------+----------+----------+---------+--------+
//	| magic  | version | closed    | number   | offset   | replid  | crc32c |
//	+--------+---------+-----------+----------+----------+---------+--------+
//	  u64      u32       u32         u64        u64        20        u32
//
// Little-endian; the rest of each 4096 bytes is zero. closed is 1 if the log
// was closed, and else 0, which earlier versions write always. number counts the claims of the file: claim n stands in slot n
// mod 2, so that a write never touches the newest claim, and a crash leaves one of the two. The valid slot with the
// higher number counts. crc32c covers the 52 bytes before it. A slot that is not valid is none, and a file without a
// valid slot is as no file: a start then believes the claims of frames and headers alone.
//
// # Order
//
// A claim is written only after the sync of the log that it speaks of returned. Code that removes bytes from the end of the
// log (finishCut, wipe, and tools by DropClaim) first removes the file, durably. Within one process the durable offset
// never falls.
//
// A claim counts for the log of its history alone: while HISTORY has terms, one of them must be the claim's, and the
// claim counts up to the end of that term. What is behind the end are the bytes of another term: a program that does not
// know this file, or a copy of another state, has cut the log.
const (
	ClaimName     = "DURABLE"
	claimMagic    = "CTRDDURA"
	ClaimVersion  = 1
	ClaimLen      = 56
	ClaimSlotLen  = 4096
	ClaimFileLen  = 2 * ClaimSlotLen
	ClaimSlots    = 2
	ClaimChecksum = ClaimLen - 4
)

// ClaimPath returns the path of the file DURABLE.
func ClaimPath(dir string) string { return filepath.Join(dir, ClaimName) }

// AppendClaim appends the 56 bytes of a slot.
func AppendClaim(dst []byte, number uint64, c Claim) []byte {
	n := len(dst)
	dst = append(dst, claimMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, ClaimVersion)
	closed := uint32(0)
	if c.Closed {
		closed = 1
	}
	dst = binary.LittleEndian.AppendUint32(dst, closed)
	dst = binary.LittleEndian.AppendUint64(dst, number)
	dst = binary.LittleEndian.AppendUint64(dst, c.Offset)
	dst = append(dst, c.ReplID[:]...)
	return binary.LittleEndian.AppendUint32(dst, Checksum(dst[n:]))
}

// DecodeClaim is the inverse of AppendClaim. ok is false where there is no claim.
func DecodeClaim(b []byte, name string) (number uint64, c Claim, ok bool, err error) {
	if len(b) < ClaimLen || string(b[:8]) != claimMagic || binary.LittleEndian.Uint32(b[ClaimChecksum:]) != Checksum(b[:ClaimChecksum]) {
		return 0, c, false, nil
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != ClaimVersion {
		return 0, c, false, &VersionError{File: name, Found: v, Oldest: ClaimVersion, Newest: ClaimVersion}
	}
	c.Offset = binary.LittleEndian.Uint64(b[24:])
	copy(c.ReplID[:], b[32:])
	c.Closed = binary.LittleEndian.Uint32(b[12:]) == 1
	return binary.LittleEndian.Uint64(b[16:]), c, true, nil
}

// WholeClaims returns the claims of a DURABLE file that may be damaged, as far as they can be read.
func WholeClaims(file []byte) (list []Claim) {
	for ; len(file) >= ClaimSlotLen; file = file[ClaimSlotLen:] {
		if _, c, ok, err := DecodeClaim(file[:ClaimSlotLen], ClaimName); ok && err == nil {
			list = append(list, c)
		}
	}
	return list
}
