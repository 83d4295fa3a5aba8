package server

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter"
)

// loadProgress is how far the store's recovery has come.
type loadProgress struct {
	openings atomic.Int32 // that have begun and not ended: a link may open the store anew while the first still ends

	mu          sync.Mutex
	began       time.Time
	what        string
	done, total uint64
	took        time.Duration
}

// active is one load for every command that is not planned.
func (l *loadProgress) active() bool { return l.openings.Load() > 0 }

func (l *loadProgress) begin() {
	l.mu.Lock()
	l.began = time.Now()
	l.mu.Unlock()
	l.openings.Add(1)
}

func (l *loadProgress) end() {
	l.mu.Lock()
	l.took = time.Since(l.began)
	l.mu.Unlock()
	l.openings.Add(-1)
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

// Store is the one being served.
func (s *Server) Store() *counter.Store { return s.store() }

// Opening tells whether a store is being opened, and an empty one holds its place.
func (s *Server) Opening() bool { return s.progress.active() }

// Reopen closes the store, lets change work on its directory and opens it again; LOADING is answered meanwhile. If it
// cannot be opened the server ends: there is nothing to serve.
func (s *Server) Reopen(change func(dir string) error) error {
	if s.Open == nil {
		return errors.New("this server cannot open a store")
	}
	empty, err := counter.Open("", counter.Options{})
	if err != nil {
		return err
	}
	dir := s.store().Path()
	s.progress.begin()
	old := s.current.Swap(empty)
	err = old.Close() // waits for open batches
	if err == nil {
		err = change(dir)
	}
	store, oerr := s.Open()
	if oerr != nil {
		s.log.Error("cannot reopen the store; the server stops", "error", oerr)
		s.terminated.Do(func() { go s.Terminate() })
		return errors.Join(err, oerr)
	}
	store.Replication().Observe(s.replicated)
	if s.cluster != nil {
		store.Groups().Own(s.cluster.Now().Owned)
	}
	s.current.Store(store)
	s.touchedAll() // it may be other data
	s.popular.Forget(time.Now())
	s.configured()
	s.progress.end()
	_ = empty.Close() // nothing was ever done with it
	return err
}
