package transfer

import (
	"context"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// asker reads from the target, and waits for it as a Sink does.
type asker struct {
	o    *SinkOptions
	conn *wire.Conn // nil: none
}

func (a *asker) close() {
	if a.conn != nil {
		a.conn.Close()
	}
	a.conn = nil
}

// ask calls f, which sends commands and reads their answers, until it gets them, or patience is at its end. Each call has
// as much time as answer says.
func (a *asker) ask(ctx context.Context, answer time.Duration, f func(*wire.Conn) error) (err error) {
	start := time.Now()
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		if a.conn == nil {
			a.conn, err = a.o.Dial(ctx)
		}
		if a.conn != nil {
			_ = a.conn.SetDeadline(time.Now().Add(answer))
			err = f(a.conn)
		}
		if err == nil {
			return nil
		}
		a.close()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		patience := a.o.Patience
		if patience <= 0 {
			patience = defaultPatience
		}
		if waited := time.Since(start); !passes(err) || waited > patience {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}
