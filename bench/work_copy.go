package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/counterd/counterd/bench/procstat"
	"github.com/counterd/counterd/internal/wire"
)

// copyWork has a replica take a full copy. The replica is this program: it asks as one does, and throws away what it
// gets; the work of a real one would be measured with the server's, where both are on one machine.
type copyWork struct{ floodWork }

func (w *copyWork) prepare(ctx context.Context) error {
	switch w.side.target.Kind {
	case Counterd:
		// What is copied is the newest snapshot, and the log behind it.
		if _, err := w.send(ctx, "SAVE"); err != nil {
			return err
		}
	default:
		// A Redis waits 5 s for more replicas before it forks.
		if _, err := w.send(ctx, "CONFIG", "SET", "repl-diskless-sync-delay", "0"); err != nil {
			return err
		}
	}
	return w.floodWork.prepare(ctx)
}

// fullCopy asks a server for a full copy, reads it to its end, and returns its bytes.
func fullCopy(ctx context.Context, target Target) (int64, error) {
	conn, err := wire.Dial(ctx, target.Addr, wire.Options{Password: target.Password})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	c := &copier{target: target, conn: conn, buf: make([]byte, 256<<10)}
	if target.Kind == Counterd {
		err = c.counterd()
	} else {
		err = c.redis()
	}
	if err != nil {
		return 0, fmt.Errorf("full copy: %w", err)
	}
	return c.bytes, nil
}

// copier is a replica that takes a copy.
type copier struct {
	target Target
	conn   *wire.Conn
	buf    []byte
	bytes  int64
}

// ask sends a command and returns the line that answers it.
func (c *copier) ask(args ...string) (string, error) {
	c.conn.Out = wire.AppendCommand(c.conn.Out, args...)
	if err := c.conn.Flush(); err != nil {
		return "", err
	}
	return c.conn.ReadLine()
}

// skip reads n bytes.
func (c *copier) skip(n int64) error {
	for n > 0 {
		k, err := c.conn.Read(c.buf[:min(n, int64(len(c.buf)))])
		if err != nil {
			return err
		}
		n -= int64(k)
		c.bytes += int64(k)
	}
	return nil
}

// counterd takes the files of the newest snapshot, and the log up to where it was when the last of them had come.
func (c *copier) counterd() error {
	var id [20]byte
	_, _ = rand.Read(id[:]) // it never fails
	if _, err := c.conn.Do("REPLCONF", "listening-port", "1", "version", "counterd", "capa", "counterd1", "process", hex.EncodeToString(id[:])); err != nil {
		return err
	}
	line, err := c.ask("PSYNC", "?", "-1")
	if err != nil {
		return err
	}
	var replay, manifest, lineage int64
	var replID string
	if _, err := fmt.Sscanf(line, "+FULLRESYNC %s %d %d %d", &replID, &replay, &manifest, &lineage); err != nil {
		return fmt.Errorf("%q answers PSYNC: %w", line, err)
	}
	const mostManifest = 64 << 20
	if manifest < 0 || manifest > mostManifest || lineage < 0 || lineage > mostManifest {
		return fmt.Errorf("%q answers PSYNC: want sizes up to %d", line, mostManifest)
	}
	text := make([]byte, manifest)
	if _, err := io.ReadFull(&c.conn.Reader, text); err != nil {
		return err
	}
	if err := c.skip(int64(len("\r\n")) + lineage + int64(len("\r\n"))); err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		tier, rest, _ := strings.Cut(line, " ")
		_, quoted, isFile := strings.Cut(rest, ` file "`)
		if !isFile {
			continue
		}
		name, err := strconv.Unquote(`"` + strings.TrimSuffix(quoted, "\n"))
		if err != nil {
			return fmt.Errorf("manifest: %q: %w", line, err)
		}
		if err := c.file(tier, name); err != nil {
			return err
		}
	}
	position, err := c.position()
	if err != nil {
		return err
	}
	if line, err = c.ask("PSYNC", "?", strconv.FormatInt(replay, 10)); err != nil {
		return err
	}
	var from int64
	if _, err := fmt.Sscanf(line, "+CONTINUE %s %d %d", &replID, &from, &lineage); err != nil || lineage < 0 || lineage > mostManifest {
		return fmt.Errorf("%q answers PSYNC: %w", line, err)
	}
	return c.skip(lineage + int64(len("\r\n")) + max(position-from, 0))
}

// file takes a file of the snapshot.
func (c *copier) file(tier, name string) error {
	line, err := c.ask("REPLCONF", "fetch", tier, name)
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(line, "$"), 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%q answers REPLCONF fetch", line)
	}
	return c.skip(n + int64(len("\r\n")))
}

// position asks where the log ends.
func (c *copier) position() (int64, error) {
	other, err := c.target.Dial()
	if err != nil {
		return 0, err
	}
	defer other.Close()
	v, err := other.Do("INFO", "persistence")
	if err != nil {
		return 0, err
	}
	return procstat.ParseInfo(v.Str).Int("log_position")
}

// redis takes the RDB that a Redis sends to a replica.
func (c *copier) redis() error {
	if _, err := c.conn.Do("REPLCONF", "listening-port", "1", "capa", "eof", "capa", "psync2"); err != nil {
		return err
	}
	line, err := c.ask("PSYNC", "?", "-1")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(line, "+FULLRESYNC ") {
		return fmt.Errorf("%q answers PSYNC", line)
	}
	if line, err = c.conn.ReadLine(); err != nil {
		return err
	}
	mark, isStream := strings.CutPrefix(line, "$EOF:")
	if !isStream {
		n, err := strconv.ParseInt(strings.TrimPrefix(line, "$"), 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is no size of an RDB", line)
		}
		return c.skip(n)
	}
	return c.skipTo(mark)
}

// skipTo reads until the stream ends with a mark, which the sender ends with and then waits.
func (c *copier) skipTo(mark string) error {
	kept := 0 // bytes at the beginning of buf, the last that were read
	for {
		n, err := c.conn.Read(c.buf[kept:])
		if err != nil {
			return err
		}
		c.bytes += int64(n)
		if n += kept; strings.HasSuffix(string(c.buf[max(0, n-len(mark)):n]), mark) {
			return nil
		}
		kept = min(n, len(mark))
		copy(c.buf, c.buf[n-kept:n])
	}
}
