package repl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
)

// ErrProtocol: the other side sent a message that the protocol does not allow.
var ErrProtocol = errors.New("replication protocol error")

// ErrForeign: the node at an address has nothing of this one's history. It is not the message that was sent.
var ErrForeign = errors.New("its history has nothing of this node's: it is not the node that the role was handed to")

// NotYetError: the primary, a replica itself, has the beginning of this node's log and not all of it yet. This node keeps
// its data and asks again.
type NotYetError struct{ End, Own uint64 } // log offsets: where the primary's log ends, and this one

// Error leaves out what changes from one attempt to the next.
func (e *NotYetError) Error() string {
	return fmt.Sprintf("the node that is followed is a replica and behind this one, whose log ends at %d: it is asked again until it has all of that", e.Own)
}

// Kinds of messages of the stream.
const (
	msgFrame   = 'F'
	msgPing    = 'P'
	msgGetAck  = 'G'
	msgPublish = 'M'
	msgShard   = 'H'
	msgConfirm = 'C'
)

// appendPing appends a P message.
func appendPing(dst []byte, end uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, msgPing), end)
}

// appendConfirmed appends a C message.
func appendConfirmed(dst []byte, offset uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, msgConfirm), offset)
}

// message is one message of the stream. Frame is valid until the next read.
type message struct {
	kind  byte
	frame []byte // with its header; the length is checked, the checksum is not
	end   uint64 // of msgPing, and the offset of msgConfirm

	channel string // of msgPublish and msgShard, and the next
	text    []byte // and the content of a message of compare.go
}

// messageReader reads the stream. It takes memory for one frame at most.
type messageReader struct {
	r   *wire.Reader
	buf []byte
}

// next reads one message into m.
func (mr *messageReader) next(m *message) error {
	kind, err := mr.r.ReadByte()
	if err != nil {
		return err
	}
	m.kind = kind
	switch kind {
	case msgGetAck:
		return nil
	case msgPublish, msgShard:
		m.channel, m.text, err = readPublish(mr.r)
		return err
	case msgQuestion, msgDigests, msgRows:
		m.text, err = readCompare(mr.r)
		return err
	case msgPing, msgConfirm:
		var b [8]byte
		if _, err := io.ReadFull(mr.r, b[:]); err != nil {
			return err
		}
		m.end = binary.LittleEndian.Uint64(b[:])
		return nil
	case msgFrame:
		head, err := mr.r.Peek(format.FrameHeaderLen)
		if err != nil {
			return err
		}
		n := format.FramePayloadLen(head)
		if n > format.MaxFramePayload {
			return fmt.Errorf("%w: frame of %d bytes, at most %d", ErrProtocol, n, format.MaxFramePayload)
		}
		size := format.FrameHeaderLen + int(n)
		if cap(mr.buf) < size {
			mr.buf = make([]byte, max(size, 64<<10))
		}
		m.frame = mr.buf[:size]
		_, err = io.ReadFull(mr.r, m.frame)
		return err
	}
	return fmt.Errorf("%w: message of kind %q", ErrProtocol, kind)
}

// readBlob reads n bytes and CRLF.
func readBlob(r io.Reader, n, limit int) ([]byte, error) {
	if n < 0 || n > limit {
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrProtocol, n, limit)
	}
	all, err := readSteps(r, n)
	if err != nil {
		return nil, err
	}
	var end [2]byte
	if _, err := io.ReadFull(r, end[:]); err != nil {
		return nil, err
	}
	if string(end[:]) != "\r\n" {
		return nil, fmt.Errorf("%w: CRLF is missing behind %d bytes", ErrProtocol, n)
	}
	return all, nil
}

// readSteps reads n bytes in steps: memory grows with the bytes that arrive, not with the announced length.
func readSteps(r io.Reader, n int) (all []byte, err error) {
	for len(all) < n {
		step := min(n-len(all), 1<<20)
		all = append(all, make([]byte, step)...)
		if _, err := io.ReadFull(r, all[len(all)-step:]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// answer is the reply to PSYNC.
type answer struct {
	full           bool
	replID         string
	offset         uint64
	first, lineage int // bytes of the manifest, if full, and of the lineage
}

// parseAnswer reads the line that answers PSYNC.
func parseAnswer(line string) (a answer, err error) {
	fields := strings.Fields(line)
	bad := fmt.Errorf("%w: %q answers PSYNC", ErrProtocol, line)
	want := 4
	switch {
	case len(fields) > 0 && fields[0] == "+FULLRESYNC":
		a.full, want = true, 5
	case len(fields) == 0 || fields[0] != "+CONTINUE":
		return a, bad
	}
	if len(fields) != want {
		return a, bad
	}
	a.replID = fields[1]
	if a.offset, err = strconv.ParseUint(fields[2], 10, 64); err != nil {
		return a, bad
	}
	if a.full {
		if a.first, err = strconv.Atoi(fields[3]); err != nil || a.first < 0 {
			return a, bad
		}
	}
	if a.lineage, err = strconv.Atoi(fields[want-1]); err != nil || a.lineage < 0 {
		return a, bad
	}
	return a, nil
}
