// Package patience repeats what a server refuses for now: while it fails over, moves hash slots, loads, or is out of reach.
package patience

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/errclass"
	"github.com/counterd/counterd/internal/wire"
)

// Forever is a Limit that never ends: only the context, or an error that does not pass, ends the attempts.
const Forever time.Duration = math.MaxInt64

// Policy says how long and how often something is tried. The zero value tries once.
type Policy struct {
	First, Longest time.Duration    // the pauses between attempts, which double
	Limit          time.Duration    // how long to try without progress; 0: once
	Tell           time.Duration    // Waiting is called once, when there was no progress for longer than this
	Waiting        func(err error)  // may be nil
	Passes         func(error) bool // which errors may pass; nil: Passes
}

// SpentError is the error that ended the attempts.
type SpentError struct {
	Waited time.Duration // without progress; 0: the error does not pass
	Err    error
}

func (e *SpentError) Error() string { return e.Err.Error() }
func (e *SpentError) Unwrap() error { return e.Err }

// Do calls try until it returns nil. try reports whether it has made progress, from which on the limit counts anew. Do
// returns the cause of ctx's end, or a *SpentError for an error that does not pass, or that came back too often.
func (p Policy) Do(ctx context.Context, try func() (progress bool, err error)) error {
	passes := p.Passes
	if passes == nil {
		passes = Passes
	}
	since, told := time.Now(), false
	for wait := p.First; ; wait = min(2*wait, p.Longest) {
		progress, err := try()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case progress:
			since, wait = time.Now(), p.First
		}
		waited := time.Since(since)
		if !passes(err) {
			return &SpentError{0, err}
		}
		if waited >= p.Limit {
			return &SpentError{waited, err}
		}
		if p.Waiting != nil && !told && waited > p.Tell {
			told = true
			p.Waiting(err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// Passes tells whether an error may pass, so that the same command may be sent again: one of the network, and a server's
// that is transient or in doubt. Commands that are sent again must be sets, or numbered: a number that the server may have
// forgotten does not pass.
func Passes(err error) bool {
	var failed *wire.ServerError
	if !errors.As(err, &failed) {
		var certificate *tls.CertificateVerificationError
		var header tls.RecordHeaderError // of a port without TLS
		return !errors.Is(err, wire.ErrProtocol) && !errors.As(err, &certificate) && !errors.As(err, &header)
	}
	class, ok := errclass.Of(failed.Text)
	if class == errclass.InDoubt {
		return !strings.HasPrefix(failed.Text, "IDMPEXPIRED")
	}
	return ok && class == errclass.Transient
}
