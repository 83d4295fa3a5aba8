// Package hotlist tells subscribers which posts enter and leave the top lists of columns: the channel of the column repost of weibo is
// __hot__:weibo.repost.
//
// The server calls Look once a second. If a channel of a list has a subscriber, a goroutine compares each such list with the posts that were told
// before, publishes the difference, and ends: so a list has one message a second at most, and without subscribers nothing is computed. A
// list that has not changed, and a channel without a new subscriber, cost no more than a look at two numbers.
//
// The posts are those of Store.TopOf, which waits for the commit of the changes that they show. The janitor must not wait, so there is a
// goroutine. While it waits, later calls of Look do nothing.
//
// The state that a channel remembers is the posts told last, and nothing of each subscriber: a subscription that is younger than the last message gets the
// whole list, and all others get the difference (pubsub.News). A channel that is forgotten, as its list ends or its last subscriber
// leaves, begins again with the whole list.
package hotlist

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
	"github.com/counterd/counterd/counter"
)

// Prefix begins the names of the channels.
const Prefix = "__hot__:"

// Teller publishes the changes of top lists. Set the exported fields before the first Look.
type Teller struct {
	Store    func() *counter.Store // the one being served
	Registry *pubsub.Registry
	Pause    func() // lets others have their turn between many receivers

	mu     sync.Mutex // guards the rest
	closed bool
	ended  chan struct{} // closed when the last round has ended; nil: there was none
	busy   bool          // a round runs

	channels map[string]*channel // with subscribers, by name; of the round that runs
	computed atomic.Int64        // lists that were compared
}

// channel is the state of the subscribers of a list.
type channel struct {
	list    counter.TopList
	version uint64   // of the list when it was read
	begun   uint64   // subscriptions that had begun then
	told    uint64   // pubsub.News.Since of the next message; 0: nothing was told
	posts   []uint64 // mids told last, in order
}

// Look begins a round, if there is a subscription to anything and no other round runs. It does not wait.
func (t *Teller) Look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.busy || len(t.channels) == 0 && t.Registry.Len(pubsub.Channel)+t.Registry.Len(pubsub.Pattern) == 0 {
		return
	}
	t.busy, t.ended = true, make(chan struct{})
	go t.run(t.ended)
}

func (t *Teller) run(ended chan struct{}) {
	defer close(ended)
	t.round()
	t.mu.Lock()
	t.busy = false
	t.mu.Unlock()
}

// Close begins no more rounds, and waits for a running round, until ctx ends.
func (t *Teller) Close(ctx context.Context) {
	t.mu.Lock()
	t.closed = true
	ended := t.ended
	t.mu.Unlock()
	if ended == nil {
		return
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// round tells the subscribers of each list its changes.
func (t *Teller) round() {
	store, before := t.Store(), t.channels
	now := make(map[string]*channel)
	for _, list := range store.TopLists() {
		name := Channel(list)
		hears, begun := t.Registry.Hears(name)
		if !hears {
			continue
		}
		c := before[name]
		if c == nil {
			c = &channel{}
		}
		now[name] = c
		t.follow(store, name, c, list, begun)
	}
	t.mu.Lock()
	t.channels = now
	t.mu.Unlock()
}

// Channel is the name of the channel of a list.
func Channel(list counter.TopList) string {
	counter, column := list.Names()
	return Prefix + counter + "." + column
}

// follow tells the subscribers of one list its changes.
func (t *Teller) follow(store *counter.Store, name string, c *channel, list counter.TopList, begun uint64) {
	version := store.Version(list) // before the posts: a change in between is seen in the next round
	if c.told > 0 && c.list.Is(list) && c.version == version && c.begun == begun {
		return
	}
	t.computed.Add(1)
	top, ok, err := store.TopOf(list)
	if err != nil || !ok {
		return // it is built, or the log cannot be committed: the message waits
	}
	posts := make([]uint64, len(top))
	for i, e := range top {
		posts[i] = e.Mid
	}
	slices.Sort(posts)
	news := pubsub.News{Since: c.told, Whole: func() []byte { return appendMessage(nil, true, top, nil) }}
	if c.told > 0 {
		entered, left := difference(top, posts, c.posts)
		if len(entered)+len(left) > 0 {
			news.Change = appendMessage(nil, false, entered, left)
		}
	}
	c.told = t.Registry.Tell(name, news, t.Pause)
	c.list, c.version, c.begun, c.posts = list, version, begun, posts
}

// difference are the posts of top that were not among old, and those of old that are not among posts, which are the mids of top. posts and
// old are in order.
func difference(top []counter.TopEntry, posts, old []uint64) (entered []counter.TopEntry, left []uint64) {
	for _, e := range top {
		if _, here := slices.BinarySearch(old, e.Mid); !here {
			entered = append(entered, e)
		}
	}
	for _, mid := range old {
		if _, here := slices.BinarySearch(posts, mid); !here {
			left = append(left, mid)
		}
	}
	return entered, left
}
