package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
)

// TestText: errors of Go's libraries are read without the names of functions and without repeats, wherever they stand in
// an error; all other errors are as they were made.
func TestText(t *testing.T) {
	_, noFile := os.Open("/nonexistent/file")
	addr := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 6379}
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: addr, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	_, _, noPort := net.SplitHostPort("10.0.0.5")
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("want one SOURCE: got two"), "want one SOURCE: got two"},
		{noFile, "/nonexistent/file: no such file or directory"},
		{fmt.Errorf("schema: %w", noFile), "schema: /nonexistent/file: no such file or directory"},
		{fmt.Errorf("/nonexistent/file: %w", noFile), "/nonexistent/file: no such file or directory"},
		{fmt.Errorf("10.0.0.5:6379: %w", refused), "10.0.0.5:6379: connection refused"},
		{fmt.Errorf("two: %w", errors.Join(refused, noFile)), "two: 10.0.0.5:6379: connection refused\n/nonexistent/file: no such file or directory"},
		{&url.Error{Op: "Get", URL: "https://s3.example.com/bucket?location=", Err: &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "s3.example.com"}}},
			`s3.example.com: the host name "s3.example.com" cannot be resolved`},
		{fmt.Errorf("source 10.0.0.5:6379: %w", refused), "source 10.0.0.5:6379: connection refused"},
		{fmt.Errorf("10.0.0.5: %w", noPort), `10.0.0.5: want HOST:PORT, got "10.0.0.5"`},
		{fmt.Errorf("10.0.0.5:x: %w", &net.DNSError{Err: "unknown port", Name: "tcp/x"}), `10.0.0.5:x: the port "x" is no number`},
		{fmt.Errorf("etcd: %w", context.DeadlineExceeded), "etcd: no answer in time"},
		{fmt.Errorf("%w: %w", errors.New("etcd: connection refused"), context.DeadlineExceeded), "etcd: connection refused: no answer in time"},
		{&os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.ENOSPC}, "a to b: no space left on device"},
	} {
		if got := Text(c.err); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
