package repl

import (
	"bufio"
	"context"
	"errors"
	"net"
	"time"
)

// Promote tells a replica to lead. On an error sent is whether it may have heard of it and not refused: then only its role tells what has happened.
// When ctx ends so does the connection.
func Promote(ctx context.Context, replica Address, c Settings) (sent bool, err error) {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "tcp", replica.String())
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(dialTimeout))
	r := bufio.NewReader(conn)
	if c.MasterAuth != "" {
		words := []string{"AUTH", c.MasterAuth}
		if c.MasterUser != "" {
			words = []string{"AUTH", c.MasterUser, c.MasterAuth}
		}
		if _, err := conn.Write(appendCommand(nil, words...)); err != nil {
			return false, err
		}
		if _, err := readLine(r); err != nil {
			return false, err
		}
	}
	if _, err := conn.Write(appendCommand(nil, "REPLICAOF", "NO", "ONE")); err != nil {
		return true, err
	}
	_, err = readLine(r)
	var refused *ReplyError
	return !errors.As(err, &refused), err
}
