package follow

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/source"
	"github.com/counterd/counterd/cmd/counterctl/internal/transfer"
	"github.com/counterd/counterd/internal/wire"
)

// copied is the result of a copy.
type copied struct {
	keys, expiring uint64
	selected       int
}

// copyFile loads the snapshot in a file into the target.
func copyFile(ctx context.Context, path string, o *Options, sink *transfer.Sink, stale *staleKeys, skipped *mapping.Tally, show func(done, total uint64)) (c copied, err error) {
	f, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return c, err
	}
	l := &source.Loader{Rules: o.Rules, DB: o.DB,
		Write: func(items []mapping.Item) error { return sink.Write(ctx, items) },
		Unfit: func(m mapping.Match, key, field []byte) error { return stale.add(refOf(m, key, field), false) }}
	err = l.Load(&shown{r: f, total: uint64(info.Size()), show: show})
	skipped.Merge(&l.Skipped)
	if err != nil {
		return c, fmt.Errorf("the source's snapshot: %w", err)
	}
	return copied{l.Keys, l.Expiring, l.Selected}, nil
}

// shown tells how much was read.
type shown struct {
	r           io.Reader
	done, total uint64
	show        func(done, total uint64)
}

func (s *shown) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.done += uint64(n)
	s.show(s.done, s.total)
	return n, err
}

// Download takes a snapshot from a server, as redis-cli --rdb does.
func Download(ctx context.Context, dial func(context.Context) (*wire.Conn, error), w io.Writer, show func(done, total uint64)) error {
	l, err := dialLink(ctx, dial, "", 0)
	if err != nil {
		return err
	}
	defer l.conn.Close()
	stop := context.AfterFunc(ctx, func() { l.conn.Close() })
	defer stop()
	if err := l.snapshot(w, show); ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}
