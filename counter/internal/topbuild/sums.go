package topbuild

import (
	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/counter/internal/toplist"
	"github.com/counterd/counterd/schema"
)

// sums looks for the posts with the largest sums of a window, whose space is def. The sum of a post is that of the moment when it is met: time makes it
// smaller, so a post that is among the best of the list in the end was met as one of the best.
type sums struct {
	*query.Find
	def   *schema.Counter
	k     int
	found []toplist.Entry
}

// Step is query.Find.Step.
func (s *sums) Step(b query.View) (done bool, err error) {
	if done, err = s.Find.Step(b); err != nil {
		return false, err
	}
	for i := range s.Rows().Len() {
		mid, row := s.Rows().At(i)
		if sum := s.def.WindowSum(row, b.Time()); sum > 0 {
			s.found = append(s.found, toplist.Entry{Value: sum, Mid: mid})
		}
		if len(s.found) == 4*s.k {
			s.found = toplist.Best(s.found, s.k)
		}
	}
	return done, nil
}

func (s *sums) best() []toplist.Entry { return toplist.Best(s.found, s.k) }
