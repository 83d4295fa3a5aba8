package sinks

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// frames is the form of a compressed file. zstd reads it as any other file, and skips frames that it does not know.
//
//	a new file      trailer, without a frame and a position
//	each batch      frame of zstd: its lines; trailer
//
//	trailer         0x184D2A5C   4 bytes   a frame that decoders skip
//	                size         4         of all that follows
//	                position     n
//	                n            2
//	                length       8         of the frame of zstd in front
//	                checksum     4         CRC-32C of that frame and of the position
//	                mark         8         "CNTRFEED"
//
// Numbers are little-endian. The last trailer whose checksum fits ends the file: a batch that was torn has none.
type frames struct {
	name string
	zstd *zstd.Encoder
}

const (
	skipped     = 0x184D2A5C
	trailerMark = "CNTRFEED"
	trailerTail = 2 + 8 + 4 + len(trailerMark)
	trailerHead = 4 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newFrames(name string) (*frames, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	return &frames{name, e}, err
}

func (*frames) head() []byte { return appendTrailer(nil, 0, "") }

func (f *frames) pack(dst []byte, b *Batch) []byte {
	from := len(dst)
	dst = f.zstd.EncodeAll(b.Text, dst)
	return appendTrailer(dst, len(dst)-from, b.Position())
}

// appendTrailer appends the trailer of a frame, whose last bytes are those of dst.
func appendTrailer(dst []byte, length int, position string) []byte {
	check := crc32.Checksum(dst[len(dst)-length:], castagnoli)
	check = crc32.Update(check, castagnoli, []byte(position))
	dst = binary.LittleEndian.AppendUint32(dst, skipped)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(position)+trailerTail))
	dst = append(dst, position...)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(position)))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(length))
	dst = binary.LittleEndian.AppendUint32(dst, check)
	return append(dst, trailerMark...)
}

func (f *frames) tail(file *os.File, size int64) (end int64, position string, err error) {
	if head := f.head(); size <= int64(len(head)) { // new, or killed while it was made
		start := make([]byte, size)
		if _, err := file.ReadAt(start, 0); err != nil && err != io.EOF {
			return 0, "", err
		}
		if bytes.Equal(start, head) {
			return size, "", nil
		}
		if bytes.HasPrefix(head, bytes.TrimRight(start, "\x00")) {
			return 0, "", nil
		}
	}
	const step = 1 << 20
	buf := make([]byte, min(size, step+int64(len(trailerMark))))
	for hi := size; hi > max(0, size-window); hi -= step {
		lo := max(0, hi-step)
		part := buf[:min(hi+int64(len(trailerMark))-1, size)-lo] // with the beginning of the part behind, where a mark may end
		if _, err := file.ReadAt(part, lo); err != nil {
			return 0, "", err
		}
		for {
			i := bytes.LastIndex(part, []byte(trailerMark))
			if i < 0 {
				break
			}
			end := lo + int64(i+len(trailerMark))
			position, ok, err := trailerAt(file, end)
			if ok || err != nil {
				return end, position, err
			}
			part = part[:i+len(trailerMark)-1]
		}
	}
	return 0, "", &ForeignError{f.name, "no batch of changes ends in it"}
}

// trailerAt reads the trailer that ends at an offset. It is false where the frame in front is not whole.
func trailerAt(file *os.File, end int64) (position string, ok bool, err error) {
	var tail [trailerTail]byte
	if end < int64(trailerHead+trailerTail) {
		return "", false, nil
	}
	if _, err := file.ReadAt(tail[:], end-int64(len(tail))); err != nil {
		return "", false, err
	}
	n := int64(binary.LittleEndian.Uint16(tail[:]))
	length := binary.LittleEndian.Uint64(tail[2:])
	begin := end - int64(trailerHead+trailerTail) - n // of the trailer
	if begin < 0 || length > uint64(begin) {
		return "", false, nil
	}
	text := make([]byte, trailerHead+n)
	if _, err := file.ReadAt(text, begin); err != nil {
		return "", false, err
	}
	head, text := text[:trailerHead], text[trailerHead:]
	if binary.LittleEndian.Uint32(head) != skipped || binary.LittleEndian.Uint32(head[4:]) != uint32(n)+uint32(trailerTail) {
		return "", false, nil
	}
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, io.NewSectionReader(file, begin-int64(length), int64(length))); err != nil {
		return "", false, err
	}
	_, _ = sum.Write(text)
	return string(text), sum.Sum32() == binary.LittleEndian.Uint32(tail[2+8:]), nil
}
