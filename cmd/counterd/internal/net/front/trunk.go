package front

import "time"

// Trunk is a connection from this server to another one that a loop watches beside the connections of its clients: see Front.Watch. To read
// a trunk takes no goroutine and no read that finds nothing, and sessions of the loop that wait for its bytes go on at once. All methods may
// be called by several goroutines at once, but for Offer and Write, of which one at a time may be called.
type Trunk interface {
	// Offer writes as much as can be written at once.
	Offer(b []byte) (int, error)
	// Write writes all of b, and waits where it must, for so long at most.
	Write(b []byte, within time.Duration) (int, error)
	// Close ends the trunk soon.
	Close()
	// Ended is closed when the trunk has ended.
	Ended() <-chan struct{}
}

// trunkBuffer is the buffer of a trunk, in bytes: the replies to 64 pages fit. It grows for a longer message, and shrinks again.
const trunkBuffer = 32 << 10
