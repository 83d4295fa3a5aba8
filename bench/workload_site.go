package bench

// siteWorkload is what the users of a site ask for: pages of posts, now and then an increment of a post on the page just read,
// and a new post.
//
// New posts are dealt out: client c of n adds the posts first+c, first+c+n, ..., one every so many operations. As all clients
// come about as far, a client's own latest post but one tells it which posts are there, and what is young.
type siteWorkload struct {
	workload
	picker *Picker // nil: pages of old posts, all alike
	incr   float64 // part of the operations that are increments
	every  int     // operations of a client between two new posts; 0: there are none
}

// oldPart is the part of the posts that counts as old, for pages of old posts.
const oldPart = 0.9

func (w *siteWorkload) Stream(client, clients int) Stream {
	return &siteStream{w: w, random: newRNG(w.seed, uint64(client)), page: make([]int, w.Page),
		known: w.first, next: w.first + client, step: clients}
}

type siteStream struct {
	w      *siteWorkload
	random rng
	page   []int
	known  int // posts that are there, about
	next   int // the post this client adds next
	step   int
	count  int // operations since the last new post
}

func (s *siteStream) Next(op *Op) bool {
	if s.count++; s.count == s.w.every {
		op.Kind, op.Post = OpRow, s.next
		s.known = max(s.w.first, s.next-s.step+1)
		s.next += s.step
		s.count = 0
		return true
	}
	if s.random.float() < s.w.incr {
		op.Kind, op.Post = OpIncr, s.own(s.pick())
		op.Col = int(s.random.below(uint64(s.w.Data.Columns)))
		return true
	}
	op.Kind, op.Page = OpPage, s.page
	for i := range s.page {
		s.page[i] = s.pick()
	}
	return true
}

// own returns a post near i that this client may add to: one that was there before, or that it added itself. Another
// client's post may not be there yet, and would be set to zero after the increment.
func (s *siteStream) own(i int) int {
	if i < s.w.first {
		return i
	}
	i = s.next - s.step*((s.next-i+s.step-1)/s.step)
	if i == s.next {
		i -= s.step
	}
	if i < s.w.first {
		return s.w.first - 1
	}
	return i
}

func (s *siteStream) pick() int {
	if s.w.picker == nil {
		return int(s.random.below(uint64(float64(s.w.Data.Loaded)*oldPart) + 1))
	}
	return s.w.picker.pick(&s.random, s.known)
}
