package repl

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/sleep"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// A damaged segment of the log is needed by no start, as a snapshot stands behind it, but a replica, a backup or a restore may
// need it. Another node of the same log has its frames at the same offsets:
//
//	this node                                          the other node
//	REPLCONF frames <replid> <from> <end>    -->       its log has come to end in that term, or in one before
//	                                         <--       whole frames that begin at from, 1 MiB or one at least
//	REPLCONF frames <replid> <at> <end> holding
//	                                         -->
//	                                         <--       the same, from the frame on that holds at
//
// and so on, for each range that is damaged here. Each frame is checked, and the next segment must name the last one
// (persist/restore.go).

const (
	// frameBatch is how many bytes of frames are sent at a time, unless one is larger.
	frameBatch = 1 << 20
	// maxFrames bounds the bytes of an answer.
	maxFrames = frameBatch + format.FrameHeaderLen + format.MaxFramePayload

	wordHolding = "holding"
)

// logs looks once for damaged segments.
func (f *refiller) logs(ctx context.Context, store *counter.Store) {
	n := f.node
	for _, b := range counter.BrokenLogs(store) {
		if ctx.Err() != nil || time.Now().Before(f.retryLog[b.Start]) {
			continue
		}
		began := time.Now()
		bytes, from, err := f.oneLog(ctx, store, b)
		switch {
		case err == nil:
			delete(f.retryLog, b.Start)
			delete(f.told, b.Start)
			f.segments.Add(1)
			took := time.Since(began).Round(time.Millisecond)
			if bytes == 0 {
				n.logger.Warn("a damaged log segment was made again of its own frames", "from", b.Start, "end", b.End, "took", took)
				continue
			}
			n.logger.Warn("a damaged log segment was made again, with frames of another node", "from", b.Start, "end", b.End, "bytes", bytes, "replica", from.String(), "took", took)
		case ctx.Err() == nil:
			f.retryLog[b.Start] = time.Now().Add(refillAgain)
			f.failed.Add(1)
			if f.news(b.Start, err) {
				n.logger.Warn("a damaged log segment cannot be made again yet", "from", b.Start, "end", b.End, "error", err)
			}
		}
	}
}

// oneLog makes one segment again. Each range of it that is damaged here comes from any node that has it, as that node's segment may
// be damaged elsewhere.
func (f *refiller) oneLog(ctx context.Context, store *counter.Store, b counter.BrokenLog) (fetched int, from Address, err error) {
	lineage := store.Replication().Lineage()
	source := frameSource{refiller: f, ctx: ctx, from: f.helpers()}
	source.conns = make([]*wire.Conn, len(source.from))
	defer source.close()
	err = counter.RestoreLog(store, b, func(at, end uint64) ([]byte, error) {
		if len(source.from) == 0 {
			return nil, errNoHelper
		}
		raw, err := source.fetch(lineage.Current().ReplID, at, end)
		if err == nil {
			fetched, from = fetched+len(raw), source.gave
		}
		return raw, err
	})
	return fetched, from, err
}

// Frames answers REPLCONF frames. The words are those behind frames.
func Frames(n *Node, words [][]byte) (raw []byte, err error) {
	holding := len(words) == 4 && string(words[3]) == wordHolding
	if len(words) != 3 && !holding {
		return nil, fmt.Errorf("%w: REPLCONF frames with %d words, want 3, or 4 with %s", ErrProtocol, len(words), wordHolding)
	}
	from, err := strconv.ParseUint(string(words[1]), 10, 64)
	end, eerr := strconv.ParseUint(string(words[2]), 10, 64)
	if err != nil || eerr != nil || from >= end {
		return nil, fmt.Errorf("%w: REPLCONF frames from %q to %q", ErrProtocol, words[1], words[2])
	}
	store := n.host.Store()
	if term, err := format.ParseReplID(string(words[0])); err == nil && n.Healing() != nil && !holding { // the node that is copied may be damaged by now
		if raw, err := past.ClosedFrames(n.fs, store.Path(), term, from, end, frameBatch); err == nil {
			return raw, nil
		}
	}
	if err := mayGiveFrames(n, store, string(words[0]), end); err != nil {
		return nil, err
	}
	open := store.Replication().NewReaderAt
	if holding {
		open = store.Replication().NewReader
	}
	r, err := open(from)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for len(raw) < frameBatch && r.Pos() < end {
		f, err := r.TryNext()
		if err != nil {
			counter.NoteBrokenLog(store, err)
		}
		if err != nil || f == nil || f.End() > end {
			if len(raw) > 0 {
				break
			}
			return nil, errors.Join(err, fmt.Errorf("no frame at log offset %d", from))
		}
		raw = append(raw, f.Raw...)
	}
	return raw, nil
}

// mayGiveFrames tells why this node gives no other node its log below an offset; nil: it does. The other log has come to the offset in a
// term. If this one has too, both have the same bytes below it, whatever terms came later.
func mayGiveFrames(n *Node, store *counter.Store, term string, end uint64) error {
	if n.Healing() != nil {
		return ErrFeedsNobody
	}
	l, written := store.Replication().Lineage(), store.Replication().Written()
	i := slices.IndexFunc(l.Terms, func(t format.Term) bool { return t.ReplID.String() == term })
	switch {
	case i < 0 || i+1 < len(l.Terms) && l.Terms[i+1].Start < end:
		return errOtherTerm
	case written < end:
		return &notYetError{written}
	}
	return nil
}

// A start that meets damage of the log alone does not need all data of another node: frames are enough (past.MendLog). They come from a
// node whose log has the bytes in the same term, by REPLCONF frames: the primary of a replica, or a replica that stayed in the
// term of its damaged primary. The node then starts as it would have started without the damage.
//
// Files are set aside, and all data is copied, where this does not help: nobody has the frames, another node leads in the
// place of this one, or more than the log is damaged.

// A node of a cluster sets nothing aside before it has found the primary of its shard. That may take forever: the other node in sync may
// have lost power, and takes over only when it knows how much of the log this node has. So a node with a damaged log asks all other members
// of its shard for the missing frames meanwhile.
//
// This is safe for the same reason as a mend by frames of the primary: a member gives frames only if its log has come to the end of the damage
// in the term that the log here has there (mayGiveFrames). In a term there is one log, so the frames are those that were here. The log then ends
// where it ended before, and the node counts as before the damage. That holds only where the end of the log is known, by
// whole frames behind the damage. Where the damage goes to the end, only the primary helps, or a node in sync that cannot open its data (closedEnd): a node that
// lacks its end must not lead.
//
// Two nodes whose logs are both damaged help each other where each has the frames that the other node lacks: see closedLog.

// errEndUnknown refuses to make the end of a log up from the frames of nodes that do not lead.
var errEndUnknown = errors.New("the end of the log is damaged, so only the primary of the shard, or a node in sync that cannot open its data, tells what is missing")

// mendWithin is how long a node asks for frames that does not get an answer, or has no room for them. Both nodes may have lost power
// together. Then a primary and a node of a cluster search again, as the node that has the data may come back, and a node that was told whom
// to follow asks that one again. A replica outside of a cluster tells where its log ends, as its primary may itself wait for this node (awaitPrimary).
const mendWithin = 10 * time.Second

// mendable tells whether an error of opening a store is about the log of a directory.
func mendable(dir string, err error) bool {
	var corrupt *format.CorruptError
	if !errors.As(err, &corrupt) {
		return false
	}
	log := format.LogDir(dir)
	return corrupt.File == log || filepath.Dir(corrupt.File) == log
}

// findEnd gives a log that lacks its end the frames of the node that search has found. If that node goes away meanwhile, the search begins
// again, and nothing is changed. by is the node with the end, or the node to follow. Damage as an error says that by is there
// and cannot give the frames.
func (h *Healer) findEnd(ctx context.Context, dir string, search Search) (by Helper, err error) {
	for rest := refillEvery; ; rest = refillAgain {
		by, err = search.Missing(ctx)
		if err == nil || !damaged(err) {
			return by, err
		}
		asking, end := search.Await(ctx, true)
		done := h.mendLog(asking, dir, err, &by, 0)
		if done.later() || by.Closed && done == logUnmendable { // nothing else of that node helps
			sleep.For(asking, rest)
		}
		told := end()
		switch {
		case done == logMended:
			return by, nil
		case told.Follow != (Address{}):
			return told.helper(), nil
		case told.Alone:
			h.node.logger.Error("REPLICAOF NO ONE: this node leads with the log that it has; changes that only a replica has are lost", "replica", by.From.String(), "known_end", by.End)
			return Helper{}, nil
		case ctx.Err() != nil:
			return by, fmt.Errorf("%w: %v", ctx.Err(), err)
		case done == logUnmendable && !by.Closed:
			return by, err
		}
	}
}

// logMend is the result of mendLog.
type logMend uint8

const (
	logUnmendable logMend = iota // frames of other nodes do not help
	logMended                    // the log has them
	logAway                      // no node that may have them gives them now
	logFull                      // the disk has no room for them
)

// mendLog gives the log of a directory that cannot be opened the frames of another node. Where the helper is a replica of this node, the
// log has all that the helper has. It returns logAway when no node has given them for a time, and logFull when the disk had no room for mendWithin.
func (h *Healer) mendLog(ctx context.Context, dir string, damage error, by *Helper, within time.Duration) logMend {
	n := h.node
	var from []Address
	mend := past.LogMend{}
	switch {
	case by.Restored != "" || !mendable(dir, damage):
		return logUnmendable
	case by.Lead != (format.ReplID{}):
		from, mend.Reach = append([]Address{by.From}, ReadReplicas(n.fs, dir).List...), by.End
	case by.Parts != (Address{}):
		from = []Address{by.Parts}
	default:
		return logUnmendable
	}
	n.logger.Error("the log is damaged; asking another node for the missing part of it", "dir", dir, "error", damage)
	mend.Ends = func() error { return h.noteBehind(dir) } // changes that were not known to be durable may be missing
	began := time.Now()
	for {
		done, silent, err := h.mendOnce(ctx, dir, from, mend)
		if err == nil && done.Segments == 0 {
			return logUnmendable // no frames are missing
		}
		if err == nil {
			h.logMended(dir, done, began)
			if done.Last && mend.Reach > 0 {
				n.logger.Error("the end of the log was damaged or missing, and this node leads with the frames that remain here and on the other node; changes that only this node had may be lost", "dir", dir)
			}
			return logMended
		}
		full := vfs.IsNoSpace(err)
		again := silent || full
		if full {
			within = mendWithin
		}
		if !again || time.Since(began) >= within || ctx.Err() != nil {
			n.logger.Error("the log cannot be made whole with frames of another node", "dir", dir, "error", err)
			switch {
			case full:
				return logFull
			case again || ctx.Err() != nil:
				return logAway
			}
			return logUnmendable
		}
		text := err.Error()
		h.waits.Store(&text)
		sleep.For(ctx, refillEvery)
		h.waits.Store(nil)
	}
}

// find runs a search for a helper, and says so meanwhile. frames is Search.Find's.
func (h *Healer) find(ctx context.Context, damage error, frames bool, search Search) (Helper, error) {
	text := damage.Error()
	h.waits.Store(&text)
	defer h.waits.Store(nil)
	return search.Find(ctx, frames)
}

// mendBy finds a helper, if there is none yet, and gives the log the frames of the helper, or of members of the shard. Meanwhile the node
// gives other nodes its own frames. frames: a node that cannot open its data is a helper, too, if the log is damaged. told is the word of REPLICAOF.
func (h *Healer) mendBy(ctx context.Context, dir string, damage error, by *Helper, frames bool, search Search) (done logMend, told Told, err error) {
	defer h.closed.begin(dir)()
	if *by == (Helper{}) {
		if *by, done, err = h.helper(ctx, dir, damage, frames, search); err != nil || done == logMended {
			return done, told, err
		}
	}
	asking, end := search.Await(ctx, false)
	done = h.mendLog(asking, dir, damage, by, mendWithin)
	return done, end(), nil
}

// helper finds a node that has the data of a damaged directory. It returns logMended where members of the shard gave the log its frames, so
// that no other node is needed.
func (h *Healer) helper(ctx context.Context, dir string, damage error, frames bool, search Search) (by Helper, done logMend, err error) {
	if !search.InCluster() {
		by, err = h.find(ctx, damage, frames && mendable(dir, damage), search)
		return by, logUnmendable, err
	}
	if !mendable(dir, damage) { // else the log is changed meanwhile: see mendByMembers
		defer h.tellEnd(dir, search)()
	}
	looking, found := context.WithCancel(ctx)
	defer found()
	asking, stop := context.WithCancel(ctx)
	defer stop()
	lastRound := make(chan struct{})
	mended := make(chan bool, 1)
	go func() {
		done := h.mendByMembers(asking, dir, damage, search, lastRound)
		if done {
			found()
		}
		mended <- done
	}()
	by, err = h.find(looking, damage, frames && mendable(dir, damage), search)
	if close(lastRound); err == nil {
		stop() // the primary is asked, and has all that they have
	}
	if <-mended {
		return Helper{}, logMended, nil
	}
	return by, logUnmendable, err
}

// mendByMembers gives the log of a directory that cannot be opened the frames of any other member of the shard. It tells whether the log has
// them, and asks until ctx ends, or lastRound is closed and all were asked.
func (h *Healer) mendByMembers(ctx context.Context, dir string, damage error, search Search, lastRound <-chan struct{}) bool {
	if !mendable(dir, damage) {
		return false
	}
	for told := ""; ; {
		if from := search.Members(ctx); len(from) > 0 {
			began := time.Now()
			done, _, err := h.mendOnce(ctx, dir, from, past.LogMend{Ends: func() error { return errEndUnknown }})
			if end := uint64(0); errors.Is(err, errEndUnknown) {
				if end, err = h.closedEnd(ctx, dir, from); err == nil {
					done, _, err = h.mendOnce(ctx, dir, from, past.LogMend{Reach: end})
				}
			}
			if err == nil {
				if done.Segments > 0 {
					h.logMended(dir, done, began)
				}
				return done.Segments > 0
			}
			if text := err.Error(); text != told && ctx.Err() == nil {
				told = text
				h.node.logger.Error("the log cannot be made whole with frames of the other members of the shard yet", "dir", dir, "error", err)
			}
		}
		if !h.nextRound(ctx, dir, search, lastRound) {
			return false
		}
	}
}

// mendOnce asks nodes once for the frames of a damaged log. silent: a node that did not answer may have them.
func (h *Healer) mendOnce(ctx context.Context, dir string, from []Address, mend past.LogMend) (done past.MendedLog, silent bool, err error) {
	f := frameSource{refiller: &h.node.refills, ctx: ctx, from: from, conns: make([]*wire.Conn, len(from))}
	defer f.close()
	mend.Fetch, mend.Holding = f.fetch, f.holding
	done, err = past.MendLog(h.node.fs, dir, mend)
	return done, f.silent, err
}

// logMended counts and tells that a log is whole.
func (h *Healer) logMended(dir string, done past.MendedLog, began time.Time) {
	h.node.refills.segments.Add(uint64(done.Segments))
	h.node.logger.Warn("the log is whole again, with frames of another node", "dir", dir, "bytes", done.Bytes, "took", time.Since(began).Round(time.Millisecond))
}

// frameSource fetches frames from any of several nodes.
type frameSource struct {
	*refiller
	ctx    context.Context
	from   []Address
	conns  []*wire.Conn // nil: there is none now
	gave   Address      // that gave the last frames
	silent bool         // nobody gave the last frames, and a node that did not answer may have them
}

func (f *frameSource) close() {
	for _, conn := range f.conns {
		if conn != nil {
			_ = conn.Close() // it was only read
		}
	}
}

// fetch is a LogMend's.
func (f *frameSource) fetch(term format.ReplID, from, end uint64) ([]byte, error) {
	return f.frames(term, from, end)
}

// holding is a LogMend's.
func (f *frameSource) holding(term format.ReplID, at, end uint64) (uint64, error) {
	raw, err := f.frames(term, at, end, wordHolding)
	if err != nil {
		return 0, err
	}
	start, ok := format.FrameHolds(raw, at)
	if !ok {
		return 0, fmt.Errorf("%w: %s gives frames for log offset %d that do not hold it", ErrProtocol, f.gave, at)
	}
	return start, nil
}

// frames asks for frames, with more words behind the offsets.
func (f *frameSource) frames(term format.ReplID, from, end uint64, more ...string) ([]byte, error) {
	words := append([]string{"frames", term.String(), strconv.FormatUint(from, 10), strconv.FormatUint(end, 10)}, more...)
	var errs []error
	f.silent = false
	for i, a := range f.from {
		var err error
		if f.conns[i] == nil {
			f.conns[i], err = f.node.settings().dial(f.ctx, a, wire.Options{Timeout: dialTimeout, Answer: refillWithin, Buffer: linkBuffer})
		}
		var raw []byte
		if err == nil {
			if raw, err = f.ask(f.ctx, f.conns[i], maxFrames, words...); err == nil {
				f.gave = a
				return raw, nil
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", a, err))
		var refused *wire.ServerError
		f.silent = f.silent || !errors.As(err, &refused) || strings.HasPrefix(refused.Text, "LOADING ")
		if f.conns[i] != nil {
			_, f.conns[i] = f.conns[i].Close(), nil // the rest of an answer may be on its way
		}
	}
	return nil, errors.Join(errs...)
}
