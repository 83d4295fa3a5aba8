package transfer

import (
	"context"
	"fmt"
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
	patience := a.o.Patience
	if patience <= 0 {
		patience = defaultPatience
	}
	waiting := func(err error) {
		if a.o.Log != nil {
			a.o.Log(fmt.Sprintf("waiting for the target: %v", err))
		}
	}
	return Patiently(ctx, patience, waiting, func() error {
		if a.conn == nil {
			if a.conn, err = a.o.Dial(ctx); err != nil {
				return err
			}
		}
		_ = a.conn.SetDeadline(time.Now().Add(answer))
		if err = f(a.conn); err != nil {
			a.close()
		}
		return err
	})
}

// Patiently calls f until it succeeds, until it fails with an error that does not pass, or until patience has run out. It
// returns the last error of f, or ctx's. Errors that may pass are those of the network, and LOADING, MISCONF and the like
// of a server. waiting is called once, with the error, when the wait takes longer than a moment.
func Patiently(ctx context.Context, patience time.Duration, waiting func(error), f func() error) error {
	start, told := time.Now(), false
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		waited := time.Since(start)
		if !passes(err) || waited > patience {
			return err
		}
		if waited > firstWait && !told {
			told = true
			waiting(err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}
