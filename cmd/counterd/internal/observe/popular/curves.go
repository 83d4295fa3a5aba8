package popular

import (
	"sync"
	"time"
)

const (
	// CurveStep is the time between two points of a curve, and CurvePoints how many a curve has: the last five minutes.
	CurveStep   = 10 * time.Second
	CurvePoints = 30
	// curvePosts is how many of the busiest posts a point knows. All points take 30 KB.
	curvePosts = 32
)

// curves are the rates of the busiest posts at the last moments. The zero value has none.
type curves struct {
	mu    sync.Mutex
	last  time.Time
	marks []map[Post]float64 // oldest first, CurvePoints at most: reads and writes a second together
}

// Mark remembers the busiest posts of now for curves, if the last time is CurveStep ago. It is called each second.
func (p *Posts) Mark(now time.Time) {
	c := &p.curves
	c.mu.Lock()
	defer c.mu.Unlock()
	if past := now.Sub(c.last); past >= 0 && past < CurveStep-CurveStep/20 { // a ticker's moments come some milliseconds early
		return
	}
	c.last = now
	m := make(map[Post]float64, curvePosts)
	for _, r := range p.Busiest(now, curvePosts) {
		m[r.Post] = r.Reads + r.Writes
	}
	if len(c.marks) == CurvePoints {
		c.marks = c.marks[:copy(c.marks, c.marks[1:])]
	}
	c.marks = append(c.marks, m)
}

// Curve is how many reads and writes a second a post had at the last moments, oldest first. It is 0 where the post was none of the busiest.
func (p *Posts) Curve(post Post) []float64 {
	c := &p.curves
	c.mu.Lock()
	defer c.mu.Unlock()
	curve := make([]float64, len(c.marks))
	for i, m := range c.marks {
		curve[i] = m[post]
	}
	return curve
}

func (c *curves) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.marks = time.Time{}, nil
}
