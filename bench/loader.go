package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

const (
	loadBatch  = 512 // rows a write: about 50 KB of commands
	loadWindow = 4   // writes under way on a connection
)

// Loader sends rows to a server, every row one command, with up to 2,048 in flight on a connection. Rows of one mid
// keep their order; with one client all rows do, which packs increasing ids densest.
type Loader struct {
	Target  Target
	Model   Model
	Columns int // values in a row
	Clients int // connections; 0 means 1

	// Progress is told how many more rows were answered. It is called from several goroutines. It may be nil.
	Progress func(rows int)
}

// LoadResult is the result of a load.
type LoadResult struct {
	Rows    int   // accepted by the server
	Refused int   // answered with an error
	First   error // one of those errors, naming the mid
	Elapsed time.Duration
}

// PerSecond returns the rows accepted per second.
func (r LoadResult) PerSecond() float64 { return float64(r.Rows) / max(r.Elapsed.Seconds(), 1e-9) }

// Load sends all rows that next returns until its error is io.EOF, and waits for their replies. next puts a row's
// values in row. The error is that of next, of the context or of the network; posts sent before stay on the server.
// A row that the server refuses is no error of Load, but counted.
func (l *Loader) Load(ctx context.Context, next func(row []uint64) (mid uint64, err error)) (LoadResult, error) {
	start := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	streams := make([]*loadStream, max(l.Clients, 1))
	var group sync.WaitGroup
	for i := range streams {
		conn, err := l.Target.Dial()
		if err != nil {
			cancel(err)
			streams = streams[:i]
			break
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		s := &loadStream{conn: conn, model: l.Model, progress: l.Progress,
			free: make(chan *loadChunk, loadWindow+1), sent: make(chan *loadChunk, loadWindow+1)}
		for range loadWindow {
			s.free <- &loadChunk{mids: make([]uint64, 0, loadBatch)}
		}
		streams[i] = s
		group.Go(func() {
			if err := s.receive(); err != nil {
				cancel(err)
			}
		})
	}
	if ctx.Err() == nil {
		if err := l.feed(ctx, streams, next); err != nil {
			cancel(err)
		}
	}
	for _, s := range streams {
		close(s.sent)
	}
	group.Wait()

	result := LoadResult{Elapsed: time.Since(start)}
	for _, s := range streams {
		result.Rows += int(s.accepted.Load())
		result.Refused += int(s.refused.Load())
		if first := s.first; first != nil && result.First == nil {
			result.First = first
		}
	}
	return result, context.Cause(ctx)
}

// feed deals the rows out to the streams.
func (l *Loader) feed(ctx context.Context, streams []*loadStream, next func([]uint64) (uint64, error)) error {
	row := make([]uint64, l.Columns)
	for {
		mid, err := next(row)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		// A multiplicative hash: ids that share a factor with the number of streams would all go to one.
		s := streams[mid*0x9e3779b97f4a7c15>>32%uint64(len(streams))]
		if s.chunk == nil {
			select {
			case s.chunk = <-s.free:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		s.chunk.commands = l.Model.AppendRow(s.chunk.commands, mid, row)
		s.chunk.mids = append(s.chunk.mids, mid)
		if len(s.chunk.mids) == loadBatch {
			if err := s.send(); err != nil {
				return err
			}
		}
	}
	for _, s := range streams {
		if s.chunk != nil {
			if err := s.send(); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadChunk is the commands of one write.
type loadChunk struct {
	commands []byte
	mids     []uint64
}

// loadStream is a connection with the chunks that travel around it: free, filled by the feeder, sent, answered, free
// again.
type loadStream struct {
	conn     *wire.Conn
	model    Model
	progress func(int)
	chunk    *loadChunk // being filled
	free     chan *loadChunk
	sent     chan *loadChunk
	accepted atomic.Int64
	refused  atomic.Int64
	first    error // of those refused; belongs to receive
}

func (s *loadStream) send() error {
	chunk := s.chunk
	s.chunk = nil
	s.sent <- chunk // never blocks: there are fewer chunks than places
	return s.conn.Send(chunk.commands)
}

// receive reads the replies to the chunks sent.
func (s *loadStream) receive() error {
	for chunk := range s.sent {
		refused := 0
		for _, mid := range chunk.mids {
			err := s.model.ReadRow(&s.conn.Reader)
			if err == nil {
				continue
			}
			var failed *wire.ServerError
			if !errors.As(err, &failed) {
				return err
			}
			refused++
			if s.first == nil {
				s.first = fmt.Errorf("post %d: %w", mid, err)
			}
		}
		s.accepted.Add(int64(len(chunk.mids) - refused))
		s.refused.Add(int64(refused))
		if s.progress != nil {
			s.progress(len(chunk.mids))
		}
		chunk.commands, chunk.mids = chunk.commands[:0], chunk.mids[:0]
		s.free <- chunk
	}
	return nil
}
