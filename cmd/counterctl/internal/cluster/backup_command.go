package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/cmd/internal/connect"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/atomicfile"
	"github.com/counterd/counterd/schema"
)

var backupCommand = command{
	Name:    "cluster backup",
	Args:    "PLACE",
	Summary: "back up all shards to a directory",
	Details: `Makes the directory PLACE/NAME-TIME with an archive of each shard and a manifest, which counterctl cluster restore puts into a
cluster of any number of shards. All primaries are asked at once, over the network; nobody who writes waits. Each archive is the
shard's data at one offset of its log, and all of these are of the short time that is printed: whatever was acknowledged before it
is in the backup, and nothing that was sent behind it.

Groups of hash slots may move meanwhile: each counts in the archive of the shard that owned it. If a move is committed, a shard
changes its primary or the schema is changed in the moment in which the archives are begun, they are begun again, for at most --wait.
The same if a primary is silent for 15 seconds, or cannot be reached. Once all archives have begun, a lost connection ends the command.
Every archive is read back and verified, and the directory has its name only when all of it is on the disk.
` + commonHelp,
	Setup: func(flags *pflag.FlagSet) action {
		f := addFlags(flags, false)
		f.node = connect.AddFlags(flags)
		return withCluster(f, func(ctx context.Context, s *session, args []string) error {
			place, err := cli.One("PLACE, the directory to put the backup in", args)
			if err != nil {
				return err
			}
			return s.backup(ctx, place)
		})
	},
}

// backup makes one in a directory of its own in place.
func (s *session) backup(ctx context.Context, place string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the transfers in flight
	b, taken, err := s.takeAll(ctx, takeLimits)
	if err != nil {
		return err
	}
	dir := filepath.Join(place, s.flags.name+"-"+b.From.Format("20060102T150405.000Z"))
	unfinished := dir + ".unfinished"
	if err := atomicfile.MkdirAll(place, 0o750); err != nil {
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
		fmt.Fprintf(table, "%d\t%d\t%d\t%s\t%s\n", shard.ID, shard.Epoch, shard.Offset, shard.Groups, human.Size(uint64(shard.Bytes)))
	}
	_ = table.Flush()
	fmt.Fprintf(w, "each shard as of its offset, all taken within %v, from %s to %s\n", b.To.Sub(b.From).Round(time.Millisecond),
		human.Clock(b.From.UnixMilli()), human.Clock(b.To.UnixMilli()))
}

// takePause is between two tries to take all archives at once. A move in its last step, or a change of a primary, passes soon.
const takePause = 250 * time.Millisecond

// tryLimits are how long a primary may be silent in a try to take all archives, and in a last try at least.
type tryLimits struct{ most, least time.Duration }

// takeLimits: a primary that hangs has a successor after 15 s.
var takeLimits = tryLimits{15 * time.Second, 3 * time.Second}

// takeAll makes all primaries begin an archive. Each archive has all posts of the groups that its shard owns.
func (s *session) takeAll(ctx context.Context, limits tryLimits) (*clusterBackup, []*taking, error) {
	told := ""
	for deadline := time.Now().Add(s.flags.wait); ; {
		var changed *unsteadyError
		b, taken, err := s.takeOnce(ctx, min(limits.most, max(time.Until(deadline), limits.least)))
		switch {
		case ctx.Err() != nil:
			closeAll(taken)
			return nil, nil, context.Cause(ctx)
		case !errors.As(err, &changed):
			return b, taken, err
		}
		if time.Now().After(deadline) {
			return nil, nil, fmt.Errorf("there is no backup within %s, as %w (--wait sets a longer limit)", s.flags.wait, changed)
		}
		if told != changed.what {
			told = changed.what
			s.say("%v: once more", changed)
		}
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-time.After(takePause):
		}
	}
}

// unsteadyError says that archives of this moment would not be of one cluster.
type unsteadyError struct{ what string }

func (e *unsteadyError) Error() string { return e.what }

func unsteady(format string, args ...any) error {
	return &unsteadyError{fmt.Sprintf(format, args...)}
}

// away makes an error of a node unsteady if it may pass: the node hangs or is gone, and has no successor yet; or it has just started.
func away(err error) error {
	if err == nil || !patience.Passes(err) {
		return err
	}
	return unsteady("%v", err)
}

// steady checks that every group has one owner that has all of it. A move that copies leaves the group with its source. The
// posts that have arrived at the destination do not count yet. After the commit it is the destination's, whose log has all of it, and says so
// when the move is accepted. The posts that the source has not dropped yet do not count then.
func steady(m *topology.Map) error {
	if unowned := m.Unowned(); !unowned.Empty() {
		return fmt.Errorf("nobody owns the groups %s of hash slots: the cluster is not whole", unowned)
	}
	for _, v := range m.Moves {
		if v.State == topology.MoveCommitted && !v.Accepted {
			return unsteady("groups %s have just moved from shard %d to %d", v.Groups, v.From, v.To)
		}
	}
	for _, shard := range m.Shards {
		if m.Nodes[shard.Primary] == nil {
			return unsteady("shard %d has no primary", shard.ID)
		}
	}
	return nil
}

// resting checks that the map is steady, and that no group moves.
func resting(m *topology.Map) error {
	for _, v := range m.Moves {
		return fmt.Errorf("groups %s move from shard %d to %d", v.Groups, v.From, v.To)
	}
	return steady(m)
}

// takeOnce is one try. A primary that is silent for limit hangs. The map is read before and when all archives have begun, each at an offset that stays. Parts of the
// map that are equal in both readings did not change in between, as epochs only rise, and the commit of a move writes the keys of
// both shards.
func (s *session) takeOnce(ctx context.Context, limit time.Duration) (b *clusterBackup, taken []*taking, err error) {
	try, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
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
			closeAll(taken)
		}
	}()
	for _, shard := range before.Shards {
		taken = append(taken, &taking{session: s, shard: shard})
	}
	each := func(f func(t *taking) error) error {
		var group errgroup.Group
		for _, t := range taken {
			group.Go(func() error {
				if err := f(t); err != nil {
					return fmt.Errorf("shard %d: %w", t.shard.ID, err)
				}
				return nil
			})
		}
		return group.Wait()
	}
	if err := each(func(t *taking) error { return t.prepare(ctx, try, before, sch) }); err != nil {
		return nil, nil, err
	}
	b = &clusterBackup{Format: backupFormat, Cluster: before.Cluster.ID, Name: s.flags.name, Schema: before.Schema.Text, From: time.Now().UTC().Truncate(time.Millisecond)}
	if err := each(func(t *taking) error { return t.begin(ctx, limit) }); err != nil {
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

const (
	archiveEnd = 40
	// archiveSilence is how long a node may send nothing of an archive: it reads cold files meanwhile.
	archiveSilence = 2 * time.Minute
)

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
	show, finish := human.Progress(s.out.Stderr, "copying")
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

// primaries lists the nodes that lead.
func primaries(m *topology.Map) (list []*topology.Node) {
	for _, shard := range m.Shards {
		if n := m.Nodes[shard.Primary]; n != nil {
			list = append(list, n)
		}
	}
	return slices.Clip(list)
}
