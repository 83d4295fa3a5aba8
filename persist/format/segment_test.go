package format

import (
	"encoding/binary"
	"testing"
)

// TestPackedVersionWithoutFlag: a whole header of version 6 without the flag of a packed segment is damage. It is no newer
// version: this program writes version 6.
func TestPackedVersionWithoutFlag(t *testing.T) {
	h := SegmentHeader{History: testHistory, Start: 100, Durable: 100, Size: 4096}
	b := AppendPackedHeader(nil, h, 200, false)
	flags := binary.LittleEndian.Uint16(b[10:])
	binary.LittleEndian.PutUint16(b[10:], flags&^segmentFlagPack)
	binary.LittleEndian.PutUint32(b[60:], Checksum(b[:60]))
	if _, fault, err := DecodeSegmentHeader(b, "100.aof", 100); err != nil || fault == nil {
		t.Errorf("got fault %v and error %v, want a fault", fault, err)
	}
	binary.LittleEndian.PutUint16(b[8:], PackedVersion+1)
	binary.LittleEndian.PutUint32(b[60:], Checksum(b[:60]))
	if _, fault, err := DecodeSegmentHeader(b, "100.aof", 100); err == nil || fault != nil {
		t.Errorf("got fault %v and error %v of version 7, want a VersionError", fault, err)
	}
}
