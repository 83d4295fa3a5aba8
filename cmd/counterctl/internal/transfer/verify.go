package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// Verify selects the comparison when all is written.
type Verify string

// The kinds of comparison. Sums are those of the target's whole columns, so they prove something where these were empty
// before, and nobody else writes. To compare values the source is read once more.
const (
	VerifyAuto Verify = "auto" // sums; values where those prove nothing or differ
	VerifySums Verify = "sums"
	VerifyFull Verify = "values"
	VerifyNone Verify = "none"
)

// Verified is the result of the comparison.
type Verified struct {
	By        Verify   // the kind of the last comparison; VerifyNone: nothing
	OK        bool     // it is the same
	Compared  uint64   // values
	Different uint64   // of those
	Notes     []string // differences, or the reason why something was not compared
}

// notesMax is how many differences are named.
const notesMax = 10

// targetTimeout is for sums over all posts of the target: 100 million take seconds.
const targetTimeout = 10 * time.Minute

func (im *importer) verify(ctx context.Context) (v Verified, err error) {
	if im.Verify == VerifyNone {
		return Verified{By: VerifyNone}, nil
	}
	if im.Verify != VerifyFull {
		if v, err = im.verifySums(ctx); err != nil || v.OK || im.Verify == VerifySums || im.Add {
			return v, err
		}
	}
	full, err := im.verifyValues(ctx)
	full.Notes = append(v.Notes, full.Notes...)
	return full, err
}

// verifySums compares how many values of each column are not 0, and their sum.
func (im *importer) verifySums(ctx context.Context) (v Verified, err error) {
	v.By = VerifySums
	if im.state.Refused > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%d values were not added, as their columns cannot hold the sums", im.state.Refused))
	}
	moving := false
	if im.Add {
		mark, err := im.mark(ctx)
		if err != nil {
			return v, err
		}
		if moving = mark != im.state.Mark; moving {
			v.Notes = append(v.Notes, "the source was changed while it was read: keys that it showed twice were added twice")
		}
	}
	now, err := im.targetSums(ctx)
	if err != nil {
		return v, err
	}
	v.OK = im.state.Refused == 0 && !moving
	for i, c := range im.Sink.Columns {
		before, read := &im.state.Before[i], &im.state.Sums[i]
		if !im.Add && before.NonZero > 0 {
			v.OK = false
			v.Notes = append(v.Notes, fmt.Sprintf("%s held %d values before: its sum proves nothing", c.Name(), before.NonZero))
			continue
		}
		v.Compared += read.Values
		want := new(big.Int).Add(before.Total(), read.Total())
		if now[i].Total().Cmp(want) != 0 {
			v.OK = false
			v.Notes = append(v.Notes, fmt.Sprintf("%s: the sum is %v, want %v", c.Name(), now[i].Total(), want))
		}
		if !im.Add && now[i].NonZero != read.NonZero {
			v.OK = false
			v.Notes = append(v.Notes, fmt.Sprintf("%s: %d values are not 0, want %d", c.Name(), now[i].NonZero, read.NonZero))
		}
	}
	return v, nil
}

// targetSums asks the target for the sum of each column and how many values are not 0. A post whose column was never
// set counts with its default.
func (im *importer) targetSums(ctx context.Context) (sums []Sum, err error) {
	a := asker{o: &im.Sink}
	defer a.close()
	err = a.ask(ctx, targetTimeout, func(conn *wire.Conn) (err error) {
		sums, err = im.askSums(conn)
		return err
	})
	return sums, err
}

func (im *importer) askSums(conn *wire.Conn) (sums []Sum, err error) {
	for _, c := range im.Sink.Columns {
		counter, column := c.Counter.Name, c.Counter.Columns[c.Index].Name
		count, err := conn.Do("COUNTER.COUNT", counter, "WHERE", column, "!=", "0")
		if err != nil {
			return nil, err
		}
		sum, err := conn.Do("COUNTER.SUM", counter, column)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(count.Text(), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("COUNTER.COUNT answered %.40q", count.Text())
		}
		text := fmt.Sprintf(`{"nonzero":%d,"sum":%q}`, n, sum.Text())
		s := Sum{}
		if err := s.UnmarshalJSON([]byte(text)); err != nil {
			return nil, fmt.Errorf("COUNTER.SUM answered %.40q", sum.Text())
		}
		sums = append(sums, s)
	}
	return sums, nil
}

// verifyValues reads the source once more and compares each value with the target's.
func (im *importer) verifyValues(ctx context.Context) (v Verified, err error) {
	v.By = VerifyFull
	if im.Add {
		v.Notes = append(v.Notes, "values that were added cannot be compared one by one")
		return v, nil
	}
	src, err := im.Open(ctx)
	if err != nil {
		return v, err
	}
	defer src.Close()
	a := asker{o: &im.Sink}
	defer a.close()
	c, f := &Chunk{}, folder{}
	keys := uint64(0)
	for end := error(nil); end == nil; {
		c.reset()
		if end = src.Next(ctx, c); end != nil && !errors.Is(end, io.EOF) {
			return v, end
		}
		items, before := f.sort(c.Items), v // all of a number, as two keys may be of one
		if err := a.ask(ctx, answerTimeout, func(conn *wire.Conn) error {
			v = before
			return im.compare(conn, items, &v)
		}); err != nil {
			return v, fmt.Errorf("%s: %w", im.Target, err)
		}
		if keys += c.Keys; im.Progress != nil {
			im.Progress("comparing", keys, src.Total(), v.Compared)
		}
	}
	if v.OK = v.Different == 0; !v.OK {
		v.Notes = append(v.Notes, fmt.Sprintf("%d of %d values differ: the source has changed since they were read, the target is written by others, a post occurs more than once, or keys such as post:5 and post:05 are of one",
			v.Different, v.Compared))
	}
	return v, nil
}

// compareMids is how many posts are read at a time.
const compareMids = 1000

// compare compares the values of sorted items with the target's, counter by counter.
func (im *importer) compare(conn *wire.Conn, items []ordered, v *Verified) error {
	for at, first := range im.Sink.Columns {
		counter := first.Counter
		var columns []int // of this counter
		for i, c := range im.Sink.Columns {
			if c.Counter == counter {
				columns = append(columns, i)
			}
		}
		if columns[0] != at {
			continue // was compared
		}
		var own []ordered
		var mids []uint64
		ask := func() error {
			if len(mids) == 0 {
				return nil
			}
			err := im.compareRows(conn, columns, mids, own, v)
			own, mids = own[:0], mids[:0]
			return err
		}
		for _, i := range items {
			if im.Sink.Columns[i.Column].Counter != counter {
				continue
			}
			if len(mids) == 0 || mids[len(mids)-1] != i.Mid {
				if len(mids) == compareMids {
					if err := ask(); err != nil {
						return err
					}
				}
				mids = append(mids, i.Mid)
			}
			own = append(own, i)
		}
		if err := ask(); err != nil {
			return err
		}
	}
	return nil
}

// compareRows reads columns of posts of one counter and compares items with them.
func (im *importer) compareRows(conn *wire.Conn, columns []int, mids []uint64, items []ordered, v *Verified) error {
	counter := im.Sink.Columns[columns[0]].Counter
	out := wire.AppendArray(nil, 3+len(mids)+len(columns))
	out = wire.AppendArg(out, "COUNTER.MGET")
	out = wire.AppendArg(out, counter.Name)
	for _, mid := range mids {
		out = wire.AppendUint(out, mid)
	}
	out = wire.AppendArg(out, "COLUMNS")
	for _, c := range columns {
		out = wire.AppendArg(out, counter.Columns[im.Sink.Columns[c].Index].Name)
	}
	_ = conn.SetDeadline(time.Now().Add(answerTimeout))
	if err := conn.Send(out); err != nil {
		return err
	}
	if n, ok, err := conn.ReadArray(); err != nil {
		return err
	} else if !ok || n != len(mids) {
		return fmt.Errorf("COUNTER.MGET: %w: %d rows, want %d", wire.ErrProtocol, n, len(mids))
	}
	row := make([]int64, len(im.Sink.Columns))
	for _, mid := range mids {
		n, there, err := conn.ReadArray()
		if err != nil {
			return err
		} else if there && n != len(columns) {
			return fmt.Errorf("COUNTER.MGET: %w: %d columns, want %d", wire.ErrProtocol, n, len(columns))
		}
		for _, c := range columns[:n] {
			if row[c], _, err = conn.ReadNumber(); err != nil {
				return err
			}
		}
		for ; len(items) > 0 && items[0].Mid == mid; items = items[1:] {
			i := items[0]
			v.Compared++
			if there && row[i.Column] == i.Value {
				continue
			}
			if v.Different++; len(v.Notes) < notesMax {
				has := "absent"
				if there {
					has = strconv.FormatInt(row[i.Column], 10)
				}
				v.Notes = append(v.Notes, fmt.Sprintf("%s of %d is %s, the source has %d", im.Sink.Columns[i.Column].Name(), mid, has, i.Value))
			}
		}
	}
	return nil
}

// String says it in one line.
func (v Verified) String() string {
	switch {
	case v.By == VerifyNone:
		return "not verified"
	case v.OK && v.By == VerifySums:
		return "verified: number and sum of each column's values are those that were read"
	case v.OK:
		return fmt.Sprintf("verified: all %d values are the source's", v.Compared)
	}
	return "NOT verified: " + strings.Join(v.Notes, "; ")
}
