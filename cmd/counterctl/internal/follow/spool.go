package follow

import (
	"io"
	"os"
	"sync"
)

// spool holds bytes that came and were not yet read, in a file, as there is room for many. It is empty again once all
// were read, and then takes no room. One goroutine writes, one reads.
type spool struct {
	mu      sync.Mutex
	file    *os.File
	read    int64 // bytes of the file that were read
	written int64
	closed  error // why no more come
	arrived chan struct{}
}

// newSpool makes a spool in a new file, which is removed at once: it is gone with the process.
func newSpool(path string) (*spool, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil {
		f.Close()
		return nil, err
	}
	return &spool{file: f, arrived: make(chan struct{}, 1)}, nil
}

// Write appends.
func (s *spool) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.file.WriteAt(p, s.written)
	s.written += int64(n)
	s.wake()
	return n, err
}

// take reads the available bytes, possibly none. closed tells, once all was read, why no more comes.
func (s *spool) take(p []byte) (n int, closed error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read == s.written {
		return 0, s.closed, nil
	}
	n, err = s.file.ReadAt(p[:min(int64(len(p)), s.written-s.read)], s.read)
	if err == io.EOF && n > 0 {
		err = nil
	}
	s.read += int64(n)
	if s.read == s.written && s.written > 1<<20 {
		s.read, s.written = 0, 0
		err = s.file.Truncate(0)
	}
	return n, nil, err
}

// close says that no more comes, and why. Only the first says.
func (s *spool) close(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed == nil {
		s.closed = why
	}
	s.wake()
}

// reset drops the unread bytes, and accepts more again.
func (s *spool) reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read, s.written, s.closed = 0, 0, nil
	return s.file.Truncate(0)
}

// waiting is how many bytes were not read yet.
func (s *spool) waiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written - s.read
}

// wake tells that take would find something. REQUIRES: mu.
func (s *spool) wake() {
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}
