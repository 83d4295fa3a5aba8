// Package popular knows which posts are read and written most, from samples of the operations on them.
//
// One operation in Every, at distances that vary, is taken. Of the posts that come up, a sketch for reads and one for
// writes count those that come most: Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and
// Top-k Elements in Data Streams, ICDT 2005) with 1,024 posts each. A post that is none of them takes the place of the
// least, and its count as the error of its own; so each post with 1 in 1,024 operations is among them. Counts fade, by
// half in 42 seconds (forward decay: Cormode, Shkapenyuk, Srivastava, Xu, ICDE 2009): the results are rates of the last
// minute or two.
//
// # Bounds
//
// Two things make a rate inexact. The sketch may have counted operations of other posts: at most the error of the post's entry. And a sample
// is a sample: of n operations about n/Every are taken, give or take the square root of that. Bounds.Least leaves the error
// out and Bounds.Most counts it; both are ends of a score interval for a Poisson count, in which each sample has the mean weight of
// the samples that fade, but at least that of a steady rate, which is a half. So a rate that was steady for two minutes
// is between the two in 95 of 100 cases, each post and direction for itself. A post without a sample may have had some 30 operations a second.
// Of a rate that rises or falls, the bounds are those of its mean, with the weights of the window.
package popular

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// Every is how many operations there are to a sample, on average. 128 cost GET and INCR 64 deep 1.5 %, this a quarter
	// of that; 10,000 operations a second are still 1,200 samples a minute.
	Every = 512

	places = 1024
	fade   = 60 * time.Second // after which a count is 1/e
	steep  = 40               // times fade: then counts are made small again, before they leave a float's range
)

// Post is one of a counter.
type Post struct {
	Counter uint32 // its id
	Mid     uint64
}

// Rate is the rate of a post in operations a second, and the bounds of it: see "Bounds".
type Rate struct {
	Post
	Reads, Writes           float64
	ReadBounds, WriteBounds Bounds
}

// Bounds are the ends of an interval.
type Bounds struct{ Least, Most float64 }

// Posts is the sample. It may be used by several goroutines at once.
type Posts struct {
	curves        curves
	mu            sync.Mutex // guards the rest; a leaf
	began         time.Time
	landmark      time.Time // counts are worth 1 that were made here
	reads, writes sketch
}

// New returns an empty sample.
func New(now time.Time) *Posts {
	return &Posts{began: now, landmark: now, reads: newSketch(), writes: newSketch()}
}

// Forget begins anew: counters have other ids in other data.
func (p *Posts) Forget(now time.Time) {
	p.curves.forget()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began, p.landmark, p.reads, p.writes = now, now, newSketch(), newSketch()
}

// Sample counts an operation.
func (p *Posts) Sample(now time.Time, post Post, write bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.landmark) > steep*fade {
		factor := 1 / p.weight(now)
		p.reads.scale(factor)
		p.writes.scale(factor)
		p.landmark = now
	}
	if write {
		p.writes.add(post, p.weight(now))
	} else {
		p.reads.add(post, p.weight(now))
	}
}

// weight is the weight of one sample now. REQUIRES mu.
func (p *Posts) weight(now time.Time) float64 {
	return math.Exp(now.Sub(p.landmark).Seconds() / fade.Seconds())
}

// Top returns up to n posts of a counter, the most written first, or the most read.
func (p *Posts) Top(now time.Time, counter uint32, n int, byWrites bool) []Rate {
	key := func(r Rate) float64 { return r.Reads }
	if byWrites {
		key = func(r Rate) float64 { return r.Writes }
	}
	return p.top(now, n, func(post Post) bool { return post.Counter == counter }, key)
}

// Busiest returns up to n posts of all counters, those with most reads and writes together first.
func (p *Posts) Busiest(now time.Time, n int) []Rate {
	return p.top(now, n, func(Post) bool { return true }, func(r Rate) float64 { return r.Reads + r.Writes })
}

// Window is over how many seconds rates are means, of weights that fade.
func (p *Posts) Window(now time.Time) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.window(now)
}

// window is Window. Of a steady rate r, samples that fade sum up to r*fade, less the part from before the beginning.
func (p *Posts) window(now time.Time) float64 {
	return fade.Seconds() * (1 - math.Exp(-max(now.Sub(p.began), time.Second).Seconds()/fade.Seconds()))
}

// top returns up to n of the posts that are wanted, those with the highest key first.
func (p *Posts) top(now time.Time, n int, wanted func(Post) bool, key func(Rate) float64) []Rate {
	p.mu.Lock()
	defer p.mu.Unlock()
	weight := p.weight(now)
	rates := make(map[Post]Rate)
	for _, s := range []*sketch{&p.reads, &p.writes} {
		for _, e := range s.list {
			if wanted(e.post) {
				rates[e.post] = Rate{Post: e.post}
			}
		}
	}
	unit := Every / p.window(now)
	for post, r := range rates {
		r.Reads, r.ReadBounds = p.reads.rate(post, weight, unit)
		r.Writes, r.WriteBounds = p.writes.rate(post, weight, unit)
		rates[post] = r
	}
	list := make([]Rate, 0, len(rates))
	for _, r := range rates {
		if key(r) > 0 {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Rate) int {
		return cmp.Or(cmp.Compare(key(b), key(a)), cmp.Compare(a.Counter, b.Counter), cmp.Compare(a.Mid, b.Mid))
	})
	return list[:min(n, len(list))]
}

// sketch is Space-Saving: a heap with the smallest count on top.
type sketch struct {
	list []*entry
	by   map[Post]*entry
}

// entry counts a post. Its true count is in [count-wrong, count].
type entry struct {
	post         Post
	count, wrong float64
	squares      float64 // the sum of the squares of the weights in count
	at           int     // in the list
}

func newSketch() sketch { return sketch{by: make(map[Post]*entry)} }

func (s *sketch) add(post Post, weight float64) {
	e := s.by[post]
	switch {
	case e != nil:
		e.count += weight
		e.squares += weight * weight
		heap.Fix(s, e.at)
	case len(s.list) < places:
		e = &entry{post: post, count: weight, squares: weight * weight}
		s.by[post] = e
		heap.Push(s, e)
	default:
		e = s.list[0]
		delete(s.by, e.post)
		e.post, e.wrong = post, e.count
		e.count += weight
		e.squares += weight * weight
		s.by[post] = e
		heap.Fix(s, 0)
	}
}

func (s *sketch) scale(factor float64) {
	for _, e := range s.list {
		e.count *= factor
		e.wrong *= factor
		e.squares *= factor * factor
	}
}

// rate is the rate of a post and its bounds. weight is that of a sample now, and unit the rate that such a sample stands for.
func (s *sketch) rate(post Post, weight, unit float64) (float64, Bounds) {
	e := s.by[post]
	if e == nil {
		e = &entry{}
		if len(s.list) == places { // it may have had a place, and lost it
			least := s.list[0]
			e.count, e.wrong, e.squares = least.count, least.count, least.squares
		}
	}
	share := 1.0 // of a sample's weight now that the samples have on average
	if e.count > 0 {
		share = max(0.5, e.squares/e.count/weight)
	}
	count, own := e.count/weight, (e.count-e.wrong)/weight
	_, most := interval(count, share)
	least, _ := interval(own, share)
	return own * unit, Bounds{least * unit, most * unit}
}

// confidence is how many standard deviations are 95 of 100 cases.
const confidence = 1.96

// interval is the means of which a sum of samples, each of weight w, is not further than confidence standard deviations away.
func interval(sum, w float64) (least, most float64) {
	z := confidence * confidence * w
	middle, half := sum+z/2, math.Sqrt(sum*z+z*z/4)
	return max(0, middle-half), middle + half
}

func (s *sketch) Len() int           { return len(s.list) }
func (s *sketch) Less(i, j int) bool { return s.list[i].count < s.list[j].count }

func (s *sketch) Swap(i, j int) {
	s.list[i], s.list[j] = s.list[j], s.list[i]
	s.list[i].at, s.list[j].at = i, j
}

func (s *sketch) Push(x any) {
	e := x.(*entry)
	e.at = len(s.list)
	s.list = append(s.list, e)
}

func (s *sketch) Pop() any {
	e := s.list[len(s.list)-1]
	s.list = s.list[:len(s.list)-1]
	return e
}
