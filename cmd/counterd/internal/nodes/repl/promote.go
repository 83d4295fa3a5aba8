package repl

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// dial connects to another node and gives it the password. When ctx ends so does the connection.
func (c Settings) dial(ctx context.Context, a Address, o wire.Options) (*wire.Conn, error) {
	o.User, o.Password, o.Connect = c.MasterUser, c.MasterAuth, c.Connect
	if c.TLS != nil {
		var err error
		if o.TLS, err = c.TLS(a.Host); err != nil {
			return nil, err
		}
	}
	return wire.Dial(ctx, a.String(), o)
}

// Dial connects to another node as links do. When ctx ends so does the connection.
func (c Settings) Dial(ctx context.Context, a Address, o wire.Options) (*wire.Conn, error) {
	return c.dial(ctx, a, o)
}

// dialNode connects to another node to ask it something, which timeout bounds.
func dialNode(ctx context.Context, a Address, c Settings, timeout time.Duration) (*wire.Conn, error) {
	return c.dial(ctx, a, wire.Options{Timeout: timeout, Answer: timeout, Buffer: askBuffer})
}

// askBuffer is how many bytes are read of an answer at a time.
const askBuffer = 4 << 10

// Promote tells a replica to lead. On an error sent is whether it may have heard of it and not refused: then only its
// role tells what has happened. When ctx ends so does the connection.
func Promote(ctx context.Context, replica Address, c Settings) (sent bool, err error) {
	conn, err := dialNode(ctx, replica, c, dialTimeout)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	_, err = conn.Do("REPLICAOF", "NO", "ONE")
	var refused *wire.ServerError
	return !errors.As(err, &refused), err
}

// AskFailover asks a primary to hand its role to this node, one of its replicas, within a time. It returns when the
// primary has begun to: it then tells this node to lead, or stays what it is. When ctx ends so does the connection.
func AskFailover(ctx context.Context, primary Address, c Settings, within time.Duration) error {
	conn, err := dialNode(ctx, primary, c, within)
	if err != nil {
		return err
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr())
	if err != nil {
		return err
	}
	port := c.Port
	if c.AnnouncePort != 0 {
		port = c.AnnouncePort
	}
	if c.AnnounceIP != "" {
		host = c.AnnounceIP
	}
	_, err = conn.Do("FAILOVER", "TO", host, strconv.Itoa(port), "TIMEOUT", strconv.FormatInt(within.Milliseconds(), 10))
	return err
}
