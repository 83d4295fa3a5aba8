package feedload

import (
	"fmt"
	"strconv"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// reader reads the feed, and checks that it gives the INCRs of a writer in order.
type reader struct {
	conn     *wire.Conn
	position string
	next     uint64 // number of the INCR whose change comes next
}

// begin goes to the end of the feed: behind an INCR of its own, as NOW may be in front of changes that are not durable yet.
func (r *reader) begin(w *writer) error {
	_ = r.conn.SetDeadline(time.Now().Add(phaseWithin))
	v, err := r.conn.Do("COUNTER.FEED", "FROM", "NOW")
	if err != nil {
		return err
	}
	r.position = v.Array[0].Str
	mid := w.mid(w.next)
	if err := w.one(); err != nil {
		return err
	}
	for last := uint64(0); last != mid; {
		if err := r.ask(); err != nil {
			return err
		}
		if err := r.reply(func(got uint64) error {
			last = got
			return nil
		}); err != nil {
			return err
		}
	}
	r.next = w.next
	return nil
}

// upTo reads changes until that of the INCR end is reached, and calls seen with the number of each. It returns how many replies there were.
func (r *reader) upTo(w *writer, end uint64, seen func(n uint64)) (replies int, err error) {
	_ = r.conn.SetDeadline(time.Now().Add(phaseWithin))
	for ; r.next < end; replies++ {
		if err := r.ask(); err != nil {
			return replies, err
		}
		if err := r.reply(func(mid uint64) error {
			if mid != w.mid(r.next) {
				return fmt.Errorf("change %d is of post %d, want %d", r.next, mid, w.mid(r.next))
			}
			if seen != nil {
				seen(r.next)
			}
			r.next++
			return nil
		}); err != nil {
			return replies, fmt.Errorf("COUNTER.FEED: %w", err)
		}
	}
	return replies, nil
}

// ask sends the command.
func (r *reader) ask() error {
	r.conn.Out = wire.AppendCommand(r.conn.Out[:0], "COUNTER.FEED", "FROM", r.position, "COUNT", strconv.Itoa(atOnce), "BLOCK", "1000")
	return r.conn.Flush()
}

// reply reads a reply, and calls got with the post of each change.
func (r *reader) reply(got func(mid uint64) error) error {
	if _, _, err := r.conn.ReadArray(); err != nil {
		return err
	}
	position, _, err := r.conn.ReadBulk()
	if err != nil {
		return err
	}
	r.position = string(position)
	n, _, err := r.conn.ReadArray()
	for ; n > 0 && err == nil; n-- {
		var mid int64
		if mid, err = r.change(); err == nil {
			err = got(uint64(mid))
		}
	}
	return err
}

// change reads a change: its position, its time, and one part, "set counter mid column value".
func (r *reader) change() (mid int64, err error) {
	for _, step := range []func() error{r.array, r.text, r.number, r.array, r.array, r.text, r.text} {
		if err := step(); err != nil {
			return 0, err
		}
	}
	if mid, err = r.conn.ReadInt(); err == nil {
		err = r.text()
	}
	if err == nil {
		err = r.number()
	}
	return mid, err
}

func (r *reader) array() error {
	_, _, err := r.conn.ReadArray()
	return err
}

func (r *reader) text() error {
	_, _, err := r.conn.ReadBulk()
	return err
}

func (r *reader) number() error {
	_, err := r.conn.ReadInt()
	return err
}
