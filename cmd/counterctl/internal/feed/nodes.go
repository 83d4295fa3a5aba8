package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/internal/feedjoin"
	"github.com/counterd/counterd/internal/wire"
)

// nodes are where the logs are read: some nodes that have the same log, or the primaries of a cluster's shards. It is the Source of a
// feed. Safe for concurrent use.
type nodes struct {
	addrs []string // that the user gave
	tls   bool
	dial  func(ctx context.Context, addr string) (*wire.Conn, error)
	words []string // of COUNTER.FEED, behind its name and position
	waits bool     // for a change
	log   func(format string, args ...any)

	looks chan struct{} // has an element while the cluster is asked for its primaries
	asked time.Time     // when the cluster was asked last; the goroutine that has put the element uses it
	why   error         // how that failed; the same

	mu       sync.Mutex
	cluster  bool
	at       int                 // of one log: the node that is read, in addrs
	leads    map[uint64]string   // of a cluster: the address of each shard's primary
	told     map[uint64]string   // by shard: the error that the last attempts ended with, if the last one did not go well
	refusals map[string]struct{} // nodes that refused the position since another one went on from it
}

var _ feedjoin.Source[[]byte] = (*nodes)(nil)

func newNodes(o *Options) *nodes {
	return &nodes{addrs: o.Addrs, tls: o.TLS, dial: o.Dial, words: o.words(), waits: !o.UntilCaughtUp, log: o.Log, looks: make(chan struct{}, 1), refusals: map[string]struct{}{}, told: map[uint64]string{}}
}

// lookEach is how often a cluster is asked which nodes lead, at most.
const lookEach = 100 * time.Millisecond

// nodeError is an error of a node.
type nodeError struct {
	addr string
	err  error
}

func (e *nodeError) Error() string { return e.addr + ": " + e.err.Error() }
func (e *nodeError) Unwrap() error { return e.err }

// errNoPrimary: nobody is known to lead a shard. The same may go well later.
var errNoPrimary = errors.New("the shard has no primary now")

// errNoCluster: a position of the feed of a cluster was given, and the node is of none.
var errNoCluster = fmt.Errorf("%w: the position is one of all shards of a cluster, and the node is of no cluster", wire.ErrProtocol)

// Shards asks a node whether it is one of a cluster, and which shards that has.
func (n *nodes) Shards(ctx context.Context) (ids []uint64, err error) {
	for _, addr := range n.known() {
		some, cluster, failed := n.ask(ctx, addr)
		if failed == nil || cluster {
			n.mu.Lock()
			n.cluster = cluster
			n.mu.Unlock()
			ids = some
		}
		if failed == nil {
			return ids, nil
		}
		if err = failed; errors.Is(err, errNoPrimary) { // another node may know of one
			continue
		}
		err = &nodeError{addr, err}
		if refused := (*wire.ServerError)(nil); errors.As(err, &refused) && !patience.Passes(err) {
			return nil, err
		}
	}
	return ids, err
}

// known is all addresses that may answer: first those that the user gave.
func (n *nodes) known() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := slices.Concat(n.addrs[n.at:], n.addrs[:n.at])
	for _, addr := range n.leads {
		if !slices.Contains(list, addr) {
			list = append(list, addr)
		}
	}
	return list
}

// ask asks one node for the shards and their primaries. Of a shard without a primary that answers the number is not known, which is the error: the others
// are known nevertheless.
func (n *nodes) ask(ctx context.Context, addr string) (ids []uint64, cluster bool, err error) {
	conn, err := n.dial(ctx, addr)
	if err != nil {
		return nil, false, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(answer))
	hello, err := conn.Do("HELLO")
	if err != nil {
		if errors.As(err, new(*wire.ServerError)) && !patience.Passes(err) { // a server that does not know it has no cluster either
			return []uint64{0}, false, nil
		}
		return nil, false, err
	}
	if field(hello, "mode") != "cluster" {
		return []uint64{0}, false, nil
	}
	shards, err := conn.Do("CLUSTER", "SHARDS")
	if err != nil {
		return nil, true, err
	}
	primaries, all := n.primaries(shards, addr)
	if !all {
		err = errNoPrimary
	}
	for _, primary := range primaries {
		id, failed := n.shardOf(ctx, primary)
		if failed != nil {
			err = &nodeError{primary, failed}
			continue
		}
		ids = append(ids, id)
		n.mu.Lock()
		if n.leads == nil {
			n.leads = make(map[uint64]string)
		}
		n.leads[id] = primary
		n.mu.Unlock()
	}
	return ids, true, err
}

// primaries are the addresses of the nodes that lead a shard, of the answer to CLUSTER SHARDS. all tells whether each shard has one. A node that has not
// heard of etcd since its start knows no shards.
func (n *nodes) primaries(shards wire.Value, asked string) (list []string, all bool) {
	all = len(shards.Array) > 0
	for _, shard := range shards.Array {
		members := value(shard, "nodes").Array
		led := len(members) == 0
		for _, node := range members {
			if field(node, "role") != "master" || field(node, "health") != "online" {
				continue
			}
			led = true
			port := field(node, "port")
			if secure := field(node, "tls-port"); n.tls && secure != "" {
				port = secure
			}
			host := cmp.Or(field(node, "endpoint"), field(node, "ip"))
			if host == "" || host == "?" {
				host, _, _ = net.SplitHostPort(asked)
			}
			list = append(list, net.JoinHostPort(host, port))
		}
		all = all && led
	}
	return list, all
}

// value is a field of a map; the zero value: it is not there.
func value(v wire.Value, name string) wire.Value {
	for i := 0; i+1 < len(v.Array); i += 2 {
		if v.Array[i].Str == name {
			return v.Array[i+1]
		}
	}
	return wire.Value{}
}

func field(v wire.Value, name string) string { return value(v, name).Text() }

// shardOf asks a node for its shard.
func (n *nodes) shardOf(ctx context.Context, addr string) (uint64, error) {
	conn, err := n.dial(ctx, addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(answer))
	name, err := conn.Do("CLUSTER", "MYSHARDID")
	if err != nil {
		return 0, err
	}
	number := strings.TrimLeft(name.Str, "0")
	if number == "" && name.Str != "" { // it was just started, or is of no shard any more
		return 0, errNoPrimary
	}
	id, err := strconv.ParseUint(number, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: CLUSTER MYSHARDID answered %.40q", wire.ErrProtocol, name.Str)
	}
	return id, nil
}

// lead is the address where a shard is read; empty: it is not known.
func (n *nodes) lead(shard uint64) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if shard == 0 {
		return n.addrs[n.at]
	}
	return n.leads[shard]
}

// node is the address where a shard is read. The readers of several shards wait while one of them asks the cluster.
func (n *nodes) node(ctx context.Context, shard uint64) (string, error) {
	if addr := n.lead(shard); addr != "" {
		return addr, nil
	}
	select {
	case n.looks <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-n.looks }()
	if addr := n.lead(shard); addr != "" {
		return addr, nil
	}
	due := time.Since(n.asked) > lookEach
	if due {
		n.asked = time.Now()
		_, n.why = n.Shards(ctx)
	}
	err := cmp.Or(n.why, errNoPrimary)
	if ctx.Err() != nil { // it says nothing about the nodes
		n.asked, n.why = time.Time{}, nil
	}
	if addr := n.lead(shard); addr != "" {
		return addr, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if due && err == errNoPrimary && !n.cluster {
		return "", &nodeError{n.addrs[n.at], errNoCluster}
	}
	return "", err
}

// Reader connects to the node where a shard is read.
func (n *nodes) Reader(ctx context.Context, shard uint64) (feedjoin.Reader[[]byte], error) {
	addr, err := n.node(ctx, shard)
	if err != nil {
		return nil, err
	}
	conn, err := n.dial(ctx, addr)
	if err != nil {
		n.suspect(shard, addr)
		return nil, &nodeError{addr, err}
	}
	return &reader{nodes: n, shard: shard, addr: addr, conn: conn}, nil
}

// suspect has another node tried.
func (n *nodes) suspect(shard uint64, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if shard == 0 && n.addrs[n.at] == addr {
		n.at = (n.at + 1) % len(n.addrs)
	}
	if n.leads[shard] == addr {
		delete(n.leads, shard)
	}
}

// ofSink stands for the sink where a shard is expected.
const ofSink = math.MaxUint64

// answered notes that a node, or the sink, works.
func (n *nodes) answered(shard uint64, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if shard != ofSink {
		clear(n.refusals)
	}
	if n.told[shard] != "" {
		delete(n.told, shard)
		n.log("going on, with %s", addr)
	}
}

// waiting tells once of an error that may pass.
func (n *nodes) waiting(shard uint64, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if text := cli.Text(err); text != n.told[shard] {
		n.log("waiting: %s", text)
		n.told[shard] = text
	}
}

// Ends tells whether an error ends the feed. One of several nodes may refuse a position that others go on from, as it was the
// primary before a failover, or keeps less log; and a replica does not answer SAFE.
func (n *nodes) Ends(shard uint64, _ string, err error) error {
	var node *nodeError
	addr := ""
	if errors.As(err, &node) {
		addr = node.addr
	}
	var server *wire.ServerError
	if errors.As(err, &server) {
		if gone := feedjoin.Refusal(server.Text, err); gone != nil {
			n.mu.Lock()
			n.refusals[addr] = struct{}{}
			last := n.cluster || len(n.refusals) >= len(n.addrs)
			n.mu.Unlock()
			if last {
				return gone
			}
			n.waiting(shard, err)
			return nil
		}
	}
	if errors.Is(err, errNoPrimary) || patience.Passes(err) || len(n.addrs) > 1 && server != nil && strings.HasPrefix(server.Text, "ERR SAFE is answered by a primary only") {
		n.waiting(shard, err)
		return nil
	}
	return err
}

// Do sends a command about cursors to the primary of a shard: see command.
func (n *nodes) Do(ctx context.Context, shard uint64, words ...string) (text string, ok bool, err error) {
	v, err := n.command(ctx, shard, words...)
	return v.Str, err == nil && !v.Null, err
}

// command sends a command about cursors to the primary of a shard: of some nodes with the same log, to the first that takes it.
func (n *nodes) command(ctx context.Context, shard uint64, words ...string) (v wire.Value, err error) {
	list := n.known()
	if shard != 0 {
		addr, err := n.node(ctx, shard)
		if err != nil {
			return v, err
		}
		list = []string{addr}
	}
	for _, addr := range list {
		if v, err = n.do(ctx, addr, words); err == nil {
			return v, nil
		}
		if shard != 0 {
			n.suspect(shard, addr)
		}
		err = &nodeError{addr, err}
	}
	return wire.Value{}, err
}

func (n *nodes) do(ctx context.Context, addr string, words []string) (wire.Value, error) {
	conn, err := n.dial(ctx, addr)
	if err != nil {
		return wire.Value{}, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(answer))
	return conn.Do(words...)
}
