package persist

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
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

	mu      sync.Mutex // guards the rest
	made    uint64     // the offset of the newest claim in the file
	wanted  bool       // a claim is to be written
	failed  bool       // the last one could not be
	written bool       // this process has written a claim
	again   bool       // the file was damaged: it is opened again, and each of its slots written
}

// judge decides that a claim is to be written, as more is durable than the file says. It returns true if the caller must wake
// the writer. The caller calls it once each SyncEvery, after the sync.
//
// Frames and headers claim too, but they are lost with the end of the log that they are in. A last segment that is gone, and was
// written to all the time, is missed by the file alone.
func (c *claims) judge(durable uint64) (ask bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if durable > c.made && !c.wanted {
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

// write writes a claim. A disk that does not take it takes no log either, so a failure is logged once and is no trouble.
// REQUIRES: one caller at a time.
func (c *claims) write(claim format.Claim) {
	c.mu.Lock()
	again := c.again
	c.again = false
	c.mu.Unlock()
	write := c.file.Write
	if again {
		write = c.file.Rewrite
	}
	err := write(claim)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.made, c.written = claim.Offset, true
	case !c.failed:
		c.logger.Warn("cannot record the durable log offset; damage of the newest records may be treated as a torn tail", "error", err)
	}
	c.failed = err != nil
}

// VerifyClaim looks at the file DURABLE, and has it written again if it is damaged, or gone though the log wrote it. err says that
// it could not be the last time.
func VerifyClaim(l *Log) (damage, err error) {
	if damage = l.claims.damage(); damage == nil {
		return nil, nil
	}
	err = l.claims.renew()
	wake(l.committer.prepare)
	return damage, err
}

// damage is the damage of the file; nil: there is none.
func (c *claims) damage() (err error) {
	c.mu.Lock()
	written := c.written
	c.mu.Unlock()
	name := format.ClaimPath(c.file.Dir)
	for range 3 { // a claim that is being written looks damaged
		info, serr := c.file.FS.Stat(name)
		switch err = serr; {
		case vfs.IsNotExist(err) && !written: // this process does not miss it
			return nil
		case err != nil:
		case info.Size() != format.ClaimFileLen:
			err = &format.CorruptError{File: name, Want: fmt.Sprintf("%d bytes", format.ClaimFileLen), Got: fmt.Sprint(info.Size())}
		default:
			err = logfile.VerifyClaim(c.file.FS, c.file.Dir)
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// errNoClaim: the last claim could not be written.
var errNoClaim = errors.New("the durable log offset cannot be recorded")

// renew has the next claim written as to a new file.
func (c *claims) renew() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.again, c.wanted = true, true
	if c.failed {
		return errNoClaim
	}
	return nil
}
