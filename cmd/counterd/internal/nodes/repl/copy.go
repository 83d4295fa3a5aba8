package repl

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/monotonic"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// copy takes a full copy of the primary:
//
//  1. the block files, under names that no other file has (fetched.go), beside what the store has: it goes on to answer
//  2. where the two logs differ, what this node has is saved as an archive, if it has anything
//  3. the log from the snapshot's replay offset, or from the oldest cursor of the feed, beside the store's
//  4. at the snapshot's offset the store is closed (LOADING), manifest and log take the place of its own in one step
//     that a crash does not split, it is opened again, takes the primary's history over, and the stream goes on
//
// Where the primary's log goes on from this one, step 4 waits until what came has reached the end of this log too: this
// node never has less than before. It has acknowledged its log, and the primary may be a replica that is behind.
//
// A file that is there already, whole, from a copy that was broken off is not asked for again.
func (s *session) copy(a answer) (err error) {
	s.set(LinkSync)
	s.deadline()
	text, err := readBlob(s.conn, a.first, format.MaxManifest)
	if err != nil {
		return err
	}
	m, err := format.ParseManifest("the primary's manifest", text)
	if err != nil {
		return err
	}
	lineage, err := s.lineage(a)
	if err != nil {
		return err
	}
	if err := counter.CheckManifest(m); err != nil {
		return err
	}
	var files []*fetchedFile
	gaps := gapsOf(m)
	begins, installed := m.Replay, false // the log that comes
	defer func() {
		if begins < m.Replay && !installed && s.breaks < mostBreaks {
			s.brokeOff(err)
		} else if vfs.IsNoSpace(err) {
			s.makeRoom(&lineage, gaps, files)
		}
	}()
	store := s.node.host.Store()
	if s.kin.Load() && !related(store, &lineage) {
		return ErrForeign
	}
	if s.mending {
		if err := s.mendable(store, &lineage, m); err != nil {
			return err
		}
	}
	mine, end := store.Replication().Lineage(), store.Replication().Position()
	agree, known := lineage.Common(math.MaxUint64, &mine, end)
	goesOn := known && agree >= end // the primary's log holds all of this one, or will: it may be a replica, and behind
	until := m.Offset
	if goesOn {
		until = max(until, end)
	} else if err := s.mayCut(&mine, agree); err != nil {
		return err
	}
	alive := s.each(copyAlive, func() error { return s.tell("REPLCONF", "ACK", "0", "FACK", "0") })
	defer func() { alive() }()
	files = s.fetched.rename(s.node.fs, store, m)
	began := time.Now()
	if s.doubts {
		if err := s.verifyTheirs(files); err != nil {
			return err
		}
	}
	if err := s.files(m, files, store.Path()); err != nil {
		return err
	}
	s.node.logger.Info("copied the snapshot of the primary", "primary", s.primary.String(), "generation", m.Generation, "files", len(files), "took", time.Since(began).Round(time.Millisecond))

	if !goesOn {
		if err := s.saveOwn(agree, end); err != nil {
			return err
		}
	}
	alive() // behind PSYNC acknowledgements count
	alive = func() {}
	line, err := s.ask("PSYNC", "?", strconv.FormatUint(m.Replay, 10))
	if err != nil {
		return err
	}
	b, err := parseAnswer(line)
	if err == nil && (b.full || b.offset > m.Replay) {
		err = fmt.Errorf("%w: %q, want the log from %d", ErrProtocol, line, m.Replay)
	}
	if err != nil {
		return err
	}
	now, err := s.lineage(b)
	if err == nil && !bytes.Equal(now.AppendText(nil), lineage.AppendText(nil)) {
		err = fmt.Errorf("%w: the primary's history has changed while its data was copied", ErrProtocol)
	}
	if begins = b.offset; err == nil {
		err = s.roomForCursors(store.Path(), m.Replay-begins)
	}
	if err != nil {
		return err
	}
	if goesOn { // this node keeps its part of the primary's log meanwhile
		alive = s.each(ackEvery, s.ack)
	}
	in, err := s.stage(store.Path(), begins, until, lineage, m)
	if err != nil {
		return err
	}
	alive()
	alive = func() {}
	s.whole = false
	if !goesOn && end > 0 { // it may lack what it acknowledged, until it has caught up
		if err := store.Replication().MarkBehind(); err != nil {
			return errors.Join(err, in.Abort())
		}
	}
	if err := s.reopen(func(string) error { return in.Finish() }); err != nil {
		return err
	}
	installed, s.breaks, s.lost = true, 0, 0
	for _, file := range files {
		if file.lost {
			s.lost++
		}
	}
	s.fetched.installed()
	// The start forgot the terms that begin after the installed data: the stream goes on into them.
	if _, err := s.node.host.Store().Replication().Follow(lineage); err != nil {
		return err
	}
	s.node.peers.DisconnectAll()
	s.node.logger.Info("full copy complete; serving the data of the primary", "primary", s.primary.String(), "offset", s.node.host.Store().Replication().Position(), "took", time.Since(began).Round(time.Millisecond))
	return s.stream()
}

// files copies the missing files, and checks each before any of this node's own data is given up for it.
func (s *session) files(m *format.Manifest, files []*fetchedFile, dir string) error {
	total := int64(0)
	_ = m.Files(func(_ *format.CounterFiles, b *format.BlockFile) error { total += int64(b.Bytes); return nil })
	s.mu.Lock()
	s.copied, s.total = 0, total
	s.mu.Unlock()
	buf := make([]byte, 256<<10)
	i := -1
	return m.Files(func(c *format.CounterFiles, b *format.BlockFile) error {
		i++
		path, file := b.Path(dir), files[i]
		if info, err := s.node.fs.Stat(path); err == nil && file.whole && info.Size() == int64(b.Bytes) {
			s.progress(int64(b.Bytes))
			return nil
		}
		file.whole, file.lost = false, false // the file is gone, as the store was opened again: another file comes now
		if err := s.fetchWhole(c, b, path, file, buf); err != nil {
			return err
		}
		file.whole = true
		return nil
	})
}

// fetchWhole copies one file and checks it. A cold file that is damaged is asked for once more; if it is damaged then
// too, or the primary says that it is lost, it is so there, and is taken as it is: its posts answer errors here as they
// do there, and everything else is served.
func (s *session) fetchWhole(c *format.CounterFiles, b *format.BlockFile, path string, file *fetchedFile, buf []byte) error {
	for again := false; ; again = true {
		err := s.fetch(path, string(b.Tier), file.theirs, b, buf)
		var reply *wire.ServerError
		lost := errors.As(err, &reply) && strings.HasPrefix(reply.Text, lostReply)
		if err != nil && !lost {
			return err
		}
		if err == nil {
			if err = counter.CheckBlockFile(s.node.fs, s.node.host.Store().Path(), c, b); err == nil {
				return nil
			}
		}
		var fault *snapfile.BlockFault
		switch {
		case s.mending && (lost || errors.As(err, &fault) && again):
			return errNoMend
		case b.Tier == format.TierCold && (lost || errors.As(err, &fault) && again):
			s.node.logger.Warn("a cold file of the primary is damaged, and so is its copy; its unreadable posts return errors here, too", "primary", s.primary.String(),
				"file", file.theirs, "counter", c.Name, "lo", b.Lo, "hi", b.Hi, "error", err)
			file.lost = true
			return nil
		case fault != nil:
		default:
			err = fmt.Errorf("%w: file %s is not what the manifest says: %w", ErrProtocol, file.theirs, err)
			return errors.Join(err, s.node.fs.Remove(path))
		}
	}
}

func (s *session) progress(n int64) {
	s.mu.Lock()
	s.copied += n
	s.mu.Unlock()
	s.lastIO.Store(int64(monotonic.Now()))
}

// stage takes the log up to an offset, that of the snapshot or behind it, and makes it and the snapshot ready to become
// the directory's content.
func (s *session) stage(dir string, start, until uint64, lineage format.Lineage, m *format.Manifest) (*past.Install, error) {
	snapshot := m
	if m.Offset == 0 && len(m.Counters) == 0 && len(m.Schema) == 0 {
		snapshot = nil // there is none: the log from its beginning
	}
	older, err := counter.NewFrameChecker(nil) // of log before the snapshot, which names its schemas itself
	if err != nil {
		return nil, err
	}
	newer, err := counter.NewFrameChecker(snapshot)
	if err != nil {
		return nil, err
	}
	in, err := past.BeginInstall(s.node.fs, dir, start, lineage, snapshot)
	if err != nil {
		return nil, err
	}
	mr := messageReader{r: &s.conn.Reader}
	var msg message
	for in.Position() < until {
		_ = s.conn.SetReadDeadline(time.Now().Add(s.node.settings().Timeout))
		if err := mr.next(&msg); err != nil {
			return nil, errors.Join(err, in.Abort())
		}
		s.lastIO.Store(int64(monotonic.Now()))
		if msg.kind != msgFrame {
			continue
		}
		checker := newer
		if in.Position()+uint64(len(msg.frame)) <= m.Replay {
			checker = older
		}
		if err := checker.Check(msg.frame); err != nil {
			return nil, errors.Join(err, in.Abort())
		}
		if err := in.Append(msg.frame); err != nil {
			return nil, errors.Join(err, in.Abort())
		}
	}
	if err := in.Stage(); err != nil {
		return nil, errors.Join(err, in.Abort())
	}
	return in, nil
}

// The log before the snapshot's replay offset is for consumers of the feed alone, and must not keep a node from its copy.

// mostBreaks is how many copies with such log may break off in a row: the log may be damaged at the primary, or the connection may not last.
const mostBreaks = 3

// roomForCursors returns an error if so many bytes of such log take more than half of the free room: clients' changes need it.
func (s *session) roomForCursors(dir string, bytes uint64) error {
	space, err := s.node.fs.Space(dir)
	if err != nil || bytes <= uint64(max(0, space.Free))/2 {
		return nil // if the disk does not tell, writing will
	}
	return fmt.Errorf("the log behind the oldest cursor of the feed takes %d bytes, more than half of the %d that are free: %w", bytes, space.Free, syscall.ENOSPC)
}

// brokeOff is called when a copy with such log has broken off. Without room, or after some attempts, the next one is made without that log.
func (s *session) brokeOff(err error) {
	if s.breaks++; vfs.IsNoSpace(err) {
		s.breaks = mostBreaks
	}
	if s.breaks >= mostBreaks {
		s.node.logger.Warn(CopyWithoutCursors, "primary", s.primary.String(), "error", err)
	}
}

// CopyWithoutCursors is the line of a node that gives up the log behind cursors of the feed.
const CopyWithoutCursors = "making the full copy without the log behind cursors of the feed; cursors that are behind the snapshot will be lost on this node"

// saveOwn saves what this node has, all of it, before the data of a primary whose log differs from an offset on takes its
// place: the two have no past in common, or this log could not be cut back to it. Without posts there is nothing to
// save. A disk that has no room for it ends the copy: the data stays.
func (s *session) saveOwn(agree, end uint64) error {
	store := s.node.host.Store()
	mine := store.Replication().Lineage()
	saved := ownData{mine.Current().ReplID, end}
	items, err := store.Len()
	if err != nil || items == 0 || s.saved == saved {
		return err
	}
	s.node.logger.Warn("the data of this node is not part of the primary's history; saving it before the full copy", "primary", s.primary.String(),
		"items", items, "offset", end)
	began := time.Now()
	path, removed, err := store.Replication().SaveDiverged(s.ctx)
	if err != nil {
		return fmt.Errorf("this node's own data could not be saved and is kept, nothing is copied: %w", err)
	}
	s.saved = saved // not again when the link is cut
	s.node.logger.Warn("saved the data of this node", "saved_to", path, "items", items, "took", time.Since(began).Round(time.Millisecond),
		"restore", "counterctl restore "+path+" --out DIR", "older_ones_removed", removed)
	s.node.noteCut(past.CutTail{From: agree, To: end, Items: items, File: path})
	return nil
}

// related tells whether a node of that lineage has something of a store's history, or the store has nothing to lose.
func related(store *counter.Store, l *format.Lineage) bool {
	mine, end := store.Replication().Lineage(), store.Replication().Position()
	_, known := l.Common(math.MaxUint64, &mine, end)
	return known || end == 0
}

// A node that heals needs room for a copy beside the damaged files. Where the disk has none, the link says so, and tries again until there is
// room: files that have come are kept. If the primary can read all of its posts and has all of this node's log, the images and the cold
// files that were set aside are removed, which gives the room (past.DropCopied). The primary checks its images before it gives them, and
// not its cold files, which may be damaged without its knowledge. So the next attempt first asks it to read those that have not come yet.

// errUnread: a primary of an earlier version does not read its files for others.
var errUnread = errors.New("it is not known whether the primary can read all of its cold files")

// verifyTheirs asks the primary to read its cold files that have not come. An earlier version cannot, and refuses.
func (s *session) verifyTheirs(files []*fetchedFile) error {
	for _, f := range files {
		if !f.cold || f.whole || f.good {
			continue
		}
		_, err := s.ask("REPLCONF", "verify", string(format.TierCold), f.theirs)
		var refused *wire.ServerError
		switch {
		case err == nil:
			f.good = true
		case !errors.As(err, &refused):
			return err
		case !strings.HasPrefix(refused.Text, lostReply):
			return nil
		}
		f.bad = err != nil
		s.lastIO.Store(int64(monotonic.Now()))
	}
	return nil
}

// makeRoom is called when a copy has found no room on the disk. err is why the primary has not all posts; nil: it has. files are those
// that have come, or are to come.
func (s *session) makeRoom(primary *format.Lineage, err error, files []*fetchedFile) {
	n := s.node
	if n.Healing() == nil {
		return // the link says so
	}
	dir := n.host.Store().Path()
	if slices.ContainsFunc(files, func(f *fetchedFile) bool { return f.lost || f.bad }) {
		err = errNoMend
	}
	if err == nil && slices.ContainsFunc(files, func(f *fetchedFile) bool { return f.cold && !f.whole && !f.good }) {
		if err = errUnread; !s.doubts {
			s.doubts = true
			return
		}
	}
	sets := 0
	if err == nil {
		sets, err = past.DropCopied(n.fs, dir, primary)
	}
	if sets > 0 {
		n.logger.Warn("the disk has no room for the damaged files and a copy of the data; removed the images and cold files that were set aside, as the primary has all of them", "dir", dir)
		return
	}
	s.mu.Lock()
	need := s.total - s.copied
	s.mu.Unlock()
	text := "no room" // a reason is said once
	free := int64(-1)
	if space, serr := n.fs.Space(dir); serr == nil {
		free = space.Free
	}
	if err != nil {
		text = err.Error()
	}
	if s.cramped == text {
		return
	}
	s.cramped = text
	n.logger.Error("this node cannot heal: the disk has no room for a copy of the data beside the damaged files; free some room, or move the damaged files to another disk",
		"dir", dir, "size", need, "free", free, "error", err)
}
