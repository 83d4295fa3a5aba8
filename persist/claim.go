package persist

import "github.com/counterd/counterd/persist/format"

// judgeClaim asks for a claim where nothing else will vouch for what is durable: no frame was synced since the last time
// it was asked, or frames carry the claims of another disk. REQUIRES: mu; asked once each SyncEvery, behind the sync.
func (l *Log) judgeClaim() {
	durable := l.durable.Load()
	still := durable == l.durableBefore
	l.durableBefore = durable
	if durable > l.claimed && (still || l.files.history.Replica) && !l.wantClaim {
		l.wantClaim = true
		wake(l.prepare)
	}
}

// makeClaim writes the claim that is asked for. REQUIRES: one caller at a time.
func (l *Log) makeClaim() {
	l.mu.Lock()
	want := l.wantClaim && !l.closed && l.refusals[reasonGone] == nil
	l.wantClaim = false
	claim := format.Claim{Offset: l.durable.Load(), ReplID: l.files.history.ReplID}
	l.mu.Unlock()
	if !want {
		return
	}
	err := l.claims.Write(claim)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claimMade(claim, err)
}

// claimMade takes down how writing a claim went. A disk that does not take it takes no log either, so that alone is
// trouble. REQUIRES: mu.
func (l *Log) claimMade(claim format.Claim, err error) {
	switch {
	case err == nil:
		l.claimed = claim.Offset
	case !l.claimFailed:
		l.opts.Logger.Warn("cannot record the durable log offset; damage of the newest records may be treated as a torn tail", "error", err)
	}
	l.claimFailed = err != nil
}
