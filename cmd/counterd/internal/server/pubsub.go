package server

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidwall/redcon"

	"github.com/counterd/counterd/cmd/counterd/internal/command"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/glob"
	"github.com/counterd/counterd/cmd/counterd/internal/items"
	"github.com/counterd/counterd/cmd/counterd/internal/resp"
)

// Publish and subscribe. Messages reach who is subscribed at that moment and are kept nowhere; Sentinel finds its
// fellows by them. A message is pushed to the outbox of every subscriber under pubsub.mu, and so are the answers to
// SUBSCRIBE and UNSUBSCRIBE: a subscriber sees the confirmation before the first message and no message after the last.

// pubsub are the subscriptions of all connections.
type pubsub struct {
	mu       sync.RWMutex // guards the rest, and subscriptions of all clients; an outbox's lock is taken inside
	channels map[string]map[*client]struct{}
	patterns map[string]map[*client]struct{}

	limit  atomic.Pointer[config.OutputLimit] // of subscribers
	unread atomic.Int64                       // bytes that all of them have not read
}

// subscriptions are those of one connection.
type subscriptions struct {
	box                *outbox // nil before the first subscription; its own goroutine's
	channels, patterns map[string]struct{}
	nChannels          atomic.Int32 // for CLIENT LIST
	nPatterns          atomic.Int32
	bytes              atomic.Int64 // that the subscriptions take
	unread             atomic.Int64 // bytes in box
}

// What one connection may subscribe to.
const (
	maxSubscriptions     = 64 << 10
	maxSubscriptionBytes = 32 << 20

	// maxChannel is the longest name of a channel: all patterns are matched with it while others wait.
	maxChannel = glob.MaxPattern

	// subscriptionSize is what one is taken to hold beside its name, in bytes: its places in two maps.
	subscriptionSize = 200
)

func (s *subscriptions) count() int { return int(s.nChannels.Load() + s.nPatterns.Load()) }

// kindOfSubscription is channel or pattern.
type kindOfSubscription struct {
	subscribe, unsubscribe string // words of the confirmations
	pattern                bool
}

var (
	byChannel = kindOfSubscription{"subscribe", "unsubscribe", false}
	byPattern = kindOfSubscription{"psubscribe", "punsubscribe", true}
)

// of returns the table of the server, and the set and the count of the client.
func (k *kindOfSubscription) of(p *pubsub, s *subscriptions) (map[string]map[*client]struct{}, map[string]struct{}, *atomic.Int32) {
	if k.pattern {
		return p.patterns, s.patterns, &s.nPatterns
	}
	return p.channels, s.channels, &s.nChannels
}

func pubsubCommands() []*row {
	const flags = command.PubSub | command.NoScript | command.Loading | command.Stale
	entry := func(name string, arity int, extra command.Flags, since, complexity, syntax, summary string, run func(*client, [][]byte)) *row {
		return &row{Name: name, Arity: arity, Flags: flags&^command.NoScript | extra, Group: "pubsub", Since: since, Complexity: complexity, Syntax: syntax, Summary: summary, Run: run}
	}
	return []*row{
		entry("subscribe", -2, command.NoScript|command.NoMulti, "2.0.0", "O(N)", "channel [channel ...]", "Subscribes to channels.",
			func(c *client, args [][]byte) { c.subscribe(&byChannel, args[1:]) }),
		entry("unsubscribe", -1, command.NoScript|command.NoMulti, "2.0.0", "O(N)", "[channel [channel ...]]", "Ends subscriptions to channels, or all of them.",
			func(c *client, args [][]byte) { c.unsubscribe(&byChannel, args[1:]) }),
		entry("psubscribe", -2, command.NoScript|command.NoMulti, "2.0.0", "O(N)", "pattern [pattern ...]", "Subscribes to all channels that match.",
			func(c *client, args [][]byte) { c.subscribe(&byPattern, args[1:]) }),
		entry("punsubscribe", -1, command.NoScript|command.NoMulti, "2.0.0", "O(N)", "[pattern [pattern ...]]", "Ends subscriptions to patterns, or all of them.",
			func(c *client, args [][]byte) { c.unsubscribe(&byPattern, args[1:]) }),
		entry("publish", 3, command.Fast, "2.0.0", "O(N+M)", "channel message", "Sends a message to the subscribers of a channel and returns how many there are.", runPublish),
		container("pubsub", "pubsub", "2.8.0", "Shows subscriptions.",
			entry("pubsub|channels", -2, 0, "2.8.0", "O(N)", "[pattern]", "Returns the channels with subscribers.", runPubsubChannels),
			entry("pubsub|numsub", -2, 0, "2.8.0", "O(N)", "[channel [channel ...]]", "Returns the number of subscribers of channels.", runPubsubNumSub),
			entry("pubsub|numpat", 2, 0, "2.8.0", "O(1)", "", "Returns the number of patterns that are subscribed to.", runPubsubNumPat)),
	}
}

// subscribe and unsubscribe answer each name by a push of its own.
func (c *client) subscribe(kind *kindOfSubscription, names [][]byte) {
	for _, name := range names {
		if c.longName(name) {
			return
		}
	}
	s := &c.subs
	if s.box == nil {
		s.box = newOutbox(c)
		s.channels, s.patterns = make(map[string]struct{}), make(map[string]struct{})
	}
	_ = c.send() // what was answered before; an error ends the connection at the next read
	p := &c.srv.pubsub
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.channels == nil {
		p.channels, p.patterns = make(map[string]map[*client]struct{}), make(map[string]map[*client]struct{})
	}
	table, mine, n := kind.of(p, s)
	for _, name := range names {
		if _, ok := mine[string(name)]; !ok {
			size := int64(len(name) + subscriptionSize)
			if s.count() >= maxSubscriptions || s.bytes.Load()+size > maxSubscriptionBytes {
				c.Out.Error("ERR too many subscriptions")
				return
			}
			key := string(name)
			mine[key] = struct{}{}
			if table[key] == nil {
				table[key] = make(map[*client]struct{})
			}
			table[key][c] = struct{}{}
			n.Add(1)
			s.bytes.Add(size)
		}
		c.confirm(kind.subscribe, name)
	}
	c.listening()
}

// longName refuses the name of a channel, or a pattern, that is too long.
func (c *client) longName(name []byte) bool {
	if len(name) <= maxChannel {
		return false
	}
	c.Out.Error(fmt.Sprintf("ERR names of channels and patterns have at most %d bytes, got %d", maxChannel, len(name)))
	return true
}

func (c *client) unsubscribe(kind *kindOfSubscription, names [][]byte) {
	s := &c.subs
	if s.box != nil {
		_ = c.send()
	}
	p := &c.srv.pubsub
	p.mu.Lock()
	defer p.mu.Unlock()
	table, mine, n := kind.of(p, s)
	if len(names) == 0 {
		for name := range mine {
			names = append(names, []byte(name))
		}
		slices.SortFunc(names, slices.Compare)
		if len(names) == 0 {
			names = [][]byte{nil} // answered by a null in the place of the name
		}
	}
	for _, name := range names {
		if _, ok := mine[string(name)]; ok {
			drop(table, string(name), c)
			delete(mine, string(name))
			n.Add(-1)
			s.bytes.Add(-int64(len(name) + subscriptionSize))
		}
		c.confirm(kind.unsubscribe, name)
	}
	c.listening()
}

// drop takes a client from a table. REQUIRES pubsub.mu.
func drop(table map[string]map[*client]struct{}, name string, c *client) {
	delete(table[name], c)
	if len(table[name]) == 0 {
		delete(table, name)
	}
}

// confirm answers one name. REQUIRES pubsub.mu, so that the confirmation stands before the channel's messages.
func (c *client) confirm(word string, name []byte) {
	var reply resp.Replies
	reply.SetProtocol(c.Out.Protocol())
	reply.Push(3)
	reply.BulkString(word)
	if name == nil {
		reply.Null()
	} else {
		reply.Bulk(name)
	}
	reply.Int(int64(c.subs.count()))
	if c.subs.box == nil {
		c.say(reply.From(0))
		return
	}
	_ = c.subs.box.push(reply.From(0))
}

// listening notes whether the connection may only send what RESP2 allows a subscriber.
func (c *client) listening() {
	c.confined = c.confined &^ confinedSubscriber
	if c.subs.count() > 0 && c.Out.Protocol() == 2 {
		c.confined |= confinedSubscriber
	}
}

// unsubscribeAll ends all subscriptions without a word.
func (c *client) unsubscribeAll() {
	s := &c.subs
	if s.box == nil {
		return
	}
	p := &c.srv.pubsub
	p.mu.Lock()
	for name := range s.channels {
		drop(p.channels, name, c)
	}
	for name := range s.patterns {
		drop(p.patterns, name, c)
	}
	clear(s.channels)
	clear(s.patterns)
	s.nChannels.Store(0)
	s.nPatterns.Store(0)
	s.bytes.Store(0)
	p.mu.Unlock()
	c.listening()
}

// publish sends a message and returns how many got it.
func (s *Server) publish(channel string, message []byte) (receivers int) {
	p := &s.pubsub
	p.mu.RLock()
	defer p.mu.RUnlock()
	var forms [4][]byte // by RESP version
	for c := range p.channels[channel] {
		proto := c.pushProto.Load()
		if forms[proto] == nil {
			b := resp.AppendPush(nil, int(proto), 3)
			b = redcon.AppendBulkString(b, "message")
			b = redcon.AppendBulkString(b, channel)
			forms[proto] = redcon.AppendBulk(b, message)
		}
		_ = c.subs.box.push(forms[proto]) // an error closes the subscriber
		receivers++
	}
	for pattern, clients := range p.patterns {
		if !glob.Match(pattern, channel) {
			continue
		}
		forms = [4][]byte{}
		for c := range clients {
			proto := c.pushProto.Load()
			if forms[proto] == nil {
				b := resp.AppendPush(nil, int(proto), 4)
				b = redcon.AppendBulkString(b, "pmessage")
				b = redcon.AppendBulkString(b, pattern)
				b = redcon.AppendBulkString(b, channel)
				forms[proto] = redcon.AppendBulk(b, message)
			}
			_ = c.subs.box.push(forms[proto])
			receivers++
		}
	}
	return receivers
}

func runPublish(c *client, args [][]byte) {
	if c.longName(args[1]) {
		return
	}
	if c.subs.box != nil && !c.multi.executing {
		_ = c.send() // before a message to itself; an error is the next send's too
	}
	if string(args[1]) == helloChannel {
		c.heardSentinel(string(args[2]))
	}
	channel := string(args[1])
	c.Out.Int(int64(c.srv.publish(channel, args[2])))
	if store := c.srv.store(); store.Durable() && !store.Replica() {
		log := store.Replication()
		after := log.Visible() // what this connection changed before was committed
		if c.multi.executing {
			after = log.Position()
		}
		c.srv.node.Peers().Publish(after, channel, args[2])
	}
}

// Publish takes a message of the primary: see repl.Host.
func (s *Server) Publish(channel string, message []byte) {
	s.publish(channel, message)
	if store := s.store(); store.Durable() {
		s.node.Peers().Publish(store.Replication().Position(), channel, message)
	}
}

func runPubsubChannels(c *client, args [][]byte) {
	if len(args) > 3 {
		c.Out.Error(items.ErrSyntax)
		return
	}
	if len(args) == 3 && c.longName(args[2]) {
		return
	}
	p := &c.srv.pubsub
	p.mu.RLock()
	var names []string
	for name := range p.channels {
		if len(args) < 3 || glob.Match(string(args[2]), name) {
			names = append(names, name)
		}
	}
	p.mu.RUnlock()
	slices.Sort(names)
	c.Out.BulkStrings(names)
}

func runPubsubNumSub(c *client, args [][]byte) {
	p := &c.srv.pubsub
	p.mu.RLock()
	defer p.mu.RUnlock()
	c.Out.Array(2 * (len(args) - 2))
	for _, name := range args[2:] {
		c.Out.Bulk(name)
		c.Out.Int(int64(len(p.channels[string(name)])))
	}
}

func runPubsubNumPat(c *client, _ [][]byte) { c.Out.Int(int64(c.srv.pubsub.numPatterns())) }

func (p *pubsub) numPatterns() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.patterns)
}

func (p *pubsub) numChannels() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.channels)
}

// unsent is what the outbox holds.
func (s *subscriptions) unsent() int {
	return int(s.unread.Load())
}
