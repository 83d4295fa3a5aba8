package persist

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
)

// After a failed write or sync nobody knows what the file holds, and a later sync of the same descriptor proves
// nothing. So the descriptors are closed unsynced, and everything that is not durable is written again, from memory,
// into a new segment that starts at the durable offset:
//
//  1. create it under a temporary name, write header and frames, sync it;
//  2. rename it to its name (if nothing of the failed segment was durable, both have one name and it replaces it)
//     and sync the directory;
//  3. remove the segments that start behind the durable offset, as the new one holds their bytes, and sync the
//     directory again: after step 2, else a power failure may keep the removal and lose the rename;
//  4. only then the bytes count as durable.
//
// A crash between the steps leaves the old segments, or old and new ones with equal bytes where they overlap: a segment
// ends where the next one starts. The part of the failed segment behind the durable offset is thereby cut.
//
// The first attempt is made at once by who met the error, while the others wait: if it succeeds, nobody notices. If
// it fails, Ready and Commit return the error, and the background tries again after 50 ms, 100 ms ... 2 s until the
// disk is well.

const (
	firstHealDelay = 50 * time.Millisecond
	maxHealDelay   = 2 * time.Second
)

// fail is called by the holder of a role that gave it up after an error. REQUIRES: mu.
func (l *Log) fail(err error) {
	l.opts.Logger.Error("log I/O failed", "error", err, "durable", l.tail.durable)
	if l.trouble == nil {
		l.trouble = err
	}
	if l.failing.Load() != diskFailed {
		l.failing.Store(diskFails)
	}
	l.admission.refuse(reasonTrouble, l.trouble)
	if !l.calls.healing() {
		l.healDelay = firstHealDelay
		l.heal()
	}
}

// heal makes one attempt. REQUIRES: mu, trouble is set, healing is not. mu is released meanwhile.
func (l *Log) heal() {
	l.calls.begin(roleHeal)
	for l.calls.writing() || l.calls.syncing() { // no one takes a role any more
		if l.calls.writing() {
			l.writeDone.Wait()
		} else {
			l.syncDone.Wait()
		}
	}
	l.tail.seal()
	start := l.opts.Now()
	from, to := l.tail.durable, l.tail.sealed
	old := append(l.files.retired, l.files.active)
	l.files.retired, l.files.active = nil, nil
	h := format.SegmentHeader{History: l.files.history, Start: from, Durable: to, Chain: l.durableChain}
	pieces := l.tail.slices(nil, from, to)
	later := slices.Clone(l.files.segs[l.files.below(from):])
	l.mu.Unlock()
	for _, s := range old {
		if s != nil {
			_ = s.File.Close() // failed already
		}
	}
	s, err := l.rewrite(h, pieces, later)
	l.mu.Lock()
	l.stats.Rewrites++
	if err != nil {
		l.stats.FailedRewrites++
		l.trouble = fmt.Errorf("%w (writing the bytes again: %w)", cause(l.trouble), err)
		l.failing.Store(diskFailed)
		l.admission.refuse(reasonTrouble, l.trouble)
		if !l.opts.Manual {
			time.AfterFunc(l.healDelay, func() { wake(l.kick) })
		}
		l.nextHeal = l.opts.Now().Add(l.healDelay)
		l.healDelay = min(2*l.healDelay, maxHealDelay)
	} else {
		keep := l.files.below(from) // counted anew: DropBefore may have taken one off the list, or put one back
		l.files.segs = append(l.files.segs[:keep:keep], s.Segment)
		l.files.active = s
		l.files.chain = lastChain(pieces, h.Chain)
		l.writtenChain = l.files.chain
		// wantNext stays: a next segment that could not be made must be asked for again.
		l.files.dirDirty, l.files.rotate = false, false
		l.trouble, l.doubt = nil, nil
		l.failing.Store(diskWell)
		l.layout.Add(1)
		l.written.Store(to)
		l.admission.refuse(reasonTrouble, nil)
		l.becameDurable(to, l.files.chain, start)
		l.judgeSpace()
		l.opts.Logger.Info("wrote the unsynced log to a new segment", "file", s.Path, "bytes", to-from)
	}
	if l.calls.end(roleHeal) {
		l.judgeStall()
	}
	l.writeDone.Broadcast()
	l.syncDone.Broadcast()
	l.announce()
}

// Rewrite does the four steps. A torn tail that the start could not keep is kept before they remove it. REQUIRES: healing
// is set.
func (l *Log) rewrite(h format.SegmentHeader, pieces [][]byte, later []logfile.Segment) (*logfile.OpenSegment, error) {
	if l.keepTail != nil {
		path, err := l.keepTail()
		if err != nil {
			return nil, fmt.Errorf("keep the log's torn tail: %w", err)
		}
		l.opts.Logger.Warn("kept the torn tail of the log in a file", "file", path)
		l.keepTail = nil
	}
	return l.files.maker.Rewrite(h, pieces, later)
}

// cause strips the failed attempts to heal from a trouble.
func cause(err error) error {
	if multi, ok := err.(interface{ Unwrap() []error }); ok {
		return multi.Unwrap()[0]
	}
	return err
}

// lastChain returns the checksum of the last frame in pieces, or chain if there is none.
func lastChain(pieces [][]byte, chain uint32) uint32 {
	for _, p := range pieces {
		for len(p) > 0 {
			chain = binary.LittleEndian.Uint32(p)
			p = p[format.RawFrameLen(p):]
		}
	}
	return chain
}
