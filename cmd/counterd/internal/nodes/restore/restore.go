// Package restore brings the data of a damaged node back from a backup, where no other node has them (setting
// heal-from). It makes the whole store beside the damaged files:
//
//  1. It takes the newest backup in the place that is the beginning of this store's log, and whose files have their
//     checksums. The one before it is next.
//  2. It opens the backup as a replica, and gives it the frames of the damaged log behind its end, as far as they are
//     whole and follow each other.
//  3. It begins a new term at the end: replicas may hold bytes behind it that are lost here.
//  4. It moves the data into the directory, as <name>.restored.
//
// Nothing of the node was changed so far, and a crash leaves the damage for the next start. past.GiveUp then sets the
// damaged files aside, and gives the restored ones their names.
package restore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/internal/backup"
	"github.com/counterd/counterd/cmd/internal/backup/place"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// workName is the folder in the data directory where the store is made.
const workName = "heal-from.tmp"

// Options are those of Stage.
type Options struct {
	Dir    string          // the damaged one
	Place  string          // of the backups: a directory, or s3://BUCKET/PREFIX
	Noted  format.ReplID   // a term of the store, as the node noted it elsewhere; zero: it did not
	Store  counter.Options // as the server opens its store
	Logger *slog.Logger
}

// Staged describes the store beside the damaged files.
type Staged struct {
	Backup string        // its name
	Term   format.ReplID // of the log from End on
	From   uint64        // end of the backup's log
	End    uint64        // of the log, with the changes of the node's own log
	Known  uint64        // the highest offset that the damaged files know of
	Last   time.Time     // when the last change was made that is there
	Until  time.Time     // when the damaged log was written last; zero: nobody knows
}

// Lost is the length of the log that is lost; more may be, of which no file knows.
func (s *Staged) Lost() uint64 { return max(s.Known, s.End) - s.End }

func (s *Staged) String() string {
	text := fmt.Sprintf("restored from backup %s to offset %d, %d bytes of them from this node's own log", s.Backup, s.End, s.End-s.From)
	if s.Known < s.End {
		return text + fmt.Sprintf("; its own log is missing, and changes later than %s are lost", s.Last.UTC().Format(time.RFC3339))
	}
	if s.Lost() == 0 {
		return text
	}
	text += fmt.Sprintf("; lost: offsets %d to %d, changes later than %s", s.End, s.Known, s.Last.UTC().Format(time.RFC3339))
	if !s.Until.IsZero() {
		text += fmt.Sprintf(", until %s", s.Until.UTC().Format(time.RFC3339))
	}
	return text
}

// Clear removes the files of a Stage that a crash ended.
func Clear(dir string) error { return os.RemoveAll(filepath.Join(dir, workName)) }

// Stage makes a store of the newest good backup, and of the rest of the damaged log, and puts it beside the damaged
// files. An error changes nothing.
func Stage(ctx context.Context, o Options) (s Staged, err error) {
	lock, err := persist.LockDir(vfs.OS(), o.Dir)
	if err != nil {
		return s, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, past.RemoveRestored(vfs.OS(), o.Dir))
		}
		err = errors.Join(err, Clear(o.Dir), lock.Close())
	}()
	if err := errors.Join(Clear(o.Dir), past.RemoveRestored(vfs.OS(), o.Dir)); err != nil {
		return s, err
	}
	mine, err := readOwn(o.Dir, o.Noted)
	if err != nil {
		return s, err
	}
	from, err := place.OpenRead(o.Place)
	if err != nil {
		return s, err
	}
	list, errs, err := backup.List(ctx, from)
	if err != nil {
		return s, err
	}
	slices.Reverse(list)
	slices.SortStableFunc(list, func(a, b *backup.Index) int { // backups of a damaged source last
		return min(len(a.Problems()), 1) - min(len(b.Problems()), 1)
	})
	strangers := 0
	for _, x := range list {
		history, err := backup.Past(ctx, from, x)
		if err == nil && !mine.begins(history, x.End) {
			strangers++
			continue
		}
		if err == nil {
			if s, err = o.try(ctx, from, x, history, mine); err == nil {
				return s, nil
			}
		}
		if ctx.Err() != nil {
			return s, ctx.Err()
		}
		o.Logger.Error("a backup cannot be restored; trying the one before it", "backup", x.Name, "error", err)
		errs = append(errs, err)
	}
	return s, errors.Join(append(errs, fmt.Errorf("%s has no backup that gives this store back; %d are of another one, or of another past of it", o.Place, strangers))...)
}

// try makes a store of one backup.
func (o *Options) try(ctx context.Context, from backup.Store, x *backup.Index, history *format.Lineage, mine *own) (s Staged, err error) {
	if err := Clear(o.Dir); err != nil {
		return s, err
	}
	work := filepath.Join(o.Dir, workName)
	if err := os.Mkdir(work, 0o750); err != nil {
		return s, err
	}
	dir := filepath.Join(work, "data")
	o.Logger.Warn("fetching a backup", "backup", x.Name, "source", x.Source, "offset", x.End)
	if err := backup.Fetch(ctx, from, x, dir, nil); err != nil {
		return s, err
	}
	l, whole := *history, true
	if mine.past != nil {
		l = *mine.past
		l.NeedsSnapshot = history.NeedsSnapshot // of the backup, whose log goes on
	} else {
		segs, err := logfile.ListSegments(vfs.OS(), dir)
		if err != nil {
			return s, err
		}
		whole = mine.continues(segs, x.End)
	}
	s = Staged{Backup: x.Name, From: x.End, Last: time.UnixMilli(x.EndMS), Until: mine.written()}
	reach := x.End
	if s.Known, err = mine.frames(x.End, func(raw []byte) error {
		if !whole {
			return format.ErrCorrupt
		}
		var f format.Frame
		if fault := format.DecodeFrame(raw, reach, &f); fault != nil {
			return format.ErrCorrupt
		}
		if mine.past == nil && f.Epoch > l.Current().Epoch { // the name of that term is lost with HISTORY
			l.Add(format.Term{ReplID: format.NewReplID(), Epoch: f.Epoch, Start: f.Start})
		}
		if l.Admits(f.Start, f.Epoch) != nil {
			return format.ErrCorrupt
		}
		reach, s.Last = f.End(), time.UnixMilli(f.TimeMS)
		return ctx.Err()
	}); err != nil {
		return s, err
	}
	if s.End, err = o.replay(dir, l.Cut(reach+1), x.End, reach, mine); err != nil {
		return s, err
	}
	next := l.BeginAt(s.End, l.Current().Epoch+1)
	s.Term = next.Current().ReplID
	if err := logfile.WriteLineage(vfs.OS(), dir, &next); err != nil {
		return s, err
	}
	return s, o.move(dir)
}

// replay opens the store of a backup, which must reach an offset, and gives it the frames of the damaged log up to
// another one.
func (o *Options) replay(dir string, l format.Lineage, from, to uint64, mine *own) (end uint64, err error) {
	l.Replica = true
	if err := logfile.WriteLineage(vfs.OS(), dir, &l); err != nil {
		return 0, err
	}
	opts := o.Store
	opts.SnapshotGrowth = -1
	store, err := counter.Open(dir, opts)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	log := store.Replication()
	if end = log.Position(); end < from {
		return 0, fmt.Errorf("its log ends at %d, want %d: %w", end, from, backup.ErrDamaged)
	}
	if end < to {
		// The start has cut the terms behind the end of the backup: each restart of the node has begun one since.
		if _, err := log.Follow(l); err != nil {
			return 0, err
		}
		if _, err = mine.frames(end, func(raw []byte) (err error) {
			if end >= to {
				return nil
			}
			end, err = log.Replicate(raw)
			return err
		}); err != nil {
			return 0, err
		}
	}
	if end < to {
		return 0, fmt.Errorf("the damaged log could be read to %d, and now to %d", to, end)
	}
	return log.Position(), log.Sync()
}

// move gives the store in a folder its names beside the damaged files, durably.
func (o *Options) move(dir string) error {
	fsys := vfs.OS()
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		to, ok := past.RestoredName(name)
		if !ok {
			continue
		}
		from := filepath.Join(dir, name)
		if info, err := os.Stat(from); err != nil {
			return err
		} else if info.IsDir() {
			if err := fsys.SyncDir(from); err != nil {
				return err
			}
		}
		if err := os.Rename(from, filepath.Join(o.Dir, to)); err != nil {
			return err
		}
	}
	return fsys.SyncDir(o.Dir)
}
