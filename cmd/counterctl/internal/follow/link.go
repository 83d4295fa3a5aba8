package follow

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// Times of the link. A Redis sends a PING every 10 s, and gives up a replica that says nothing for 60.
const (
	quiet     = time.Minute
	ackEvery  = time.Second
	saveLimit = 30 * time.Minute // for the source to make a snapshot, in which it sends an empty line every second or so
)

// link is a connection to the source as a replica of it.
type link struct {
	conn   *wire.Conn
	full   bool   // a snapshot comes first
	replid string // the source's history
	offset uint64 // of the snapshot, or where the stream goes on
}

// refusedError is a source that does not want a replica, for reasons that waiting does not change.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return fmt.Sprintf("the source cannot be followed: %v", e.err) }
func (e *refusedError) Unwrap() error { return e.err }

// dialLink asks a source to go on behind an offset of a history, or for everything where replid is empty.
func dialLink(ctx context.Context, dial func(context.Context) (*wire.Conn, error), replid string, offset uint64) (*link, error) {
	conn, err := dial(ctx)
	if err != nil {
		return nil, refusal(err)
	}
	l := &link{conn: conn}
	if err := l.handshake(replid, offset); err != nil {
		conn.Close()
		return nil, err
	}
	return l, nil
}

func (l *link) handshake(replid string, offset uint64) error {
	_ = l.conn.SetDeadline(time.Now().Add(quiet))
	for _, words := range [][]string{{"PING"}, {"REPLCONF", "listening-port", "0"}, {"REPLCONF", "capa", "eof", "capa", "psync2"}} {
		if _, err := l.conn.Do(words...); err != nil {
			return refusal(err)
		}
	}
	if err := l.alone(); err != nil {
		return err
	}
	from := "-1"
	if replid == "" {
		replid = "?"
	} else {
		from = strconv.FormatUint(offset+1, 10)
	}
	l.conn.Out = wire.AppendCommand(l.conn.Out, "PSYNC", replid, from)
	if err := l.conn.Flush(); err != nil {
		return err
	}
	answer, err := l.conn.ReadLine()
	if err != nil {
		return refusal(err)
	}
	words := strings.Fields(answer)
	switch {
	case len(words) == 3 && words[0] == "+FULLRESYNC":
		l.full, l.replid = true, words[1]
		if l.offset, err = strconv.ParseUint(words[2], 10, 64); err == nil {
			return nil
		}
	case len(words) >= 1 && words[0] == "+CONTINUE" && replid != "?":
		if l.replid, l.offset = replid, offset; len(words) > 1 {
			l.replid = words[1]
		}
		return nil
	}
	return fmt.Errorf("%w: %.80q to PSYNC", wire.ErrProtocol, answer)
}

// alone sees that the source is no node of a cluster: a copy of one would empty what others brought.
func (l *link) alone() error {
	answer, err := l.conn.Do("INFO", "cluster")
	if err != nil {
		return refusal(err)
	}
	if strings.Contains(answer.Str, "cluster_enabled:1") {
		return &refusedError{errors.New("it is a node of a cluster, which cannot be followed yet: import it, and import it again, without --follow")}
	}
	return nil
}

// refusal tells errors that pass from those that do not.
func refusal(err error) error {
	var failed *wire.ServerError
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return &refusedError{err}
	}
	if !errors.As(err, &failed) {
		return err
	}
	switch word, _, _ := strings.Cut(failed.Text, " "); word {
	case "LOADING", "NOMASTERLINK", "MASTERDOWN", "BUSY":
		return err
	}
	return &refusedError{err}
}

// snapshot writes the snapshot that comes first to a file, and tells how much came of how much, 0: unknown.
func (l *link) snapshot(w io.Writer, show func(done, total uint64)) error {
	_ = l.conn.SetDeadline(time.Now().Add(saveLimit))
	head, err := l.conn.ReadLine()
	if err != nil {
		return fmt.Errorf("waiting for the snapshot: %w", err)
	}
	mark, open := strings.CutPrefix(head, "$EOF:")
	total := uint64(0)
	if !open {
		size, ok := strings.CutPrefix(head, "$")
		if total, err = strconv.ParseUint(size, 10, 63); err != nil || !ok {
			return fmt.Errorf("%w: %.60q before the snapshot", wire.ErrProtocol, head)
		}
	} else if len(mark) != 40 {
		return fmt.Errorf("%w: an end's mark of %d bytes", wire.ErrProtocol, len(mark))
	}
	buf := make([]byte, 256<<10)
	var tail []byte // the last 40 bytes, which may be the mark
	for done := uint64(0); open || done < total; {
		part := buf
		if !open {
			part = buf[:min(uint64(len(buf)), total-done)]
		}
		_ = l.conn.SetDeadline(time.Now().Add(quiet))
		n, err := l.conn.Read(part)
		if err != nil {
			return fmt.Errorf("the snapshot ends after %d bytes: %w", done, err)
		}
		if done += uint64(n); !open {
			_, err = w.Write(part[:n])
		} else {
			tail = append(tail, part[:n]...)
			keep := min(len(tail), len(mark))
			_, err = w.Write(tail[:len(tail)-keep])
			tail = append(tail[:0], tail[len(tail)-keep:]...)
			open = !bytes.Equal(tail, []byte(mark)) // nothing comes behind it before the first ACK
		}
		if err != nil {
			return err
		}
		show(done, total)
	}
	return nil
}

// stream copies the commands to the spool until the link ends, and tells the source how far they were applied. received
// is given each part's size, after it was written.
func (l *link) stream(to *spool, applied func() uint64, received func(n int)) error {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(ackEvery)
		defer tick.Stop()
		for {
			_ = l.conn.SetWriteDeadline(time.Now().Add(quiet))
			ack := wire.AppendUint(wire.AppendArg(wire.AppendArg(wire.AppendArray(nil, 3), "REPLCONF"), "ACK"), applied())
			if l.conn.Send(ack) != nil {
				return // reading fails too
			}
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	defer func() {
		close(stop)
		l.conn.Close()
		<-stopped
	}()
	buf := make([]byte, 256<<10)
	for {
		_ = l.conn.SetReadDeadline(time.Now().Add(quiet))
		n, err := l.conn.Read(buf)
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = fmt.Errorf("nothing came for %v", quiet)
			}
			return err
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return &spoolError{err}
		}
		received(n)
	}
}

// spoolError is a disk that takes no more.
type spoolError struct{ err error }

func (e *spoolError) Error() string {
	return fmt.Sprintf("cannot keep what the source sends: %v", e.err)
}
func (e *spoolError) Unwrap() error { return e.err }
