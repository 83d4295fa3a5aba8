package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/internal/errclass"
	"github.com/counterd/counterd/schema"
)

// A class of package errclass is the same number here.
var (
	_ = [1]struct{}{}[Permanent-Class(errclass.Permanent)]
	_ = [1]struct{}{}[Transient-Class(errclass.Transient)]
	_ = [1]struct{}{}[InDoubt-Class(errclass.InDoubt)]
)

// Class says what a failed request may have done, and whether it is worth sending it again.
type Class uint8

// Classes of errors. The class of each reply of a server is in package errclass, in the same order.
const (
	Permanent Class = iota // nothing was changed, and the same request would be refused again
	Transient              // nothing was changed, and the same request may be taken later
	InDoubt                // nobody knows whether the change was made
)

// String is the class in words.
func (c Class) String() string {
	switch c {
	case Transient:
		return "not made, may be sent again"
	case InDoubt:
		return "in doubt"
	}
	return "refused"
}

// Why a request is not sent again. They are found by errors.Is in the *Error that says so.
var (
	ErrBudget   = errors.New("the retry budget is spent")
	ErrRetryFor = errors.New("repeated for as long as RetryFor allows")
)

// ErrClosed is the answer of an Aggregator that is closed.
var ErrClosed = errors.New("client: the aggregator is closed")

// ErrFull is the answer of an Aggregator that holds as many sums as it may, where it was told not to wait.
var ErrFull = errors.New("client: the aggregator holds as many sums as it may")

// Error is a request that failed, after all repeats. Unwrap returns the error of the last attempt, and the reason why
// it was the last one.
type Error struct {
	Request  string // command, key and value, as sent
	Producer string // the producer and the number; empty for requests that change nothing
	Seq      uint64
	Attempts int
	Class    Class // of all attempts together: one in doubt makes the request so
	Err      error // of the last attempt
	Stop     error // why it is the last: ErrBudget, ErrRetryFor, the context's error, or nil where a repeat would not help
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "client: %s: %s", e.Request, e.Class)
	if e.Attempts != 1 {
		fmt.Fprintf(&b, " after %d attempts", e.Attempts)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if e.Stop != nil {
		fmt.Fprintf(&b, " (%v)", e.Stop)
	}
	return b.String()
}

// Unwrap returns the error of the last attempt, and the reason why it was the last.
func (e *Error) Unwrap() []error {
	if e.Stop == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Stop}
}

// ColumnError is a column that the counter has not, or, with no Column, a counter that the server has not.
type ColumnError struct {
	Counter string // empty for the schema's first
	Column  string
}

func (e *ColumnError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("client: the server has no counter %q", e.Counter)
	}
	return fmt.Sprintf("client: counter %q has no column %q", e.Counter, e.Column)
}

// MidError is a number that is no post's: mids are 0 to 2^63-1. Nothing was sent.
type MidError struct{ Mid uint64 }

func (e *MidError) Error() string {
	return fmt.Sprintf("client: got mid %d, want 0 to %d", e.Mid, uint64(schema.MaxMid))
}

func checkMid(mid uint64) error {
	if mid > schema.MaxMid {
		return &MidError{mid}
	}
	return nil
}

// IsTransient reports whether err says that nothing was changed and that the same request may succeed later. It may be
// made anew then, under any number.
func IsTransient(err error) bool { return ClassOf(err) == Transient }

// IsInDoubt reports whether err says that nobody knows if the change was made. Making the request anew would count
// twice where it was.
func IsInDoubt(err error) bool { return ClassOf(err) == InDoubt }

// others are refusals of servers and proxies that may stand in front of counterd.
var others = map[string]bool{"CLUSTERDOWN": true, "TRYAGAIN": true, "MOVED": true, "ASK": true, "BUSY": true}

// expired begins the answer to a number that the server no longer remembers: it will not remember it next time.
const expired = "IDMPEXPIRED"

// ClassOf is the class of an error of this package, or of go-redis. It is meaningless for nil and redis.Nil.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	if _, ok := errors.AsType[*slowError](err); ok {
		return Permanent
	}
	if e, ok := errors.AsType[redis.Error](err); ok {
		if class, ok := errclass.Of(e.Error()); ok {
			return Class(class)
		}
		if word, _, _ := strings.Cut(e.Error(), " "); others[word] {
			return Transient
		}
		return InDoubt // who knows who says that
	}
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		return Transient
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return Transient
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok || isOurs(err) || errors.Is(err, redis.ErrClosed) {
		return Permanent
	}
	return InDoubt // a connection that broke, or a context that ended, with the request on its way for all we know
}

// isOurs reports whether err was made before anything was sent.
func isOurs(err error) bool {
	if _, ok := errors.AsType[*ColumnError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*BatchSizeError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*RowError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*MidError](err); ok {
		return true
	}
	_, ok := errors.AsType[*unsentError](err)
	return ok || errors.Is(err, ErrClosed) || errors.Is(err, ErrFull) || errors.Is(err, ErrRange)
}

// errUnsent is the error of a request that was not sent.
var errUnsent = errors.New("nothing was sent")

// unsentError is a context's end before the first attempt.
type unsentError struct{ cause error }

func (e *unsentError) Error() string { return "client: nothing was sent: " + e.cause.Error() }
func (e *unsentError) Unwrap() error { return e.cause }

func unsent(ctx context.Context) error { return &unsentError{context.Cause(ctx)} }

// repeatable reports whether a repeat under the same number can be answered otherwise than err.
func repeatable(err error) bool {
	if e, ok := errors.AsType[redis.Error](err); ok && strings.HasPrefix(e.Error(), expired) {
		return false
	}
	return ClassOf(err) != Permanent
}
