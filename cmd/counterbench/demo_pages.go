package main

import (
	"cmp"
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/counterd/counterd/bench"
	"github.com/counterd/counterd/bench/postgen"
	"github.com/counterd/counterd/internal/wire"
)

const (
	demoReaders = 4  // connections that read pages, one page at a time each
	smallPage   = 20 // posts of a page, at least
	largePage   = 50 // and at most
	incrEvery   = 20 // pages read for an increment
	topPosts    = 5
)

// demoPosts is the part of its file that the demo keeps in memory.
type demoPosts struct {
	mids []uint64 // increasing
	top  []uint64 // mids of those with the most in the first column
}

// readPosts reads the file again for its ids and its top posts.
func readPosts(plan *loadPlan) (demoPosts, error) {
	type post struct{ mid, first uint64 }
	var posts demoPosts
	var best []post
	r, err := plan.file.reader()
	if err != nil {
		return posts, err
	}
	defer r.Close()
	row := make([]uint64, len(plan.schema.Columns))
	for {
		mid, err := r.Read(row)
		if err == io.EOF {
			break
		}
		if err != nil {
			return posts, err
		}
		posts.mids = append(posts.mids, mid)
		if len(best) < topPosts || row[0] > best[len(best)-1].first {
			best = append(best, post{mid, row[0]})
			slices.SortStableFunc(best, func(a, b post) int { return cmp.Compare(b.first, a.first) })
			best = best[:min(len(best), topPosts)]
		}
	}
	for _, p := range best {
		posts.top = append(posts.top, p.mid)
	}
	slices.Sort(posts.mids)
	return posts, nil
}

// topPost is a post as the server has it.
type topPost struct {
	mid      uint64
	counters []int64
}

// readTop reads the counters of the top posts from the server.
func (p demoPosts) readTop(plan *loadPlan) ([]topPost, error) {
	conn, err := plan.target.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	page, err := readPage(conn, plan.model, p.top, nil)
	if err != nil {
		return nil, err
	}
	var top []topPost
	columns := len(plan.schema.Columns)
	for i, mid := range p.top {
		top = append(top, topPost{mid, page[i*columns : (i+1)*columns]})
	}
	return top, nil
}

func readPage(conn *wire.Conn, model bench.Model, mids []uint64, page []int64) ([]int64, error) {
	conn.Out = model.AppendPage(conn.Out, mids)
	if err := conn.Flush(); err != nil {
		return page, err
	}
	return model.ReadPage(&conn.Reader, page, len(mids))
}

// pageStats is the result of reading pages.
type pageStats struct {
	pages, posts, increments int64
	elapsed                  time.Duration
	latency                  *hdrhistogram.Histogram // of a page, in nanoseconds
}

// readPages reads pages of posts as a site's readers do, and adds to the first counter of one now and then.
func readPages(ctx context.Context, plan *loadPlan, mids []uint64, duration time.Duration) (pageStats, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	picker := postgen.NewPicker(len(mids))
	var all [demoReaders]pageStats
	var group sync.WaitGroup
	start := time.Now()
	for i := range all {
		group.Go(func() {
			var err error
			if all[i], err = readPagesOn(ctx, plan, picker, mids, uint64(i), start.Add(duration)); err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	total := pageStats{elapsed: time.Since(start), latency: newLatency()}
	if ctx.Err() != nil {
		return total, context.Cause(ctx)
	}
	for _, one := range all {
		total.pages += one.pages
		total.posts += one.posts
		total.increments += one.increments
		total.latency.Merge(one.latency)
	}
	return total, nil
}

// readPagesOn reads pages over one connection.
func readPagesOn(ctx context.Context, plan *loadPlan, picker *postgen.Picker, mids []uint64, seed uint64, end time.Time) (pageStats, error) {
	stats := pageStats{latency: newLatency()}
	conn, err := plan.target.Dial()
	if err != nil {
		return stats, err
	}
	defer conn.Close()
	random := rand.New(rand.NewPCG(1, seed))
	var chosen []uint64
	var page []int64
	for began := time.Now(); began.Before(end) && ctx.Err() == nil; began = time.Now() {
		chosen = chosen[:0]
		for range smallPage + random.IntN(largePage-smallPage+1) {
			chosen = append(chosen, mids[picker.Pick(random, len(mids))])
		}
		sent := time.Now()
		if page, err = readPage(conn, plan.model, chosen, page[:0]); err != nil {
			return stats, err
		}
		stats.latency.RecordValue(int64(time.Since(sent)))
		stats.pages++
		stats.posts += int64(len(chosen))
		if stats.pages%incrEvery == 0 {
			conn.Out = plan.model.AppendIncr(conn.Out, chosen[0], 0)
			if err := conn.Flush(); err != nil {
				return stats, err
			}
			if err := plan.model.ReadIncr(&conn.Reader); err != nil {
				return stats, err
			}
			stats.increments++
		}
	}
	return stats, nil
}

// newLatency returns a histogram of 1 us to a minute with three digits.
func newLatency() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(time.Minute), 3)
}
