package main

import "time"

// plan decides which step runs next. INVARIANT: spent has the time of all rounds that ended, and running the expected time of those
// under way, so that two rounds at once are not of the same step only because neither has ended.
type plan struct {
	steps   []Step
	spent   map[string]time.Duration
	longest map[string]time.Duration // of the rounds that ended
	running map[string]time.Duration
}

func newPlan(steps []Step, rounds []Round) *plan {
	p := &plan{steps: steps, spent: map[string]time.Duration{}, longest: map[string]time.Duration{}, running: map[string]time.Duration{}}
	for _, r := range rounds {
		p.ended(r)
	}
	return p
}

// expected is how long a round of a step will take.
func (p *plan) expected(s Step) time.Duration {
	if d := p.longest[s.Name]; d > 0 {
		return d
	}
	return s.Round
}

// next returns the step that has used the smallest part of its share, of those whose round ends within left. Of several that have used
// nothing, fuzzing comes last and before it the shortest first: a busy machine has a round of most steps, where a long one and the
// coverage of fuzzing, for which all packages are compiled again, would take all of the time. ok is false if there is none.
func (p *plan) next(left time.Duration) (best Step, ok bool) {
	var least float64
	for _, s := range p.steps {
		used := float64(p.spent[s.Name]+p.running[s.Name]) / s.Share
		if s.Once && used > 0 {
			continue
		}
		if p.expected(s) <= left && (!ok || used < least || used == 0 && least == 0 && p.sooner(s, best)) {
			best, least, ok = s, used, true
		}
	}
	if ok {
		p.running[best.Name] += p.expected(best)
	}
	return best, ok
}

// sooner tells whether the first round of a step comes before that of another one.
func (p *plan) sooner(a, b Step) bool {
	if a.Fuzz != b.Fuzz {
		return b.Fuzz
	}
	return p.expected(a) < p.expected(b)
}

func (p *plan) ended(r Round) {
	p.spent[r.Step] += r.Took
	p.longest[r.Step] = max(p.longest[r.Step], r.Took)
}

// finish takes a round from those under way.
func (p *plan) finish(s Step, expected time.Duration, r Round) {
	p.running[s.Name] -= expected
	p.ended(r)
}
