package role

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
//	a replica cannot open its data          as if it could: it gives the frames of its log (repl.Role.Closed)
//	a replica answers LOADING               endLoading, unless the log was closed, or the replica waits for another node, as that may be this one
//	a replica was seen with more (LONGER)   without end, until that one, or another one with as much, answers
//
// A log that ends exactly where DURABLE says is in doubt too: a power failure under everysec takes the changes behind the last sync, and
// DURABLE is written behind that sync.
//
// REPLICAOF ends each of these waits: NO ONE has the node lead with its own log. A replica in LONGER that was promoted meanwhile is
// followed, if it had all of this log when it left. A node in another term is not proof that the end is lost: it may have it.
const (
	endWithin  = 5 * time.Second
	endLoading = time.Minute
	endEvery   = 250 * time.Millisecond // between two rounds
)

// Missing is repl.Search's.
func (s *helpSearch) Missing(ctx context.Context) (by repl.Helper, err error) {
	h := s.role.repl.Healer()
	if s.role.help != nil || s.conf.ReplicaOf != "" || s.role.opened.Load() || !h.MayLead(s.conf.Dir) {
		return by, nil
	}
	if was, err := past.ReadHealing(h.Files(), s.conf.Dir); err != nil || was != nil {
		return by, nil // it has no log of its own
	}
	end, err := past.ReadLogEnd(h.Files(), s.conf.Dir)
	if err != nil || end.Replica {
		return by, nil // the start finds the damage, and a replica gets the end from its primary
	}
	if s.longer.Term != end.Term {
		s.longer = past.LongerLog{}
	}
	if len(s.asked()) == 0 {
		return by, nil
	}
	asking, stop := s.Await(ctx, true)
	by = s.askEnds(asking, &end)
	switch told := stop(); {
	case told.Follow != (repl.Address{}):
		return repl.Helper{From: told.Follow, Parts: told.Follow, Named: true}, nil
	case told.Alone:
		s.role.log.Error("REPLICAOF NO ONE: this node leads with the log that it has; changes that only a replica has are lost", "offset", end.Offset, "known_end", max(s.longer.Offset, end.Offset))
		return repl.Helper{}, nil
	case ctx.Err() != nil: // it must not lead
		return repl.Helper{}, ctx.Err()
	case by.From != (repl.Address{}) && by.Lead == (format.ReplID{}):
		s.role.log.Warn("a replica with more of the log was promoted; following it", "primary", by.From.String())
		toFollow(s.role, by.From)
		return by, nil
	case by.End <= end.Offset:
		return repl.Helper{}, nil
	}
	return by, &format.CorruptError{Dir: s.conf.Dir, File: format.LogDir(s.conf.Dir), LogOffset: end.Offset, Err: format.ErrGap,
		Want: fmt.Sprintf("a log up to offset %d, as %s has it", by.End, by.From), Got: "its end"}
}

// asked are the nodes that may have the end of the log.
func (s *helpSearch) asked() []repl.Address {
	if a := (repl.Address{Host: s.longer.Host, Port: s.longer.Port}); s.longer.Offset > 0 && !slices.Contains(s.note.List, a) {
		return append(slices.Clone(s.note.List), a)
	}
	return s.note.List
}

// askEnds returns the replica with the most of the log; zero: none has it. Without Lead it was promoted, and is to be followed.
func (s *helpSearch) askEnds(ctx context.Context, end *past.LogEnd) (by repl.Helper) {
	defer s.role.repl.Healer().Await("")
	for began, told := time.Now(), false; ; {
		got := s.askEnd(ctx, end.Term)
		by = got.by
		if by.From != (repl.Address{}) && by.Lead == (format.ReplID{}) {
			return by
		}
		if has := max(by.End, end.Offset); !s.longer.Beyond(end.Term, has) {
			s.saw(&by, end.Offset)
		} else if got.silent = errors.Join(got.silent, got.other); got.silent == nil {
			s.role.log.Error("a replica had more of the log, and no node has it any more; changes are lost", "from", has, "to", s.longer.Offset)
			return by
		}
		patience := s.endWithin
		switch {
		case by.End > end.Offset || end.Torn:
			patience = s.patience
		case end.Closed:
			patience = 0
		}
		if got.loads && patience > 0 {
			patience = max(patience, endLoading)
		}
		lacks := s.longer.Beyond(end.Term, max(by.End, end.Offset))
		if got.silent == nil || !lacks && time.Since(began) >= patience {
			return by
		}
		if !told {
			told = true
			s.tellWait(end, lacks, got.silent)
		}
		if !sleep.For(ctx, endEvery) {
			return by
		}
	}
}

// saw notes how far the log of a replica goes that has more than a log that ends at an offset. The note is durable: the replica may go away,
// and the process may end.
func (s *helpSearch) saw(by *repl.Helper, end uint64) {
	if by.End <= end {
		s.longer = past.LongerLog{}
		return
	}
	seen := past.LongerLog{Term: by.Lead, Offset: by.End, Host: by.From.Host, Port: by.From.Port}
	if seen == s.longer {
		return
	}
	s.longer = seen
	if err := past.NoteLonger(s.role.repl.Healer().Files(), s.conf.Dir, seen); err != nil {
		s.role.log.Warn("cannot note how far the log of a replica goes: a restart would forget it", "replica", by.From.String(), "offset", by.End, "error", err)
	}
}

// tellWait says that the start waits for replicas. lacks: one of them was seen with more of the log.
func (s *helpSearch) tellWait(end *past.LogEnd, lacks bool, silent error) {
	if !lacks {
		s.role.log.Warn("the log may lack its end, which a replica may have; waiting for those that do not answer", "offset", end.Offset, "replicas", s.asked(), "error", silent)
		return
	}
	replica := repl.Address{Host: s.longer.Host, Port: s.longer.Port}.String()
	s.role.repl.Healer().Await(fmt.Sprintf("replica %s has the log up to offset %d, and here it ends at %d", replica, s.longer.Offset, end.Offset))
	s.role.log.Error("a replica has more of the log than this node; waiting for it, and nothing is changed. To go on without these changes, use REPLICAOF NO ONE",
		"replica", replica, "offset", end.Offset, "known_end", s.longer.Offset, "error", silent)
}

// endAnswers are the answers of all replicas.
type endAnswers struct {
	by     repl.Helper // the replica with the most of the log; zero: none has it
	silent error       // which of them do not answer, or are being started
	loads  bool        // one of them is being started, and waits for no other node
	other  error       // which of them answer and do not say whether they have the end of the log
}

// askEnd asks all replicas once, at the same time.
func (s *helpSearch) askEnd(ctx context.Context, term format.ReplID) (got endAnswers) {
	type answer struct {
		from repl.Address
		role repl.Role
		err  error
	}
	answers := make(chan answer)
	for _, a := range s.asked() {
		go func() {
			r, err := repl.AskRole(ctx, a, s.role.settings(), helpAsk)
			answers <- answer{a, r, err}
		}()
	}
	var promoted repl.Helper
	for range s.asked() {
		a := <-answers
		var refused *wire.ServerError
		end, in, closed := a.role.Closed(term)
		switch {
		case closed && in:
			if end > got.by.End {
				got.by = repl.Helper{From: a.from, Lead: term, End: end, Closed: true}
			}
		case closed:
			got.other = errors.Join(got.other, fmt.Errorf("%s: %w, and its log is in another term", a.from, errCannotOpen))
		case a.err != nil && errors.As(a.err, &refused) && !strings.HasPrefix(refused.Text, "LOADING "):
			got.other = errors.Join(got.other, fmt.Errorf("%s: %w", a.from, a.err))
		case a.err != nil:
			got.silent, got.loads = errors.Join(got.silent, fmt.Errorf("%s: %w", a.from, a.err)), got.loads || refused != nil && !a.role.Waits
		case a.role.Heals: // it has nothing
		case a.role.In(term) && !a.role.Primary:
			if a.role.Offset > got.by.End {
				got.by = repl.Helper{From: a.from, Lead: term, End: a.role.Offset}
			}
		case s.longer.Term == term && a.role.Primary && a.role.Knows(term) && a.role.SecondEnd >= max(s.longer.Offset, 1):
			promoted = repl.Helper{From: a.from, Parts: a.from}
		default:
			got.other = errors.Join(got.other, fmt.Errorf("%s: its log is in another term", a.from))
		}
	}
	if promoted.From != (repl.Address{}) && got.by.End <= s.longer.Offset {
		got.by = promoted
	}
	return got
}
