package repl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
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
// A node in sync whose log has a damaged end asks in the same way, and makes its log whole up to the end of the other one (closedEnd). Neither of the two has its
// data open then, and the first one leads when it has.
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
	errBehindToo = errors.New("that node may lack acknowledged changes, too")
	errHasLeader = errors.New("the node has a role, or another log, by now")
)

// A node whose log is damaged asks other nodes for frames, and such a node may wait in its turn: its log is damaged elsewhere, or it is a
// primary that lost power, and asks its replicas how far their logs go. So a node that waits for another one gives the frames of its
// log, as a node that serves does (REPLCONF frames). The node that was helped opens its data, and can help then.

// closedLog is the log of a directory that is not open. It answers other nodes while this node waits for one of them. The zero value is silent.
//
//	          begin              tell
//	silent -----------> frames -----------> frames and the end
//	       <-----------        <-----------
//	          stop               stop
//
// INVARIANT: while frames are given, the directory changes by nothing but frames of the same log (past.MendLog). While the end is told, it does not change.
type closedLog struct {
	mu     sync.RWMutex // held while frames are read
	dir    string       // empty: silent
	told   bool         // the end is told
	end    past.LogEnd
	behind bool                            // the log may lack acknowledged changes
	inSync func(ctx context.Context) error // Search's; nil: the node is of no cluster
}

// begin has frames given until stop is called. Behind that, none are being read. stop may be called again.
func (c *closedLog) begin(dir string) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dir = dir
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.dir, c.told = "", false
	}
}

// tell has the end told until stop is called. REQUIRES: begin.
func (c *closedLog) tell(end past.LogEnd, behind bool, inSync func(context.Context) error) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told, c.end, c.behind, c.inSync = true, end, behind, inSync
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.told = false
	}
}

// tellEnd has the end of the log of a node of a cluster told until stop is called, if it is known. REQUIRES: begin, and nothing changes the log meanwhile.
func (h *Healer) tellEnd(dir string, search Search) (stop func()) {
	n := h.node
	end, err := past.ReadLogEnd(n.fs, dir)
	if err != nil {
		if text := err.Error(); text != h.noEnd {
			h.noEnd = text
			n.logger.Warn("this node cannot give the other nodes of the shard the end of its log", "dir", dir, "error", err)
		}
		return func() {}
	}
	behind := end.Torn || counter.LacksNothing(n.fs, dir, n.settings().BootID) != nil || lacksConfirmed(n.fs, dir, end.Offset, n.logger)
	return h.closed.tell(end, behind, search.InSync)
}

// nextRound waits for the next round of mendByMembers, and tells whether there is one. The log does not change meanwhile, and a member that is behind may wait for
// the end of it, while this node waits for a primary.
func (h *Healer) nextRound(ctx context.Context, dir string, search Search, lastRound <-chan struct{}) bool {
	defer h.tellEnd(dir, search)()
	select {
	case <-ctx.Done():
		return false
	case <-lastRound:
		return false
	case <-time.After(refillAgain):
		return true
	}
}

// ClosedEnd returns the term and the end of the log of a node outside of a cluster that waits for its primary, and cannot open its data. !ok: it is not such a node.
func (h *Healer) ClosedEnd() (term format.ReplID, end uint64, ok bool) {
	c := &h.closed
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.end.Term, c.end.Offset, c.told && c.inSync == nil
}

// LastFrames answers REPLCONF last-frames, also while the node is loading. The words are those behind last-frames.
func LastFrames(n *Node, words [][]byte) (raw []byte, err error) {
	if len(words) != 2 {
		return nil, fmt.Errorf("%w: REPLCONF last-frames with %d words, want 2", ErrProtocol, len(words))
	}
	from, err := strconv.ParseUint(string(words[1]), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: REPLCONF last-frames from %q", ErrProtocol, words[1])
	}
	raw, behind, inSync, err := n.healing.closed.last(n.fs, string(words[0]), from)
	if err != nil || len(raw) > 0 {
		return raw, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), endAsk)
	defer cancel()
	if err := inSync(ctx); err != nil || !behind {
		return nil, err
	}
	return []byte(wordBehind), nil
}

// last returns frames that begin at an offset in a term; none: the log ends there, or before.
func (c *closedLog) last(fsys vfs.FS, term string, from uint64) (raw []byte, behind bool, inSync func(context.Context) error, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch {
	case !c.told || c.inSync == nil:
		return nil, false, nil, errKeepsEnd
	case term != c.end.Term.String():
		return nil, false, nil, errOtherTerm
	case from < c.end.Offset:
		raw, err = past.ClosedFrames(fsys, c.dir, c.end.Term, from, c.end.Offset, frameBatch)
	}
	return raw, c.behind, c.inSync, err
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

// TakeLastFrames gets the end of the log from another node in sync that cannot open its directory. Without an error, and with behind false, this node has all
// acknowledged changes, and is no longer behind. behind says that the other node may lack acknowledged changes, too, and has no more of the log than this one has
// now. This node must be behind, and have no role, or follow a primary that it does not reach.
func TakeLastFrames(ctx context.Context, n *Node, a Address) (behind bool, err error) {
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
		switch {
		case err != nil:
			return false, fmt.Errorf("%s: %w", a, err)
		case len(raw) == 0:
			n.logger.Warn("this node has all acknowledged changes again, from the log of a node that cannot open its data", "from", a.String())
			return false, nil
		}
	}
}

// closedEnd returns the end of the log of a directory that cannot be opened, as the end of it is damaged: that of another member of the shard, in the same term,
// which is in sync and cannot open its directory, and whose log lacks nothing. A log of that term that comes to this end lacks nothing, too.
func (h *Healer) closedEnd(ctx context.Context, dir string, from []Address) (end uint64, err error) {
	own, err := past.ReadWholeEnd(h.node.fs, dir)
	if err != nil {
		return 0, err
	}
	errs := []error{errEndUnknown}
	for _, a := range from {
		end, err := h.closedEndOf(ctx, a, own)
		if err == nil {
			return end, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", a, err))
	}
	return 0, errors.Join(errs...)
}

// closedEndOf asks one member. The frames are fetched again by the mend.
func (h *Healer) closedEndOf(ctx context.Context, a Address, own past.LogEnd) (end uint64, err error) {
	n := h.node
	conn, err := n.settings().dial(ctx, a, wire.Options{Timeout: endAsk, Answer: 2 * endAsk, Buffer: linkBuffer})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	for end = own.Offset; ; {
		raw, err := n.refills.ask(ctx, conn, maxFrames, "last-frames", own.Term.String(), strconv.FormatUint(end, 10))
		switch {
		case err != nil:
			return 0, err
		case len(raw) == 0:
			return end, nil
		case string(raw) == wordBehind:
			return 0, errBehindToo
		}
		for rest := raw; len(rest) > 0; {
			var f format.Frame
			if fault := format.DecodeFrame(rest, end, &f); fault != nil {
				return 0, fmt.Errorf("%w: a frame for log offset %d: want %s, got %s", ErrProtocol, end, fault.Want, fault.Got)
			}
			rest, end = rest[f.End()-end:], f.End()
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
