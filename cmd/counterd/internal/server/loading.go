package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// loadProgress is how far the store's recovery has come.
type loadProgress struct {
	active atomic.Bool // one load for every command that is not planned

	mu          sync.Mutex
	began       time.Time
	what        string
	done, total uint64
	took        time.Duration
}

func (l *loadProgress) begin() {
	l.mu.Lock()
	l.began = time.Now()
	l.mu.Unlock()
	l.active.Store(true)
}

func (l *loadProgress) end() {
	l.mu.Lock()
	l.took = time.Since(l.began)
	l.mu.Unlock()
	l.active.Store(false)
}

// Loading notes progress: what is being read, bytes done and in all. It may be called from several goroutines.
func (s *Server) Loading(what string, done, total uint64) {
	l := &s.progress
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.what == what {
		done = max(done, l.done) // several goroutines
	} else {
		s.log.Info("loading", "what", what, "bytes", total)
	}
	l.what, l.done, l.total = what, done, total
}

// loadState is what INFO tells.
type loadState struct {
	began       time.Time
	done, total uint64
	took        time.Duration
	eta         time.Duration
}

func (l *loadProgress) state() loadState {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := loadState{began: l.began, done: l.done, total: l.total, took: l.took}
	if l.done > 0 && l.total > l.done {
		st.eta = time.Duration(float64(time.Since(l.began)) / float64(l.done) * float64(l.total-l.done))
	}
	return st
}

const errLoading = "LOADING counterd is loading the dataset in memory"
