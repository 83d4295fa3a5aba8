package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/internal/errclass"
)

// refusal is an error reply, as go-redis has it.
type refusal string

func (r refusal) Error() string { return string(r) }
func (r refusal) RedisError()   {}

// TestClassOfReplies takes every error that a counterd sends as the server's own table has it.
func TestClassOfReplies(t *testing.T) {
	for _, row := range errclass.Table() {
		for _, text := range []string{row.Code, row.Code + " and why"} {
			if got := ClassOf(refusal(text)); got.String() == "" || int(got) != int(row.Class) {
				t.Errorf("%q is %v, want %v", text, got, row.Class)
			}
			if got := ClassOf(fmt.Errorf("wrapped: %w", refusal(text))); int(got) != int(row.Class) {
				t.Errorf("%q, wrapped, is %v, want %v", text, got, row.Class)
			}
		}
	}
	if repeatable(refusal("IDMPEXPIRED too old")) || !repeatable(refusal("UNCERTAIN")) {
		t.Error("IDMPEXPIRED is repeated, or UNCERTAIN is not")
	}
}

// TestClassOfConnections checks the connection errors of go-redis: only a request that cannot have been sent is
// not in doubt.
func TestClassOfConnections(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, test := range []struct {
		err  error
		want Class
	}{
		{refused, Transient},
		{fmt.Errorf("dialing: %w", refused), Transient},
		{redis.ErrPoolTimeout, Transient},
		{redis.ErrPoolExhausted, Transient},
		{redis.ErrClosed, Permanent},
		{&tls.CertificateVerificationError{Err: x509.HostnameError{}}, Permanent},
		{&ColumnError{}, Permanent},
		{io.EOF, InDoubt},
		{io.ErrUnexpectedEOF, InDoubt},
		{os.ErrDeadlineExceeded, InDoubt},
		{&net.OpError{Op: "read", Err: errors.New("reset by peer")}, InDoubt},
		{&net.OpError{Op: "write", Err: errors.New("broken pipe")}, InDoubt},
		{context.Canceled, InDoubt},
		{context.DeadlineExceeded, InDoubt},
		{&Error{Class: Transient, Err: io.EOF}, Transient},
		{&SumsError{Err: &Error{Class: InDoubt, Err: refusal("READONLY")}}, InDoubt},
		{refusal("MOVED 1 10.0.0.1:6379"), Transient},
		{refusal("what a proxy says"), InDoubt},
	} {
		if got := ClassOf(test.err); got != test.want {
			t.Errorf("%v is %v, want %v", test.err, got, test.want)
		}
	}
}

// TestSlowQuery lets a query take longer than the client waits: it is asked once.
func TestSlowQuery(t *testing.T) {
	f := newFake(t)
	c := newTest(t, f, Options{}, func(o *redis.Options) { o.ReadTimeout = 500 * time.Millisecond })
	if _, err := c.Columns(t.Context()); err != nil {
		t.Fatal(err)
	}
	hold := make(chan struct{})
	f.set(func() { f.fates = func([]string) fate { return fate{hold: hold} } })
	_, err := c.Count(t.Context(), Query{})
	close(hold)
	if err == nil || !strings.Contains(err.Error(), "too long") || len(f.seen("COUNTER.COUNT")) != 1 {
		t.Errorf("%v, asked %d times", err, len(f.seen("COUNTER.COUNT")))
	}
}
