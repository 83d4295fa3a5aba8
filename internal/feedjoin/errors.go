package feedjoin

import (
	"errors"
	"strings"
)

// ErrShardLeft: the changes of a shard cannot be had any more. All posts have to be read anew.
var ErrShardLeft = errors.New("a shard has left the cluster before all of its changes were read")

// PositionError says that a node cannot go on from a position.
type PositionError struct {
	Shard   uint64 // of a cluster
	History bool   // the log went on differently; else it no longer reaches back to the position
	At      string // the position of the feed
	Next    string // a position of the feed to go on from; empty: none is known
	Err     error  // the node's
}

// Error gives the server's text.
func (e *PositionError) Error() string { return e.Err.Error() }

// Unwrap returns the server's error.
func (e *PositionError) Unwrap() error { return e.Err }

// Refusal is the meaning of a node's error whose text says that it cannot go on from a position; nil: it says something else.
func Refusal(text string, err error) *PositionError {
	word, rest, _ := strings.Cut(text, " ")
	if word != "POSGONE" && word != "POSHISTORY" {
		return nil
	}
	next, _, _ := strings.Cut(rest, " ")
	if next == "-" {
		next = ""
	}
	return &PositionError{History: word == "POSHISTORY", Next: next, Err: err}
}
