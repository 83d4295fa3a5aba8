package posts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/sleep"
)

// Marked is a source that tells the position of its state: a consumer that has the rows and then takes every change behind the
// position has the source's posts. Values are those after the change, so changes that the rows have already do no harm.
type Marked interface {
	// Mark notes the position in front of the rows. Call it before the first.
	Mark(ctx context.Context) error
	// Settle returns the position, behind the last row: when no crash can take back what the rows have. The error is an
	// *UnsettledError if that cannot be told.
	Settle(ctx context.Context) (position string, err error)
}

var (
	_ Marked = (*Node)(nil)
	_ Marked = (*Store)(nil)
)

// UnsettledError says that rows may have values that were taken back.
type UnsettledError struct{ Why string }

func (e *UnsettledError) Error() string {
	return fmt.Sprintf("the rows may have values that the node has lost since: %s. Export again", e.Why)
}

// mark is the answer of a node in front of the rows.
type mark struct {
	position string
	history  string // the id of its log's newest part
}

// settleFor is how long changes may take until no crash can take them back. A second is usual (appendfsync everysec).
const settleFor = time.Minute

func (n *Node) Mark(context.Context) (err error) {
	if n.mark.history, err = n.info("master_replid"); err == nil {
		n.mark.position, err = n.now()
	}
	return err
}

// now is the position up to which no crash can take anything back.
func (n *Node) now() (string, error) {
	words, err := n.Do("COUNTER.FEED", "FROM", "NOW")
	if err == nil && len(words) == 0 {
		err = fmt.Errorf("%s: COUNTER.FEED answered nothing, want a position", n.Addr)
	}
	if err != nil {
		return "", err
	}
	return words[0], nil
}

// Settle waits until the log is safe up to where it ended behind the last row. As long as the history is the same, nothing of the
// log is cut meanwhile: a node that starts again, or becomes a replica, gets another one, or ends the connection.
func (n *Node) Settle(ctx context.Context) (string, error) {
	text, err := n.logOffset()
	if err != nil {
		return "", err
	}
	var end uint64
	if _, err := fmt.Sscan(text, &end); err != nil {
		return "", fmt.Errorf("%s: master_repl_offset is %q", n.Addr, text)
	}
	for deadline := time.Now().Add(settleFor); ; {
		now, err := n.now()
		if err != nil {
			return "", err
		}
		p, err := counter.ParseFeedPosition(now)
		if err != nil {
			return "", fmt.Errorf("%s: %w", n.Addr, err)
		}
		if p.Offset() >= end {
			break
		}
		if time.Now().After(deadline) {
			return "", &UnsettledError{fmt.Sprintf("after %v the log is safe up to %d, and the rows are of %d", settleFor, p.Offset(), end)}
		}
		if !sleep.For(ctx, 20*time.Millisecond) {
			return "", context.Cause(ctx)
		}
	}
	history, err := n.info("master_replid")
	if err == nil && history != n.mark.history {
		err = &UnsettledError{"its log has another history now, as after a failover"}
	}
	return n.mark.position, err
}

// info returns a field of INFO replication.
func (n *Node) info(field string) (string, error) {
	text, err := n.Do("INFO", "replication")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(strings.Join(text, "\n")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("%s: INFO replication has no %s", n.Addr, field)
}

func (s *Store) Mark(context.Context) error { return nil }

// Settle is the end of the log: nothing changes it.
func (s *Store) Settle(context.Context) (string, error) {
	log := s.store.Replication()
	if err := log.Sync(); err != nil {
		return "", err
	}
	p, err := s.store.Feeds().Now(log.Written())
	if errors.Is(err, counter.ErrInMemory) {
		err = errors.New("it has no log")
	}
	return p.String(), err
}
