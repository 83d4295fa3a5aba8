package bench

import "github.com/counterd/counterd/bench/postgen"

// siteWorkload is what the users of a site ask for: pages of posts, now and then an increment of a post on the page
// just read, and a new post.
//
// New posts are dealt out: client c of n adds the posts first+c, first+c+n, ..., one every so many operations. How far
// the others have come a client cannot know, so it reads and increments what was loaded and what it added itself, the
// newest of which are its youngest. So nothing is asked for that is not there, which one server may answer faster than
// a post, and another not.
type siteWorkload struct {
	workload
	picker *postgen.Picker // nil: pages of old posts, all alike
	incr   float64         // part of the operations that are increments
	every  int             // operations of a client between two new posts; 0: there are none
}

// oldPart is the part of the posts that counts as old, for pages of old posts.
const oldPart = 0.9

func (w *siteWorkload) Stream(client, clients int) Stream {
	return &siteStream{w: w, random: postgen.NewRNG(w.seed, uint64(client)), page: make([]int, w.Page), first: w.first + client, step: clients}
}

type siteStream struct {
	w      *siteWorkload
	random postgen.RNG
	page   []int
	first  int // the first post this client adds
	step   int // to its next one
	added  int // posts it has added
	count  int // operations since the last of them
}

func (s *siteStream) Next(op *Op) bool {
	if s.count++; s.count == s.w.every {
		op.Kind, op.Post = OpRow, s.first+s.added*s.step
		s.added++
		s.count = 0
		return true
	}
	if s.random.Float() < s.w.incr {
		op.Kind, op.Post = OpIncr, s.pick()
		op.Col = int(s.random.Below(uint64(s.w.Data.Columns)))
		return true
	}
	op.Kind, op.Page = OpPage, s.page
	for i := range s.page {
		s.page[i] = s.pick()
	}
	return true
}

// pick chooses a post that is there.
func (s *siteStream) pick() int {
	if s.w.picker == nil {
		return int(s.random.Below(uint64(float64(s.w.Data.Loaded)*oldPart) + 1))
	}
	i := s.w.picker.PickFrom(&s.random, s.w.Data.Loaded+s.added)
	if own := i - s.w.Data.Loaded; own >= 0 {
		return s.first + own*s.step
	}
	return i
}
