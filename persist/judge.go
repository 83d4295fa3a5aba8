package persist

import (
	"fmt"
	"time"
)

// judge refuses changes while what is not durable is too old or too large, or while there is no room for it: it sets and
// clears reasonSlow, reasonFull and reasonSpace. It reads the ends of the tail and of the active segment, and does nothing
// else to the log. Log.mu guards it.
//
// Invariant: behind tells whether more than half of maxBytes is not durable.
type judge struct {
	tail      *tail
	progress  *progress
	admission *admission
	files     *segmentFiles

	now      func() time.Time
	maxAge   time.Duration // MaxUnsyncedAge
	maxBytes int64         // MaxUnsynced
	twice    bool          // a sync that is found to be late is judged again a moment later; not in a Manual log
	kick     chan struct{} // wakes the background that syncs

	watch   *time.Timer // calls age; nil in a Manual log
	since   time.Time   // not zero: no byte that is not durable is older
	syncs   uint64      // number of syncs that ended
	doubted uint64      // number of the sync that was found to be late once: see age
	judgeAt time.Time   // when the disk is slow if that sync has not ended
}

// secondLook is the time that a sync has which is found to be late, while the process ran all the time.
const secondLook = 100 * time.Millisecond

// age sets or clears reasonSlow and arms the timer that calls age again.
func (j *judge) age() {
	if j.since.IsZero() || j.progress.syncPolicy() != SyncEverySec {
		j.admission.refuse(reasonSlow, nil)
		return
	}
	age := j.now().Sub(j.since)
	if age >= j.maxAge {
		if j.admission.refusals[reasonSlow] == nil {
			now := j.now()
			if sync := j.syncs + 1; j.twice && j.doubted != sync {
				// The disk is slow if it does not end this sync now that it is observed. A process that was stopped for a while,
				// or its machine, has bytes as old before it could ask the disk, and finds the answer waiting.
				patience := secondLook
				if age > j.maxAge*5/4 { // the timer would have fired before, had it run
					patience = j.maxAge / 2
				}
				j.doubted, j.judgeAt = sync, now.Add(patience)
				wake(j.kick)
			}
			if now.Before(j.judgeAt) { // however often age is called until then: it is called when a sync ends too
				j.watch.Reset(j.judgeAt.Sub(now))
				return
			}
			j.admission.refuse(reasonSlow, fmt.Errorf("the disk is slow: appended bytes are not durable after %v", age.Round(1e6)))
		}
		return
	}
	j.admission.refuse(reasonSlow, nil)
	if j.watch != nil {
		j.watch.Reset(j.maxAge - age)
	}
}

// writeStarts notes that bytes are given to write(): they are not durable from now on.
func (j *judge) writeStarts() {
	if j.since.IsZero() {
		j.since = j.now()
		j.age()
	}
}

// becameDurable judges anew when the durable offset of the tail has risen. Bytes behind it were written at asOf or later.
func (j *judge) becameDurable(asOf time.Time) {
	if j.tail.position() == j.tail.durable {
		j.since = time.Time{}
	} else {
		j.since = asOf
	}
	j.age()
	j.size()
}

// late reports whether a byte waits for its sync for longer than MaxUnsyncedAge.
func (j *judge) late() bool {
	return !j.since.IsZero() && j.progress.syncPolicy() == SyncEverySec && j.now().Sub(j.since) >= j.maxAge
}

// size sets or clears what depends on how much is not durable.
func (j *judge) size() {
	n := int64(j.tail.position() - j.tail.durable)
	j.progress.behind.Store(n > j.maxBytes/2)
	switch {
	case n >= j.maxBytes:
		j.admission.refuse(reasonFull, fmt.Errorf("the disk is slow: %d bytes are not durable, the limit is %d", n, j.maxBytes))
	case n <= j.maxBytes/2:
		j.admission.refuse(reasonFull, nil)
	}
	if n > syncAtBytes || j.progress.behind.Load() {
		wake(j.kick)
	}
}

// space sets or clears reasonSpace. Changes that Ready let in must still fit, so space refuses while there is room for
// more than any burst of one round.
func (j *judge) space() {
	active := j.files.active
	if j.files.spaceErr == nil || active == nil {
		j.admission.refuse(reasonSpace, nil)
		return
	}
	if active.Capacity-active.Offset(j.tail.position()) < min(spaceReserve, active.Capacity/4) {
		j.admission.refuse(reasonSpace, j.files.spaceErr)
	} else {
		j.admission.refuse(reasonSpace, nil)
	}
}

// spaceReserve is the room in the active segment below which changes are refused when there is no next one: 80,000
// records of changes that Ready let in and that are not written yet.
const spaceReserve = 1 << 20
