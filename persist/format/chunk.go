package format

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// A chunk of a packed segment (packed.go) is a stretch of the log, whole frames, behind a header:
//
//	 0        4        8        12               20       24       28       32
//	+--------+--------+--------+----------------+--------+--------+--------+--------+
//	| stored | plain  | raw    | start          | crc32c | crc32c | crc32c | zstd   |
//	+--------+--------+--------+----------------+--------+--------+--------+--------+
//	  u32      u32      u32      u64              stored   raw      header   stored bytes
//
// Little-endian. start is the log offset of the first frame, raw how many bytes of the log the chunk holds, with the
// crc32c of these bytes; stored is what they take here, with that crc32c; the header's covers the 28 bytes before it.
//
// stored is one zstd frame of plain bytes. Those say all that the frames of the log say, and leave out what follows from
// the rest: the checksum, which no encoder makes smaller, and the start. First the heads of all frames, then the
// records of all of them, one behind the other:
//
//	frames v | bytes of heads v | frames x (length v << 1 | whole) (durable z) (time z) (epoch z) | records
//
// v is a base-128 varint, z one in zigzag (encoding/binary) of the difference to the frame before; of the first, to
// start, 0 and 0. So a log of single INCRs takes 2.7 bytes an INCR in place of 48 (and 11.1 with zstd alone), one of
// pipelines of 64 takes 2.4 in place of 13.6 (2.7): 105,015 reposts as they came in.
const (
	ChunkHeaderLen = 32

	// ChunkLen is how many bytes of the log make a chunk: the chunk ends with the first frame that reaches this length. To pack one takes
	// 0.3 ms and more, in which a server with one processor serves nobody. With chunks of 128 KiB, as older programs make them, the log
	// of real reposts takes 1.5 % less, and 2 % less with chunks of 256 KiB; that of BenchmarkPack takes 5 to 7 % less with 128 KiB.
	ChunkLen = 64 << 10
	// maxChunkLen is the largest ChunkLen that a program has had.
	maxChunkLen = 128 << 10

	// What a header can make a reader allocate.
	MaxPackRaw    = maxChunkLen + FrameHeaderLen + MaxFramePayload
	MaxPackPlain  = MaxPackRaw + 2*binary.MaxVarintLen64 // the head of a frame has 36 bytes, and 34 here at most
	MaxPackStored = MaxPackPlain + MaxPackPlain>>7 + 64
)

// ChunkHeader is the decoded header of a chunk.
type ChunkHeader struct {
	Stored, plain, Raw uint32
	Start              uint64
	storedSum, rawSum  uint32
}

// AppendTo appends the 32 bytes to dst.
func (h *ChunkHeader) appendTo(dst []byte) []byte {
	n := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, h.Stored)
	dst = binary.LittleEndian.AppendUint32(dst, h.plain)
	dst = binary.LittleEndian.AppendUint32(dst, h.Raw)
	dst = binary.LittleEndian.AppendUint64(dst, h.Start)
	dst = binary.LittleEndian.AppendUint32(dst, h.storedSum)
	dst = binary.LittleEndian.AppendUint32(dst, h.rawSum)
	return binary.LittleEndian.AppendUint32(dst, Checksum(dst[n:]))
}

// DecodeChunkHeader reads a header. Its sizes are within the limits.
func DecodeChunkHeader(b []byte) (h ChunkHeader, fault *Fault) {
	if len(b) < ChunkHeaderLen {
		return h, &Fault{Want: fmt.Sprintf("the header of a packed chunk, %d bytes", ChunkHeaderLen), Got: fmt.Sprint(len(b))}
	}
	b = b[:ChunkHeaderLen]
	if want, got := binary.LittleEndian.Uint32(b[28:]), Checksum(b[:28]); want != got {
		return h, &Fault{Want: fmt.Sprintf("packed chunk with header crc32c %08x", want), Got: fmt.Sprintf("%08x", got)}
	}
	h.Stored = binary.LittleEndian.Uint32(b)
	h.plain = binary.LittleEndian.Uint32(b[4:])
	h.Raw = binary.LittleEndian.Uint32(b[8:])
	h.Start = binary.LittleEndian.Uint64(b[12:])
	h.storedSum = binary.LittleEndian.Uint32(b[20:])
	h.rawSum = binary.LittleEndian.Uint32(b[24:])
	if h.Raw < FrameHeaderLen || h.Raw > MaxPackRaw || h.plain > MaxPackPlain || h.Stored > MaxPackStored {
		return h, &Fault{Want: fmt.Sprintf("a packed chunk of at most %d bytes of the log, %d plain and %d stored", MaxPackRaw, MaxPackPlain, MaxPackStored),
			Got: fmt.Sprintf("%d, %d, %d", h.Raw, h.plain, h.Stored)}
	}
	return h, nil
}

// ChunkPacker packs chunks. NOT safe for concurrent use; it keeps about 1 MiB of memory.
type ChunkPacker struct {
	enc          *zstd.Encoder
	proof        ChunkUnpacker
	plain, again []byte
	heads        []byte
}

// NewChunkPacker returns a packer at zstd's fastest level: the next one takes 1.3 to 1.9 times the time, and 4 % more
// bytes for the real log than less; s2 takes 2 times the bytes and half of the time.
func NewChunkPacker() (*ChunkPacker, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false), zstd.WithAllLitEntropyCompression(true), zstd.WithWindowSize(ChunkLen<<1))
	if err != nil {
		return nil, err
	}
	return &ChunkPacker{enc: enc}, nil
}

// AppendChunk appends the chunk of whole, valid frames that begin at a log offset to dst. What it appends was unpacked
// again and compared.
func (p *ChunkPacker) AppendChunk(dst, raw []byte, start uint64) ([]byte, error) {
	p.appendPlain(raw, start)
	head := len(dst)
	dst = append(dst, make([]byte, ChunkHeaderLen)...)
	dst = p.enc.EncodeAll(p.plain, dst)
	stored := dst[head+ChunkHeaderLen:]
	h := ChunkHeader{Stored: uint32(len(stored)), plain: uint32(len(p.plain)), Raw: uint32(len(raw)), Start: start,
		storedSum: Checksum(stored), rawSum: Checksum(raw)}
	h.appendTo(dst[head:head])
	var fault *Fault
	if p.again, fault = p.proof.Unpack(p.again[:0], dst[head:]); fault != nil {
		return dst[:head], fmt.Errorf("packed log at offset %d: want %s, got %s", start, fault.Want, fault.Got)
	}
	return dst, nil
}

// appendPlain makes plain the plain bytes of frames.
func (p *ChunkPacker) appendPlain(raw []byte, start uint64) {
	frames, heads := uint64(0), p.heads[:0]
	durable, time, epoch := start, int64(0), int64(0)
	for b := raw; len(b) > 0; frames++ {
		n := FramePayloadLen(b)
		length := uint64(n) << 1
		if FrameWhole(b) {
			length |= 1
		}
		d, t, e := binary.LittleEndian.Uint64(b[16:]), int64(binary.LittleEndian.Uint64(b[24:])), int64(binary.LittleEndian.Uint32(b[32:]))
		heads = binary.AppendUvarint(heads, length)
		heads = binary.AppendVarint(heads, int64(d-durable)) // may wrap, and wraps back
		heads = binary.AppendVarint(heads, t-time)
		heads = binary.AppendVarint(heads, e-epoch)
		durable, time, epoch = d, t, e
		b = b[FrameHeaderLen+int(n):]
	}
	plain := binary.AppendUvarint(p.plain[:0], frames)
	plain = binary.AppendUvarint(plain, uint64(len(heads)))
	plain = append(plain, heads...)
	for b := raw; len(b) > 0; {
		n := FrameHeaderLen + int(FramePayloadLen(b))
		plain = append(plain, b[FrameHeaderLen:n]...)
		b = b[n:]
	}
	p.plain, p.heads = plain, heads
}

// unpackers are decoders of zstd that nobody uses just now.
var unpackers = sync.Pool{New: func() any {
	// Never more than what it is given, whatever the bytes say.
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(MaxPackPlain),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options above are valid
	}
	return d
}}

// UnpackSlack is room behind the plain bytes with which the decoder need not look for their end at each step.
const UnpackSlack = 64

// ChunkUnpacker unpacks chunks. Its zero value is ready; NOT safe for concurrent use.
type ChunkUnpacker struct {
	Plain []byte
}

// Unpack appends the frames of the chunk at the start of b to dst. Anything but a whole chunk gives a fault.
func (u *ChunkUnpacker) Unpack(dst, b []byte) ([]byte, *Fault) {
	h, fault := DecodeChunkHeader(b)
	if fault != nil {
		return dst, fault
	}
	stored := b[ChunkHeaderLen:]
	if uint64(len(stored)) < uint64(h.Stored) {
		return dst, &Fault{Want: fmt.Sprintf("a packed chunk of %d bytes", h.Stored), Got: fmt.Sprint(len(stored))}
	}
	stored = stored[:h.Stored]
	if got := Checksum(stored); got != h.storedSum {
		return dst, &Fault{Want: fmt.Sprintf("packed chunk with crc32c %08x", h.storedSum), Got: fmt.Sprintf("%08x", got)}
	}
	room := int(h.plain) + UnpackSlack
	if cap(u.Plain) < room {
		u.Plain = make([]byte, 0, room)
	}
	d := unpackers.Get().(*zstd.Decoder)
	plain, err := d.DecodeAll(stored, u.Plain[:0:room])
	unpackers.Put(d)
	if err != nil {
		return dst, &Fault{Want: "a packed chunk", Got: err.Error()}
	}
	if len(plain) != int(h.plain) {
		return dst, &Fault{Want: fmt.Sprintf("a packed chunk of %d plain bytes", h.plain), Got: fmt.Sprint(len(plain))}
	}
	n := len(dst)
	dst, ok := appendFrames(dst, plain, h.Start, int(h.Raw))
	if !ok {
		return dst[:n], &Fault{Want: fmt.Sprintf("frames of %d bytes in a packed chunk", h.Raw), Got: "something else"}
	}
	if got := Checksum(dst[n:]); got != h.rawSum {
		return dst[:n], &Fault{Want: fmt.Sprintf("frames with crc32c %08x in a packed chunk", h.rawSum), Got: fmt.Sprintf("%08x", got)}
	}
	return dst, nil
}

// appendFrames is the inverse of appendPlain: it appends size bytes of frames from a log offset on. Other plain bytes
// than those of size bytes give ok false.
func appendFrames(dst, plain []byte, start uint64, size int) (_ []byte, ok bool) {
	heads := numbers{rest: plain}
	frames := heads.next()
	n := heads.next()
	if heads.bad || frames > uint64(size/FrameHeaderLen) || n > uint64(len(heads.rest)) {
		return dst, false
	}
	records := heads.rest[n:]
	heads.rest = heads.rest[:n]
	at, durable, time, epoch := start, start, int64(0), int64(0)
	for range frames {
		length := heads.next()
		durable += uint64(zigzag(heads.next()))
		time += zigzag(heads.next())
		epoch += zigzag(heads.next())
		n := int(length >> 1)
		if length > MaxFramePayload<<1|1 || heads.bad || n > len(records) || epoch != int64(uint32(epoch)) {
			return dst, false
		}
		if size -= FrameHeaderLen + n; size < 0 {
			return dst, false
		}
		begin := len(dst)
		dst = append(dst, emptyHeader[:]...)
		dst = append(dst, records[:n]...)
		PutFrameHeader(dst[begin:], length&1 != 0, at, durable, time, uint32(epoch))
		records = records[n:]
		at += uint64(FrameHeaderLen + n)
	}
	return dst, size == 0 && len(records) == 0 && len(heads.rest) == 0
}

var emptyHeader [FrameHeaderLen]byte

// numbers reads varints one by one. What is none is 0, and bad stays.
type numbers struct {
	rest []byte
	bad  bool
}

func (r *numbers) next() uint64 {
	if len(r.rest) > 0 && r.rest[0] < 0x80 { // the usual case
		v := r.rest[0]
		r.rest = r.rest[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// zigzag is the number that binary.AppendVarint wrote as v.
func zigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }
