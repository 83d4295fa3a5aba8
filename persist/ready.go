package persist

import (
	"fmt"
	"time"
)

// Refuse makes Ready refuse changes for a reason of the owner's, until it is called with nil.
func (l *Log) Refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.admission.refuse(reasonOwner, err)
}

// secondLook is the time that a sync has which is found to be late, while the process ran all the time.
const secondLook = 100 * time.Millisecond

// judgeAge sets or clears reasonSlow and arms the timer that looks again. REQUIRES: mu.
func (l *Log) judgeAge() {
	if l.since.IsZero() || l.Policy() != SyncEverySec {
		l.admission.refuse(reasonSlow, nil)
		return
	}
	age := l.opts.Now().Sub(l.since)
	if age >= l.opts.MaxUnsyncedAge {
		if l.admission.refusals[reasonSlow] == nil {
			now := l.opts.Now()
			if sync := l.stats.Syncs + 1; !l.opts.Manual && l.doubted != sync {
				// The disk is slow if it does not end this sync now that it is looked at. A process that was stopped for a while,
				// or its machine, has bytes as old before it could ask the disk, and finds the answer waiting.
				look := secondLook
				if age > l.opts.MaxUnsyncedAge*5/4 { // the timer would have looked before, had it run
					look = l.opts.MaxUnsyncedAge / 2
				}
				l.doubted, l.judgeAt = sync, now.Add(look)
				wake(l.kick)
			}
			if now.Before(l.judgeAt) { // however often it is looked at until then: a sync that ends does so too
				l.watch.Reset(l.judgeAt.Sub(now))
				return
			}
			l.admission.refuse(reasonSlow, fmt.Errorf("the disk is slow: appended bytes are not durable after %v", age.Round(1e6)))
		}
		return
	}
	l.admission.refuse(reasonSlow, nil)
	if l.watch != nil {
		l.watch.Reset(l.opts.MaxUnsyncedAge - age)
	}
}

// late tells whether a byte waits for its sync for longer than MaxUnsyncedAge. REQUIRES: mu.
func (l *Log) late() bool {
	return !l.since.IsZero() && l.Policy() == SyncEverySec && l.opts.Now().Sub(l.since) >= l.opts.MaxUnsyncedAge
}

// judgeSize sets or clears what depends on how much is not durable. REQUIRES: mu.
func (l *Log) judgeSize() {
	n := int64(l.tail.position() - l.tail.durable)
	l.behind.Store(n > l.opts.MaxUnsynced/2)
	switch {
	case n >= l.opts.MaxUnsynced:
		l.admission.refuse(reasonFull, fmt.Errorf("the disk is slow: %d bytes are not durable, the limit is %d", n, l.opts.MaxUnsynced))
	case n <= l.opts.MaxUnsynced/2:
		l.admission.refuse(reasonFull, nil)
	}
	if n > syncAtBytes || l.behind.Load() {
		wake(l.kick)
	}
}

// judgeSpace sets or clears reasonSpace. What was let in by Ready must still fit, so it refuses while there is room
// for more than any burst of one round. REQUIRES: mu.
func (l *Log) judgeSpace() {
	if l.files.spaceErr == nil || l.files.active == nil {
		l.admission.refuse(reasonSpace, nil)
		return
	}
	reserve := min(spaceReserve, l.files.active.Capacity/4)
	if l.files.active.Capacity-l.files.active.Offset(l.tail.position()) < reserve {
		l.admission.refuse(reasonSpace, l.files.spaceErr)
	} else {
		l.admission.refuse(reasonSpace, nil)
	}
}

// spaceReserve is the room in the active segment below which changes are refused when there is no next one: 80,000
// records of changes that Ready let in and that are not written yet.
const spaceReserve = 1 << 20
