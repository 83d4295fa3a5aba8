package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Waits between two attempts: a random part of a bound that doubles.
const (
	firstWait = 5 * time.Millisecond
	lastWait  = 320 * time.Millisecond
)

// clock gives repeats their time and randomness. Tests have their own.
type clock struct {
	now    func() time.Time
	sleep  func(context.Context, time.Duration) error // the context's error where it ends first
	random func(n int64) int64                        // in [0, n)
}

var realClock = clock{time.Now, sleep, rand.Int64N}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// jitter is how long to wait after that many attempts: any time up to 5 ms, 10 ms, ... 320 ms. All of it is chance, so
// that clients that failed together do not come back together.
func (c *clock) jitter(attempts int) time.Duration {
	bound := lastWait
	if shift := attempts - 1; shift < 6 {
		bound = firstWait << shift
	}
	return time.Duration(c.random(int64(bound) + 1))
}

// once is a command that go-redis does not repeat by itself. A repeat of its own would be harmless, as the number is
// one of the arguments, but it would hide an attempt in doubt behind the refusal that came last, and take nothing from
// the budget.
type once struct{ redis.Cmder }

// NoRetry is called by go-redis.
func (once) NoRetry() bool { return true }

// attempt sends a request once. It is made anew each time: a command keeps its reply.
type attempt func() error

// send sends a request, and again, the same bytes, as long as a repeat may be answered otherwise, the budget has a
// token and neither ctx nor RetryFor is over. describe names the request for an error.
func (c *Client) send(ctx context.Context, once attempt, describe func(*Error)) error {
	c.budget.request()
	if ctx.Err() != nil {
		return unsent(ctx)
	}
	err := once()
	if err == nil || err == redis.Nil {
		return err
	}
	return c.again(ctx, err, once, describe)
}

// again is send after the first attempt, which was answered err.
func (c *Client) again(ctx context.Context, err error, once attempt, describe func(*Error)) error {
	e := &Error{Attempts: 1, Err: err}
	doubt := ClassOf(err) == InDoubt
	began := c.clock.now()
	for repeatable(err) {
		c.owners.reload(ctx)
		if e.Stop = c.pause(ctx, e.Attempts, began); e.Stop != nil {
			break
		}
		c.tracer.repeat(ctx, e.Attempts, err)
		if err = once(); err == nil || err == redis.Nil {
			return err
		}
		e.Attempts++
		e.Err = err
		doubt = doubt || ClassOf(err) == InDoubt
	}
	e.Class = ClassOf(err)
	if doubt {
		e.Class = InDoubt
	}
	describe(e)
	return e
}

// pause waits before the next attempt, or says why there is none.
func (c *Client) pause(ctx context.Context, attempts int, began time.Time) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	wait := c.clock.jitter(attempts)
	if c.clock.now().Add(wait).Sub(began) > c.options.RetryFor {
		return ErrRetryFor
	}
	if !c.budget.repeat() {
		return ErrBudget
	}
	return c.clock.sleep(ctx, wait)
}

// text writes a command as an error shows it: its first few words.
func text(args []any) string {
	var b strings.Builder
	for i, a := range args {
		if i == 4 {
			fmt.Fprintf(&b, " and %d more", len(args)-i)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprint(&b, a)
	}
	return b.String()
}
