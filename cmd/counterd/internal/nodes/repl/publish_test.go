package repl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/wire"
)

// TestPublished: messages come back as they were, in order, behind the log that they were published behind; what a slow
// replica has no room for is lost.
func TestPublished(t *testing.T) {
	var q published
	one, two := encodePublish(false, "a", []byte("first")), encodePublish(true, "", nil)
	q.add(10, one)
	q.add(20, two)
	if out := q.take(nil, 9); len(out) > 0 || q.due(9) || !q.due(10) {
		t.Error("a message before its changes")
	}
	mr := messageReader{r: wire.NewReader(bytes.NewReader(q.take(q.take(nil, 10), 30)), 512)}
	var m message
	for _, want := range []message{{kind: msgPublish, channel: "a", text: []byte("first")}, {kind: msgShard}} {
		if err := mr.next(&m); err != nil || m.kind != want.kind || m.channel != want.channel || !bytes.Equal(m.text, want.text) {
			t.Fatalf("got %q %q %q, %v; want %q %q %q", m.kind, m.channel, m.text, err, want.kind, want.channel, want.text)
		}
	}
	if err := mr.next(&m); err != io.EOF {
		t.Error("got", err)
	}
	big := encodePublish(false, "a", bytes.Repeat([]byte("x"), maxUnsent/2))
	q.add(1, big)
	if q.add(1, big) {
		t.Error("the first message that is lost was not told of")
	}
	if !q.add(1, big) || len(q.queue) != 1 {
		t.Errorf("%d messages wait, or each that is lost is told of", len(q.queue))
	}
	if out := q.take(nil, 1); len(out) != len(big) || q.bytes != 0 || q.due(1) {
		t.Errorf("%d bytes, want %d; %d left", len(out), len(big), q.bytes)
	}
}

// TestPublishedTooLarge: a length that nobody sends takes no memory.
func TestPublishedTooLarge(t *testing.T) {
	for _, lengths := range [][2]uint32{{1 << 31, 1 << 31}, {0, maxUnsent + 1}, {maxUnsent, 1}} {
		head := binary.LittleEndian.AppendUint32([]byte{msgPublish}, lengths[0])
		head = binary.LittleEndian.AppendUint32(head, lengths[1])
		mr := messageReader{r: wire.NewReader(io.MultiReader(bytes.NewReader(head), strings.NewReader("xxxx")), 512)}
		var m message
		if err := mr.next(&m); !errors.Is(err, ErrProtocol) {
			t.Errorf("%v: got %v", lengths, err)
		}
	}
}
