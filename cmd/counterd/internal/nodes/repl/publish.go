package repl

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// Messages of PUBLISH go to the subscribers of replicas too. They are messages of the stream and not of the log: they
// change no offset, are kept nowhere, and are lost where a link is down. Changes made before a message was published are
// sent before it.
//
//	M  8 bytes, little-endian: 4 of the channel's length, 4 of the message's; channel, message
//	H  the same, of SPUBLISH

// capaPublish and capaShard are how a replica says that it takes them.
const (
	capaPublish = "publish"
	capaShard   = "spublish"
	capaConfirm = "confirmed" // and one that it takes C, how far the log is confirmed
)

// maxUnsent bounds what waits for a replica that reads slowly, and so each message too: those beyond are lost to its
// subscribers.
const maxUnsent = 16 << 20

// published is the messages that wait to be sent to a replica.
type published struct {
	n     atomic.Int32 // len(queue)
	mu    sync.Mutex   // guards the rest
	queue []publication
	bytes int
	lost  int // since the last that was not
}

type publication struct {
	after uint64 // log offset that the replica is sent before
	raw   []byte
}

// encodePublish makes a message; shard: of SPUBLISH.
func encodePublish(shard bool, channel string, message []byte) []byte {
	kind := byte(msgPublish)
	if shard {
		kind = msgShard
	}
	b := make([]byte, 0, 9+len(channel)+len(message))
	b = binary.LittleEndian.AppendUint32(append(b, kind), uint32(len(channel)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(message)))
	return append(append(b, channel...), message...)
}

// Publish sends a message of PUBLISH, or of SPUBLISH, to the subscribers of all replicas, behind the log up to an offset.
// It does not wait.
func (ps *Peers) Publish(after uint64, shard bool, channel string, message []byte) {
	if ps.online.Load() == 0 {
		return
	}
	var raw []byte
	for _, p := range ps.All() {
		if !p.online.Load() || !p.takesMessages || shard && !p.takesShard {
			continue
		}
		if raw == nil {
			raw = encodePublish(shard, channel, message)
		}
		if p.published.add(after, raw) {
			p.wake()
		} else { // said once, until it reads again
			ps.logger.Warn("a replica reads too slowly; dropping PUBLISH messages for its subscribers", "replica", p.address(), "unsent_limit", maxUnsent)
		}
	}
}

// add answers false for the first message that is lost.
func (q *published) add(after uint64, raw []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+len(raw) > maxUnsent {
		q.lost++
		return q.lost > 1
	}
	q.lost = 0
	q.queue = append(q.queue, publication{after, raw})
	q.bytes += len(raw)
	q.n.Store(int32(len(q.queue)))
	return true
}

// take appends to dst the messages that may be sent when the log was up to an offset.
func (q *published) take(dst []byte, sent uint64) []byte {
	if q.n.Load() == 0 {
		return dst
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.queue) && q.queue[n].after <= sent {
		dst = append(dst, q.queue[n].raw...)
		q.bytes -= len(q.queue[n].raw)
		n++
	}
	q.queue = append(q.queue[:0:0], q.queue[n:]...)
	q.n.Store(int32(len(q.queue)))
	return dst
}

// due tells whether take would give something.
func (q *published) due(sent uint64) bool {
	if q.n.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) > 0 && q.queue[0].after <= sent
}

// readPublish reads what follows the kind of a message of PUBLISH.
func readPublish(r io.Reader) (channel string, message []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", nil, err
	}
	c, n := uint64(binary.LittleEndian.Uint32(head[:4])), uint64(binary.LittleEndian.Uint32(head[4:]))
	if c+n > maxUnsent {
		return "", nil, fmt.Errorf("%w: a published message of %d bytes, at most %d", ErrProtocol, c+n, maxUnsent)
	}
	all, err := readSteps(r, int(c+n))
	if err != nil {
		return "", nil, err
	}
	return string(all[:c]), all[c:], nil
}
