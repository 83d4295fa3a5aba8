package persist

import (
	"encoding/binary"
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
// The goroutine that met the error makes the first attempt at once, while the others wait: if it succeeds, nobody
// notices. If it fails, Ready and Commit return the error, and the background tries again after 50 ms, 100 ms ... 2 s
// until the disk is well.

// fail is called by the holder of a role that gave it up after an error. REQUIRES: the lock.
func (c *committer) fail(err error) {
	c.healer.logger.Error("log I/O failed", "error", err, "durable", c.end.tail.durable)
	c.healer.blame(err)
	if c.progress.failing.Load() != diskFailed {
		c.progress.failing.Store(diskFails)
	}
	c.admission.refuse(reasonTrouble, c.healer.trouble)
	if !c.calls.healing() {
		c.healer.delay = firstHealDelay
		c.heal()
	}
}

// startInTrouble is for a log that was opened on a disk that takes no writes: the bytes that are not known to be durable
// are in memory, and the background tries to write them to a segment of this process.
func (c *committer) startInTrouble(err error) {
	c.healer.trouble, c.healer.delay = err, firstHealDelay
	c.progress.failing.Store(diskFailed)
	c.admission.refuse(reasonTrouble, err)
}

// heal makes one attempt. The lock is released meanwhile. REQUIRES: the lock, trouble is set, and nobody heals.
func (c *committer) heal() {
	c.calls.takeRole(roleHeal)
	for c.calls.writing() || c.calls.syncing() { // no one takes a role any more
		if c.calls.writing() {
			c.end.writeDone.Wait()
		} else {
			c.syncDone.Wait()
		}
	}
	tail, files := &c.end.tail, c.files
	tail.seal()
	start := c.now()
	from, to := tail.durable, tail.sealed
	old := append(files.retired, files.active)
	files.retired, files.active = nil, nil
	h := format.SegmentHeader{History: files.history, Start: from, Durable: to, Chain: c.durableChain}
	pieces := tail.slices(nil, from, to)
	later := slices.Clone(files.segs[logfile.Below(files.segs, from):])
	c.end.mu.Unlock()
	for _, s := range old {
		if s != nil {
			_ = s.File.Close() // failed already
		}
	}
	s, err := c.healer.rewrite(h, pieces, later)
	c.end.mu.Lock()
	c.stats.Rewrites++
	if err != nil {
		c.stats.FailedRewrites++
		wait := c.healer.failed(err, c.now())
		c.progress.failing.Store(diskFailed)
		c.admission.refuse(reasonTrouble, c.healer.trouble)
		if !c.manual {
			time.AfterFunc(wait, func() { wake(c.kick) })
		}
	} else {
		files.startAgain(from, s, lastChain(pieces, h.Chain))
		c.writtenChain = files.chain
		c.healer.trouble = nil
		c.doubts.forget()
		c.progress.failing.Store(diskWell)
		c.progress.written.Store(to)
		c.admission.refuse(reasonTrouble, nil)
		c.becameDurable(to, files.chain, start)
		c.judge.space()
		c.healer.logger.Info("wrote the unsynced log to a new segment", "file", s.Path, "bytes", to-from)
	}
	if c.calls.freeRole(roleHeal) {
		c.judgeStall()
	}
	c.end.writeDone.Broadcast()
	c.syncDone.Broadcast()
	c.announce()
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
