package follow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/schema"
)

const (
	answerTimeout = time.Minute
	endTimeout    = 10 * time.Second // for work in progress at the end
	emptyTimeout  = 10 * time.Minute // for a command on all posts
	firstWait     = 50 * time.Millisecond
	longestWait   = 2 * time.Second
	keysPerWrite  = 4096 // of a command in a transaction
)

// target is the counterd that is kept up. It waits for conditions that may pass (a lost connection, LOADING, MISCONF, a
// failover), however long they last. The stream of the source is spooled meanwhile.
type target struct {
	dial     func(context.Context) (*wire.Conn, error)
	schema   *schema.Schema
	columns  []mapping.Column
	producer string
	log      func(format string, args ...any)

	conn      *wire.Conn
	committed uint64 // the number that a new connection must know of
	some      bool   // there is such
	text      []byte
	key       []byte
}

// A number is an offset and a count of the windows that end there, from 1: keys that were read again may make some while
// the stream stands still. The first is that of the copy, a window of nothing.
const perOffset = 1 << 10

// numberOf is the number of a window.
func numberOf(offset, nth uint64) uint64 { return offset*perOffset + nth }

// passes tells whether an error may pass, so that the same command may be sent again.
func passes(err error) bool { return !errors.Is(err, errLost) && patience.Passes(err) }

// patiently calls f until it succeeds, or fails for good.
func (t *target) patiently(ctx context.Context, f func(*wire.Conn) error) error {
	told := false
	policy := patience.Policy{First: firstWait, Longest: longestWait, Limit: patience.Forever, Tell: longestWait, Passes: passes, Waiting: func(err error) {
		t.log("waiting for the target: %v", err)
		told = true
	}}
	err := policy.Do(ctx, func() (bool, error) { return false, t.once(ctx, f) })
	var spent *patience.SpentError
	if errors.As(err, &spent) {
		return spent.Err
	}
	if err == nil && told {
		t.log("the target answers again")
	}
	return err
}

// once calls f with a connection, which is closed where its stream may be out of step.
func (t *target) once(ctx context.Context, f func(*wire.Conn) error) (err error) {
	if t.conn == nil {
		conn, err := t.dial(context.WithoutCancel(ctx)) // work in progress is finished when ctx ends
		if err != nil {
			return err
		}
		_ = conn.SetDeadline(time.Now().Add(answerTimeout))
		if err := t.check(conn); err != nil {
			conn.Close()
			return err
		}
		t.conn = conn
	}
	conn := t.conn
	_ = conn.SetDeadline(time.Now().Add(answerTimeout))
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now().Add(endTimeout)) })()
	err = f(conn)
	var failed *wire.ServerError
	if err != nil && !errors.As(err, &failed) {
		t.close()
	}
	return err
}

func (t *target) close() {
	if t.conn != nil {
		t.conn.Close()
		t.conn = nil
	}
}

// check verifies that a newly connected server has all acknowledged changes.
func (t *target) check(conn *wire.Conn) error {
	if !t.some {
		return nil
	}
	last, known, err := lastOf(conn, t.producer)
	if err != nil {
		return err
	}
	if !known || last < t.committed {
		return fmt.Errorf("%w: changes up to offset %d were, it has those up to %d", errLost, t.committed/perOffset, last/perOffset)
	}
	return nil
}

// lastOf asks for the highest number of a producer.
func lastOf(conn *wire.Conn, producer string) (last uint64, known bool, err error) {
	answer, err := conn.Do("IDMP", "LAST", producer)
	if err != nil || answer.Null {
		return 0, false, err
	}
	last, err = strconv.ParseUint(answer.Text(), 10, 64)
	return last, err == nil, err
}

// last is lastOf with patience.
func (t *target) last(ctx context.Context) (last uint64, known bool, err error) {
	err = t.patiently(ctx, func(conn *wire.Conn) error {
		last, known, err = lastOf(conn, t.producer)
		return err
	})
	return last, known, err
}

// commit makes the changes of a window that ends at an offset. refused are additions that the target did not make.
func (t *target) commit(ctx context.Context, w *window, end uint64) (refused []number, err error) {
	seq := numberOf(end, 1)
	if t.some && t.committed >= seq {
		if seq = t.committed + 1; seq/perOffset != end {
			return nil, fmt.Errorf("%d windows at offset %d", perOffset, end)
		}
	}
	adds, commands := t.encode(w, w.numbers(), seq)
	err = t.patiently(ctx, func(conn *wire.Conn) error {
		if err := conn.Send(t.text); err != nil {
			return err
		}
		for range commands - 1 {
			if err := conn.ReadStatus(); err != nil {
				var failed *wire.ServerError
				if errors.As(err, &failed) { // the replies after it are out of step
					t.close()
				}
				return err
			}
		}
		answer, err := conn.ReadValue()
		if err != nil {
			return err
		}
		refused, err = refusals(answer, adds)
		return err
	})
	var failed *wire.ServerError
	if errors.As(err, &failed) && strings.HasPrefix(failed.Text, "IDMPEXPIRED") { // made, and its answer was too large to be kept
		refused, err = adds, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the target refused what happened up to offset %d: %w", end, err)
	}
	t.committed, t.some = seq, true
	return refused, nil
}

// refusals looks for additions that were not made.
func refusals(answer wire.Value, adds []number) (refused []number, err error) {
	n := 0
	for _, command := range answer.Array {
		if command.IsErr {
			return nil, &wire.ServerError{Text: command.Str}
		}
		for _, sum := range command.Array {
			if n == len(adds) {
				return nil, fmt.Errorf("%w: more sums than additions", wire.ErrProtocol)
			}
			if sum.IsErr {
				refused = append(refused, adds[n])
			}
			n++
		}
	}
	if n != len(adds) {
		return nil, fmt.Errorf("%w: %d sums of %d additions", wire.ErrProtocol, n, len(adds))
	}
	return refused, nil
}

// encode makes the transaction of a window, and tells its additions in order and the number of its commands.
func (t *target) encode(w *window, numbers []number, seq uint64) (adds []number, commands int) {
	t.text = wire.AppendCommand(t.text[:0], "MULTI")
	commands = 2
	var sets, gone []number
	for _, n := range numbers {
		switch w.changes[n].op {
		case mapping.Set:
			sets = append(sets, n)
		case mapping.Add:
			adds = append(adds, n)
		default:
			gone = append(gone, n)
		}
	}
	for _, part := range []struct {
		name    string
		numbers []number
	}{{"MSET", sets}, {"COUNTER.MINCRBY", adds}} {
		for rest := part.numbers; len(rest) > 0; commands++ {
			n := min(len(rest), keysPerWrite)
			t.text = wire.AppendArg(wire.AppendArray(t.text, 1+2*n), part.name)
			for _, at := range rest[:n] {
				c := t.columns[at.column]
				t.key = t.schema.AppendKey(t.key[:0], c.Counter, c.Index, at.mid)
				t.text = wire.AppendArg(wire.AppendBytes(t.text, t.key), strconv.FormatInt(w.changes[at].value, 10))
			}
			rest = rest[n:]
		}
	}
	for _, at := range gone {
		c := t.columns[at.column]
		t.text = wire.AppendNamed(wire.AppendArg(wire.AppendArray(t.text, 3), "HDEL"), c.Counter.Name+":", at.mid)
		t.text = wire.AppendArg(t.text, c.Counter.Columns[c.Index].Name)
		commands++
	}
	t.text = wire.AppendCommand(t.text, "EXEC", "IDMP", t.producer, strconv.FormatUint(seq, 10))
	return adds, commands
}

// process names the server's process, which holds what it acknowledged while it runs: one in its place may not.
func (t *target) process(ctx context.Context) (id string, err error) {
	err = t.patiently(ctx, func(conn *wire.Conn) error {
		answer, err := conn.Do("INFO", "server")
		if err != nil {
			return err
		}
		_, id, _ = strings.Cut(answer.Str, "\nrun_id:")
		id, _, _ = strings.Cut(id, "\r\n")
		return nil
	})
	return id, err
}

// held counts the numbers in the mapped columns that are not what a column holds by itself.
func (t *target) held(ctx context.Context) (n int64, err error) {
	for _, c := range t.columns {
		column := c.Counter.Columns[c.Index]
		err := t.patiently(ctx, func(conn *wire.Conn) error {
			_ = conn.SetDeadline(time.Now().Add(emptyTimeout))
			answer, err := conn.Do("COUNTER.COUNT", c.Counter.Name, "WHERE", column.Name, "!=", strconv.FormatUint(column.Default, 10))
			n += answer.Int
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// empty gives all numbers in the mapped columns back what the columns hold by themselves.
func (t *target) empty(ctx context.Context) error {
	for _, c := range t.columns {
		column := c.Counter.Columns[c.Index]
		err := t.patiently(ctx, func(conn *wire.Conn) error {
			_ = conn.SetDeadline(time.Now().Add(emptyTimeout))
			_, err := conn.Do("COUNTER.UPDATE", c.Counter.Name, "WHERE", column.Name, "!=", strconv.FormatUint(column.Default, 10), "RESET", column.Name)
			return err
		})
		if err != nil {
			return fmt.Errorf("emptying %s: %w", c.Name(), err)
		}
	}
	return nil
}

// settle waits until the written changes are on the target's disk, if it has a log.
func (t *target) settle(ctx context.Context) error {
	return t.patiently(ctx, func(conn *wire.Conn) error {
		_ = conn.SetDeadline(time.Now().Add(2 * answerTimeout))
		_, err := conn.Do("WAITAOF", "1", "0", strconv.Itoa(int(answerTimeout.Milliseconds())))
		var failed *wire.ServerError
		if errors.As(err, &failed) && !passes(err) {
			t.log("whether the copy is on the target's disk is not known: %v", err)
			return nil
		}
		return err
	})
}
