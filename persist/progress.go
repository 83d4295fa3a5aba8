package persist

import "sync/atomic"

// progress is how far the log is, and what Commit and Show make of it: all that commands ask without a lock. Log.mu
// guards the changes.
//
// Invariants: durable <= written <= the log's position, and none ever falls. Under Log.mu durable is that of the tail.
type progress struct {
	policy  atomic.Int32
	written atomic.Uint64 // all bytes below were given to write()
	durable atomic.Uint64 // all bytes below survive a power failure
	failing atomic.Int32  // diskWell, diskStalls ...
	hangs   atomic.Bool   // a call of the disk has not ended for MaxUnsyncedAge: see diskCalls
	behind  atomic.Bool   // more than half of MaxUnsynced is not durable
	layout  atomic.Uint64 // changes when the list of segments does, before written passes the change
}

// How the disk is.
const (
	diskWell   = iota
	diskStalls // a call takes longer than usual; whoever waits for it waits
	diskHangs  // it takes too long: nobody waits any longer
	diskFails  // a write or sync failed; the bytes are being put elsewhere, and who waits for them waits
	diskFailed // that failed too: it is tried again and again
)

// Written returns the offset up to which bytes were given to write().
func (p *progress) Written() uint64 { return p.written.Load() }

// Durable returns the offset up to which bytes survive a power failure.
func (p *progress) Durable() uint64 { return p.durable.Load() }

// Policy returns the sync policy.
func (p *progress) Policy() SyncPolicy { return SyncPolicy(p.policy.Load()) }

// shown reports whether ShowHere(pos) has nothing to do.
func (p *progress) shown(pos uint64) bool { return p.Visible() >= pos }

// Visible returns the offset up to which others may have what the log holds: behind it ShowHere waits.
func (p *progress) Visible() uint64 {
	if p.Policy() == SyncAlways {
		return p.durable.Load()
	}
	return p.written.Load()
}

// reached reports whether CommitHere(pos) has nothing to do. A writer that outruns the disk by half of MaxUnsynced waits
// for it: slowed down before it is refused.
func (p *progress) reached(pos uint64) bool {
	if p.Policy() == SyncAlways || p.behind.Load() {
		return p.durable.Load() >= pos
	}
	return p.written.Load() >= pos
}

// Doubtful tells whether changes that are not safe must be told apart from those that are (Doubts): the disk stalls or
// hangs, or it fails under SyncAlways. One atomic load, nearly always.
func (p *progress) Doubtful() bool {
	switch p.failing.Load() {
	case diskWell:
		return false
	case diskStalls, diskHangs:
		return true
	}
	return p.Policy() == SyncAlways
}

// Failed tells whether the disk takes nothing and it may last: the bytes of a write or sync that failed could not be put
// elsewhere either, or the disk hangs.
func (p *progress) Failed() bool {
	how := p.failing.Load()
	return how == diskFailed || how == diskHangs
}

// Hangs tells whether a write or a sync of the log has not ended for MaxUnsyncedAge. One atomic load.
func (p *progress) Hangs() bool { return p.hangs.Load() }
