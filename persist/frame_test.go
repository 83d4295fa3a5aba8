package persist

import (
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
	putFrameHeader(raw, false, 0, 0, 1, 1)
	for at := range uint64(len(raw) + 1) {
		var f, left Frame
		if fault := decodeFrame(raw, 0, &f); fault != nil {
			t.Fatal(fault)
		}
		cut, err := f.Cut(at)
		must(t, err)
		if cut == nil {
			continue
		}
		if fault := decodeFrame(cut, 0, &left); fault != nil || left.End() > at {
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
