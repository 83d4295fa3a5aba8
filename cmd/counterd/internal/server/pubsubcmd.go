package server

import (
	"fmt"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/glob"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
)

// Publish and subscribe. Package pubsub has the subscribers and the messages on their way to them.

func pubsubCommands() []*row {
	const flags = command.PubSub | command.NoScript | command.Loading | command.Stale
	entry := func(name string, arity int, extra command.Flags, since, complexity, syntax, summary string, run func(*client, [][]byte)) *row {
		return &row{Name: name, Arity: arity, Flags: flags&^command.NoScript | extra, Group: "pubsub", Since: since, Complexity: complexity, Syntax: syntax, Summary: summary, Run: onClient(run)}
	}
	return []*row{
		entry("subscribe", -2, command.NoScript|command.NoMulti, "2.0.0", "O(N)", "channel [channel ...]", "Subscribes to channels.",
			func(c *client, args [][]byte) { subscribe(c, pubsub.Channel, args[1:]) }),
		entry("unsubscribe", -1, command.NoScript|command.NoMulti, "2.0.0", "O(N)", "[channel [channel ...]]", "Unsubscribes from the given channels, or from all.",
			func(c *client, args [][]byte) { unsubscribe(c, pubsub.Channel, args[1:]) }),
		entry("psubscribe", -2, command.NoScript|command.NoMulti, "2.0.0", "O(N)", "pattern [pattern ...]", "Subscribes to all channels that match the patterns.",
			func(c *client, args [][]byte) { subscribe(c, pubsub.Pattern, args[1:]) }),
		entry("punsubscribe", -1, command.NoScript|command.NoMulti, "2.0.0", "O(N)", "[pattern [pattern ...]]", "Unsubscribes from the given patterns, or from all.",
			func(c *client, args [][]byte) { unsubscribe(c, pubsub.Pattern, args[1:]) }),
		entry("publish", 3, command.Fast, "2.0.0", "O(N+M)", "channel message", "Sends a message to the subscribers of a channel. Returns their number.", runPublish),
		shard(entry("ssubscribe", -2, command.NoScript|command.NoMulti, "7.0.0", "O(N)", "shardchannel [shardchannel ...]", "Subscribes to shard channels.",
			func(c *client, args [][]byte) { subscribe(c, pubsub.Shard, args[1:]) }), -1),
		shard(entry("sunsubscribe", -1, command.NoScript|command.NoMulti, "7.0.0", "O(N)", "[shardchannel [shardchannel ...]]", "Unsubscribes from the given shard channels, or from all.",
			func(c *client, args [][]byte) { unsubscribe(c, pubsub.Shard, args[1:]) }), -1),
		shard(entry("spublish", 3, command.Fast, "7.0.0", "O(N)", "shardchannel message", "Sends a message to the subscribers of a shard channel. Returns their number.", runSpublish), 1),
		container("pubsub", "pubsub", "2.8.0", "A container for commands about subscriptions.",
			entry("pubsub|channels", -2, 0, "2.8.0", "O(N)", "[pattern]", "Returns the channels that have subscribers.",
				func(c *client, args [][]byte) { channels(c, pubsub.Channel, args) }),
			entry("pubsub|numsub", -2, 0, "2.8.0", "O(N)", "[channel [channel ...]]", "Returns the number of subscribers of each channel.",
				func(c *client, args [][]byte) { numSub(c, pubsub.Channel, args) }),
			entry("pubsub|numpat", 2, 0, "2.8.0", "O(1)", "", "Returns the number of patterns that have subscribers.", runPubsubNumPat),
			entry("pubsub|shardchannels", -2, 0, "7.0.0", "O(N)", "[pattern]", "Returns the shard channels that have subscribers.",
				func(c *client, args [][]byte) { channels(c, pubsub.Shard, args) }),
			entry("pubsub|shardnumsub", -2, 0, "7.0.0", "O(N)", "[shardchannel [shardchannel ...]]", "Returns the number of subscribers of each shard channel.",
				func(c *client, args [][]byte) { numSub(c, pubsub.Shard, args) })),
	}
}

// shard notes that the names of shard channels stand where other commands have keys: by them clients of a cluster find
// the node.
func shard(r *row, last int) *row {
	r.First, r.Last, r.Step = 1, last, 1
	return r
}

// subscribe and unsubscribe answer each name by a push of its own.
func subscribe(c *client, kind pubsub.Kind, names [][]byte) {
	bytes := 0
	for _, name := range names {
		if longName(c, name) {
			return
		}
		bytes += pubsub.Cost(len(name))
	}
	if !c.session.Reserve(bytes) {
		c.session.Closing = true
		return
	}
	c.subscriber.start()
	_ = c.session.Send() // earlier replies; an error ends the connection at the next read
	if err := c.srv.pubsub.Subscribe(&c.subscriber.outbox, kind, names); err != nil {
		c.call.items.Out.Error("ERR " + err.Error())
	}
	c.subscriber.confine()
	if c.subscriber.overhears(c.login.user.Load()) { // the user lost the right since it was asked for
		c.session.Closing = true
	}
}

func unsubscribe(c *client, kind pubsub.Kind, names [][]byte) {
	if c.subscriber.outbox.Started() {
		_ = c.session.Send()
	}
	if answer := c.srv.pubsub.Unsubscribe(&c.subscriber.outbox, kind, names); len(answer) > 0 {
		c.session.Muting.Say(answer)
	}
	c.subscriber.confine()
}

// longName refuses the name of a channel, or a pattern, that is too long.
func longName(c *client, name []byte) bool {
	if len(name) <= pubsub.MaxName {
		return false
	}
	c.call.items.Out.Error(fmt.Sprintf("ERR names of channels and patterns have at most %d bytes, got %d", pubsub.MaxName, len(name)))
	return true
}

// manyHear tells whether a command publishes to so many subscribers that it leaves its loop.
func (c *client) manyHear(cmd *row, args [][]byte) bool {
	if len(args) != 3 {
		return false
	}
	return cmd.Is("publish") && c.srv.pubsub.Large(pubsub.Channel, string(args[1])) || cmd.Is("spublish") && c.srv.pubsub.Large(pubsub.Shard, string(args[1]))
}

// pause is how a long command lets others have their turn; nil where it must not wait: in a loop, and in EXEC, which has the store
// to itself.
func (c *client) pause() func() {
	if c.session.InLoop() || c.call.executing {
		return nil
	}
	return c.srv.front.GiveWay
}

func runPublish(c *client, args [][]byte) {
	if longName(c, args[1]) {
		return
	}
	if c.subscriber.outbox.Started() && !c.call.executing {
		_ = c.session.Send() // before a message to itself; an error is the next send's too
	}
	if string(args[1]) == role.HelloChannel {
		c.srv.role.HeardSentinel(nodeConn{c}, string(args[2]))
	}
	channel := string(args[1])
	c.call.items.Out.Int(int64(c.srv.pubsub.Publish(channel, args[2], c.pause())))
	passOn(c, false, channel, args[2])
}

func runSpublish(c *client, args [][]byte) {
	if longName(c, args[1]) {
		return
	}
	if c.subscriber.outbox.Started() && !c.call.executing {
		_ = c.session.Send()
	}
	channel := string(args[1])
	c.call.items.Out.Int(int64(c.srv.pubsub.PublishShard(channel, args[2], c.pause())))
	passOn(c, true, channel, args[2])
}

// passOn gives a message to the subscribers of replicas.
func passOn(c *client, shard bool, channel string, message []byte) {
	if store := c.srv.store(); store.Durable() && !store.Replica() {
		log := store.Replication()
		after := log.Visible() // earlier changes of this connection were committed
		if c.call.executing {
			after = log.Position()
		}
		c.srv.role.Peers().Publish(after, shard, channel, message)
	}
}

// channels: PUBSUB CHANNELS [pattern], or SHARDCHANNELS.
func channels(c *client, kind pubsub.Kind, args [][]byte) {
	if len(args) > 3 {
		c.call.items.Out.Error(items.ErrSyntax)
		return
	}
	if len(args) < 3 {
		c.call.items.Out.BulkStrings(c.srv.pubsub.Channels(kind, nil))
		return
	}
	if longName(c, args[2]) {
		return
	}
	pattern := string(args[2])
	c.call.items.Out.BulkStrings(c.srv.pubsub.Channels(kind, func(name string) bool { return glob.Match(pattern, name) }))
}

// numSub: PUBSUB NUMSUB [channel ...], or SHARDNUMSUB.
func numSub(c *client, kind pubsub.Kind, args [][]byte) {
	names := args[2:]
	c.call.items.Out.Array(2 * len(names))
	for i, n := range c.srv.pubsub.Subscribers(kind, names) {
		c.call.items.Out.Bulk(names[i])
		c.call.items.Out.Int(int64(n))
	}
}

func runPubsubNumPat(c *client, _ [][]byte) {
	c.call.items.Out.Int(int64(c.srv.pubsub.Len(pubsub.Pattern)))
}

func monitorCommand() *row {
	return &row{Name: "monitor", Arity: 1, Flags: command.Admin | command.NoScript | command.NoMulti | command.Loading | command.Stale, Group: "server", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Streams every executed command to this connection, until it closes or sends RESET.", Run: onClient(runMonitor)}
}

func runMonitor(c *client, _ [][]byte) {
	c.subscriber.start()
	c.call.items.Out.Status("OK")
	_ = c.session.Send() // before the first line; an error ends the connection at the next read
	c.subscriber.startMonitor()
}
