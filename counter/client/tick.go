package client

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// forgets is after how much silence a shard asks whether the server still knows its producer, before it repeats a change in
// doubt: half the time that servers promise.
const forgets = maxRetryFor

// load is the sums of one command.
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
			if s.a.c.cluster {
				commands += s.deliverSlots(l)
			} else {
				commands += s.deliver(l)
			}
			l = load{}
		}
	}
	return commands
}

// deliver sends sums until it is known what became of them. Where one of them makes the server refuse all, as its
// column was dropped, it finds out which by halves.
func (s *shard) deliver(l load) (commands int) {
	s.seq++
	args := s.number(l, s.seq)
	ctx, span := s.a.c.tracer.begin(s.a.ctx, s.a.c, len(l.sums), args)
	made, err := s.exchange(ctx, l, args, s.seq, nil)
	span.end(err)
	return s.delivered(l, made, err)
}

// deliverSlots is deliver for the nodes of a cluster: a command a hash slot, as many together as a producer may have on
// their way. A command without an immediate reply is sent again alone.
func (s *shard) deliverSlots(l load) (commands int) {
	var loads []load
	slots := sortSums(l.sums, l.pairs)
	for from, i := 0, 1; i <= len(slots); i++ {
		if i == len(slots) || slots[i] != slots[from] {
			loads = append(loads, l.part(from, i))
			from = i
		}
	}
	for ; len(loads) > 0; loads = loads[min(len(loads), atOnce):] {
		part := loads[:min(len(loads), atOnce)]
		all := make([][]any, len(part))
		first := s.seq + 1
		for i := range part {
			s.seq++
			all[i] = s.number(part[i], s.seq)
		}
		made, errs, producer := make([]int, len(part)), make([]error, len(part)), s.producer
		ctx, span := s.a.c.tracer.begin(s.a.ctx, s.a.c, posts(part), all[0])
		for i, cmd := range s.a.c.together(ctx, all) {
			made[i], errs[i] = s.exchange(ctx, part[i], all[i], first+uint64(i), cmd)
		}
		span.end(cmp.Or(errs...))
		if s.doubtful { // all changes of this producer are known by now, and none may be made from now on
			s.doubtful = false
			s.leave()
		} else if s.lost && s.producer == producer {
			s.renew()
		}
		s.lost = false
		for i := range part {
			commands += s.delivered(part[i], made[i], errs[i])
		}
	}
	return commands
}

// delivered reports the results of sums. If one sum made the server refuse all, it goes on with each half.
func (s *shard) delivered(l load, made int, err error) (commands int) {
	n := len(l.sums)
	if s.doubtful {
		s.doubtful = false
		s.leave()
	}
	if s.lost {
		s.lost = false
		s.renew()
	}
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

// number is the command for sums under a number.
func (s *shard) number(l load, seq uint64) []any {
	if seq == 1 {
		s.heard = s.a.c.clock.now()
	}
	args := append(make([]any, 0, len(l.pairs)+5), "COUNTER.MINCRBY")
	return append(append(args, l.pairs...), "QUIET", idmp, s.producer, seq)
}

// posts is how many sums loads have.
func posts(loads []load) (n int) {
	for _, l := range loads {
		n += len(l.sums)
	}
	return n
}

// exchange sends one command until it is answered or the Aggregator ends, and gives how many additions were made. first is its first attempt; nil:
// there was none. Behind it s.doubtful says that the producer must be left, and s.lost that it is another's by now.
func (s *shard) exchange(ctx context.Context, l load, args []any, seq uint64, first *redis.Cmd) (made int, err error) {
	clock := &s.a.c.clock
	e := &Error{Producer: s.producer, Seq: seq, Class: Transient, Err: errUnsent, Stop: ErrUnfinished}
	for first != nil || s.a.ctx.Err() == nil {
		var reply any
		var err error
		if first != nil {
			reply, err = first.Result()
			first = nil
		} else {
			reply, err = s.a.c.do(ctx, args)
		}
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
				s.doubtful = true // an attempt may be on its way still: it must not be made once its sums are sent otherwise
			}
			return 0, err
		}
		s.a.c.owners.reload(s.a.ctx)
		if clock.sleep(s.a.ctx, clock.jitter(e.Attempts)) != nil {
			break
		}
		if e.Class == InDoubt && clock.now().Sub(s.heard) > forgets && s.forgotten(l) {
			s.lost = true
			e.Stop = ErrForgotten
			break
		}
		s.a.c.tracer.repeat(ctx, e.Attempts, err)
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

// forgotten asks whether the server of a load does not know this producer any more.
func (s *shard) forgotten(l load) bool {
	key, _ := l.pairs[0].(string)
	cmd := redis.NewCmd(s.a.ctx, "IDMP", "LAST", s.producer)
	err := s.a.c.process(s.a.ctx, s.a.c.owners.of(s.a.ctx, key), cmd)
	if err == nil {
		s.heard = s.a.c.clock.now()
	}
	return err == redis.Nil
}

// leave makes sure that no command of this producer is made from now on, and goes on as another one.
func (s *shard) leave() {
	clock := &s.a.c.clock
	for attempts := 1; ; attempts++ {
		err := s.a.c.owners.everywhere(s.a.ctx, func(ctx context.Context, rdb processor) error {
			return s.a.c.process(ctx, rdb, redis.NewCmd(ctx, "IDMP", "FENCE", s.producer))
		})
		if err == nil || ClassOf(err) == Permanent || clock.sleep(s.a.ctx, clock.jitter(attempts)) != nil {
			break
		}
	}
	s.renew()
}

// renew goes on as another producer.
func (s *shard) renew() { s.producer, s.seq = newProducer(), 0 }
