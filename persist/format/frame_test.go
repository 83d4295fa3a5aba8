package format

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestFrameCutOnce cuts a frame at every byte: a once and its change are both there or neither is.
func TestFrameCutOnce(t *testing.T) {
	raw := make([]byte, FrameHeaderLen)
	raw = AppendDefine(raw, 1, 0, 0, []byte("a"))
	raw = AppendSet(AppendOnce(raw, 1, 1, 9, 0, Result{}), 1, 2, 3, 1)
	raw = AppendDelete(AppendOnce(raw, 1, 2, 9, 0, Result{Kind: ResultOK}), 1, 3)
	raw = AppendOnce(raw, 1, 3, 9, 0, Result{Kind: ResultNil}) // changed nothing
	raw = AppendSet(raw, 1, 2, 4, 1)
	PutFrameHeader(raw, false, 0, 0, 1, 1)
	for at := range uint64(len(raw) + 1) {
		var f, left Frame
		if fault := DecodeFrame(raw, 0, &f); fault != nil {
			t.Fatal(fault)
		}
		cut, err := f.Cut(at)
		must(t, err)
		if cut == nil {
			continue
		}
		if fault := DecodeFrame(cut, 0, &left); fault != nil || left.End() > at {
			t.Fatalf("cut at %d: %v, ends at %d", at, fault, left.End())
		}
		var rec Record
		var kinds []string
		must(t, left.Records(&rec, 0, func(_ uint64, rec *Record) error { kinds = append(kinds, rec.Kind.String()); return nil }))
		switch got := strings.Join(kinds, " "); got {
		case "define", "define once set", "define once set once delete", "define once set once delete once set":
		default:
			t.Errorf("cut at %d: %s", at, got)
		}
	}
}

// fuzzSeedFrame is a valid frame at offset 0.
func fuzzSeedFrame() []byte {
	b := AppendSet(make([]byte, FrameHeaderLen), 1, 2, 3, 4)
	PutFrameHeader(b, false, 0, 0, 1, 1)
	return b
}

func FuzzFrame(f *testing.F) {
	f.Add(fuzzSeedFrame())
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		if len(b) >= FrameHeaderLen { // let the fuzzer past the checksum
			n := min(FrameHeaderLen+int(FramePayloadLen(b)), len(b))
			le.PutUint32(b, Checksum(b[4:n]))
		}
		var frame Frame
		if fault := DecodeFrame(b, 0, &frame); fault != nil {
			return
		}
		var rec Record
		last := uint64(0)
		err := frame.Records(&rec, 0, func(pos uint64, _ *Record) error {
			if pos <= last || pos > frame.End() {
				t.Fatalf("record ends at %d after %d in a frame up to %d", pos, last, frame.End())
			}
			last = pos
			return nil
		})
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	})
}
