// Package node is a connection to a running counterd, for commands that wait for long answers.
package node

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/internal/connect"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/schema"
)

// Node is a connection to a running counterd.
type Node struct {
	Addr string
	Conn *wire.Conn
}

// Timeout is for an answer: a digest of 100 million posts takes 20 s, and a node may be busy.
const Timeout = 10 * time.Minute

// Dial connects as the flags say. When ctx ends so does the connection.
func Dial(ctx context.Context, addr string, flags *connect.Flags) (*Node, error) {
	opts, err := flags.Options(addr)
	if err != nil {
		return nil, err
	}
	opts.Timeout, opts.Answer = 10*time.Second, Timeout
	conn, err := wire.Dial(ctx, addr, opts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	return &Node{addr, conn}, nil
}

// Close closes the connection.
func (n *Node) Close() { n.Conn.Close() }

// Do sends a command and returns the strings and numbers of its answer, those of nested arrays too; a null is none. An
// error among them is the command's.
func (n *Node) Do(args ...string) ([]string, error) {
	_ = n.Conn.SetDeadline(time.Now().Add(Timeout))
	answer, err := n.Conn.Do(args...)
	var words []string
	if err == nil {
		words, err = appendWords(nil, answer)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", n.Addr, args[0], err)
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

// Schema asks the node for its schema.
func (n *Node) Schema() (*schema.Schema, error) {
	lines, err := n.Do("SCHEMA")
	if err != nil {
		return nil, err
	}
	sch, err := schema.ParseScript(strings.NewReader(strings.Join(lines, "\n")+"\n"), schema.Empty())
	if err != nil {
		return nil, fmt.Errorf("%s: SCHEMA: %w", n.Addr, err)
	}
	return sch, nil
}
