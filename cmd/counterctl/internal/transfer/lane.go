package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
	"github.com/counterd/counterd/internal/wire"
)

// lane is a connection of a Sink to one server, on which several commands are under way. Lanes of one Sink may send at the
// same time.
type lane struct {
	sink    *Sink
	addr    string     // "": as the Sink's Dial says
	conn    *wire.Conn // nil: none
	refused uint64     // additions that were not made, since taken
}

func (l *lane) close() (err error) {
	if l.conn != nil {
		err = l.conn.Close()
	}
	l.conn = nil
	return err
}

// taken returns how many additions were refused since it was called last.
func (l *lane) taken() (n uint64) {
	n, l.refused = l.refused, 0
	return n
}

// connect makes the connection that is missing.
func (l *lane) connect(ctx context.Context) (err error) {
	switch o := &l.sink.o; {
	case l.conn != nil:
	case l.addr == "":
		l.conn, err = o.Dial(ctx)
	default:
		l.conn, err = o.Shards.dial(ctx, l.addr)
	}
	return err
}

// send sends commands and returns the commands that were not acknowledged. The error is the first answered error, or
// the connection's, which is then closed. The memory of all is the lane's from now on.
func (l *lane) send(ctx context.Context, all []command) (left []command, failed error) {
	if err := l.connect(ctx); err != nil {
		return all, err
	}
	most, least, timeout := window, window-1, answerTimeout
	if l.addr != "" { // commands are small: many go at a time
		most, least, timeout = slotWindow, slotWindow/2, shardTimeout
	}
	left = all[:0] // commands to send again stand before commands to send
	sent, answered := 0, 0
	for answered < len(all) {
		_ = l.conn.SetDeadline(time.Now().Add(timeout))
		var err error
		for err == nil && sent < len(all) && sent-answered < most {
			if err = l.wait(ctx, l.sink.pace(all[sent]), timeout); err == nil {
				l.conn.Out = append(l.conn.Out, l.sink.text[all[sent].start:all[sent].end]...)
				sent++
			}
			if err == nil && len(l.conn.Out) >= flushAt {
				err = l.flush(timeout)
			}
		}
		if err == nil {
			err = l.flush(timeout)
		}
		for until := min(least, len(all)-sent); err == nil && answered < sent && sent-answered > until; {
			var answer *wire.ServerError
			if err = l.answer(all[answered]); errors.As(err, &answer) {
				if failed == nil || patience.Passes(failed) && !patience.Passes(err) {
					failed = err
				}
				left = append(left, all[answered])
				err = nil
				answered++
			} else if err == nil {
				answered++
			}
		}
		if err != nil {
			_ = l.close()
			return append(left, all[answered:]...), err
		}
	}
	return left, failed
}

// flushAt is how many bytes of commands are sent at a time.
const flushAt = 16 << 10

func (l *lane) flush(timeout time.Duration) error {
	_ = l.conn.SetDeadline(time.Now().Add(timeout))
	return l.conn.Flush()
}

// wait waits for the rate, and sends the commands before the pause.
func (l *lane) wait(ctx context.Context, pause, timeout time.Duration) error {
	if pause <= 0 {
		return nil
	}
	if err := l.flush(timeout); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pause):
		return nil
	}
}

// answer reads the answer to a command.
func (l *lane) answer(c command) error {
	var err error
	switch made := int64(0); c.name {
	case "MSET":
		err = l.conn.ReadStatus()
	default:
		if made, err = l.conn.ReadInt(); err == nil && c.name == "COUNTER.MINCRBY" {
			l.refused += uint64(max(int64(c.items)-made, 0))
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}
