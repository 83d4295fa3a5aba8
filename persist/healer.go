package persist

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
)

const (
	firstHealDelay = 50 * time.Millisecond
	maxHealDelay   = 2 * time.Second
)

// healer knows the trouble of the disk, when the unsynced bytes are written again, and how. It makes one segment file and
// reaches nothing else of the log: committer.heal gives it the bytes and applies the result.
//
// Log.mu guards the fields, except that rewrite runs without it: the caller has the healer's role.
type healer struct {
	maker  *logfile.Maker
	logger *slog.Logger

	trouble error // the disk failed, and writing the bytes again did too; nil in service
	next    time.Time
	delay   time.Duration

	keepTail func() (path string, err error) // keeps the torn tail of a start that could not; nil: there is none
}

// blame notes the first error of the disk.
func (h *healer) blame(err error) {
	if h.trouble == nil {
		h.trouble = err
	}
}

// due reports whether the next attempt is to be made.
func (h *healer) due(now time.Time) bool { return h.trouble != nil && !now.Before(h.next) }

// failed notes a failed attempt and returns the time until the next one.
func (h *healer) failed(err error, now time.Time) (wait time.Duration) {
	h.trouble = fmt.Errorf("%w (writing the bytes again: %w)", firstCause(h.trouble), err)
	wait = h.delay
	h.next = now.Add(wait)
	h.delay = min(2*wait, maxHealDelay)
	return wait
}

// refusal is the error for a caller that would wait for the disk. REQUIRES: trouble is set.
func (h *healer) refusal() error {
	return &NotReadyError{Reason: "the log cannot be written: " + h.trouble.Error(), Err: h.trouble}
}

// rewrite does the four steps of heal.go. A torn tail that the start could not keep is kept before they remove it.
func (h *healer) rewrite(header format.SegmentHeader, pieces [][]byte, later []logfile.Segment) (*logfile.OpenSegment, error) {
	if h.keepTail != nil {
		path, err := h.keepTail()
		if err != nil {
			return nil, fmt.Errorf("keep the log's torn tail: %w", err)
		}
		h.logger.Warn("kept the torn tail of the log in a file", "file", path)
		h.keepTail = nil
	}
	return h.maker.Rewrite(header, pieces, later)
}

// firstCause strips the failed attempts to heal from a trouble.
func firstCause(err error) error {
	if multi, ok := err.(interface{ Unwrap() []error }); ok {
		return multi.Unwrap()[0]
	}
	return err
}
