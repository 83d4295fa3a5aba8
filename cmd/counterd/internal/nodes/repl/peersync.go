package repl

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"syscall"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// diverged is the answer to a replica whose log must be cut.
type divergedError struct{ offset uint64 }

func (e *divergedError) Error() string { return "DIVERGED " + strconv.FormatUint(e.offset, 10) }

// notYetError is the answer to a replica that has more of the log than this one, a replica too: it may come again.
type notYetError struct{ end uint64 }

func (e *notYetError) Error() string { return "NOTYET " + strconv.FormatUint(e.end, 10) }

// Sync decides on a PSYNC. reply is to be sent to the replica; when stream is set Feed is to be called behind it. An
// error is to be answered.
func (p *Peer) Sync(store *counter.Store, replID, offset string) (reply []byte, stream bool, err error) {
	if !store.Durable() {
		return nil, false, errors.New("ERR data is kept in memory only (appendonly no): there is no log to replicate")
	}
	if p.fed() {
		return nil, false, errors.New("ERR the log is streamed on this connection already")
	}
	log := store.Replication()
	mine := log.Lineage()
	at, perr := strconv.ParseUint(offset, 10, 64)
	if p.pin != nil && replID == "?" && perr == nil { // behind FULLRESYNC
		if p.store != store {
			return nil, false, errors.New("ERR the snapshot that was announced is no more: send PSYNC on a new connection")
		}
		return p.proceed(log, &mine, p.withCursors(log, at))
	}
	p.follow() // the subject of an earlier answer
	p.store = store
	if replID != "?" && perr == nil {
		end := log.Written()
		common, ok := mine.Common(end, &p.lineage, at)
		switch first := log.First(); {
		case !ok:
			if at == 0 && first == 0 && len(log.Manifests()) == 0 {
				return p.proceed(log, &mine, 0)
			}
		case common < at && mine.Replica && mine.Begins(end, &p.lineage, at):
			// Log that comes from this node's own primary may be the log that the other node has. A primary is never
			// behind: its term is one of its own.
			return nil, false, &notYetError{end}
		case common < at:
			return nil, false, &divergedError{common}
		case common >= first:
			p.pin = store.Pins().PinLog(at)
			if err = p.probe(log, at); err == nil {
				reply, stream, err = p.proceed(log, &mine, at)
			}
			if err == nil {
				p.peers.PartialOK.Add(1)
				return reply, stream, nil
			}
			p.pin.Release()
			p.pin = nil
			if !errors.Is(err, format.ErrGone) && !errors.Is(err, format.ErrCorrupt) {
				return nil, false, err
			}
		}
		p.peers.PartialErr.Add(1)
	}
	if p.pin, err = store.Pins().PinSnapshot(); err != nil {
		return nil, false, err
	}
	m := p.pin.Manifest
	if m == nil {
		if first := log.First(); first != 0 {
			return nil, false, fmt.Errorf("ERR there is no snapshot and the log begins at %d: send BGSAVE to this node", first)
		}
		m = &format.Manifest{Generation: 1, History: mine.Current()}
	}
	p.peers.Full.Add(1)
	p.copying.Store(true)
	p.Heard()
	text, past := m.Text(), mine.AppendText(nil)
	reply = fmt.Appendf(nil, "+FULLRESYNC %s %d %d %d\r\n", mine.Current().ReplID, m.Replay, len(text), len(past))
	reply = append(append(reply, text...), "\r\n"...)
	reply = append(append(reply, past...), "\r\n"...)
	p.peers.add(p)
	return reply, false, nil
}

// capaCursors says that a replica takes log behind a full copy from the oldest cursor of the feed on.
const capaCursors = "cursors"

// withCursors is the offset from which a replica gets log behind a full copy: at, or the lowest that a cursor of the feed needs, in its present place
// or in that of the copied snapshot. The replica keeps log by the latter until the stream tells it the former, and may lead before that. Log that is
// dropped or damaged behind its first frame ends the stream: the replica comes again, after some times without capaCursors.
func (p *Peer) withCursors(log *counter.Replication, at uint64) uint64 {
	if !p.takesCursors || p.pin.Manifest == nil { // the log goes back to its beginning
		return at
	}
	from, first := at, log.First()
	if present, ok := counter.CursorsFrom(p.store); ok {
		from = min(from, present)
	}
	for _, c := range p.pin.Manifest.Cursors {
		if c.Offset >= first { // else this node has lost it too
			from = min(from, c.Offset)
		}
	}
	if from == at {
		return at
	}
	p.pin.RetainLog(from)
	if p.probe(log, from) != nil {
		return at
	}
	return from
}

// probe reads the first frame that a replica would get. Where old log is damaged the replica takes a full copy: it would
// come to the same place again and again.
func (p *Peer) probe(log *counter.Replication, at uint64) error {
	r, err := log.NewReader(at)
	if err != nil {
		return err
	}
	_, err = r.TryNext()
	if errors.Is(err, format.ErrCorrupt) {
		counter.NoteBrokenLog(p.store, err)
		p.peers.logger.Error("the log that a replica needs is damaged; sending a full copy", "replica", p.address(), "error", err)
	}
	return errors.Join(err, r.Close())
}

// proceed opens the log at an offset and answers CONTINUE.
func (p *Peer) proceed(log *counter.Replication, mine *format.Lineage, at uint64) (reply []byte, stream bool, err error) {
	if p.reader, err = log.NewFollower(at); err != nil {
		return nil, false, err
	}
	p.sent.Store(p.reader.Pos())
	p.copying.Store(false)
	p.told = mine.AppendText(nil)
	reply = fmt.Appendf(nil, "+CONTINUE %s %d %d\r\n", mine.Current().ReplID, p.reader.Pos(), len(p.told))
	return append(append(reply, p.told...), "\r\n"...), true, nil
}

// lostReply begins the error that answers a fetch of a cold file that this node does not have any more.
const lostReply = "LOST "

// Fetch opens a file of the snapshot that FULLRESYNC announced. An image is verified before: memory still has the data of
// a damaged image, so it is written anew. A cold file is given as it is. A missing file, or one the disk cannot open, is
// LOST: it must not keep replicas from all other data.
func (p *Peer) Fetch(tier, name string) (file *vfs.Stream, size int64, err error) {
	if p.fed() || p.pin == nil {
		return nil, 0, errors.New("ERR no snapshot was announced: send PSYNC before")
	}
	path, ok := p.pin.Path(format.Tier(tier), name)
	if !ok {
		return nil, 0, fmt.Errorf("ERR the snapshot has no file %.100q", name)
	}
	cold := format.Tier(tier) == format.TierCold
	want, err := p.verified(format.Tier(tier), name)
	if err != nil {
		_ = p.pin.VerifyImages() // it may not be the only one
		return nil, 0, fmt.Errorf("ERR an image is damaged and is written anew, ask for the next snapshot: %w", err)
	}
	if file, err = vfs.OpenStream(p.store.Admin().FS(), path); err != nil {
		if cold && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EIO)) {
			return nil, 0, fmt.Errorf(lostReply+"%w", err)
		}
		return nil, 0, fmt.Errorf("ERR %w", err)
	}
	if cold && uint64(file.Size()) != want {
		err = fmt.Errorf(lostReply+"%s has %d bytes, want %d", path, file.Size(), want)
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, file.Size(), nil
}

// Verify reads all of a cold file of the snapshot that FULLRESYNC announced. The error begins with LOST if a part cannot be read.
func (p *Peer) Verify(name string) error {
	if p.fed() || p.pin == nil || p.pin.Manifest == nil {
		return errors.New("ERR no snapshot was announced: send PSYNC before")
	}
	found := false
	err := p.pin.Manifest.Files(func(c *format.CounterFiles, b *format.BlockFile) error {
		if b.Tier != format.TierCold || b.Name != name {
			return nil
		}
		found = true
		return counter.CheckBlockFile(p.store.Admin().FS(), p.store.Path(), c, b)
	})
	if err != nil {
		return fmt.Errorf(lostReply+"%w", err)
	}
	if !found {
		return fmt.Errorf("ERR the snapshot has no file %.100q", name)
	}
	return nil
}

// verified checks an image of the announced snapshot, and returns the size of a file.
func (p *Peer) verified(tier format.Tier, name string) (size uint64, err error) {
	if p.pin.Manifest == nil {
		return 0, nil
	}
	err = p.pin.Manifest.Files(func(c *format.CounterFiles, b *format.BlockFile) error {
		if b.Tier != tier || b.Name != name {
			return nil
		}
		if size = b.Bytes; tier == format.TierCold {
			return nil
		}
		return snapfile.CheckBlock(p.store.Admin().FS(), p.store.Path(), c, b, nil)
	})
	return size, err
}
