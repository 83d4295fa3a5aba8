package bench

import "github.com/counterd/counterd/bench/postgen"

// firehoseWorkload adds posts in the order in which a busy service sees them. On a real stream 73 % of the ids are
// below the highest one seen before, mostly by about a tenth of a second, that is some hundred posts, and 0.5 % by over
// 17 minutes.
//
// Client c of n has the posts first+c, first+c+n, ... It sends them in groups of lateGroup, scattered within the group;
// one in veryLate is left out, and sent lateBy posts later.
type firehoseWorkload struct{ workload }

const (
	lateGroup = 16      // a power of two
	veryLate  = 200     // one in that many
	lateBy    = 1 << 16 // posts, of all clients
)

func (w *firehoseWorkload) Stream(client, clients int) Stream {
	return &firehoseStream{seed: w.seed, first: w.first + client, step: clients, delay: 1 + lateBy/lateGroup/clients}
}

type firehoseStream struct {
	seed        uint64
	first, step int
	delay       int // groups after which the very late posts of a group come
	group       int
	slot        int // [0, lateGroup): the group; [lateGroup, 2*lateGroup): the very late ones of group-delay
}

func (s *firehoseStream) Next(op *Op) bool {
	for {
		group, slot, wantLate := s.group, s.slot, false
		if slot >= lateGroup {
			group, slot, wantLate = group-s.delay, slot-lateGroup, true
		}
		if s.slot++; s.slot == 2*lateGroup {
			s.group, s.slot = s.group+1, 0
		}
		if group < 0 {
			continue
		}
		// An odd factor and any offset make a permutation of the group.
		place := (slot*5 + int(postgen.Mix(s.seed+uint64(group))%lateGroup)) % lateGroup
		post := s.first + (group*lateGroup+place)*s.step
		if late := postgen.Mix(s.seed^uint64(post))%veryLate == 0; late == wantLate {
			op.Kind, op.Post = OpRow, post
			return true
		}
	}
}
