package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/counterctl/internal/node"
	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/archive"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// taking is an archive that a primary sends.
type taking struct {
	*session
	shard  *topology.Shard
	node   *node.Node // before it begins
	sock   net.Conn   // then
	stop   func() bool
	in     *bufio.Reader
	replid string
	offset uint64
	end    string // behind the archive
}

// prepare connects, and asks whether the node has the id it is thought to have, and knows the schema. It ends with try, and the connection
// with ctx.
func (t *taking) prepare(ctx, try context.Context, m *topology.Map, sch *schema.Schema) error {
	n := m.Nodes[t.shard.Primary]
	addr, err := t.address(n)
	if err != nil {
		return err
	}
	if t.node, err = node.Dial(try, addr, t.flags.node); err != nil {
		return away(err)
	}
	who, err := t.node.Do("CLUSTER", "MYID")
	if err != nil {
		return away(err)
	}
	if len(who) != 1 || who[0] != string(n.ID) {
		return fmt.Errorf("%s is node %.40q, want %s", addr, who, n.ID)
	}
	known, err := t.node.Schema()
	if err != nil {
		return away(err)
	}
	if known.String() != sch.String() {
		return unsteady("%s has not made the last change of the schema yet", addr)
	}
	for _, option := range []string{"rdb-only 1", "capa eof"} {
		if _, err := t.node.Do(append([]string{"REPLCONF"}, strings.Fields(option)...)...); err != nil {
			return away(err)
		}
	}
	if t.sock = t.node.Conn.Detach(); t.sock == nil {
		return unsteady("%s: %v", addr, context.Cause(try))
	}
	t.stop = context.AfterFunc(ctx, func() { t.sock.Close() })
	return nil
}

// begin has the node fix the archive, which is then on its way. The node reads and verifies all images of its snapshot first, which may take
// minutes. So it hangs only if it is silent on another connection, too.
func (t *taking) begin(ctx context.Context, silence time.Duration) error {
	_ = t.sock.SetDeadline(time.Now().Add(node.Timeout))
	watch, end := context.WithCancel(ctx)
	hangs := make(chan error)
	go func() { hangs <- t.watch(watch, silence) }()
	err := t.psync()
	end()
	if hung := <-hangs; err != nil && hung != nil {
		return hung
	}
	_ = t.sock.SetDeadline(time.Time{})
	return err
}

// watch asks the node again and again, until ctx ends. It returns the error of a node that is silent or gone, and ends psync then.
func (t *taking) watch(ctx context.Context, silence time.Duration) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(silence / 3):
		}
		err := t.ping(ctx, silence)
		if err != nil && ctx.Err() == nil && patience.Passes(err) {
			_ = t.sock.SetDeadline(time.Now())
			return away(err)
		}
	}
}

// ping asks the node on a connection of its own.
func (t *taking) ping(ctx context.Context, silence time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	n, err := node.Dial(ctx, t.node.Addr, t.flags.node)
	if err != nil {
		return err
	}
	defer n.Close()
	_, err = n.Do("PING")
	return err
}

func (t *taking) psync() error {
	if _, err := io.WriteString(t.sock, "*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n"); err != nil {
		return away(fmt.Errorf("%s: %w", t.node.Addr, err))
	}
	t.in = bufio.NewReaderSize(t.sock, 64<<10)
	line, err := t.line()
	if err != nil {
		return err
	}
	if text, failed := strings.CutPrefix(line, "-"); failed {
		return away(fmt.Errorf("%s: PSYNC: %w", t.node.Addr, &wire.ServerError{Text: text}))
	}
	words := strings.Fields(line)
	if len(words) != 3 || words[0] != "+FULLRESYNC" {
		return fmt.Errorf("%s answered PSYNC by %.200q, want FULLRESYNC", t.node.Addr, line)
	}
	t.replid = words[1]
	if t.offset, err = strconv.ParseUint(words[2], 10, 64); err != nil {
		return fmt.Errorf("%s answered PSYNC by %.200q, want an offset", t.node.Addr, line)
	}
	if line, err = t.line(); err != nil {
		return err
	}
	var ok bool
	if t.end, ok = strings.CutPrefix(line, "$EOF:"); !ok || len(t.end) != archiveEnd {
		return fmt.Errorf("%s announced %.200q, want an archive up to a mark of %d bytes", t.node.Addr, line, archiveEnd)
	}
	return nil
}

func (t *taking) line() (string, error) {
	line, err := t.in.ReadSlice('\n')
	if err != nil {
		return "", away(fmt.Errorf("%s: %w", t.node.Addr, err))
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

func (t *taking) close() {
	if t.sock != nil {
		t.stop()
		t.sock.Close()
	} else if t.node != nil {
		t.node.Close()
	}
}

func closeAll(taken []*taking) {
	for _, t := range taken {
		t.close()
	}
}

// copy writes the archive to w, all before the mark that ends it. An archive that breaks off is an error.
func (t *taking) copy(w io.Writer, progress func(n int)) error {
	buf, have := make([]byte, 256<<10), 0
	for {
		_ = t.sock.SetReadDeadline(time.Now().Add(archiveSilence))
		n, err := t.in.Read(buf[have:])
		have += n
		progress(n)
		if have >= archiveEnd {
			ready := have - archiveEnd
			if _, err := w.Write(buf[:ready]); err != nil {
				return err
			}
			if have = copy(buf, buf[ready:have]); string(buf[:have]) == t.end {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("shard %d: %s broke the archive off: %w", t.shard.ID, t.node.Addr, err)
		}
	}
}

// summed counts the bytes written and computes their checksum.
type summed struct {
	io.Writer
	sum hash.Hash32
	n   int64
}

func (s *summed) Write(b []byte) (int, error) {
	n, err := s.Writer.Write(b)
	_, _ = s.sum.Write(b[:n]) // never fails
	s.n += int64(n)
	return n, err
}

func (s *summed) text() string { return fmt.Sprintf("%08x", s.sum.Sum32()) }

// verifyArchive compares a file with its entry in the manifest, and its parts with their checksums.
func verifyArchive(ctx context.Context, stderr io.Writer, dir string, b *backupShard) (err error) {
	path := filepath.Join(dir, b.File)
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := summed{Writer: io.Discard, sum: crc32.New(castagnoli)}
	if _, err := io.Copy(&sum, f); err != nil {
		return err
	}
	if sum.n != b.Bytes || sum.text() != b.CRC {
		return fmt.Errorf("%s: got %d bytes with checksum %s, want %d with %s: it is damaged", path, sum.n, sum.text(), b.Bytes, b.CRC)
	}
	a, err := archive.Open(vfs.Interruptible(ctx, vfs.OS()), path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if a.End() != b.Offset {
		return fmt.Errorf("%s: ends at offset %d, want %d", path, a.End(), b.Offset)
	}
	show, finish := human.Progress(stderr, "verifying "+b.File)
	defer finish()
	return a.Verify(show)
}
