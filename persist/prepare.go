package persist

import "github.com/counterd/counterd/persist/logfile"

// prepareLoop makes the next segment while the active one fills: preallocating 64 MiB must not delay a write. It also
// writes claims (claim.go), which must not delay a sync.
func (l *Log) prepareLoop() {
	defer l.loops.Done()
	for {
		select {
		case <-l.stop:
			return
		case <-l.prepare:
			l.prepareNext()
			l.makeClaim()
		}
	}
}

// prepareNext makes the next segment if one is wanted. It is synced under its temporary name, so that later syncs
// change no metadata, and a full disk shows here, while the active segment has room.
func (l *Log) prepareNext() {
	l.mu.Lock()
	want, size := l.files.wantNext && l.files.next == nil && !l.calls.closed, l.files.nextSize()
	l.mu.Unlock()
	if !want {
		return
	}
	var s *logfile.OpenSegment
	size, err := l.files.maker.Fitting(size)
	if err == nil {
		s, err = l.files.maker.CreateFitting(size)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.files.next = s
	} else {
		// Also when a rotation, which made its own meanwhile, no longer asks: while spaceErr is set changes may be refused,
		// and then nothing but this asks again.
		l.files.wantNext = true
		if l.files.spaceErr == nil {
			l.opts.Logger.Warn("cannot prepare the next log segment", "error", err, "bytes", size)
		}
	}
	l.files.spaceErr = err
	l.judgeSpace()
}
