package client

import "sync/atomic"

// budget bounds repeats: each request puts a part of a token into a bucket, each repeat takes a whole one. So a server
// in trouble gets at most that part on top of its load, once the bucket is empty. It is safe for concurrent use.
//
// Invariant: 0 <= parts <= full.
type budget struct {
	parts   atomic.Int64 // hundredths of a token
	deposit int64        // of a request: 10 for 10 %
	full    int64
}

const token = 100 // parts

// newBudget makes a full bucket of burst tokens.
func newBudget(percent, burst int) *budget {
	b := &budget{deposit: int64(percent), full: int64(burst) * token}
	b.parts.Store(b.full)
	return b
}

// request adds the share of a request to the budget. A full bucket, as it is without trouble, is only read: its cache
// line stays with all processors.
func (b *budget) request() {
	for {
		have := b.parts.Load()
		if have == b.full || b.parts.CompareAndSwap(have, min(have+b.deposit, b.full)) {
			return
		}
	}
}

// repeat takes a token, and reports false where there is none.
func (b *budget) repeat() bool {
	for {
		have := b.parts.Load()
		if have < token {
			return false
		}
		if b.parts.CompareAndSwap(have, have-token) {
			return true
		}
	}
}
