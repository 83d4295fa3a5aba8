package repl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
)

// A damaged segment of the log is needed by no start, as a snapshot stands behind it, but a replica, a backup or a restore may
// need it. Another node of the same log has its frames at the same offsets:
//
//	this node                                          the other node
//	REPLCONF frames <replid> <from> <end>    -->       its log is of that term, and has come to end
//	                                         <--       whole frames that begin at from, 1 MiB or one at least
//
// and so on, for each range that is damaged here. Each frame is checked, and the next segment must name the last one
// (persist/restore.go).

const (
	// frameBatch is how many bytes of frames are sent at a time, unless one is larger.
	frameBatch = 1 << 20
	// maxFrames bounds the bytes of an answer.
	maxFrames = frameBatch + format.FrameHeaderLen + format.MaxFramePayload
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
			n.logger.Warn("a damaged log segment was made again, with frames of another node", "from", b.Start, "end", b.End, "bytes", bytes,
				"replica", from.String(), "took", time.Since(began).Round(time.Millisecond))
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
	helpers, term := f.helpers(), termOf(store)
	conns := make([]*wire.Conn, len(helpers))
	defer func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.Close() // it was only read
			}
		}
	}()
	err = counter.RestoreLog(store, b, func(at, end uint64) ([]byte, error) {
		if len(helpers) == 0 {
			return nil, errNoHelper
		}
		var errs []error
		for i, a := range helpers {
			var raw []byte
			var err error
			if conns[i] == nil {
				conns[i], err = f.node.settings().dial(ctx, a, wire.Options{Timeout: dialTimeout, Answer: refillWithin, Buffer: linkBuffer})
			}
			if err == nil {
				raw, err = f.ask(ctx, conns[i], maxFrames, "frames", term, strconv.FormatUint(at, 10), strconv.FormatUint(end, 10))
			}
			if err == nil {
				fetched, from = fetched+len(raw), a
				return raw, nil
			}
			if errs = append(errs, fmt.Errorf("%s: %w", a, err)); conns[i] != nil {
				_, conns[i] = conns[i].Close(), nil // the rest of an answer may be on its way
			}
		}
		return nil, errors.Join(errs...)
	})
	return fetched, from, err
}

// Frames answers REPLCONF frames. The words are those behind frames.
func Frames(n *Node, words [][]byte) (raw []byte, err error) {
	if len(words) != 3 {
		return nil, fmt.Errorf("%w: REPLCONF frames with %d words, want 3", ErrProtocol, len(words))
	}
	from, err := strconv.ParseUint(string(words[1]), 10, 64)
	end, eerr := strconv.ParseUint(string(words[2]), 10, 64)
	if err != nil || eerr != nil || from >= end {
		return nil, fmt.Errorf("%w: REPLCONF frames from %q to %q", ErrProtocol, words[1], words[2])
	}
	store := n.host.Store()
	if err := mayGive(n, store, string(words[0])); err != nil {
		return nil, err
	}
	if written := store.Replication().Written(); written < end {
		return nil, &notYetError{written}
	}
	r, err := store.Replication().NewReaderAt(from)
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
