package client

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// forgets is after how much silence a shard asks whether the server still knows its producer, before it repeats what is
// in doubt: half of what servers promise.
const forgets = maxRetryFor

// load is what one command carries.
type load struct {
	sums  []Sum
	pairs []any // key and number of each
}

func newLoad(n int) load { return load{make([]Sum, 0, n), make([]any, 0, 2*n)} }

// part is some of a load.
func (l load) part(from, to int) load { return load{l.sums[from:to], l.pairs[2*from : 2*to]} }

// send sends the sums of s.out, in as many commands as it takes, one after the other, and says how many.
func (s *shard) send() (commands int) {
	columns := *s.a.columns.Load()
	left := len(s.out.sums)
	var l load
	for at, n := range s.out.sums {
		if len(l.sums) == 0 {
			l = newLoad(min(left, s.a.options.Keys))
		}
		column := &columns[at.column]
		l.sums = append(l.sums, Sum{at.mid, column.name, n})
		l.pairs = append(l.pairs, column.columns.key(at.mid, column.column), n)
		left--
		if left == 0 || len(l.sums) == s.a.options.Keys {
			commands += s.deliver(l)
			l = load{}
		}
	}
	return commands
}

// deliver sends sums until it is known what became of them. Where one of them makes the server refuse all, as its
// column was dropped, it finds out which by halves.
func (s *shard) deliver(l load) (commands int) {
	n := len(l.sums)
	made, err := s.exchange(l)
	switch {
	case err == nil && made == n:
	case err == nil:
		s.a.report(&SumsError{l.sums, n - made, ErrRange})
	case errors.Is(err, ErrUnfinished):
		s.mu.Lock()
		s.pieces = append(s.pieces, &SumsError{l.sums, n, err})
		s.mu.Unlock()
	case n > 1 && ofOne(err):
		return s.deliver(l.part(0, n/2)) + s.deliver(l.part(n/2, n))
	default:
		s.a.report(&SumsError{l.sums, n, err})
	}
	return 1
}

// exchange sends one command, numbered, until it is answered, and gives how many additions were made.
func (s *shard) exchange(l load) (made int, err error) {
	clock := &s.a.c.clock
	s.seq++
	if s.seq == 1 {
		s.heard = clock.now()
	}
	args := append(make([]any, 0, len(l.pairs)+5), "COUNTER.MINCRBY")
	args = append(append(args, l.pairs...), "QUIET", idmp, s.producer, s.seq)
	e := &Error{Producer: s.producer, Seq: s.seq, Class: Transient, Err: errUnsent, Stop: ErrUnfinished}
	for s.a.ctx.Err() == nil {
		reply, err := s.a.c.do(s.a.ctx, args)
		e.Attempts++
		if err == nil {
			s.heard = clock.now()
			n, err := number(reply)
			return int(n), err
		}
		e.Err = err
		if ClassOf(err) == InDoubt {
			e.Class = InDoubt
		}
		if s.a.ctx.Err() == nil && !repeatable(err) {
			if e.Class == InDoubt && ClassOf(err) == Permanent {
				s.leave() // an attempt may be on its way still: it must not be made once its sums are sent otherwise
			}
			return 0, err
		}
		if clock.sleep(s.a.ctx, clock.jitter(e.Attempts)) != nil {
			break
		}
		if e.Class == InDoubt && clock.now().Sub(s.heard) > forgets && s.forgotten() {
			s.renew()
			e.Stop = ErrForgotten
			break
		}
		s.mu.Lock()
		s.stats.Repeats++
		s.mu.Unlock()
	}
	e.Request = text(args)
	return 0, e
}

// ofOne reports whether one sum of many may be why all were refused, and not who asks.
func ofOne(err error) bool {
	return strings.HasPrefix(err.Error(), "ERR ") || strings.HasPrefix(err.Error(), "WRONGTYPE ")
}

// forgotten asks whether the server does not know this producer any more.
func (s *shard) forgotten() bool {
	err := s.a.c.rdb.Do(s.a.ctx, "IDMP", "LAST", s.producer).Err()
	if err == nil {
		s.heard = s.a.c.clock.now()
	}
	return err == redis.Nil
}

// leave makes sure that no command of this producer is made from now on, and goes on as another one.
func (s *shard) leave() {
	clock := &s.a.c.clock
	for attempts := 1; ; attempts++ {
		err := s.a.c.rdb.Do(s.a.ctx, "IDMP", "FENCE", s.producer).Err()
		if err == nil || ClassOf(err) == Permanent || clock.sleep(s.a.ctx, clock.jitter(attempts)) != nil {
			break
		}
	}
	s.renew()
}

// renew goes on as another producer.
func (s *shard) renew() { s.producer, s.seq = newProducer(), 0 }
