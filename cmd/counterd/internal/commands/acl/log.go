package acl

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxObject is how many bytes of a key, channel or name the log keeps: clients choose their length.
	maxObject = 256
	// sameWithin is how long refusals that are alike are one entry.
	sameWithin = time.Minute
	// looked is among how many of the newest a like entry is looked for.
	looked = 10
)

// Entry is one kind of refusal: as often as it came.
type Entry struct {
	ID       int64
	Count    int64
	Reason   Reason
	Context  string // toplevel or multi
	Object   string // command, key, channel; of AUTH the command
	User     string
	Client   string // the last one, as CLIENT LIST has it
	Created  time.Time
	Updated  time.Time
	monotone time.Time // of Updated, with the clock that does not jump
}

// Age is how long ago it was updated.
func (e *Entry) Age() time.Duration { return time.Since(e.monotone) }

// Log are the newest refusals. The zero Log keeps none. It may be used by several goroutines at once.
type Log struct {
	Denied [DeniedAuth + 1]atomic.Int64 // how many, by Reason

	mu      sync.Mutex // guards the rest
	most    int
	next    int64
	entries []*Entry // the newest first
}

// SetMost is acllog-max-len.
func (l *Log) SetMost(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = n
	l.trim()
}

// trim drops the oldest. REQUIRES mu.
func (l *Log) trim() {
	if len(l.entries) > l.most {
		clear(l.entries[l.most:])
		l.entries = l.entries[:l.most]
	}
}

// Add notes a refusal. client describes who was refused, and is asked only if it is kept.
func (l *Log) Add(reason Reason, context, object, user string, client func() string) {
	l.Denied[reason].Add(1)
	l.mu.Lock()
	none := l.most == 0
	l.mu.Unlock()
	if none {
		return
	}
	now := time.Now()
	e := &Entry{Count: 1, Reason: reason, Context: context, Object: object[:min(len(object), maxObject)], User: user[:min(len(user), maxName)],
		Client: client(), Created: now.Round(0), Updated: now.Round(0), monotone: now}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.entries[:min(looked, len(l.entries))], func(o *Entry) bool {
		return o.Reason == reason && o.Context == context && o.Object == e.Object && o.User == e.User && now.Sub(o.monotone) <= sameWithin
	})
	if i < 0 {
		e.ID = l.next
		l.next++
		l.entries = slices.Insert(l.entries, 0, e)
		l.trim()
		return
	}
	o := *l.entries[i] // those that are read now keep the old one
	o.Count++
	o.Client, o.Updated, o.monotone = e.Client, e.Updated, now
	l.entries = slices.Insert(slices.Delete(l.entries, i, i+1), 0, &o)
}

// Newest returns the newest n entries, the newest first. They do not change.
func (l *Log) Newest(n int) []*Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries[:min(max(n, 0), len(l.entries))])
}

// Reset forgets all.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}
