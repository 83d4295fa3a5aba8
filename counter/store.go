package counter

import (
	"errors"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// Store holds counters. All methods are safe for concurrent use. The order of its locks stands at core.Data.
type Store struct {
	data core.Data
	opts Options
	repl Replication

	tiers    tiers
	repacker repacker

	// nil where data is in memory only
	snapshots *snapshotter
	scrubber  *scrubber

	pins      Pins
	space     spaceWatch
	retention retention
	packing   packing
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
	s.data.Init(opts.config(), newCache(opts.MaxMemory))
	s.connect()
	if dir != "" {
		if err := s.recover(dir); err != nil {
			return nil, errors.Join(err, s.release())
		}
		s.snapshots.start()
		s.scrubber.start()
		s.packing.start()
	}
	s.tiers.start()
	s.repacker.start()
	return s, nil
}

// connect gives each part of the store what it uses of the others.
func (s *Store) connect() {
	d, opts := &s.data, &s.opts
	s.pins = Pins{s: d, verify: func(m *format.Manifest) error { return s.snapshots.verifyImages(m, nil) }}
	s.repl = Replication{s: d, pins: &s.pins, archive: s.Admin().Archive}
	s.repl.boot = boot{s: d, id: opts.bootID(), durable: opts.AppendFsync == SyncAlways}
	s.retention.s, s.retention.pins = d, &s.pins
	s.retention.bytes.Store(opts.RetainBytes)
	s.packing.s, s.packing.retention = d, &s.retention
	s.packing.on.Store(opts.CompressLog)
	s.space.s, s.space.retention = d, &s.retention
	s.tiers.init(d, &s.space, opts.MaxMemory)
	s.repacker.init(d, &s.tiers)
}

// recover brings back what a directory has.
func (s *Store) recover(path string) error {
	opts := &s.opts
	found, err := (&recovery{s: &s.data, opts: recoverOptions{opts.AppendFsync, opts.SegmentBytes, opts.Progress, opts.giveUp}}).run(path)
	if err != nil {
		return err
	}
	s.snapshots = newSnapshotter(&s.data, &s.space, &s.retention, &s.packing, opts.SnapshotGrowth)
	s.snapshots.lineage, s.snapshots.eachLook = s.repl.Lineage, s.repl.writePending
	s.scrubber = newScrubber(&s.data, s.snapshots)
	if err := s.repl.recover(found.lineage, &found.Recovery); err != nil {
		return err
	}
	s.snapshots.recovered(found.Recovery)
	if err := s.retention.removeOrphans(); err != nil && !vfs.IsTrouble(err) { // else the next snapshot does it
		return err
	}
	return nil
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
	s.tiers.stop()
	s.repacker.stop()
	s.packing.stop()
	if s.snapshots != nil {
		s.scrubber.stop()
		s.snapshots.stop()
	}
	return s.release()
}

// release closes files and frees memory.
func (s *Store) release() error { return s.data.Release(s.repl.boot.end) }

// NewBatch returns an empty batch.
func (s *Store) NewBatch() *Batch { return s.data.NewBatch() }

// Schema returns the schema in force. It may have changed by the time the caller reads it. The schema of an open Batch does
// not change.
func (s *Store) Schema() *schema.Schema { return s.data.Schema.Load() }

// Cold tells whether there are posts in cold files, which may have to be waited for.
func (s *Store) Cold() bool { return s.data.Files.Some() }
