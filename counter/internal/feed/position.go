package feed

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

// Position is a place between two changes of a log. The zero value is none.
//
// Invariants: the byte before Offset is of Term. Into is 0 where no frame begins before the position that ends behind it.
type Position struct {
	Frame uint64 // log offset where the next frame begins, or the one in which the position lies
	Into  uint32 // bytes of that frame that lie before the position

	Term  TermID // whose last byte stands before the position
	Epoch uint32 // of that term

	Before TermID // the term before that one; the zero value: none is known
	Since  uint64 // log offset where Term begins and Before ends

	Coming slot.Set // groups of hash slots that are on their way here at the position: see package replica
}

// TermID is the beginning of a term's replication id. 64 random bits are enough to tell the terms of a log apart.
type TermID [8]byte

func termID(id format.ReplID) (t TermID) { return TermID(id[:len(t)]) }

// Offset is the log offset behind the last change before the position.
func (p *Position) Offset() uint64 { return p.Frame + uint64(p.Into) }

// IsZero tells whether it is no position.
func (p *Position) IsZero() bool { return *p == Position{} }

// The text of a position, which is a format that consumers keep:
//
//	1-<term>-<epoch>-<frame>[+<into>][-<before>-<since>][-g<groups>]-<check>
//
// term and before have 16 hexadecimal digits, numbers are decimal without leading zeros, groups are 64 hexadecimal digits: the
// words of slot.Set in little-endian. The fields before and since are absent where Before is zero, groups where Coming is
// empty. check is 4 hexadecimal digits: the low 16 bits of the CRC-32C of all that stands before the last hyphen. It keeps
// mistakes out; it is no secret.
const positionVersion = "1"

// String is the text, about 60 bytes.
func (p Position) String() string { return string(p.AppendText(nil)) }

// AppendText appends the text to dst.
func (p *Position) AppendText(dst []byte) []byte {
	var w Writer
	return w.Append(dst, p)
}

// Writer writes many positions. It encodes once the fields that neighbours share.
type Writer struct {
	of         Position // whose head and tail these are; Into does not count
	head, tail []byte   // up to frame, and from behind into up to the last hyphen
	base       int      // bytes of head before frame
	sum        uint32   // checksum of head
}

// Append appends the text of p to dst.
func (w *Writer) Append(dst []byte, p *Position) []byte {
	if w.head == nil || w.of.Frame != p.Frame || w.of.Term != p.Term || w.of.Epoch != p.Epoch || w.of.Before != p.Before || w.of.Since != p.Since || w.of.Coming != p.Coming {
		w.prepare(p)
	}
	dst = append(dst, w.head...)
	at := len(dst)
	if p.Into > 0 {
		dst = append(dst, '+')
		dst = strconv.AppendUint(dst, uint64(p.Into), 10)
	}
	dst = append(dst, w.tail...)
	sum := uint16(crc32.Update(w.sum, format.Castagnoli, dst[at:]))
	const digits = "0123456789abcdef"
	return append(dst, '-', digits[sum>>12], digits[sum>>8&15], digits[sum>>4&15], digits[sum&15])
}

// prepare makes head and tail those of p.
func (w *Writer) prepare(p *Position) {
	other := w.of
	other.Frame, other.Into = p.Frame, p.Into
	if w.head == nil || other != *p {
		w.prepareTerms(p)
	}
	w.of = *p
	w.head = strconv.AppendUint(w.head[:w.base], p.Frame, 10)
	w.sum = format.Checksum(w.head)
}

// prepareTerms encodes the fields that are the same in many frames.
func (w *Writer) prepareTerms(p *Position) {
	w.head = append(w.head[:0], positionVersion+"-"...)
	w.head = hex.AppendEncode(w.head, p.Term[:])
	w.head = append(w.head, '-')
	w.head = strconv.AppendUint(w.head, uint64(p.Epoch), 10)
	w.head = append(w.head, '-')
	w.base = len(w.head)
	w.tail = w.tail[:0]
	if p.Before != (TermID{}) {
		w.tail = append(w.tail, '-')
		w.tail = hex.AppendEncode(w.tail, p.Before[:])
		w.tail = append(w.tail, '-')
		w.tail = strconv.AppendUint(w.tail, p.Since, 10)
	}
	if p.Coming != (slot.Set{}) {
		w.tail = append(w.tail, "-g"...)
		for _, word := range p.Coming {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], word)
			w.tail = hex.AppendEncode(w.tail, b[:])
		}
	}
}

// MaxPositionText bounds the text of a position, in bytes.
const MaxPositionText = 256

// ParsePosition is the inverse of String. The error is a *MalformedError.
func ParsePosition(text string) (p Position, err error) {
	bad := func(why string) (Position, error) { return Position{}, &MalformedError{clip(text), why} }
	if len(text) > MaxPositionText {
		return bad("it is longer than " + strconv.Itoa(MaxPositionText) + " bytes")
	}
	version, _, _ := strings.Cut(text, "-")
	if version != positionVersion {
		return bad("it does not begin with " + positionVersion + "-")
	}
	words := strings.Split(text, "-")
	ok := len(words) >= 5
	if ok {
		ok = parseTerm(words[1], &p.Term) && parse32(words[2], &p.Epoch)
		frame, into, inside := strings.Cut(words[3], "+")
		ok = ok && parse64(frame, &p.Frame) && (!inside || parse32(into, &p.Into))
		words = words[4 : len(words)-1]
	}
	if ok && len(words) >= 2 && !strings.HasPrefix(words[0], "g") {
		ok = parseTerm(words[0], &p.Before) && parse64(words[1], &p.Since)
		words = words[2:]
	}
	if ok && len(words) == 1 {
		ok = parseGroups(words[0], &p.Coming)
		words = nil
	}
	if !ok || len(words) > 0 {
		return bad("its fields are not those of a position")
	}
	if string(p.AppendText(nil)) != text {
		return bad("its checksum does not fit")
	}
	return p, nil
}

func parseTerm(word string, t *TermID) bool {
	if len(word) != 2*len(t) {
		return false
	}
	_, err := hex.Decode(t[:], []byte(word))
	return err == nil
}

func parse64(word string, v *uint64) bool {
	n, err := strconv.ParseUint(word, 10, 63)
	*v = n
	return err == nil
}

func parse32(word string, v *uint32) bool {
	n, err := strconv.ParseUint(word, 10, 32)
	*v = uint32(n)
	return err == nil
}

func parseGroups(word string, set *slot.Set) bool {
	var b [32]byte
	if len(word) != 1+2*len(b) || word[0] != 'g' {
		return false
	}
	_, err := hex.Decode(b[:], []byte(word[1:]))
	for i := range set {
		set[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return err == nil
}

// clip is as much of a text as an error repeats.
func clip(text string) string {
	if len(text) > 100 {
		return text[:100] + "..."
	}
	return text
}
