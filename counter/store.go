package counter

import (
	"errors"
	"sync/atomic"

	"github.com/counterd/counterd/counter/internal/replica"

	"github.com/counterd/counterd/counter/internal/tier"

	"github.com/counterd/counterd/counter/internal/durable"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/feed"
	"github.com/counterd/counterd/counter/internal/topbuild"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// Store holds counters. All methods are safe for concurrent use. The order of its locks stands at core.Data.
type Store struct {
	data core.Data
	opts Options
	repl *Replication

	undamaged atomic.Uint64 // DamagedRanges found none: Damages of the cache then, and 1

	tiers    tier.Tiers
	repacker tier.Repacker
	tops     topbuild.Builder

	// nil where data is in memory only
	snapshots *durable.Snapshots
	scrubber  *durable.Scrubber

	pins      *Pins
	space     durable.Space
	retention durable.Retention
	packing   durable.Packing
	cursors   *feed.Cursors
}

// Open opens the store in a directory, which is made if it is not there, and returns when all that was acknowledged is
// back in memory. An empty dir keeps data in memory only. The error is of package persist: ErrLocked, ErrUnsupportedFormat,
// or a *CorruptError that names file and offset and the repair command.
func Open(dir string, opts Options) (*Store, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{opts: opts}
	s.data.Init(opts.config(), tier.NewCache(opts.MaxMemory))
	s.connect()
	if dir != "" {
		if err := s.recover(dir); err != nil {
			return nil, errors.Join(err, s.release())
		}
		s.snapshots.Start()
		s.scrubber.Start()
		s.packing.Start()
		if !opts.Manual {
			s.cursors.Start()
		}
	}
	s.tiers.Start()
	s.repacker.Start()
	if !opts.Manual {
		s.tops.Start()
	}
	return s, nil
}

// connect gives each part of the store the parts that it uses.
func (s *Store) connect() {
	d, opts := &s.data, &s.opts
	s.pins = durable.NewPins(d, func(m *format.Manifest) error { return s.snapshots.VerifyImages(m) })
	s.repl = replica.NewReplication(d, s.pins, s.Admin().Archive, opts.bootID(), opts.AppendFsync == SyncAlways)
	s.retention.Init(d, s.pins, opts.RetainBytes, opts.FeedRetainBytes)
	s.packing.Init(d, &s.retention, opts.CompressLog)
	s.cursors = feed.NewCursors(s.Feeds())
	s.space.Init(d, &s.retention)
	s.tiers.Init(d, &s.space, opts.MaxMemory)
	s.repacker.Init(d, &s.tiers)
	s.tops.Init(d)
}

// recover reads the store of a directory.
func (s *Store) recover(path string) error {
	opts := &s.opts
	found, err := durable.Recover(&s.data, path, durable.RecoverOptions{Policy: opts.AppendFsync, SegmentBytes: opts.SegmentBytes, Progress: opts.Progress, GiveUp: opts.giveUp,
		Torn: func() error { return replica.NoteTorn(s.repl) }})
	if err != nil {
		return err
	}
	s.snapshots = durable.NewSnapshots(&s.data, &s.space, &s.retention, &s.packing, opts.SnapshotGrowth, s.repl.Lineage, func() { replica.WritePending(s.repl) })
	s.scrubber = durable.NewScrubber(&s.data, s.snapshots)
	s.scrubber.Anew = s.rewriteCold
	for _, note := range []func(*Replication) (damage, err error){replica.VerifyHistory, replica.VerifyBoot, replica.VerifyMonitored} {
		s.scrubber.Notes = append(s.scrubber.Notes, func() (damage, err error) { return note(s.repl) })
	}
	s.scrubber.Notes = append(s.scrubber.Notes, func() (damage, err error) { return persist.VerifyClaim(s.data.Log) })
	if err := replica.RecoverLineage(s.repl, found.Lineage, &found.Recovery); err != nil {
		return err
	}
	s.snapshots.NoteStart(found)
	if err := s.retention.RemoveOrphans(); err != nil && !vfs.IsTrouble(err) { // else the next snapshot does it
		return err
	}
	return nil
}

// rewriteCold writes the file of a cold block again.
func (s *Store) rewriteCold(ks *block.Keyspace, b *block.Block) error {
	if ks.Dir.Load().Find(b.Lo) != b {
		return nil // it was replaced meanwhile
	}
	return s.tiers.Demote(ks, b.Lo)
}

// Close waits for running batches, makes the log durable and frees all memory. Later calls answer ErrClosed.
func (s *Store) Close() error {
	s.data.Applying.Lock() // a change of the log's lineage is not left by half
	s.data.Gate.Lock()
	was := s.data.Closed
	s.data.Closed = true
	s.data.Gate.Unlock()
	s.data.Applying.Unlock()
	if was {
		return ErrClosed
	}
	s.tiers.Stop()
	s.repacker.Stop()
	s.tops.Stop()
	s.packing.Stop()
	s.cursors.Stop()
	if s.snapshots != nil {
		s.scrubber.Stop()
		s.snapshots.Stop()
	}
	return s.release()
}

// release closes files and frees memory.
func (s *Store) release() error {
	return s.data.Release(func() error { return replica.NoteClosed(s.repl) })
}

// NewBatch returns an empty batch.
func (s *Store) NewBatch() *Batch { return s.data.NewBatch() }

// Schema returns the schema in force. It may have changed by the time the caller reads it. The schema of an open Batch does
// not change.
func (s *Store) Schema() *schema.Schema { return s.data.Schema.Load() }

// Cold tells whether there are posts in cold files, which may have to be waited for.
func (s *Store) Cold() bool { return s.data.Files.Some() }

// Crowded tells whether changes that need new rows are refused, but only since a moment ago: a caller that may wait should
// call AwaitRoom first. Two atomic loads at most.
func (s *Store) Crowded() bool {
	return s.tiers.Crowded()
}

// AwaitRoom returns when there is memory again, or the store is no longer Crowded: a second at most. REQUIRES that the
// caller has no Batch open.
func (s *Store) AwaitRoom() {
	s.tiers.AwaitRoom()
}

// Snapshot makes a snapshot now, beside all other work. The error is ErrBusy while another is being made, ErrInMemory,
// ErrClosed, or an error of the disk; the last snapshot counts then.
func (s *Store) Snapshot() error {
	if s.snapshots == nil {
		return ErrInMemory
	}
	return s.snapshots.Make()
}

// Replication is the store's side of replication.
func (s *Store) Replication() *Replication { return s.repl }

// Pins keep files and log from being removed while they are copied.
func (s *Store) Pins() *Pins { return s.pins }

// Replica tells whether the store follows a primary: it takes no changes but that one's.
func (s *Store) Replica() bool { return s.data.Replica.Load() }

// Groups are the store's posts by groups of hash slots.
func (s *Store) Groups() Groups { return replica.NewGroups(&s.data, s.repl) }

// SlotGroups tells whether items are kept by group of hash slots: see Options.SlotGroups.
func (s *Store) SlotGroups() bool { return s.data.SlotGroups }
