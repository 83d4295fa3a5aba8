// Package stats counts what the server did and measures what the process takes: totals, rates, memory, processor time.
// INFO, MEMORY and CONFIG RESETSTAT show and reset them; nothing is decided by them.
//
//	totals.go    what connections count as they go: one atomic addition each
//	sum.go       the same for what every loop counts all the time
//	sampler.go   what needs two looks: rates, and the peak of the memory used
//	system.go    what the system tells of the process and the machine
//
// All may be used by several goroutines at once. Its locks are leaves: nothing else is locked while one is held.
package stats

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Totals are those since the start, or since the last Reset. The zero Totals is ready.
type Totals struct {
	Connections, Rejected atomic.Int64 // accepted; refused for maxclients
	FailedHandshakes      atomic.Int64 // of TLS
	Hits, Misses          Sum          // operations on items that were there, and not
	InBytes, OutBytes     Sum
	Reads, Writes         Sum // of connections, that moved something
	ErrorReplies          atomic.Int64
	ProtocolErrors        atomic.Int64
	Panics                atomic.Int64
	SlowSubscribers       atomic.Int64 // closed by client-output-buffer-limit
	EvictedClients        atomic.Int64 // closed by maxmemory-clients

	mu     sync.Mutex       // guards errors
	errors map[string]int64 // by the first word of the text
}

// maxErrorKinds bounds the map: the first word can come from a client.
const maxErrorKinds = 128

// ErrorReply counts an error reply, "-WORD text\r\n".
func (t *Totals) ErrorReply(reply []byte) {
	t.ErrorReplies.Add(1)
	word := bytes.TrimPrefix(reply, []byte("-"))
	if i := bytes.IndexAny(word, " \r"); i >= 0 {
		word = word[:i]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.errors == nil {
		t.errors = make(map[string]int64)
	}
	if _, ok := t.errors[string(word)]; ok || len(t.errors) < maxErrorKinds {
		t.errors[string(word)]++
	}
}

// ErrorCount says how many error replies began with a word.
type ErrorCount struct {
	Word string
	N    int64
}

// Errors are the error replies by their first word, in its order.
func (t *Totals) Errors() []ErrorCount {
	t.mu.Lock()
	list := make([]ErrorCount, 0, len(t.errors))
	for word, n := range t.errors {
		list = append(list, ErrorCount{word, n})
	}
	t.mu.Unlock()
	slices.SortFunc(list, func(a, b ErrorCount) int { return strings.Compare(a.Word, b.Word) })
	return list
}

// Reset is CONFIG RESETSTAT.
func (t *Totals) Reset() {
	for _, n := range []*atomic.Int64{&t.Connections, &t.Rejected, &t.FailedHandshakes, &t.ErrorReplies, &t.ProtocolErrors,
		&t.Panics, &t.SlowSubscribers, &t.EvictedClients} {
		n.Store(0)
	}
	for _, n := range []*Sum{&t.Hits, &t.Misses, &t.InBytes, &t.OutBytes, &t.Reads, &t.Writes} {
		n.Reset()
	}
	t.mu.Lock()
	t.errors = nil
	t.mu.Unlock()
}
