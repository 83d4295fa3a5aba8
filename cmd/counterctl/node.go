package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/counterd/counterd/cmd/internal/connect"
	"github.com/counterd/counterd/internal/wire"
)

// node is a connection to a running counterd.
type node struct {
	addr string
	conn *wire.Conn
}

// nodeTimeout is for an answer: a digest of 100 million posts takes 20 s, and a node may be busy.
const nodeTimeout = 10 * time.Minute

// dialNode connects as the flags say. When ctx ends so does the connection.
func dialNode(ctx context.Context, addr string, flags *connect.Flags) (*node, error) {
	opts, err := flags.Options(addr)
	if err != nil {
		return nil, err
	}
	opts.Timeout, opts.Answer = 10*time.Second, nodeTimeout
	conn, err := wire.Dial(ctx, addr, opts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	return &node{addr, conn}, nil
}

func (n *node) close() { n.conn.Close() }

// do sends a command and returns the strings and numbers of its answer, those of nested arrays too; a null is none. An
// error among them is the command's.
func (n *node) do(args ...string) ([]string, error) {
	_ = n.conn.SetDeadline(time.Now().Add(nodeTimeout))
	answer, err := n.conn.Do(args...)
	var words []string
	if err == nil {
		words, err = appendWords(nil, answer)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", n.addr, args[0], err)
	}
	return words, nil
}

// appendWords appends what a reply holds.
func appendWords(dst []string, v wire.Value) (_ []string, err error) {
	switch {
	case v.Null:
	case v.IsErr:
		return nil, &wire.ServerError{Text: v.Str}
	case v.IsInt:
		dst = append(dst, strconv.FormatInt(v.Int, 10))
	case v.Array == nil:
		dst = append(dst, v.Str)
	}
	for _, element := range v.Array { // at most wire.MaxDepth within one another
		if dst, err = appendWords(dst, element); err != nil {
			return nil, err
		}
	}
	return dst, nil
}
