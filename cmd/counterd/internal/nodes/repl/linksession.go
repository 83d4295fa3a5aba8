package repl

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/monotonic"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
)

// session is one connection to the primary.
type session struct {
	*Link
	conn *wire.Conn
	wmu  sync.Mutex // guards writes to conn
	goal uint64     // the end of the primary's log as it first said; 0: it has not yet

	hurries bool          // the primary takes REPLCONF HURRY
	acked   atomic.Uint64 // the end of the log that was acknowledged last
}

// deadline gives the primary its time for the next bytes.
func (s *session) deadline() { _ = s.conn.SetDeadline(time.Now().Add(s.node.settings().Timeout)) }

// ask sends a command and reads the line that answers it.
func (s *session) ask(words ...string) (string, error) {
	if err := s.tell(words...); err != nil {
		return "", err
	}
	s.deadline()
	line, err := s.conn.ReadLine()
	if err != nil {
		err = fmt.Errorf("%s: %w", words[0], err)
	}
	return line, err
}

// option says what a primary of an earlier version may not know: replicas are upgraded first. If the primary refuses it, the
// link goes on without it.
func (s *session) option(name, value string) (known bool, err error) {
	_, err = s.ask("REPLCONF", name, value)
	var refused *wire.ServerError
	if errors.As(err, &refused) && strings.Contains(refused.Text, "unrecognized REPLCONF option") {
		return false, nil
	}
	return err == nil, err
}

// tell sends a command.
func (s *session) tell(words ...string) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	_ = s.conn.SetWriteDeadline(time.Now().Add(s.node.settings().Timeout))
	return s.conn.Send(wire.AppendCommand(nil, words...))
}

func (s *session) run() error {
	c := s.node.settings()
	if _, err := s.ask("PING"); err != nil {
		return err
	}
	port := c.Port
	if c.AnnouncePort != 0 {
		port = c.AnnouncePort
	}
	if _, err := s.ask("REPLCONF", "listening-port", strconv.Itoa(port)); err != nil {
		return err
	}
	if c.AnnounceIP != "" {
		if _, err := s.ask("REPLCONF", "ip-address", c.AnnounceIP); err != nil {
			return err
		}
	}
	if _, err := s.ask(s.hello()...); err != nil {
		var refused *wire.ServerError
		if errors.As(err, &refused) && strings.Contains(refused.Text, "Unrecognized REPLCONF option") {
			err = fmt.Errorf("the primary is no counterd, maybe a Redis, and its data cannot be followed: %w", err)
		}
		return err
	}
	if _, err := s.option("process", s.node.process); err != nil {
		return err
	}
	if s.id == "" { // in a cluster the nodes in sync make a change safe
		var err error
		if s.hurries, err = s.option("hurry", "0"); err != nil {
			return err
		}
	}
	if err := s.introduce(); err != nil {
		return err
	}
	if h := s.node.Healing(); h != nil && h.Lead != (format.ReplID{}) && s.id == "" {
		if _, err := s.option("heal", h.Lead.String()); err != nil {
			return err
		}
	}
	store := s.node.host.Store()
	past := store.Replication().Lineage()
	told := past
	told.NeedsSnapshot = false // it is of this directory alone, and a primary of an earlier version does not know it
	if _, err := s.ask("REPLCONF", "history", string(told.AppendText(nil))); err != nil {
		return err
	}
	id, offset := "?", "-1"
	end := store.Replication().Position()
	if !s.full {
		id, offset = past.Current().ReplID.String(), strconv.FormatUint(end, 10)
	}
	line, err := s.ask("PSYNC", id, offset)
	var refused *wire.ServerError
	if errors.As(err, &refused) {
		var at uint64
		if n, _ := fmt.Sscanf(refused.Text, "DIVERGED %d", &at); n == 1 {
			return s.cut(at)
		}
		if n, _ := fmt.Sscanf(refused.Text, "NOTYET %d", &at); n == 1 {
			s.end.Store(at)
			s.leadAgain(&past)
			return &NotYetError{End: at, Own: end}
		}
	}
	if err != nil {
		return err
	}
	a, err := parseAnswer(line)
	if err != nil {
		return err
	}
	if a.full {
		return s.copy(a)
	}
	lineage, err := s.lineage(a)
	if err != nil {
		return err
	}
	if a.offset != store.Replication().Position() {
		return fmt.Errorf("%w: the stream begins at %d, the log ends at %d", ErrProtocol, a.offset, store.Replication().Position())
	}
	// It has compared the two pasts, as this node does now: a primary that takes a foreign node for its replica must not mix
	// their logs.
	if at, known := lineage.Common(math.MaxUint64, &past, a.offset); a.offset > 0 && (!known || at < a.offset) {
		return fmt.Errorf("%w: the stream begins at %d, the pasts of the two logs agree up to %d", ErrProtocol, a.offset, at)
	}
	changed, err := store.Replication().Follow(lineage)
	if err == nil {
		err = s.cutAtTerm(store.Replication(), &lineage)
	}
	if err != nil {
		return err
	}
	if changed {
		s.node.peers.DisconnectAll() // replicas of this one learn the new past
	}
	s.agreed()
	if s.mendIfAsked(store) {
		return nil
	}
	s.node.logger.Info("resumed replication from the primary's log", "primary", s.primary.String(), "offset", a.offset, "replid", a.replID)
	return s.stream()
}

// lineage reads the past that stands behind an answer.
func (s *session) lineage(a answer) (format.Lineage, error) {
	text, err := readBlob(s.conn, a.lineage, format.MaxLineageText)
	if err != nil {
		return format.Lineage{}, err
	}
	l, err := format.ParseLineage("the primary's history", text)
	if err == nil && (len(l.Terms) == 0 || l.Current().ReplID.String() != a.replID) {
		err = fmt.Errorf("%w: answer of %s, history of %s", ErrProtocol, a.replID, l.Current().ReplID)
	}
	return l, err
}

// cut takes back what this node's log has and the primary's has not.
func (s *session) cut(at uint64) error {
	log := s.node.logger
	own := s.node.host.Store().Replication().Lineage()
	end := s.node.host.Store().Replication().Position()
	if at >= end {
		return fmt.Errorf("%w: a cut at %d of a log that ends at %d", ErrProtocol, at, end)
	}
	err := s.mayCut(&own, at)
	whole := !s.node.host.Store().Replication().Behind()
	if err == nil {
		err = s.node.host.Store().Replication().MarkBehind()
	}
	if err != nil {
		return err
	}
	log.Warn("the log of this node differs from the primary's; truncating it to the common offset", "offset", at, "end", end)
	var tail past.CutTail
	err = s.reopen(func(dir string) (err error) {
		before := own.Cut(at)
		before.Replica = true
		tail, err = past.Cut(s.node.fs, dir, at, before)
		return err
	})
	if errors.Is(err, format.ErrGone) || errors.Is(err, format.ErrCorrupt) { // only a link that agrees about the log could fetch damaged frames
		s.full = true
		log.Warn("the log of this node does not reach back to the common offset, or is damaged; saving the data of this node and starting a full copy", "offset", at, "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	s.whole = whole
	log.Warn("removed changes that only this node had", "from", tail.From, "to", tail.To, "frames", tail.Frames, "sets", tail.Sets,
		"deletes", tail.Deletes, "flushes", tail.Flushes, "schema_changes", tail.Schemas, "first_change", time.UnixMilli(tail.FirstMS), "last_change", time.UnixMilli(tail.LastMS),
		"saved_to", tail.File)
	s.node.noteCut(tail)
	return nil
}

// mayCut is called before this node gives up its log after an offset, which its primary lacks. A node of a cluster does not
// give up confirmed changes (*ConfirmedError).
func (s *session) mayCut(past *format.Lineage, at uint64) error {
	if s.id == "" {
		return nil
	}
	err := s.node.confirmed.allows(past, at)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	told := s.lacks != 0
	s.mu.Unlock()
	if !told {
		s.node.logger.Error("refusing to follow a primary that lacks acknowledged changes", "primary", s.primary.String(), "epoch", s.epoch, "error", err)
	}
	return err
}

// reopen is the host's, and cuts off the replicas that this node feeds: they know of the store before.
//
// A reopening that fails, for example on a full disk, is tried again after a second, then two and so on up to a minute: each
// costs the readers a start of the store.
func (s *session) reopen(change func(dir string) error) error {
	defer s.node.peers.DisconnectAll()
	s.node.told.Store(0) // it was said of the log that is about to be changed
	err := s.node.host.Reopen(change)
	if err == nil || errors.Is(err, format.ErrGone) { // that one asks for a full copy at once
		s.rest = 0
	} else {
		s.rest = min(max(2*s.rest, firstRest), maxRest)
	}
	return err
}

// cutAtTerm ends the mark of a cut where the log ends now at the beginning of the primary's term, before this node acknowledges anything in that
// term. The primary has all that was acknowledged before its term, and this node has all of the primary's log up to there. It was not
// behind before the cut. Without this, a shard of two waited for a primary that was lost in the first second after it had taken over.
func (s *session) cutAtTerm(log *counter.Replication, primary *format.Lineage) error {
	whole := s.whole && log.Position() == primary.Terms[len(primary.Terms)-1].Start
	s.whole = false
	if !whole {
		return nil
	}
	return log.ClearBehind()
}

// caughtUp ends the mark that this node may lack what it acknowledged. An elected primary has all of that, below the end of
// its log that it names first on this link. Later ends do not count: under load, each names more than is durable here, and
// the node would be no candidate for as long as the load lasts.
func (s *session) caughtUp(log *counter.Replication, end uint64) {
	if s.goal == 0 {
		s.goal = end
	}
	if s.id != "" && (s.node.Healing() != nil || log.Behind()) && log.Durable() < s.goal && log.Written() >= s.goal {
		_ = log.Sync() // the log tells its error, and the next ping tries again
	}
	s.healed(log)
	if s.id == "" || log.Durable() < s.goal || !log.Behind() {
		return
	}
	if err := log.ClearBehind(); err != nil {
		s.node.logger.Warn("cannot record that this node has caught up", "error", err)
	}
}

// stream applies frames until the connection ends. The log ends where the stream begins.
func (s *session) stream() error {
	s.mended(nil)
	s.agreed()
	s.node.told.Store(0) // it was said by another node, perhaps
	s.set(LinkConnected)
	defer s.each(ackEvery, func() error {
		if s.stalled.Load() { // a replica that cannot take changes must not count as a good one: min-replicas-to-write depends on its last message
			return nil
		}
		return s.ack()
	})()
	defer s.conn.Close() // ends a write of the other goroutine
	if err := s.ack(); err != nil {
		return err
	}
	compare := newCompareSide(s)
	defer compare.close()
	mr := messageReader{r: &s.conn.Reader}
	store := s.node.host.Store()
	past := store.Replication().Lineage()
	history := past.Current().ReplID
	var m message
	var pos uint64
	for {
		if s.conn.Buffered() == 0 {
			if pos != 0 {
				if err := s.commit(store, pos); err != nil {
					return err
				}
				pos = 0
				if s.id != "" { // others wait for it
					if err := s.ack(); err != nil {
						return err
					}
				}
			}
			_ = s.conn.SetReadDeadline(time.Now().Add(s.node.settings().Timeout))
		}
		if err := mr.next(&m); err != nil {
			return err
		}
		s.lastIO.Store(int64(monotonic.Now()))
		switch m.kind {
		case msgPing:
			s.end.Store(m.end)
			s.caughtUp(store.Replication(), m.end)
			if s.mendIfAsked(store) {
				return nil
			}
		case msgConfirm:
			s.node.told.Store(m.end)
			if s.id != "" {
				s.node.confirmed.raise(history, s.epoch, m.end)
			}
		case msgPublish, msgShard:
			s.node.host.Publish(m.kind == msgShard, m.channel, m.text)
		case msgQuestion, msgDigests, msgRows:
			if err := compare.handle(&m); err != nil {
				return err
			}
		case msgGetAck:
			if err := s.commit(store, store.Replication().Position()); err != nil {
				return err
			}
			if err := s.ack(); err != nil {
				return err
			}
		case msgFrame:
			if epoch := uint64(format.FrameEpoch(m.frame)); s.id != "" && epoch > s.epoch {
				return fmt.Errorf("%w: a frame of epoch %d on a link of epoch %d", ErrProtocol, epoch, s.epoch)
			}
			if err := s.ready(store); err != nil {
				return err
			}
			end, err := store.Replication().Replicate(m.frame)
			if err != nil {
				return s.applyFailed(err)
			}
			if pos = end; end-store.Replication().Written() > 1<<20 { // a burst: give it to the file now and then
				if err := s.commit(store, pos); err != nil {
					return err
				}
			}
			if s.end.Load() < end {
				s.end.Store(end)
			}
		}
	}
}

// each calls say again and again until it fails or stop is called, which waits for it.
func (s *session) each(interval time.Duration, say func() error) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			if say() != nil {
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// commit is the log's Commit. Records that cannot be written stay in the log's memory, and are written when the disk is
// well.
func (s *session) commit(store *counter.Store, pos uint64) error {
	for {
		err := store.Replication().CommitHere(pos)
		if !errors.Is(err, format.ErrNotReady) {
			return err
		}
		if err := s.ready(store); err != nil {
			return err
		}
	}
}

// applyFailed opens the store again when its memory may lack what its log has. A frame of a term that is not known here
// changes nothing: the next connection brings the primary's history.
func (s *session) applyFailed(err error) error {
	if errors.Is(err, format.ErrTerm) || errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrNotReady) || errors.Is(err, counter.ErrClosed) {
		return err
	}
	s.node.logger.Error("cannot apply a log frame; reopening the store", "error", err)
	return errors.Join(err, s.reopen(func(string) error { return nil }))
}

// ack tells the primary how far this node is.
func (s *session) ack() error {
	store := s.node.host.Store()
	if !store.Durable() { // being opened
		return nil
	}
	if s.id != "" && s.node.Healing() != nil { // the primary would put the node in sync, which counts as an older copy at its next start
		return nil
	}
	log := store.Replication()
	written, durable := log.Written(), log.Durable()
	if s.id != "" && log.AcksDurable() {
		written = durable // this node promises no more than it keeps, whatever the primary's appendfsync
	}
	err := s.tell("REPLCONF", "ACK", strconv.FormatUint(s.promised(written, durable), 10), "FACK", strconv.FormatUint(durable, 10))
	if err == nil && s.hurries && s.node.hurries.Swap(false) {
		err = s.tell("REPLCONF", "HURRY", strconv.FormatUint(durable, 10))
	}
	return err
}
