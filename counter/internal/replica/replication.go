package replica

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/durable"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
)

// Replication is a store's side of replication: its role and the lineage of its log (role.go), how far that log goes
// and its frames, the frames of a primary (replicate.go), and files that stay while they are copied (durable/pin.go). Who
// embeds a store does not need it.
//
// A replica's log holds the primary's frames byte for byte. A frame is appended, and then its records are applied. The
// two are one step for whoever copies a block, so an image at an offset holds all records below it. What a crash leaves
// appended but not applied is replayed, and values are absolute, so nothing counts twice.
//
// Where data is in memory only there is no log: offsets are 0, nothing has to be waited for, and what needs a log
// answers ErrInMemory. All methods are safe for concurrent use.
type Replication struct {
	s *core.Data

	// Data.Applying is held for writing from the append of a frame to the end of its application, and for reading while a
	// block and its offset are copied for an image.
	pending  pendingWrites     // what the disk lacks: written under applying and Data.Gate, read under one of them
	replayer *core.Replayer    // guarded by applying
	observer func(*core.Batch) // guarded by applying; may be nil
	checker  FrameChecker      // guarded by applying

	mu      sync.Mutex // guards lineage; innermost
	lineage format.Lineage

	quorum quorum
	boot   boot

	monitored atomic.Bool // MONITORED is there, or was

	pins    *durable.Pins
	archive func() (*durable.Archive, error) // of the store's state
}

// NewReplication makes the store's side of replication. archive makes an archive of its state. bootID names the time since the
// machine's start, and durable tells whether all that is acknowledged is durable.
func NewReplication(s *core.Data, pins *durable.Pins, archive func() (*durable.Archive, error), bootID string, durable bool) *Replication {
	return &Replication{s: s, pins: pins, archive: archive, boot: boot{s: s, id: bootID, durable: durable}}
}

// NoteClosed notes that all is durable. It is called once the log is closed.
func NoteClosed(r *Replication) error { return r.boot.end() }

// NoteTorn notes that a start is about to cut a torn tail from the log.
func NoteTorn(r *Replication) error { return r.boot.noteTorn() }

// NotePolicy notes that changes may be acknowledged from now on as a policy says.
func NotePolicy(r *Replication, p persist.SyncPolicy) error { return r.boot.policy(p) }

// NoteApplied tells the observer of a batch that has changed posts in another way than by a frame of the primary. REQUIRES
// Data.Applying held.
func NoteApplied(r *Replication, b *core.Batch) {
	if r.observer != nil {
		r.observer(b)
	}
}

// Lineage is the lineage of the store's log. The zero value where data is in memory only.
func (r *Replication) Lineage() format.Lineage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lineage
}

// Position is the log offset behind the last change, written or not.
func (r *Replication) Position() uint64 {
	if r.s.Log == nil {
		return 0
	}
	return r.s.Log.Position()
}

// Written is the log offset up to which a kill of the process takes nothing back.
func (r *Replication) Written() uint64 {
	if r.s.Log == nil {
		return 0
	}
	return r.s.Log.Written()
}

// Durable is the log offset up to which a power failure takes nothing back.
func (r *Replication) Durable() uint64 {
	if r.s.Log == nil {
		return 0
	}
	return r.s.Log.Durable()
}

// Visible is the log offset up to which others may see what the log holds: see persist.Log.Visible.
func (r *Replication) Visible() uint64 {
	if r.s.Log == nil {
		return 0
	}
	return r.s.Log.Visible()
}

// AcksDurable tells whether a change is acknowledged when it is durable: appendfsync always.
func (r *Replication) AcksDurable() bool {
	return r.s.Log != nil && r.s.Log.Policy() == persist.SyncAlways
}

// First is the log offset from which on the log is kept.
func (r *Replication) First() uint64 {
	if r.s.Log == nil {
		return 0
	}
	return r.s.Log.Stats().First
}

// CommitHere returns when the log below an offset is safe on this node alone, as far as acknowledging it needs that. In a
// cluster, another node may lead next and lack it: nothing may be told to others on the strength of CommitHere. See
// CommitShard. The error is an *UncertainError: the changes before the offset were made.
func (r *Replication) CommitHere(pos uint64) error {
	if r.s.Log == nil {
		return nil
	}
	if err := r.s.Log.CommitHere(pos); err != nil {
		return &core.UncertainError{Offset: pos, Err: err}
	}
	return nil
}

// Sync makes the whole log durable, whatever the policy. Errors as Commit.
func (r *Replication) Sync() error {
	if r.s.Log == nil {
		return nil
	}
	pos := r.s.Log.Position()
	if err := r.s.Log.Sync(); err != nil {
		return &core.UncertainError{Offset: pos, Err: err}
	}
	return nil
}

// AwaitDurable returns when the log is durable behind an offset, ctx is done (its error) or the log is closed: see
// persist.AwaitDurable.
func (r *Replication) AwaitDurable(ctx context.Context, pos uint64) error {
	if r.s.Log == nil {
		return core.ErrInMemory
	}
	return persist.AwaitDurable(ctx, r.s.Log, pos)
}

// HurryDurable is AwaitDurable within milliseconds, by a sync ahead of time: see persist.HurryDurable.
func (r *Replication) HurryDurable(ctx context.Context, pos uint64) error {
	if r.s.Log == nil {
		return core.ErrInMemory
	}
	return persist.HurryDurable(ctx, r.s.Log, pos)
}

// Hurry has the log durable behind an offset within milliseconds, and does not wait for it. now: without a pause behind the last sync. See persist.Hurry and
// persist.HurryNow.
func (r *Replication) Hurry(pos uint64, now bool) {
	switch {
	case r.s.Log == nil:
	case now:
		persist.HurryNow(r.s.Log, pos)
	default:
		persist.Hurry(r.s.Log, pos)
	}
}

// NewReader returns a reader of the log's frames from an offset on, up to Written: see persist.Log.NewReader.
func (r *Replication) NewReader(from uint64) (*persist.Reader, error) {
	if r.s.Log == nil {
		return nil, core.ErrInMemory
	}
	return r.s.Log.NewReader(from)
}

// NewReaderAt is NewReader for an offset where a frame begins.
func (r *Replication) NewReaderAt(from uint64) (*persist.Reader, error) {
	if r.s.Log == nil {
		return nil, core.ErrInMemory
	}
	return r.s.Log.NewReaderAt(from)
}

// NewFollower returns a reader of the log's frames from an offset on, up to Visible: see persist.Log.NewFollower.
func (r *Replication) NewFollower(from uint64) (*persist.Reader, error) {
	if r.s.Log == nil {
		return nil, core.ErrInMemory
	}
	return r.s.Log.NewFollower(from)
}

// Manifests returns the snapshots kept, newest first.
func (r *Replication) Manifests() []*format.Manifest {
	if r.s.Dir == nil {
		return nil
	}
	return r.s.Dir.Manifests()
}
