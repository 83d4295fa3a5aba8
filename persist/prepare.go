package persist

import (
	"log/slog"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
)

// preparer makes the next segment while the active one fills: preallocating 64 MiB must not delay a write. It also writes
// claims (claim.go), which must not delay a sync. One goroutine at a time calls it.
type preparer struct {
	files     *segmentFiles
	calls     *diskCalls
	admission *admission
	judge     *judge
	claims    *claims
	logger    *slog.Logger
	wanted    chan struct{} // wakes run
}

// run works until stop is closed.
func (p *preparer) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-p.wanted:
			p.makeSegment()
			p.makeClaim()
		}
	}
}

// makeSegment makes the next segment if one is wanted. The segment is synced under its temporary name, so that later syncs
// change no metadata, and a full disk shows here, while the active segment has room.
func (p *preparer) makeSegment() {
	f := p.files
	f.lock.Lock()
	want, size := f.wantNext && f.next == nil && !p.calls.closed, f.nextSize()
	f.lock.Unlock()
	if !want {
		return
	}
	var s *logfile.OpenSegment
	size, err := f.maker.Fitting(size)
	if err == nil {
		s, err = f.maker.CreateFitting(size)
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if err == nil {
		f.next = s
	} else {
		// Also when a rotation, which made its own meanwhile, no longer asks: while spaceErr is set changes may be refused,
		// and then nothing but this asks again.
		f.wantNext = true
		if f.spaceErr == nil {
			p.logger.Warn("cannot prepare the next log segment", "error", err, "bytes", size)
		}
	}
	f.spaceErr = err
	p.judge.space()
}

// makeClaim writes the claim that is wanted.
func (p *preparer) makeClaim() {
	p.files.lock.Lock()
	want := p.claims.clearWanted() && !p.calls.closed && p.admission.refusals[reasonGone] == nil
	claim := format.Claim{Offset: p.files.progress.durable.Load(), ReplID: p.files.history.ReplID}
	p.files.lock.Unlock()
	if want {
		p.claims.write(claim)
	}
}
