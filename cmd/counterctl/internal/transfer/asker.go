package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
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
	return a.wait(ctx, func() error {
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

// wait calls f until it succeeds, or patience is at its end.
func (a *asker) wait(ctx context.Context, f func() error) error {
	limit := a.o.Patience
	if limit <= 0 {
		limit = defaultPatience
	}
	waiting := func(err error) {
		if a.o.Log != nil {
			a.o.Log(fmt.Sprintf("waiting for the target: %v", err))
		}
	}
	return Patiently(ctx, limit, waiting, f)
}

// Patiently calls f until it succeeds, until it fails with an error that does not pass, or until limit has passed. It returns
// the last error of f, or ctx's. waiting is called once, with the error, when the wait takes longer than a moment.
func Patiently(ctx context.Context, limit time.Duration, waiting func(error), f func() error) error {
	policy := patience.Policy{First: firstWait, Longest: longestWait, Limit: limit, Tell: firstWait, Waiting: waiting}
	err := policy.Do(ctx, func() (bool, error) { return false, f() })
	var spent *patience.SpentError
	if errors.As(err, &spent) {
		return spent.Err
	}
	return err
}
