package follow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// links keeps a link to the source: one after the other, each going on where the last ended.
type links struct {
	*follower
	replid string
	offset uint64 // received, and in the spool
	full   chan fullCopy
	ended  chan struct{}

	history atomic.Pointer[string] // its name, once it has changed
}

// fullCopy is a snapshot in a file, to be loaded before the spool.
type fullCopy struct {
	path   string
	replid string
	offset uint64
	loaded chan struct{} // closed by its loader
}

// run runs until ctx ends, or for reasons that waiting does not change. Why it ended is in the spool, behind all that
// came.
func (l *links) run(ctx context.Context) {
	defer close(l.ended)
	told := false
	for wait := reconnect; ; wait = min(2*wait, reconnectAt) {
		began := time.Now()
		err := l.one(ctx)
		var refused *refusedError
		var disk *spoolError
		switch {
		case ctx.Err() != nil:
			l.spool.close(context.Cause(ctx))
			return
		case errors.As(err, &refused), errors.As(err, &disk), errors.Is(err, errRecopy):
			l.spool.close(err)
			return
		}
		if time.Since(began) > time.Minute {
			wait, told = reconnect, false
		}
		if !told || wait == reconnectAt {
			l.Log("the source: %v; connecting again", err)
			told = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// one makes a link and copies what it sends until it ends.
func (l *links) one(ctx context.Context) error {
	one, err := dialLink(ctx, l.Source, l.replid, l.offset)
	if err != nil {
		return err
	}
	defer one.conn.Close()
	stop := context.AfterFunc(ctx, func() { one.conn.Close() })
	defer stop()
	switch {
	case one.full && l.replid != "":
		return fmt.Errorf("the source cannot go on from offset %d: %w", l.offset, errRecopy)
	case one.full:
		if err := l.snapshot(ctx, one); err != nil {
			return err
		}
	case one.replid != l.replid: // the history has a new name, as the source was promoted
		l.replid = one.replid
		l.history.Store(&one.replid)
	}
	l.Log("following from offset %d", l.offset)
	return one.stream(l.spool, l.applied.Load, func(n int) { l.offset += uint64(n) })
}

// snapshot takes a snapshot and hands it to the loop. The stream after it is spooled while it is loaded.
func (l *links) snapshot(ctx context.Context, one *link) error {
	path := filepath.Join(l.Dir, "dump.rdb")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return &spoolError{err}
	}
	err = one.snapshot(f, func(done, total uint64) {
		l.done.Store(done)
		l.total.Store(total)
	})
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	l.replid, l.offset = one.replid, one.offset
	full := fullCopy{path: path, replid: one.replid, offset: one.offset, loaded: make(chan struct{})}
	select {
	case l.full <- full:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
