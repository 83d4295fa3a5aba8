package move

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
)

// link is a source's primary at the other end of a connection, asked by the commands COUNTER.MOVE.
type link struct{ conn *wire.Conn }

// NewLink makes a connection a Remote, which owns it.
func NewLink(conn *wire.Conn) Remote { return &link{conn} }

// answerWithin is how long a source may take for an answer: a cold block that is read from a slow disk.
const answerWithin = 30 * time.Second

// deadAfter is how long the source's machine may be silent: a link that lost the network is not waited for as a slow disk is.
const deadAfter = 5 * time.Second

// LinkOptions are what a connection for NewLink is made with.
func LinkOptions() wire.Options {
	return wire.Options{Timeout: 5 * time.Second, Answer: answerWithin, Dead: deadAfter, Buffer: wire.StartSize}
}

// ask sends a command and returns the n elements of its answer: numbers, and a string at the end if bulk is set.
func (l *link) ask(ctx context.Context, n int, bulk bool, args ...string) (numbers []uint64, records []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	end := time.Now().Add(answerWithin)
	if by, ok := ctx.Deadline(); ok && by.Before(end) {
		end = by
	}
	if err := l.conn.SetDeadline(end); err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { l.conn.Close() })
	defer stop()
	v, err := l.conn.Do(append([]string{"COUNTER.MOVE"}, args...)...)
	if err != nil {
		return nil, nil, err
	}
	if len(v.Array) != n {
		return nil, nil, fmt.Errorf("%w: COUNTER.MOVE %s answers %d elements, want %d", wire.ErrProtocol, args[0], len(v.Array), n)
	}
	if bulk {
		n--
		records = []byte(v.Array[n].Str)
	}
	for _, e := range v.Array[:n] {
		number, err := strconv.ParseUint(e.Text(), 10, 64)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: COUNTER.MOVE %s answers %.40q, want a number", wire.ErrProtocol, args[0], e.Text())
		}
		numbers = append(numbers, number)
	}
	return numbers, records, nil
}

func number[T uint32 | uint64 | int](n T) string { return strconv.FormatUint(uint64(n), 10) }

func (l *link) Open(ctx context.Context, id string, epoch uint64) (from uint64, err error) {
	v, _, err := l.ask(ctx, 1, false, "OPEN", id, number(epoch))
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

func (l *link) Producers(ctx context.Context, id string, at int) (records []byte, next int, err error) {
	v, records, err := l.ask(ctx, 2, true, "PRODUCERS", id, number(at))
	if err != nil {
		return nil, 0, err
	}
	return records, int(v[0]), nil
}

func (l *link) Rows(ctx context.Context, id string, at counter.ExportPlace) (records []byte, next counter.ExportPlace, done bool, err error) {
	v, records, err := l.ask(ctx, 4, true, "ROWS", id, number(at.Space), number(at.Mid))
	if err != nil {
		return nil, at, false, err
	}
	return records, counter.ExportPlace{Space: uint32(v[0]), Mid: v[1]}, v[2] != 0, nil
}

func (l *link) Log(ctx context.Context, id string, from uint64) (records []byte, next, end uint64, err error) {
	v, records, err := l.ask(ctx, 3, true, "LOG", id, number(from))
	if err != nil {
		return nil, from, 0, err
	}
	return records, v[0], v[1], nil
}

func (l *link) Hold(ctx context.Context, id string) (end uint64, revision int64, err error) {
	v, _, err := l.ask(ctx, 2, false, "HOLD", id)
	if err != nil {
		return 0, 0, err
	}
	return v[0], int64(v[1]), nil
}

func (l *link) Close() error { return l.conn.Close() }
