package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/directory"
	"github.com/counterd/counterd/cmd/counterctl/internal/export"
	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/counterctl/internal/node"
	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
	"github.com/counterd/counterd/cmd/counterctl/internal/posts"
	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/cmd/internal/connect"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

var restoreCommand = command{
	Name:    "cluster restore",
	Args:    "DIR",
	Summary: "restore a cluster backup into an empty cluster",
	Details: `Writes the posts of a backup into a cluster that runs and is empty, of as many shards as it likes: it adds the counters and columns,
writes each post to the primary that owns it now, and compares the number of posts and the sums of all columns with the
cluster's at the end. Nobody else should write meanwhile.

DIR is what cluster backup has made. All of it is verified before anything is changed; a damaged file is refused. An archive is read
at a time, which takes the memory that a server would take for it; archives can be read alone too, by counterctl
check, dump, export and restore.

If it was interrupted, the same command with --overwrite writes all posts once more. The cluster's memory of numbered changes (IDMP)
is restored too: a repeated change that is in the backup is answered, and does not count again. Columns with a window and columns
that decay count what they counted in the backup, as far as it is still in the window, or worth something. Cursors of the feed are not
restored.
` + commonHelp,
	Setup: func(flags *pflag.FlagSet) action {
		f := addFlags(flags, true)
		f.node = connect.AddFlags(flags)
		overwrite := flags.Bool("overwrite", false, "also where the cluster has posts: those of the backup become as they are there")
		rate := flags.Float64("rate", 0, "posts a second to write at most; 0: as many as go")
		return withCluster(f, func(ctx context.Context, s *session, args []string) error {
			dir, err := cli.One("DIR, the directory of a backup", args)
			switch {
			case err != nil:
				return err
			case *rate < 0:
				return misuse("--rate %g: want 0 or more", *rate)
			}
			return (&restoring{session: s, dir: dir, overwrite: *overwrite, rate: *rate}).run(ctx)
		})
	},
}

// restoring is a backup on its way into a cluster.
type restoring struct {
	*session
	dir       string
	overwrite bool
	rate      float64

	backup *clusterBackup
	sch    *schema.Schema
	tables []*posts.Wanted // all counters
	tally  []*export.Tally // of each, the posts written

	derived []derivedTally // of all derived columns, in the order of the schema
}

func (r *restoring) run(ctx context.Context) (err error) {
	if r.backup, err = readBackup(r.dir); err != nil {
		return err
	}
	r.sch = r.backup.schema()
	for i := range r.backup.Shards {
		if err := verifyArchive(ctx, r.out.Stderr, r.dir, &r.backup.Shards[i]); err != nil {
			return fmt.Errorf("%w\nnothing was changed", err)
		}
	}
	for _, c := range r.sch.Counters() {
		columns, err := posts.Columns(c, nil)
		if err != nil {
			return err
		}
		r.tables = append(r.tables, &posts.Wanted{Table: export.Table{Schema: r.sch, Counter: c, Columns: columns}})
		r.tally = append(r.tally, export.NewTally(len(columns)))
		for i := range c.Derived {
			r.derived = append(r.derived, derivedTally{name: c.Name + "." + c.Derived[i].Name})
		}
	}
	m, err := r.load(ctx)
	if err != nil {
		return err
	}
	if err := resting(m); err != nil {
		return fmt.Errorf("the cluster is not ready: %w", err)
	}
	if err := r.empty(ctx, m); err != nil {
		return err
	}
	r.backup.print(r.out.Stdout)
	fmt.Fprintf(r.out.Stdout, "to be written into the cluster %s of %s\n", r.flags.name, human.Count(len(m.Shards), "shard"))
	if err := r.confirm(); err != nil {
		return err
	}
	if err := r.putSchema(ctx, m); err != nil {
		return err
	}
	began := time.Now()
	if err := r.rows(ctx, m); err != nil {
		return fmt.Errorf("%w\na part of the backup was written: the same command with --overwrite writes all of it once more", err)
	}
	return r.compare(ctx, began)
}

// empty refuses a cluster whose schema is another, or that has posts.
func (r *restoring) empty(ctx context.Context, m *topology.Map) error {
	return r.at(ctx, m, func(n *posts.Node) error {
		if has, want := n.Schema().String(), r.sch.String(); has != want && !n.Schema().IsEmpty() {
			return fmt.Errorf("the cluster has other counters or columns than the backup:\n%sthe backup has\n%s", has, want)
		}
		for _, c := range n.Schema().Counters() {
			count, err := n.Number("COUNTER.COUNT", c.Name)
			if err == nil && count != "0" && !r.overwrite {
				err = fmt.Errorf("the cluster has %s posts of %s: want an empty one (--overwrite writes over what is there)", count, c.Name)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// at asks the first primary, which answers for all.
func (r *restoring) at(ctx context.Context, m *topology.Map, f func(n *posts.Node) error) error {
	addr, err := r.address(primaries(m)[0])
	if err != nil {
		return err
	}
	n, err := node.Dial(ctx, addr, r.flags.node)
	if err != nil {
		return err
	}
	defer n.Close()
	posts, err := posts.OfNode(n)
	if err != nil {
		return err
	}
	return f(posts)
}

// putSchema adds counters and columns, and waits until all primaries have them.
func (r *restoring) putSchema(ctx context.Context, m *topology.Map) error {
	err := r.at(ctx, m, func(n *posts.Node) error {
		if n.Schema().String() == r.sch.String() {
			return nil
		}
		for line := range strings.Lines(r.sch.String()) {
			if _, err := n.Do(strings.Fields(line)...); err != nil {
				return fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	deadline := time.Now().Add(r.flags.wait)
	for _, n := range primaries(m) {
		for {
			lines, err := r.ask(ctx, n, "SCHEMA")
			if err != nil {
				return err
			}
			if strings.Join(lines, "\n")+"\n" == r.sch.String() || r.sch.IsEmpty() && len(lines) == 0 {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("node %s has another schema than the backup within %v:\n%s", label(m, n.ID), r.flags.wait, strings.Join(lines, "\n"))
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// rows writes all posts, the counts of their derived columns, and the memory of numbered changes.
func (r *restoring) rows(ctx context.Context, m *topology.Map) error {
	for i := range r.backup.Shards {
		if err := r.shard(ctx, m, &r.backup.Shards[i]); err != nil {
			return err
		}
	}
	return nil
}

// shard writes the posts of one archive, the counts of their derived columns, and its memory of numbered changes, of the groups that count.
func (r *restoring) shard(ctx context.Context, m *topology.Map, from *backupShard) error {
	path := filepath.Join(r.dir, from.File)
	return directory.With(ctx, path, io.Discard, func(d *directory.Dir) (err error) {
		store, err := d.OpenStore()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		if has := store.Schema().String(); has != r.sch.String() {
			return fmt.Errorf("%s has another schema than the manifest:\n%s", path, has)
		}
		w := newPostWriter(ctx, r.session, m, r.rate)
		err = r.posts(ctx, w, store, from)
		if failed := w.close(); failed != nil { // which is why
			err = failed
		}
		if err == nil {
			err = giver{r}.derive(ctx, store, from)
		}
		if err != nil {
			return err
		}
		return giver{r}.remember(ctx, store, from)
	})
}

// posts writes the posts of one archive, of the groups that count.
func (r *restoring) posts(ctx context.Context, w *postWriter, store *counter.Store, from *backupShard) error {
	posts := posts.OfStore(store)
	for i, all := range r.tables {
		t := *all
		t.Counter = store.Schema().Counter(all.Counter.Name)
		total, err := posts.Count(&t)
		if err != nil {
			return err
		}
		show, finish := human.CountProgress(r.out.Stderr, fmt.Sprintf("shard %d, %s", from.ID, t.Counter.Name))
		n := uint64(0)
		err = posts.Rows(ctx, &t, func(mid uint64, values []uint64) error {
			if n++; n%1024 == 0 {
				show(n, total)
			}
			if !from.Groups.Has(slot.Group(mid)) {
				return nil // it was on its way, and counts elsewhere
			}
			r.tally[i].Add(values)
			return w.put(t.Counter, mid, values)
		})
		finish()
		if err != nil {
			return err
		}
	}
	return nil
}

// compare asks the cluster how many posts it has now, and for their sums.
func (r *restoring) compare(ctx context.Context, began time.Time) error {
	took := time.Since(began)
	has := make([]*export.Tally, len(r.tables))
	policy := patience.Policy{First: 20 * time.Millisecond, Longest: time.Second, Limit: batchPatience}
	err := policy.Do(ctx, func() (bool, error) {
		m, err := r.load(ctx)
		if err != nil {
			return false, err
		}
		return false, r.at(ctx, m, func(n *posts.Node) (err error) {
			for i, t := range r.tables {
				if has[i], _, err = n.Tally(t); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("all was written, and could not be compared: %w", err)
	}
	bad := false
	for i, t := range r.tables {
		if !has[i].Equal(r.tally[i]) {
			bad = true
			fmt.Fprintf(r.out.Stdout, "%-11s %s: the cluster has %s, the backup %s\n", "DIFFERENT", t.Counter.Name, has[i].Text(&t.Table), r.tally[i].Text(&t.Table))
			continue
		}
		fmt.Fprintf(r.out.Stdout, "%s: %s, verified\n", t.Counter.Name, has[i].Text(&t.Table))
	}
	for i := range r.derived {
		fmt.Fprintln(r.out.Stdout, &r.derived[i])
	}
	if bad {
		fmt.Fprintln(r.out.Stdout, "the cluster does not have what the backup has: somebody else has written to it, or it had posts before")
		return errReported
	}
	fmt.Fprintf(r.out.Stdout, "the cluster %s has what the backup has; it took %v\n", r.flags.name, took.Round(time.Millisecond))
	return nil
}
