package bench

import (
	"context"
	"fmt"

	"github.com/counterd/counterd/bench/report"
	"github.com/counterd/counterd/internal/wire"
)

const (
	verifyPage     = 64      // posts of a page
	verifyPipeline = 16      // pages in flight
	verifyPass     = 1 << 24 // posts of which the sums are in memory at once: 220 MB with three columns
	verifyExamples = 5
)

// verify reads every counter of every post and compares it with what was sent. What that was is not remembered but
// drawn again: each client's stream, as far as the client came, less what was refused.
func (s *side) verify(ctx context.Context, columns int) (*report.Verified, error) {
	// The connection for questions may have been closed since, as idle.
	conn, err := s.target.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// Phases by the posts they are on: generated ones, or those of the trace.
	var generated, traced []played
	tracedPosts := 0
	for _, past := range s.history {
		if replay, ok := past.workload.(*replayWorkload); ok {
			traced, tracedPosts = append(traced, past), replay.Posts().Len()
		} else {
			generated = append(generated, past)
		}
	}
	found := &report.Verified{}
	check := func(history []played, posts int) error {
		for from := 0; from < posts; from += verifyPass {
			e := newExpectation(history, columns, from, min(from+verifyPass, posts))
			if err := e.check(ctx, conn, s.model, found); err != nil {
				return err
			}
		}
		return nil
	}
	if err := check(generated, s.newest+1); err != nil {
		return nil, err
	}
	return found, check(traced, tracedPosts)
}

// expectation is what the counters of some posts should be.
type expectation struct {
	workload Workload // one of those on these posts, for their mids and rows
	columns  int
	from, to int      // the posts
	added    []uint32 // increments, by post and column
	set      []bool   // by post: it was set to what the workload fills it with
}

// newExpectation adds up what the phases sent to the posts of the range. All phases are on the same posts.
func newExpectation(history []played, columns, from, to int) *expectation {
	e := &expectation{workload: history[0].workload, columns: columns, from: from, to: to,
		added: make([]uint32, (to-from)*columns), set: make([]bool, to-from)}
	for _, past := range history {
		e.play(past)
	}
	return e
}

// play adds what a phase sent.
func (e *expectation) play(past played) {
	if load, ok := past.workload.(*loadWorkload); ok {
		for i := e.from; i < min(e.to, load.Data.Loaded); i++ { // which client sent which is not known, but all were sent
			e.set[i-e.from] = true
		}
		return
	}
	var op Op
	for client, ops := range past.ops {
		stream := past.workload.Stream(client, len(past.ops))
		for range ops {
			stream.Next(&op)
			switch {
			case op.Kind == OpRow && e.has(op.Post):
				e.set[op.Post-e.from] = true
			case op.Kind == OpIncr && e.has(op.Post):
				e.added[e.cell(op.Post, op.Col)]++
			}
		}
	}
	for at, n := range past.refused {
		if e.has(at.post) {
			e.added[e.cell(at.post, at.col)] -= uint32(n)
		}
	}
}

func (e *expectation) has(post int) bool      { return e.from <= post && post < e.to }
func (e *expectation) cell(post, col int) int { return (post-e.from)*e.columns + col }

// check compares the posts with the server's, and adds to found.
func (e *expectation) check(ctx context.Context, conn *wire.Conn, model Model, found *report.Verified) error {
	mids := make([]uint64, 0, verifyPage)
	page := make([]int64, 0, verifyPage*e.columns)
	for from := e.from; from < e.to; from += verifyPage * verifyPipeline {
		if err := ctx.Err(); err != nil {
			return err
		}
		to := min(from+verifyPage*verifyPipeline, e.to)
		for at := from; at < to; at += verifyPage {
			mids = mids[:0]
			for i := at; i < min(at+verifyPage, to); i++ {
				mids = append(mids, e.workload.Posts().MID(i))
			}
			conn.Out = model.AppendPage(conn.Out, mids)
		}
		if err := conn.Flush(); err != nil {
			return err
		}
		for at := from; at < to; at += verifyPage {
			var err error
			if page, err = model.ReadPage(&conn.Reader, page[:0], min(at+verifyPage, to)-at); err != nil {
				return err
			}
			e.compare(at, page, found)
		}
	}
	return nil
}

// compare compares the posts from index at on with a page of what the server has.
func (e *expectation) compare(at int, page []int64, found *report.Verified) {
	row := make([]uint64, e.columns)
	for i := range len(page) / e.columns {
		post := at + i
		set := e.set[post-e.from]
		clear(row)
		if set {
			e.workload.Fill(post, row)
		}
		found.Posts++
		for col, got := range page[i*e.columns : (i+1)*e.columns] {
			want := int64(row[col]) + int64(e.added[e.cell(post, col)])
			found.Counters++
			if got == want || (got == Absent && want == 0 && !set) {
				continue
			}
			found.Wrong++
			if len(found.Examples) < verifyExamples {
				found.Examples = append(found.Examples, fmt.Sprintf("post %d column %d: %s, want %d",
					e.workload.Posts().MID(post), col+1, counterText(got), want))
			}
		}
	}
}

func counterText(v int64) string {
	if v == Absent {
		return "absent"
	}
	return fmt.Sprint(v)
}
