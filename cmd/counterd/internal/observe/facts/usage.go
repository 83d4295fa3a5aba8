package facts

import (
	"sync"
	"time"

	"github.com/counterd/counterd/counter"
)

// UsageCache is the memory of the blocks of all counters. They are counted one by one, so they are not counted again
// before a hundred times as long has passed: of a million blocks, in 0.1 s, every 10 s.
type UsageCache struct {
	mu    sync.Mutex // guards the rest
	store *counter.Store
	list  []counter.Usage
	next  time.Time // when they may be counted again
}

// usageShare is the part of the time that may be spent on counting.
const usageShare = 100

// Of returns what the blocks of store take, or took a moment ago.
func (u *UsageCache) Of(store *counter.Store) []counter.Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if u.store == store && now.Before(u.next) {
		return u.list
	}
	u.store, u.list = store, store.Admin().Usage()
	end := time.Now()
	u.next = end.Add(usageShare * end.Sub(now))
	return u.list
}
