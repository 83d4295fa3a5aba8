package repl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
)

// A node of a cluster that lost power under appendfsync everysec or no is behind: it may lack the last changes that it acknowledged, so it
// leads only when no other node in sync may have them. A node in sync that cannot open its directory has them in its log, but sets
// nothing aside before another node leads. If no third node is there, each of the two waits for the other. So the node that waits gives the end
// of its log:
//
//	the node that is behind                        the node that cannot open its directory
//	REPLCONF last-frames <replid> <from>    -->    its log goes on behind from, in that term
//	                                        <--    whole frames that begin at from, 1 MiB or one at least
//	REPLCONF last-frames <replid> <end>     -->    its log does not go on
//	                                        <--    an empty string: the other node has all acknowledged changes
//	                                        or     "behind": this node may lack acknowledged changes, too
//
// The node that was behind then leads, and the other one copies its data. If both are behind, the other one counts as a node in sync that has no more
// of the log: if all nodes in sync are behind, the one with the most of it leads, as among nodes that serve.
//
// INVARIANT: both answers come only from a node that is in sync, and whose directory is its newest; the empty string, only if the log is whole up to an
// end that no power failure or torn tail has shortened. All nodes in sync have all acknowledged changes, and two logs of one term have the same bytes at the same
// offsets. So a log of that term that is as long lacks nothing.

// wordBehind is the answer of a node that is behind. It is shorter than a frame.
const wordBehind = "behind"

// endAsk is for how long a node that gives the end of its log waits for etcd, and the other one for an answer.
const endAsk = 2 * time.Second

var (
	errKeepsEnd  = errors.New("ERR this node does not wait for a primary with a whole log that it cannot open")
	errHasLeader = errors.New("the node has a role, or another log, by now")
)

// lastFrames gives the end of the log of a directory that this node cannot open. The zero value gives nothing.
type lastFrames struct{ of atomic.Pointer[closedLog] }

// closedLog is the log of a directory that is not open.
type closedLog struct {
	dir    string
	end    past.LogEnd
	behind bool // it may lack acknowledged changes
	inSync func(ctx context.Context) error
}

// begin has the end of the log given until stop is called, if the end is known. REQUIRES: nothing changes the log meanwhile.
func (l *lastFrames) begin(n *Node, dir string, search Search) (stop func()) {
	end, err := past.ReadLogEnd(n.fs, dir)
	if err != nil {
		n.logger.Warn("this node cannot give the other nodes of the shard the end of its log", "dir", dir, "error", err)
		return func() {}
	}
	behind := end.Torn || counter.LacksNothing(n.fs, dir, n.settings().BootID) != nil
	l.of.Store(&closedLog{dir: dir, end: end, behind: behind, inSync: search.InSync})
	return func() { l.of.Store(nil) }
}

// LastFrames answers REPLCONF last-frames, also while the node is loading. The words are those behind last-frames.
func LastFrames(n *Node, words [][]byte) (raw []byte, err error) {
	log := n.healing.lastFrames.of.Load()
	if log == nil {
		return nil, errKeepsEnd
	}
	if len(words) != 2 {
		return nil, fmt.Errorf("%w: REPLCONF last-frames with %d words, want 2", ErrProtocol, len(words))
	}
	from, err := strconv.ParseUint(string(words[1]), 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: REPLCONF last-frames from %q", ErrProtocol, words[1])
	case string(words[0]) != log.end.Term.String():
		return nil, errOtherTerm
	case from >= log.end.Offset:
		ctx, cancel := context.WithTimeout(context.Background(), endAsk)
		defer cancel()
		if err := log.inSync(ctx); err != nil || !log.behind {
			return nil, err
		}
		return []byte(wordBehind), nil
	}
	_, err = past.DamagedLog(n.fs, log.dir, 0, from, func(frame []byte) error {
		if len(raw) >= frameBatch {
			return errEnough
		}
		raw = append(raw, frame...)
		return nil
	})
	if len(raw) > 0 {
		return raw, nil
	}
	return nil, errors.Join(err, fmt.Errorf("no frame at log offset %d", from))
}

// errEnough ends the reading of a log.
var errEnough = errors.New("enough frames")

// A node whose log is damaged asks other nodes for frames, and such a node may wait in its turn: its log is damaged elsewhere, or it is a
// primary that lost power, and asks its replicas how far their logs go. So a node that waits for another one gives the frames of its
// log, as a node that serves does (REPLCONF frames). The node that was helped opens its data, and can help then.

// closedFrames gives frames of the log of a directory that is not open. The zero value gives nothing.
//
// INVARIANT: while frames are read, the directory changes by nothing but frames of the same log (past.MendLog).
type closedFrames struct {
	mu  sync.RWMutex // held while frames are read
	dir string       // empty: the node waits for nobody
}

// begin has frames given until stop is called. Behind that, none are being read. stop may be called again.
func (c *closedFrames) begin(dir string) (stop func()) {
	c.set(dir)
	return func() { c.set("") }
}

func (c *closedFrames) set(dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dir = dir
}

// ClosedFrames answers REPLCONF frames while the node is loading. The words are those behind frames. It does not know wordHolding. Behind an
// error, the other node is to ask again: this node may have the frames later.
func ClosedFrames(n *Node, words [][]byte) (raw []byte, err error) {
	if len(words) != 3 {
		return nil, fmt.Errorf("%w: REPLCONF frames with %d words while the node is loading, want 3", ErrProtocol, len(words))
	}
	term, err := format.ParseReplID(string(words[0]))
	from, ferr := strconv.ParseUint(string(words[1]), 10, 64)
	end, eerr := strconv.ParseUint(string(words[2]), 10, 64)
	if err := errors.Join(err, ferr, eerr); err != nil || from >= end {
		return nil, fmt.Errorf("%w: REPLCONF frames of %q from %q to %q", ErrProtocol, words[0], words[1], words[2])
	}
	c := &n.healing.closed
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.dir == "" {
		return nil, errKeepsEnd
	}
	return past.ClosedFrames(n.fs, c.dir, term, from, end, frameBatch)
}

// TakeLastFrames gets the end of the log from other nodes in sync that cannot open their directories. Without an error, this node has all
// acknowledged changes, and is no longer behind. With an error, shorter has the nodes, by their places in from, that may lack acknowledged changes, too, and
// have no more of the log than this one has now. This node must be behind, and have no role, or follow a primary that it does not reach.
func TakeLastFrames(ctx context.Context, n *Node, from []Address) (shorter []int, err error) {
	errs := []error{errNoHelper}
	for i, a := range from {
		behind, err := takeLastFrames(ctx, n, a)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", a, err))
		case behind:
			shorter = append(shorter, i)
		default:
			n.logger.Warn("this node has all acknowledged changes again, from the log of a node that cannot open its data", "from", a.String())
			return nil, nil
		}
	}
	return shorter, errors.Join(errs...)
}

// takeLastFrames is TakeLastFrames for one node. behind tells whether that one may lack acknowledged changes, too.
func takeLastFrames(ctx context.Context, n *Node, a Address) (behind bool, err error) {
	conn, err := n.settings().dial(ctx, a, wire.Options{Timeout: endAsk, Answer: 2 * endAsk, Buffer: linkBuffer})
	if err != nil {
		return false, err
	}
	defer conn.Close()
	for {
		log := n.host.Store().Replication()
		lineage, end := log.Lineage(), log.Position()
		if len(lineage.Terms) == 0 {
			return false, errHasLeader
		}
		raw, err := n.refills.ask(ctx, conn, maxFrames, "last-frames", lineage.Current().ReplID.String(), strconv.FormatUint(end, 10))
		if err == nil && string(raw) == wordBehind {
			return true, nil
		}
		if err == nil {
			err = addLastFrames(n, lineage.Current(), end, raw)
		}
		if err != nil || len(raw) == 0 {
			return false, err
		}
	}
}

// addLastFrames appends frames to the log, which must still end at an offset in a term; none: the log lacks nothing.
func addLastFrames(n *Node, term format.History, end uint64, raw []byte) error {
	n.change.Lock()
	defer n.change.Unlock()
	if link, linked := n.Link(); linked && link.State == LinkConnected {
		return errHasLeader
	}
	// A link that is coming up may be about to cut the log, or to begin another term: it ends before anything is looked at.
	defer pauseLink(n)()
	store := n.host.Store()
	log := store.Replication()
	lineage := log.Lineage()
	if n.peers.quorum.leads() != 0 || n.Healing() != nil || len(lineage.Terms) == 0 || lineage.Current() != term || log.Position() != end || !store.Replica() || !log.Behind() {
		return errHasLeader
	}
	if len(raw) == 0 {
		if err := log.Sync(); err != nil {
			return err
		}
		return log.ClearBehind()
	}
	for rest := raw; len(rest) > 0; {
		var f format.Frame
		if fault := format.DecodeFrame(rest, end, &f); fault != nil {
			return fmt.Errorf("%w: a frame for log offset %d: want %s, got %s", ErrProtocol, end, fault.Want, fault.Got)
		}
		if f.Epoch != term.Epoch {
			return fmt.Errorf("%w: a frame of epoch %d, want %d", ErrProtocol, f.Epoch, term.Epoch)
		}
		next, err := log.Replicate(rest[:f.End()-end])
		if err != nil {
			return err
		}
		rest, end = rest[next-end:], next
	}
	return log.CommitHere(end)
}

// pauseLink ends the link, if there is one, until resume is called. REQUIRES: change, until then.
func pauseLink(n *Node) (resume func()) {
	n.mu.Lock()
	link := n.link
	n.mu.Unlock()
	if link == nil {
		return func() {}
	}
	n.unlink()
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if !n.closed {
			n.wanted = link.primary
			n.link = newLink(n, link.primary, true, false, link.id, link.epoch)
		}
	}
}
