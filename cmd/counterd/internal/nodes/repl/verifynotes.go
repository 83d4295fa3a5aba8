package repl

import (
	"time"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
)

// PRIMARY, CONFIRMED and REPLICAS are read at a start only. Until then memory has their content, so a file that differs was damaged,
// and is written again. HANDOVER is there for the seconds of a handover alone.

// notesEvery is how often they are looked at.
const notesEvery = 10 * time.Second

// verifyNotes looks at the files.
func (f *refiller) verifyNotes() {
	n := f.node
	if !n.host.Store().Durable() {
		return
	}
	for _, verify := range append([]func() (damage, err error){f.verifyPrimary, n.confirmed.verify, n.replicas.verify}, n.healing.notes...) {
		if damage, err := verify(); persist.LogMended(n.logger, damage, err) {
			f.notes.Add(1)
		}
	}
}

// verifyPrimary looks at PRIMARY and its copy.
func (f *refiller) verifyPrimary() (damage, err error) {
	n := f.node
	if !n.change.TryLock() { // the role changes, and the file with it
		return nil, nil
	}
	defer n.change.Unlock()
	info, ok := n.Link()
	if !ok || info.State != LinkConnected || !n.host.Store().Replica() || n.settings().NodeID != "" {
		return nil, nil
	}
	note := addressNote{Address: info.Primary}
	if now, err := readAddressFile(n.fs, n.notePath(primaryName)); err == nil && now == note { // also in the words of an older program
		if now, err = readAddressFile(n.fs, n.notePath(primaryName)+vfs.CopySuffix); err == nil && now == note {
			return nil, nil
		}
	}
	damage = persist.CompareTwice(n.fs, n.notePath(primaryName), note.text())
	return damage, vfs.WriteTwice(n.fs, n.notePath(primaryName), note.text())
}

// verify looks at CONFIRMED.
func (c *confirmed) verify() (damage, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	noted, closed := c.noted, c.closed
	c.mu.Unlock()
	if closed || noted.offset == 0 || c.path == "" {
		return nil, nil
	}
	if damage = persist.CompareFile(c.fs, c.path, noted.text()); damage == nil {
		return nil, nil
	}
	return damage, vfs.WriteFileAtomic(c.fs, c.path, noted.text())
}
