package persist

import (
	"log/slog"
	"sync"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
)

// claims decides when the file DURABLE has to say how far the log is durable, and writes it. It reaches nothing else of the
// log.
//
// One caller at a time writes: the goroutine that prepares segments, and Close behind it.
//
// mu is a leaf. No file is touched under it.
type claims struct {
	logger *slog.Logger
	file   logfile.ClaimFile // the writer's

	mu     sync.Mutex // guards the rest
	made   uint64     // all bytes below are vouched for: by a claim of this process, or by a header since the start
	judged uint64     // the durable offset when judge was asked last
	wanted bool       // a claim is to be written
	failed bool       // the last one could not be
}

// judge decides that a claim is to be written when nothing else says what is durable: no frame was synced since the last
// call, or frames carry the claims of another disk, as the frames of a replica do. It returns true if the caller must wake
// the writer. The caller calls it once each SyncEvery, after the sync.
func (c *claims) judge(durable uint64, replica bool) (ask bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	still := durable == c.judged
	c.judged = durable
	if durable > c.made && (still || replica) && !c.wanted {
		c.wanted = true
		return true
	}
	return false
}

// clearWanted reports whether a claim is to be written, once.
func (c *claims) clearWanted() (wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted, c.wanted = c.wanted, false
	return wanted
}

// lacks tells whether nothing vouches for all bytes below an offset.
func (c *claims) lacks(durable uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return durable > c.made
}

// write writes a claim. A disk that does not take it takes no log either, so a failure is logged once and is no trouble.
// REQUIRES: one caller at a time.
func (c *claims) write(claim format.Claim) {
	err := c.file.Write(claim)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.made = claim.Offset
	case !c.failed:
		c.logger.Warn("cannot record the durable log offset; damage of the newest records may be treated as a torn tail", "error", err)
	}
	c.failed = err != nil
}
