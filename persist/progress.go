package persist

import "sync/atomic"

// progress is how far the log is, and how the disk is: all that commands ask without a lock. Log.mu guards the changes.
//
// Invariants: durable <= written <= the log's position, and none of them ever falls. Under Log.mu durable equals the
// durable offset of the tail.
type progress struct {
	policy  atomic.Int32
	written atomic.Uint64 // all bytes below were given to write()
	durable atomic.Uint64 // all bytes below survive a power failure
	failing atomic.Int32  // diskWell, diskStalls ...
	hangs   atomic.Bool   // a call of the disk has not ended for MaxUnsyncedAge: see diskCalls
	behind  atomic.Bool   // more than half of MaxUnsynced is not durable
	layout  atomic.Uint64 // changes when the list of segments does, before written passes the change
}

// The states of the disk.
const (
	diskWell   = iota
	diskStalls // a call takes longer than usual; its callers wait
	diskHangs  // a call takes too long; callers get an error
	diskFails  // a write or sync failed; the bytes are being put elsewhere, and callers wait for that
	diskFailed // that failed too: it is tried again and again
)

func (p *progress) syncPolicy() SyncPolicy { return SyncPolicy(p.policy.Load()) }

// visible is Log.Visible.
func (p *progress) visible() uint64 {
	if p.syncPolicy() == SyncAlways {
		return p.durable.Load()
	}
	return p.written.Load()
}

// shown reports whether CommitReadHere(pos) has nothing to do.
func (p *progress) shown(pos uint64) bool { return p.visible() >= pos }

// reached reports whether CommitHere(pos) has nothing to do. A writer that is half of MaxUnsynced ahead of the disk waits
// for the disk: writers are slowed down before they are refused.
func (p *progress) reached(pos uint64) bool {
	if p.syncPolicy() == SyncAlways || p.behind.Load() {
		return p.durable.Load() >= pos
	}
	return p.written.Load() >= pos
}

// doubtful is Log.Doubtful: the disk stalls or hangs, or it fails under SyncAlways.
func (p *progress) doubtful() bool {
	switch p.failing.Load() {
	case diskWell:
		return false
	case diskStalls, diskHangs:
		return true
	}
	return p.syncPolicy() == SyncAlways
}

// failed is Log.Failed.
func (p *progress) failed() bool {
	how := p.failing.Load()
	return how == diskFailed || how == diskHangs
}
