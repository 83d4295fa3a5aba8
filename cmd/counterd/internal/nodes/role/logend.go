package role

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/internal/sleep"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
)

// The log of a primary may lack its end, and no file of the directory tells so: a power failure took changes that were not durable, or the
// part that was written in the last second before the end of the process is damaged or gone, as DURABLE is written each second. Replicas
// may have these changes, and WAIT may have confirmed them to clients. A start that went on without them would begin a term at the earlier
// end, and its replicas would cut their changes behind it.
//
// So a primary outside of a cluster asks the replicas that it remembers (REPLICAS), before anything is cut, how far their logs go. Only
// logs in the term of this one count: they are this log, as far as they go. If one goes further, the start gets the missing frames of
// it as those of a damaged log (repl.Search).
//
// Replicas that do not answer are waited for as long as the end of the log is in doubt:
//
//	DURABLE says that the log was closed    not at all
//	DURABLE does not say so                 endWithin: the process was killed, or the machine lost power
//	it has a torn tail                      helpPatience, as in a search for data: this is damage, or a power failure
//	a replica has more                      helpPatience: a silent one may have more still
//
// A log that ends exactly where DURABLE says is in doubt too: a power failure under everysec takes what came behind the last sync, and
// DURABLE is written behind that sync.
const (
	endWithin = 5 * time.Second
	endEvery  = 250 * time.Millisecond // between two rounds
)

// Missing is repl.Search's.
func (s *helpSearch) Missing(ctx context.Context) (by repl.Helper, err error) {
	h := s.role.repl.Healer()
	if s.role.help != nil || s.conf.ReplicaOf != "" || len(s.note.List) == 0 || s.role.opened.Load() || !h.MayLead(s.conf.Dir) {
		return by, nil
	}
	if was, err := past.ReadHealing(h.Files(), s.conf.Dir); err != nil || was != nil {
		return by, nil // it has no log of its own
	}
	end, err := past.ReadLogEnd(h.Files(), s.conf.Dir)
	if err != nil {
		return by, nil // the start finds the damage
	}
	asking, told := s.Await(ctx)
	by = s.askEnds(asking, &end)
	if primary := told(); primary != (repl.Address{}) {
		return repl.Helper{From: primary, Parts: primary}, nil
	}
	if by.End <= end.Offset {
		return repl.Helper{}, nil
	}
	return by, &format.CorruptError{Dir: s.conf.Dir, File: format.LogDir(s.conf.Dir), LogOffset: end.Offset, Err: format.ErrGap,
		Want: fmt.Sprintf("a log up to offset %d, as %s has it", by.End, by.From), Got: "its end"}
}

// askEnds returns the replica with the most of the log; zero: none has it.
func (s *helpSearch) askEnds(ctx context.Context, end *past.LogEnd) (by repl.Helper) {
	told := false
	for began := time.Now(); ; {
		by, silent := s.askEnd(ctx, end.Term)
		patience := s.endWithin
		switch {
		case by.End > end.Offset || end.Torn:
			patience = s.patience
		case end.Closed:
			patience = 0
		}
		if silent == nil || time.Since(began) >= patience {
			return by
		}
		if !told {
			told = true
			s.role.log.Warn("the log may lack its end, which a replica may have; waiting for those that do not answer", "offset", end.Offset, "replicas", s.note.List, "error", silent)
		}
		if !sleep.For(ctx, endEvery) {
			return by
		}
	}
}

// askEnd asks all replicas once, at the same time. silent says which of them do not answer, or are being started.
func (s *helpSearch) askEnd(ctx context.Context, term format.ReplID) (by repl.Helper, silent error) {
	type answer struct {
		from repl.Address
		role repl.Role
		err  error
	}
	answers := make(chan answer)
	for _, a := range s.note.List {
		go func() {
			r, err := repl.AskRole(ctx, a, s.role.settings(), helpAsk)
			answers <- answer{a, r, err}
		}()
	}
	for range s.note.List {
		a := <-answers
		var refused *wire.ServerError
		switch {
		case a.err != nil && errors.As(a.err, &refused) && !strings.HasPrefix(refused.Text, "LOADING "):
			s.role.log.Warn("a replica does not say how far its log goes", "replica", a.from.String(), "error", a.err)
		case a.err != nil:
			silent = errors.Join(silent, fmt.Errorf("%s: %w", a.from, a.err))
		case !a.role.Primary && !a.role.Heals && a.role.In(term) && a.role.Offset > by.End:
			by = repl.Helper{From: a.from, Lead: term, End: a.role.Offset}
		}
	}
	return by, silent
}
