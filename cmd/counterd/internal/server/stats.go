package server

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// stats are the totals since the start, or since CONFIG RESETSTAT.
type stats struct {
	connections, rejected atomic.Int64 // accepted; refused for maxclients
	hits, misses          atomic.Int64 // operations on items that were there, and not
	inBytes, outBytes     atomic.Int64
	errorReplies          atomic.Int64
	protocolErrors        atomic.Int64
	panics                atomic.Int64
	slowSubscribers       atomic.Int64 // closed by client-output-buffer-limit
	evictedClients        atomic.Int64 // closed by maxmemory-clients
	errorsMu              sync.Mutex
	errors                map[string]int64 // by the first word of the text
}

// maxErrorKinds bounds the map: the first word can come from a client.
const maxErrorKinds = 128

// errorReply counts an error reply, "-WORD text\r\n".
func (s *stats) errorReply(reply []byte) {
	s.errorReplies.Add(1)
	word := bytes.TrimPrefix(reply, []byte("-"))
	if i := bytes.IndexAny(word, " \r"); i >= 0 {
		word = word[:i]
	}
	s.errorsMu.Lock()
	defer s.errorsMu.Unlock()
	if s.errors == nil {
		s.errors = make(map[string]int64)
	}
	if _, ok := s.errors[string(word)]; ok || len(s.errors) < maxErrorKinds {
		s.errors[string(word)]++
	}
}

// reset is CONFIG RESETSTAT.
func (s *stats) reset() {
	for _, n := range []*atomic.Int64{&s.connections, &s.rejected, &s.hits, &s.misses, &s.inBytes, &s.outBytes, &s.errorReplies, &s.protocolErrors, &s.panics, &s.slowSubscribers,
		&s.evictedClients} {
		n.Store(0)
	}
	s.errorsMu.Lock()
	s.errors = nil
	s.errorsMu.Unlock()
}
