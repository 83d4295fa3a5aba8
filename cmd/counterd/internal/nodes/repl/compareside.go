package repl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/counterd/counterd/counter"
)

// compareSide is the replica's side of a connection that compares (compare.go). The goroutine that applies the stream
// copies a range when it is told to, which takes 0.1 ms, and mends posts. Another makes the digests, at its own pace.
type compareSide struct {
	s      *session
	ctx    context.Context
	stop   context.CancelFunc
	ready  chan question  // copied; of 1
	theirs chan digestsOf // of the primary; of 1
	free   chan struct{}  // of 1: full while copier may be used by the goroutine of the stream
	done   chan struct{}  // closed when the other goroutine has ended; nil: it was not started
	copier *counter.RangeCopier
	store  *counter.Store // of copier
}

type digestsOf struct {
	id   uint64
	sums []counter.Digest
}

func newCompareSide(s *session) *compareSide {
	c := &compareSide{s: s, ready: make(chan question, 1), theirs: make(chan digestsOf, 1), free: make(chan struct{}, 1)}
	c.ctx, c.stop = context.WithCancel(s.ctx)
	c.free <- struct{}{}
	return c
}

// close ends the other goroutine.
func (c *compareSide) close() {
	if c.stop(); c.done != nil {
		<-c.done
	}
}

// handle takes a message of the stream. The error is one of the connection.
func (c *compareSide) handle(m *message) error {
	switch m.kind {
	case msgQuestion:
		q, _, err := parseQuestion(m.text)
		if err != nil {
			return err
		}
		return c.question(q)
	case msgDigests:
		id, sums, err := parseDigests(m.text)
		if err != nil {
			return err
		}
		select { // those of a question before may still be there
		case <-c.theirs:
		default:
		}
		c.theirs <- digestsOf{id, sums}
		return nil
	}
	q, rows, err := parseRows(m.text)
	if err != nil {
		return err
	}
	return c.mend(q, rows)
}

// answer tells the primary.
func (c *compareSide) answer(q *question, words ...string) error {
	return c.s.tell(append([]string{"REPLCONF", "compare", strconv.FormatUint(q.id, 10)}, words...)...)
}

// question copies a range.
func (c *compareSide) question(q question) error {
	if c.s.node.settings().CompareBudget <= 0 {
		return c.answer(&q, saysOff)
	}
	select {
	case <-c.free:
	default: // at work on another, which the primary does not wait for any more
		return c.answer(&q, saysElsewhere)
	}
	if store := c.s.node.host.Store(); c.copier == nil || c.store != store {
		c.copier, c.store = counter.NewRangeCopier(store), store
	}
	if err := c.copier.CopyAt(q.r, q.at); err != nil {
		c.free <- struct{}{}
		return c.answer(&q, answerTo(err))
	}
	if c.done == nil {
		c.done = make(chan struct{})
		go c.run()
	}
	c.ready <- q
	return nil
}

// run makes digests and compares them.
func (c *compareSide) run() {
	defer close(c.done)
	b := budget{ctx: c.ctx, share: c.s.node.compareShare}
	for {
		select {
		case q := <-c.ready:
			b.start()
			mine, err := c.copier.Digests(compareParts, b.rest)
			b.stop()
			b.settle(0)
			c.free <- struct{}{}
			words := []string{answerTo(err)}
			if err == nil {
				words = c.compare(&q, mine)
			}
			if c.ctx.Err() != nil || c.answer(&q, words...) != nil {
				return
			}
		case <-c.ctx.Done():
			return
		}
	}
}

// compare waits for the primary's digests, and returns the answer.
func (c *compareSide) compare(q *question, mine []counter.Digest) []string {
	for {
		select {
		case d := <-c.theirs:
			switch {
			case d.id < q.id:
				continue
			case d.id > q.id: // the primary does not wait for this one any more
				select {
				case c.theirs <- d:
				default: // a newer one came
				}
				return []string{saysElsewhere}
			case len(d.sums) != len(mine):
				return []string{saysElsewhere}
			}
			differs, posts := -1, uint64(0)
			for i := range mine {
				posts += mine[i].Items
				if mine[i] != d.sums[i] && differs < 0 {
					differs = i
				}
			}
			c.s.node.compared.change(func(i *CompareInfo) { i.Ranges, i.Posts = i.Ranges+1, i.Posts+posts })
			if differs < 0 {
				return []string{saysSame}
			}
			// The others are found when this part is mended.
			lo, hi := counter.DigestPart(q.r.Lo, q.r.Hi, compareParts, differs)
			return []string{saysDiffers, strconv.FormatUint(lo, 10), strconv.FormatUint(hi, 10)}
		case <-c.ctx.Done():
			return []string{saysElsewhere}
		}
	}
}

// mend gives a range the posts of the primary.
func (c *compareSide) mend(q question, rows []counter.PostRow) error {
	were, err := counter.MendRange(c.s.node.host.Store(), q.r, q.at, rows)
	switch {
	case errors.Is(err, counter.ErrElsewhere):
		return c.answer(&q, saysElsewhere)
	case err != nil && len(were) == 0:
		c.s.node.logger.Error("a difference from the primary cannot be mended", "counter", c.s.node.counterName(q.r), "lo", q.r.Lo, "hi", q.r.Hi, "error", err)
		return c.answer(&q, answerTo(err))
	}
	if len(were) > 0 {
		what := fmt.Sprintf("counter=%s,%s", c.s.node.counterName(q.r), describe(were, rows))
		c.s.node.compared.change(func(i *CompareInfo) {
			i.Differences += uint64(len(were))
			if i.Last, i.LastAt = what, time.Now(); err == nil {
				i.Mended += uint64(len(were))
			}
		})
		c.s.node.logger.Error("posts differed from the primary's; they have the primary's values now", "primary", c.s.primary.String(),
			"items", len(were), "offset", q.at, "lo", q.r.Lo, "hi", q.r.Hi, "difference", what, "error", err)
	}
	return c.answer(&q, saysMended, strconv.Itoa(len(were)))
}

// describe tells of the first post that differed: its values here, and what they are now.
func describe(were, rows []counter.PostRow) string {
	values := func(v []uint64) string {
		if v == nil {
			return "absent"
		}
		return fmt.Sprint(v)
	}
	first := were[0]
	var want []uint64
	for _, row := range rows {
		if row.Mid == first.Mid {
			want = row.Values
		}
	}
	return fmt.Sprintf("mid=%d,here=%s,right=%s", first.Mid, values(first.Values), values(want))
}
