package transfer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/counterd/counterd/internal/wire"
)

// position is a place in the log of a target. The target has acknowledged changes up to there.
type position struct {
	History string `json:"history"` // its master_replid
	Offset  uint64 `json:"offset"`
}

// LostError is a target that does not have a change any more that it had acknowledged: a replica that lagged became the primary,
// its disk lost the end of the log, or it was started from an older copy of its directory.
type LostError struct {
	History   string
	Had, Left uint64 // the log ended at Had, and the rest of it ends at Left
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the target has lost changes that it had acknowledged: of the log %.8s it had %d bytes, and has %d", e.History, e.Had, e.Left)
}

// targetLog is the end of a target's log, as INFO has it.
type targetLog struct {
	position
	earlier position // the history before, which goes on up to there; zero: there is none
}

// standing is the fate of the changes before a position.
type standing int

const (
	unchanged standing = iota // they are there, in the same history
	kept                      // they are there, and the log has a new history: changes behind the position may be lost
	lost                      // some are not there
	unknown                   // the log had more than one other history since, or is that of an older copy
)

// of returns the fate of the changes before a position.
func (l *targetLog) of(p position) standing {
	switch {
	case p.History == l.History && p.Offset <= l.Offset:
		return unchanged
	case p.History == l.History:
		return lost
	case p.History != l.earlier.History:
		return unknown
	case p.Offset <= l.earlier.Offset:
		return kept
	}
	return lost
}

// lostBehind is the error of a position that is lost.
func (l *targetLog) lostBehind(p position) error {
	e := &LostError{p.History, p.Offset, l.Offset}
	if p.History != l.History {
		e.Left = l.earlier.Offset
	}
	return e
}

// noHistory is that of a target that had no history before.
const noHistory = "0000000000000000000000000000000000000000"

// log asks the target for the place of its log. There is none where the user may not ask (NOPERM) or the target is a cluster, which
// loses nothing that it acknowledged. A replica is waited for: it is to become the primary, or another server to take its address.
func (s *Sink) log(ctx context.Context) (l *targetLog, err error) {
	if s.o.Shards != nil || s.blind {
		return nil, nil
	}
	a := asker{o: &s.o}
	defer a.close()
	err = a.ask(ctx, answerTimeout, func(conn *wire.Conn) error {
		v, err := conn.Do("INFO", "replication")
		var refused *wire.ServerError
		if s.blind = errors.As(err, &refused) && (strings.HasPrefix(refused.Text, "NOPERM") || strings.HasPrefix(refused.Text, "ERR")); s.blind {
			return nil
		} else if err != nil {
			return err
		}
		l, err = parseLog(v.Text())
		s.blind = err == nil && l == nil
		return err
	})
	return l, err
}

// parseLog reads INFO replication; nil: it names no history.
func parseLog(info string) (*targetLog, error) {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	if fields["role"] == "slave" {
		return nil, &wire.ServerError{Text: "READONLY the target is a replica now"}
	}
	l := &targetLog{}
	var err error
	if l.History = fields["master_replid"]; l.History == "" {
		return nil, nil
	}
	if l.Offset, err = strconv.ParseUint(fields["master_repl_offset"], 10, 64); err != nil {
		return nil, fmt.Errorf("INFO: master_repl_offset is %.40q, want an offset", fields["master_repl_offset"])
	}
	if second := fields["master_replid2"]; second != "" && second != noHistory {
		l.earlier.History = second
		if l.earlier.Offset, err = strconv.ParseUint(fields["second_repl_offset"], 10, 64); err != nil {
			return nil, fmt.Errorf("INFO: second_repl_offset is %.40q, want an offset", fields["second_repl_offset"])
		}
	}
	return l, nil
}

// stands compares the log of the target with the position of the chunks that it acknowledged, and notes the new one. again: the log
// has another history than when the chunk under way began, so some of the chunk may be lost. seq is the last number before that chunk.
func (s *Sink) stands(ctx context.Context, seq uint64) (again bool, err error) {
	l, err := s.log(ctx)
	if err != nil || l == nil {
		return false, err
	}
	if s.at != nil {
		switch l.of(*s.at) {
		case lost:
			return false, l.lostBehind(*s.at)
		case unknown:
			if err := s.remembers(ctx, seq); err != nil {
				return false, err
			}
			again = true
		case kept:
			again = true
		}
	}
	s.at = &l.position
	return again, nil
}

// remembers is an error if the target does not know a number that it acknowledged. Values that are set bear no numbers: there all
// counts as lost, and is set again.
func (s *Sink) remembers(ctx context.Context, seq uint64) error {
	var last uint64
	if s.o.Producer != "" {
		var err error
		if last, _, err = lastNumber(ctx, &s.o); err != nil || last >= seq {
			return err
		}
	}
	return &LostError{s.at.History, s.at.Offset, 0}
}

// lastNumber asks a target for the last number of the producer.
func lastNumber(ctx context.Context, o *SinkOptions) (n uint64, known bool, err error) {
	a := asker{o: o}
	defer a.close()
	err = a.ask(ctx, answerTimeout, func(conn *wire.Conn) error {
		v, err := conn.Do("IDMP", "LAST", o.Producer)
		if known = err == nil && !v.Null; known {
			n, err = strconv.ParseUint(v.Text(), 10, 64)
		}
		return err
	})
	return n, known, err
}
