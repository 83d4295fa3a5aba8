package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
)

// Text returns an error as a person should read it. Go's libraries begin their errors with the name of a function
// ("open", "dial tcp") or with a whole request, and repeat what the text in front of them already says. Text leaves that out:
//
//	10.0.0.5:6379: dial tcp 10.0.0.5:6379: connect: connection refused   10.0.0.5:6379: connection refused
//	open /data: no such file or directory                                /data: no such file or directory
//	etcd: context deadline exceeded                                      etcd: no answer in time
func Text(err error) string {
	text := err.Error()
	walk(err, func(inner error) {
		if short := plain(inner); short != "" {
			text = strings.ReplaceAll(text, inner.Error(), short)
		}
	})
	return once(text)
}

// walk calls f for an error and for all that it wraps, the outer ones first.
func walk(err error, f func(error)) {
	if err == nil {
		return
	}
	f(err)
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		walk(e.Unwrap(), f)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			walk(inner, f)
		}
	}
}

// plain is the text for one kind of error of Go's libraries; empty: it has no text of its own here.
func plain(err error) string {
	switch e := err.(type) {
	case *fs.PathError:
		return fmt.Sprintf("%s: %s", e.Path, Text(e.Err))
	case *os.LinkError:
		return fmt.Sprintf("%s to %s: %s", e.Old, e.New, Text(e.Err))
	case *os.SyscallError:
		return Text(e.Err)
	case *url.Error:
		at := e.URL
		if u, err := url.Parse(e.URL); err == nil {
			at = u.Host
		}
		return fmt.Sprintf("%s: %s", at, Text(e.Err))
	case *net.AddrError:
		return fmt.Sprintf("want HOST:PORT, got %q", e.Addr)
	case *net.DNSError:
		if port, ok := strings.CutPrefix(e.Name, "tcp/"); ok { // Go looks up a port that is no number
			return fmt.Sprintf("the port %q is no number", port)
		}
		return fmt.Sprintf("the host name %q cannot be resolved", e.Name)
	case *net.OpError:
		if e.Addr != nil {
			return fmt.Sprintf("%s: %s", e.Addr, Text(e.Err))
		}
		return Text(e.Err)
	}
	_, several := err.(interface{ Unwrap() []error }) // the other errors say why
	if errors.Is(err, context.DeadlineExceeded) && errors.Unwrap(err) == nil && !several {
		return "no answer in time"
	}
	return ""
}

// once leaves out a part, up to a colon and a space, that says the same as the part in front of it, or as its last words.
func once(text string) string {
	parts := strings.Split(text, ": ")
	kept := parts[:1]
	for _, p := range parts[1:] {
		if last := kept[len(kept)-1]; p != last && !strings.HasSuffix(last, " "+p) {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, ": ")
}
