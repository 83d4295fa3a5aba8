package main

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
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/counterd/counterd/cmd/internal/connect"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/atomicfile"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

var clusterBackupCommand = command{
	Name:    "cluster backup",
	Args:    "PLACE",
	Summary: "copy the data of all shards to a directory",
	Details: `Makes the directory PLACE/NAME-TIME with an archive of each shard and a manifest, which counterctl cluster restore puts into a
cluster of any number of shards. All primaries are asked at once, over the network; nobody who writes waits. Each archive is the
shard's data at one offset of its log, and all of these are of the short time that is printed: whatever was acknowledged before it
is in the backup, and nothing that was sent behind it.

It is begun anew, and refused in the end, while groups of hash slots move, a shard changes its primary or the schema is changed:
then an archive might hold posts that another one has too, or lack some. That matters while the archives are begun, and not while
they are copied. Every archive is read back and verified, and the directory has its name only when all of it is on the disk.
` + clusterHelp,
	Setup: func(flags *pflag.FlagSet) action {
		f := addClusterFlags(flags, false)
		f.node = connect.AddFlags(flags)
		return clusterAction(f, func(ctx context.Context, s *session, args []string) error {
			if len(args) != 1 {
				return misuse("got %d arguments %q, want the directory to put the backup in", len(args), args)
			}
			return s.backup(ctx, args[0])
		})
	},
}

// backup makes one in a directory of its own in place.
func (s *session) backup(ctx context.Context, place string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends what is being sent
	b, taken, err := s.takeAll(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Join(place, s.flags.name+"-"+b.From.Format("20060102T150405.000Z"))
	unfinished := dir + ".unfinished"
	if err := os.MkdirAll(place, 0o750); err != nil {
		return err
	}
	if err := os.Mkdir(unfinished, 0o750); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(unfinished))
		}
	}()
	if err := s.copyAll(ctx, cancel, b, taken, unfinished); err != nil {
		return err
	}
	for i := range b.Shards {
		if err := verifyArchive(ctx, s.out.Stderr, unfinished, &b.Shards[i]); err != nil {
			return fmt.Errorf("what was copied of shard %d: %w", b.Shards[i].ID, err)
		}
	}
	if err := b.write(unfinished); err != nil {
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s is there already", dir)
	}
	if err := os.Rename(unfinished, dir); err != nil {
		return err
	}
	if err := atomicfile.SyncDir(place); err != nil {
		return err
	}
	if s.flags.json {
		return printJSON(s.out.Stdout, b)
	}
	b.print(s.out.Stdout)
	fmt.Fprintf(s.out.Stdout, "%s\n", dir)
	return nil
}

// print tells of which moment it is.
func (b *clusterBackup) print(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "SHARD\tEPOCH\tOFFSET\tGROUPS\tSIZE")
	for _, shard := range b.Shards {
		fmt.Fprintf(table, "%d\t%d\t%d\t%s\t%s\n", shard.ID, shard.Epoch, shard.Offset, shard.Groups, size(uint64(shard.Bytes)))
	}
	_ = table.Flush()
	fmt.Fprintf(w, "each shard as of its offset, all taken within %v, from %s to %s\n", b.To.Sub(b.From).Round(time.Millisecond),
		clockText(b.From.UnixMilli()), clockText(b.To.UnixMilli()))
}

// takeTries is how often taking all archives at once is tried: what changes a shard is over within seconds, but for a move.
const takeTries = 5

// takeAll has all primaries begin an archive, of which no two hold the same group and each what is owned.
func (s *session) takeAll(ctx context.Context) (*clusterBackup, []*taking, error) {
	var changed *unsteadyError
	for try := range takeTries {
		if try > 0 {
			s.say("%v: once more", changed)
			select {
			case <-ctx.Done():
				return nil, nil, context.Cause(ctx)
			case <-time.After(time.Second):
			}
		}
		b, taken, err := s.takeOnce(ctx)
		if !errors.As(err, &changed) {
			return b, taken, err
		}
	}
	return nil, nil, fmt.Errorf("there is no backup, as %w", changed)
}

// unsteadyError says that archives of this moment would not be of one cluster.
type unsteadyError struct{ what string }

func (e *unsteadyError) Error() string { return e.what }

func unsteady(format string, args ...any) error {
	return &unsteadyError{fmt.Sprintf(format, args...)}
}

// steady checks that every group has one owner, and is only there.
func steady(m *topology.Map) error {
	if unowned := m.Unowned(); !unowned.Empty() {
		return fmt.Errorf("nobody owns the groups %s of hash slots: the cluster is not whole", unowned)
	}
	for _, v := range m.Moves {
		return unsteady("groups %s move from shard %d to %d", v.Groups, v.From, v.To)
	}
	for _, shard := range m.Shards {
		if m.Nodes[shard.Primary] == nil {
			return unsteady("shard %d has no primary", shard.ID)
		}
	}
	return nil
}

// takeOnce is one try. The map is read before and when all archives have begun, each at an offset that stays: what is the
// same in both was so all the time, as epochs only rise, and a group that moves away and back has two moves, of which one
// would be seen, or changes the key of its shard.
func (s *session) takeOnce(ctx context.Context) (b *clusterBackup, taken []*taking, err error) {
	before, err := s.load(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := steady(before); err != nil {
		return nil, nil, err
	}
	sch, err := durableSchema(before.Schema.Text)
	if err != nil {
		return nil, nil, fmt.Errorf("the schema in etcd: %w", err)
	}
	defer func() {
		if err != nil {
			for _, t := range taken {
				t.close()
			}
		}
	}()
	for _, shard := range before.Shards {
		taken = append(taken, &taking{session: s, shard: shard})
	}
	each := func(f func(context.Context, *taking) error) error {
		var group errgroup.Group
		for _, t := range taken {
			group.Go(func() error {
				if err := f(ctx, t); err != nil {
					return fmt.Errorf("shard %d: %w", t.shard.ID, err)
				}
				return nil
			})
		}
		return group.Wait()
	}
	if err := each(func(ctx context.Context, t *taking) error { return t.prepare(ctx, before, sch) }); err != nil {
		return nil, nil, err
	}
	b = &clusterBackup{Format: backupFormat, Cluster: before.Cluster.ID, Name: s.flags.name, Schema: before.Schema.Text, From: time.Now().UTC().Truncate(time.Millisecond)}
	if err := each(func(_ context.Context, t *taking) error { return t.begin() }); err != nil {
		return nil, nil, err
	}
	b.To = time.Now().UTC().Truncate(time.Millisecond)
	after, err := s.load(ctx)
	if err == nil {
		err = unchanged(before, after)
	}
	if err != nil {
		return nil, nil, err
	}
	b.Revision = after.Revision
	for _, t := range taken {
		b.Shards = append(b.Shards, backupShard{ID: t.shard.ID, Epoch: t.shard.Epoch, ReplID: t.replid, Offset: t.offset, Groups: t.shard.Groups, File: archiveName(t.shard.ID)})
	}
	return b, taken, nil
}

// unchanged compares what a backup depends on.
func unchanged(before, after *topology.Map) error {
	if err := steady(after); err != nil {
		return err
	}
	switch {
	case before.Cluster.ID != after.Cluster.ID || len(before.Shards) != len(after.Shards):
		return unsteady("the cluster was changed")
	case before.Schema.Revision != after.Schema.Revision:
		return unsteady("the schema was changed")
	}
	for i, shard := range before.Shards {
		if shard.Revision != after.Shards[i].Revision || shard.ID != after.Shards[i].ID {
			return unsteady("shard %d was changed", shard.ID)
		}
	}
	return nil
}

func durableSchema(text string) (*schema.Schema, error) {
	if text == "" { // nobody has said anything yet
		return schema.Empty(), nil
	}
	return schema.ParseDurable([]byte(text))
}

// taking is an archive that a primary sends.
type taking struct {
	*session
	shard  *topology.Shard
	node   *node    // before it begins
	sock   net.Conn // then
	stop   func() bool
	in     *bufio.Reader
	replid string
	offset uint64
	end    string // behind the archive
}

// prepare connects, and asks whether the node is who it is thought to be and knows the schema.
func (t *taking) prepare(ctx context.Context, m *topology.Map, sch *schema.Schema) error {
	n := m.Nodes[t.shard.Primary]
	addr, err := t.address(n)
	if err != nil {
		return err
	}
	if t.node, err = dialNode(ctx, addr, t.flags.node); err != nil {
		return err
	}
	who, err := t.node.do("CLUSTER", "MYID")
	if err != nil {
		return err
	}
	if len(who) != 1 || who[0] != string(n.ID) {
		return fmt.Errorf("%s is node %.40q, want %s", addr, who, n.ID)
	}
	known, err := askSchema(t.node)
	if err != nil {
		return err
	}
	if known.String() != sch.String() {
		return unsteady("%s has not made the last change of the schema yet", addr)
	}
	for _, option := range []string{"rdb-only 1", "capa eof"} {
		if _, err := t.node.do(append([]string{"REPLCONF"}, strings.Fields(option)...)...); err != nil {
			return err
		}
	}
	if t.sock = t.node.conn.Detach(); t.sock == nil {
		return context.Cause(ctx)
	}
	t.stop = context.AfterFunc(ctx, func() { t.sock.Close() })
	return nil
}

// begin has the node fix the archive, which is then on its way.
func (t *taking) begin() error {
	_ = t.sock.SetDeadline(time.Now().Add(nodeTimeout))
	if _, err := io.WriteString(t.sock, "*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n"); err != nil {
		return fmt.Errorf("%s: %w", t.node.addr, err)
	}
	t.in = bufio.NewReaderSize(t.sock, 64<<10)
	line, err := t.line()
	if err != nil {
		return err
	}
	words := strings.Fields(line)
	if len(words) != 3 || words[0] != "+FULLRESYNC" {
		return fmt.Errorf("%s answered PSYNC by %.200q, want FULLRESYNC", t.node.addr, line)
	}
	t.replid = words[1]
	if t.offset, err = strconv.ParseUint(words[2], 10, 64); err != nil {
		return fmt.Errorf("%s answered PSYNC by %.200q, want an offset", t.node.addr, line)
	}
	if line, err = t.line(); err != nil {
		return err
	}
	var ok bool
	if t.end, ok = strings.CutPrefix(line, "$EOF:"); !ok || len(t.end) != archiveEnd {
		return fmt.Errorf("%s announced %.200q, want an archive up to a mark of %d bytes", t.node.addr, line, archiveEnd)
	}
	return nil
}

func (t *taking) line() (string, error) {
	line, err := t.in.ReadSlice('\n')
	if err != nil {
		return "", fmt.Errorf("%s: %w", t.node.addr, err)
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

func (t *taking) close() {
	if t.sock != nil {
		t.stop()
		t.sock.Close()
	} else if t.node != nil {
		t.node.close()
	}
}

const (
	archiveEnd = 40
	// archiveSilence is how long a node may send nothing of an archive: it reads cold files meanwhile.
	archiveSilence = 2 * time.Minute
)

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
			return fmt.Errorf("shard %d: %s broke the archive off: %w", t.shard.ID, t.node.addr, err)
		}
	}
}

// copyAll writes the archives, all at once: each node keeps its files for as long as its own is on the way. cancel ends all
// of them.
func (s *session) copyAll(ctx context.Context, cancel context.CancelFunc, b *clusterBackup, taken []*taking, dir string) error {
	total := uint64(0)
	m, err := s.load(ctx)
	if err != nil {
		return err
	}
	for _, t := range taken {
		if live := m.Live[t.shard.Primary]; live != nil {
			total += uint64(live.Bytes)
		}
	}
	show, finish := newProgress(s.out.Stderr, "copying")
	defer finish()
	var done atomic.Uint64
	var group errgroup.Group
	for i, t := range taken {
		group.Go(func() error {
			defer t.close()
			to := &b.Shards[i]
			err := atomicfile.Replace(filepath.Join(dir, to.File), 0o640, func(w io.Writer) error {
				sum := summed{Writer: w, sum: crc32.New(castagnoli)}
				err := t.copy(&sum, func(n int) {
					if now := done.Add(uint64(n)); i == 0 { // the bar is drawn by one
						show(now, max(now, total))
					}
				})
				to.Bytes, to.CRC = sum.n, sum.text()
				return err
			})
			if err != nil {
				cancel() // the others are of no use
			}
			return err
		})
	}
	return group.Wait()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// summed counts and sums what is written.
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

// verifyArchive compares a file with what the manifest says of it, and its parts with their checksums.
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
	a, err := persist.OpenArchive(vfs.Interruptible(ctx, vfs.OS()), path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if a.End() != b.Offset {
		return fmt.Errorf("%s: ends at offset %d, want %d", path, a.End(), b.Offset)
	}
	show, finish := newProgress(stderr, "verifying "+b.File)
	defer finish()
	return a.Verify(show)
}

// primaries lists the nodes that lead.
func primaries(m *topology.Map) (list []*topology.Node) {
	for _, shard := range m.Shards {
		if n := m.Nodes[shard.Primary]; n != nil {
			list = append(list, n)
		}
	}
	return slices.Clip(list)
}
