package repl

import (
	"bufio"
	"net"
	"strconv"
	"time"
)

// dialNode connects to another node and gives it the password.
func dialNode(a Address, c Settings, timeout time.Duration) (net.Conn, *bufio.Reader, error) {
	conn, err := net.DialTimeout("tcp", a.String(), timeout)
	if err != nil {
		return nil, nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(timeout))
	r := bufio.NewReader(conn)
	if c.MasterAuth != "" {
		words := []string{"AUTH", c.MasterAuth}
		if c.MasterUser != "" {
			words = []string{"AUTH", c.MasterUser, c.MasterAuth}
		}
		if _, err = conn.Write(appendCommand(nil, words...)); err == nil {
			_, err = readLine(r)
		}
		if err != nil {
			conn.Close()
			return nil, nil, err
		}
	}
	return conn, r, nil
}

// Promote tells a replica to lead. sent is whether it may have heard of it: then only its role tells what has happened.
func Promote(replica Address, c Settings) (sent bool, err error) {
	conn, r, err := dialNode(replica, c, dialTimeout)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if _, err := conn.Write(appendCommand(nil, "REPLICAOF", "NO", "ONE")); err != nil {
		return true, err
	}
	_, err = readLine(r)
	return true, err
}

// AskFailover asks a primary to hand its role to this node, one of its replicas, within a time. It returns when the primary has begun to:
// it then tells this node to lead, or stays what it is.
func AskFailover(primary Address, c Settings, within time.Duration) error {
	conn, r, err := dialNode(primary, c, within)
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
