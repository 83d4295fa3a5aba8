package repl

import (
	"bufio"
	"net"
	"time"
)

// Promote tells a replica to lead. sent is whether it may have heard of it: then only its role tells what has happened.
func Promote(replica Address, c Settings) (sent bool, err error) {
	conn, err := net.DialTimeout("tcp", replica.String(), dialTimeout)
	if err != nil {
		return false, err
	}
	defer conn.Close()
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
	return true, err
}
