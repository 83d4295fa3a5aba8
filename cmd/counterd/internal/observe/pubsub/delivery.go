package pubsub

import (
	"sync"

	"github.com/tidwall/redcon"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// delivery is one message on its way to the outboxes of all whom it reaches.
type delivery struct {
	r         *Registry
	channel   string
	message   []byte
	forms     [4][]byte // the message as subscribers of kind and name get it, by RESP version
	kind      Kind
	name      string
	receivers int
	woken     int
	asleep    []*outbox // to be woken
}

// receiverLists are lists that inSlices has made, to be used again: 200 KB for 5,000 subscribers.
var receiverLists = sync.Pool{New: func() any { return new([]receiver) }}

// inSlices sends the message to those whom it reaches now, with a pause between two slices. The lock is not held in a pause, so each
// slice passes over those whose subscription has ended.
func (d *delivery) inSlices(kind Kind, pause func()) {
	list := receiverLists.Get().(*[]receiver)
	d.r.mu.RLock()
	d.r.each(kind, d.channel, func(to receiver) { *list = append(*list, to) })
	d.r.mu.RUnlock()
	d.slices(*list, pause)
	clear(*list)
	*list = (*list)[:0]
	receiverLists.Put(list)
}

// slices is inSlices for a list.
func (d *delivery) slices(list []receiver, pause func()) {
	for from := 0; from < len(list); from += Slice {
		if from > 0 {
			d.wake()
			pause()
		}
		d.slice(list[from:min(from+Slice, len(list))])
	}
}

func (d *delivery) slice(list []receiver) {
	d.r.mu.RLock()
	defer d.r.mu.RUnlock()
	for _, to := range list {
		if d.r.has(to) {
			d.send(to)
		}
	}
}

// send gives the message to one more. An error closes the subscriber. REQUIRES Registry.mu.
func (d *delivery) send(to receiver) {
	if to.kind != d.kind || to.name != d.name {
		d.forms, d.kind, d.name = [4][]byte{}, to.kind, to.name
	}
	proto := to.s.proto.Load()
	if d.forms[proto] == nil {
		d.forms[proto] = d.form(int(proto))
	}
	d.receivers++
	sleeps, err := to.s.box.put(d.forms[proto])
	switch {
	case err != nil || !sleeps:
	case d.woken < wakeAtOnce:
		d.woken++
		to.s.box.ready.Signal()
	default:
		d.asleep = append(d.asleep, to.s.box)
	}
}

// form is the message in a version of RESP.
func (d *delivery) form(proto int) []byte {
	var b []byte
	switch d.kind {
	case Pattern:
		b = redcon.AppendBulkString(resp.AppendPush(nil, proto, 4), "pmessage")
		b = redcon.AppendBulkString(b, d.name)
	case Shard:
		b = redcon.AppendBulkString(resp.AppendPush(nil, proto, 3), "smessage")
	default:
		b = redcon.AppendBulkString(resp.AppendPush(nil, proto, 3), "message")
	}
	b = redcon.AppendBulkString(b, d.channel)
	return redcon.AppendBulk(b, d.message)
}

// wake has those woken that were not yet.
func (d *delivery) wake() {
	if len(d.asleep) > 0 {
		d.r.wakes.add(d.asleep, d.r.rest)
		d.asleep = d.asleep[:0]
	}
}
