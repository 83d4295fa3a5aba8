package pubsub

import (
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// Subscriber are the subscriptions of one connection. The zero Subscriber has none and takes no memory beside its own. Only
// the connection's own goroutine may call methods that change it; any goroutine may call the others.
type Subscriber struct {
	box    *outbox                    // nil before Start; its own goroutine's
	names  [kinds]map[string]struct{} // by Kind; guarded by Registry.mu
	counts [kinds]atomic.Int32        // of names, for others
	bytes  atomic.Int64               // that the subscriptions take
	unread atomic.Int64               // bytes in box
	proto  atomic.Int32               // the RESP version that messages are written in
}

// Start gives a connection its outbox, with its first subscription. It keeps it: from now on everything that the
// connection is sent must go through Push, or it would be written into the middle of messages.
func (s *Subscriber) Start(r *Registry, conn Conn) {
	if s.box == nil {
		s.box = newOutbox(r, s, conn)
		s.names = [kinds]map[string]struct{}{{}, {}, {}}
	}
}

// Started tells whether Start was called. Only the connection's own goroutine may ask.
func (s *Subscriber) Started() bool { return s.box != nil }

// Push sends replies after all earlier data. It never waits. An error means that the connection is closed, or about to be.
func (s *Subscriber) Push(p []byte) error { return s.box.push(p) }

// Close sends the pending data and ends the outbox, if there is one. It waits for a client that takes nothing for most at
// the longest. The subscriptions must have ended.
func (s *Subscriber) Close(most time.Duration) {
	if s.box != nil {
		s.box.close(most)
	}
}

// SetProtocol says in which version of RESP, 2 or 3, messages are written.
func (s *Subscriber) SetProtocol(version int) { s.proto.Store(int32(version)) }

// Count is how many channels, patterns and shard channels it is subscribed to.
func (s *Subscriber) Count() int { return s.CountOf(Channel) + s.CountOf(Pattern) + s.CountOf(Shard) }

// CountOf is Count of one kind.
func (s *Subscriber) CountOf(kind Kind) int { return int(s.counts[kind].Load()) }

// Bytes is the memory of the subscriptions.
func (s *Subscriber) Bytes() int { return int(s.bytes.Load()) }

// Unread is how many bytes it has not read.
func (s *Subscriber) Unread() int { return int(s.unread.Load()) }

// confirmation is the answer to one name: it counts shard channels, or channels and patterns together. REQUIRES Registry.mu until it is pushed, so that it stands before the
// channel's messages.
func (s *Subscriber) confirmation(kind Kind, word string, name []byte) []byte {
	var reply resp.Replies
	reply.SetProtocol(int(s.proto.Load()))
	reply.Push(3)
	reply.BulkString(word)
	if name == nil {
		reply.Null()
	} else {
		reply.Bulk(name)
	}
	if kind == Shard {
		reply.Int(int64(s.CountOf(Shard)))
	} else {
		reply.Int(int64(s.CountOf(Channel) + s.CountOf(Pattern)))
	}
	return reply.From(0)
}
