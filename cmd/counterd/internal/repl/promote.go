package repl

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strconv"
	"time"
)

// dialNode connects to another node and gives it the password. ctx may end the dialling, timeout bounds everything.
func dialNode(ctx context.Context, a Address, c Settings, timeout time.Duration) (net.Conn, *bufio.Reader, error) {
	d := net.Dialer{Timeout: timeout}
	conn, err := d.DialContext(ctx, "tcp", a.String())
	if err != nil {
		return nil, nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(timeout))
	r := bufio.NewReader(conn)
	if c.MasterAuth != "" {
		if _, err = conn.Write(appendCommand(nil, c.authWords()...)); err == nil {
			_, err = readLine(r)
		}
		if err != nil {
			conn.Close()
			return nil, nil, c.hide(err)
		}
	}
	return conn, r, nil
}

// Promote tells a replica to lead. On an error sent is whether it may have heard of it and not refused: then only its role tells what has happened.
// When ctx ends so does the connection.
func Promote(ctx context.Context, replica Address, c Settings) (sent bool, err error) {
	conn, r, err := dialNode(ctx, replica, c, dialTimeout)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Write(appendCommand(nil, "REPLICAOF", "NO", "ONE")); err != nil {
		return true, err
	}
	_, err = readLine(r)
	var refused *ReplyError
	return !errors.As(err, &refused), err
}

// AskFailover asks a primary to hand its role to this node, one of its replicas, within a time. It returns when the primary has begun to:
// it then tells this node to lead, or stays what it is.
func AskFailover(primary Address, c Settings, within time.Duration) error {
	conn, r, err := dialNode(context.Background(), primary, c, within)
	if err != nil {
		return err
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
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
	if _, err := conn.Write(appendCommand(nil, "FAILOVER", "TO", host, strconv.Itoa(port), "TIMEOUT", strconv.FormatInt(within.Milliseconds(), 10))); err != nil {
		return err
	}
	_, err = readLine(r)
	return err
}
