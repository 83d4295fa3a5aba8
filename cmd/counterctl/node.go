package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// node is a connection to a running counterd.
type node struct {
	addr string
	conn net.Conn
	r    *bufio.Reader
	stop func() bool
}

const (
	nodeTimeout = 10 * time.Minute // a digest of 100 million posts takes 20 s; a node may be busy
	maxStrings  = 1 << 20          // of an answer, and the length of one
)

// dialNode connects. When ctx ends so does the connection.
func dialNode(ctx context.Context, addr, password string) (*node, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	n := &node{addr: addr, conn: conn, r: bufio.NewReader(conn), stop: context.AfterFunc(ctx, func() { conn.Close() })}
	if password != "" {
		if _, err := n.do("AUTH", password); err != nil {
			n.close()
			return nil, err
		}
	}
	return n, nil
}

func (n *node) close() {
	n.stop()
	n.conn.Close()
}

// do sends a command and returns the strings and numbers of its answer, those of nested arrays too; a null is none.
func (n *node) do(args ...string) ([]string, error) {
	request := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(a), a)
	}
	_ = n.conn.SetDeadline(time.Now().Add(nodeTimeout))
	var answer []string
	_, err := n.conn.Write(request)
	if err == nil {
		answer, err = n.read(nil, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", n.addr, args[0], err)
	}
	return answer, nil
}

// read appends what a reply holds.
func (n *node) read(dst []string, depth int) ([]string, error) {
	line, err := n.r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("%q is no reply", line)
	}
	kind, text := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+', ':':
		return append(dst, text), nil
	case '-':
		return nil, fmt.Errorf("%s", text)
	}
	size, err := strconv.Atoi(text)
	if err != nil || size < -1 || size > maxStrings || kind != '$' && kind != '*' || depth > 4 {
		return nil, fmt.Errorf("%q is no reply that is expected", line)
	}
	if kind == '*' {
		for range size {
			if dst, err = n.read(dst, depth+1); err != nil {
				return nil, err
			}
			if len(dst) > maxStrings {
				return nil, fmt.Errorf("the reply has more than %d parts", maxStrings)
			}
		}
		return dst, nil
	}
	if size < 0 {
		return dst, nil
	}
	body := make([]byte, size+2)
	if _, err := io.ReadFull(n.r, body); err != nil {
		return nil, err
	}
	return append(dst, string(body[:size])), nil
}
