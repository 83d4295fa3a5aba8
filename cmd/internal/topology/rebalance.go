package topology

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/counterd/counterd/internal/slot"
)

// Weights are the costs of groups. Nil loads are bytes.
type Weights struct {
	Bytes [slot.Groups]float64 // that a move sends
	Loads *[slot.Groups]float64
}

func (w *Weights) load(g int) float64 {
	if w.Loads != nil {
		return w.Loads[g]
	}
	return w.Bytes[g]
}

// Transfer is groups that one shard is to give another.
type Transfer struct {
	Groups   slot.Set
	From, To ShardID
	Bytes    float64
}

// Balance is how a plan leaves the shards.
type Balance struct {
	Before, After map[ShardID]float64 // load
}

// Spread is the highest load over the mean of those that stay, and the lowest over it; 1 and 1 where all are equal.
func Spread(loads map[ShardID]float64, without map[ShardID]bool) (most, least float64) {
	sum, n := 0.0, 0
	most, least = 0, math.Inf(1)
	for id, load := range loads {
		if !without[id] {
			sum, n, most, least = sum+load, n+1, max(most, load), min(least, load)
		}
	}
	if sum == 0 || n == 0 {
		return 1, 1
	}
	return most / (sum / float64(n)), least / (sum / float64(n))
}

// PlanMoves plans moves after which the shards' loads differ from their mean by the part tolerance at most, or by as
// little as whole groups allow, and none is left on those of without. Few bytes move: a group goes once at most, from a
// shard above the mean to one below it, and of groups that do as well the lightest. A moving group counts at its
// destination, and its move stays.
func PlanMoves(m *Map, w *Weights, without map[ShardID]bool, tolerance float64) ([]Transfer, Balance) {
	p := planner{w: w, without: without, load: map[ShardID]float64{}, groups: map[ShardID][]int{}, to: map[int]ShardID{}, from: map[int]ShardID{}}
	moving := map[int]ShardID{}
	for _, v := range m.Moves {
		if v.State == MoveCopying {
			for _, g := range v.Groups.List() {
				moving[g] = v.To
			}
		}
	}
	for _, s := range m.Shards {
		p.load[s.ID] += 0
	}
	total := 0.0
	for g, owner := range m.owner {
		if owner == nil {
			continue
		}
		total += w.load(g)
		if to, ok := moving[g]; ok {
			p.load[to] += w.load(g)
			continue
		}
		p.load[owner.ID] += w.load(g)
		p.groups[owner.ID] = append(p.groups[owner.ID], g)
		p.from[g] = owner.ID
	}
	stay := 0
	for id := range p.load {
		if !without[id] {
			stay++
		}
	}
	balance := Balance{Before: maps.Clone(p.load), After: p.load}
	if stay == 0 {
		return nil, balance
	}
	p.mean = total / float64(stay)
	for p.step(tolerance) {
	}
	p.joinRanges()
	return p.transfers(), balance
}

type planner struct {
	w       *Weights
	without map[ShardID]bool
	mean    float64
	load    map[ShardID]float64
	groups  map[ShardID][]int // that have not been moved yet
	from    map[int]ShardID
	to      map[int]ShardID // the plan
}

// step moves a group; false: there is none whose move makes it better.
func (p *planner) step(tolerance float64) bool {
	ids := slices.Sorted(maps.Keys(p.load))
	var low ShardID // the least loaded of those that stay
	for _, id := range ids {
		if !p.without[id] && (low == 0 || p.load[id] < p.load[low]) {
			low = id
		}
	}
	// Those that go give first, the largest groups first, as a large one finds room now; then those above the mean.
	for _, id := range ids {
		if p.without[id] && len(p.groups[id]) > 0 {
			g := slices.MaxFunc(p.groups[id], func(a, b int) int { return cmp.Compare(p.w.load(a), p.w.load(b)) })
			p.move(g, id, low)
			return true
		}
	}
	donors := slices.DeleteFunc(ids, func(id ShardID) bool { return p.without[id] || p.load[id] <= p.mean })
	slices.SortStableFunc(donors, func(a, b ShardID) int { return cmp.Compare(p.load[b], p.load[a]) })
	for _, high := range donors {
		gap := p.load[high] - p.load[low]
		if p.load[high]-p.mean <= tolerance*p.mean && p.mean-p.load[low] <= tolerance*p.mean || gap <= 0 {
			continue
		}
		// The wanted amount leaves neither shard with too much; any amount that makes the two differ less helps too.
		want := min(p.load[high]-p.mean, p.mean-p.load[low])
		best, cost := -1, math.Inf(1)
		for _, g := range p.groups[high] {
			l := p.w.load(g)
			if l <= 0 || l >= gap*(1-1e-9) {
				continue
			}
			// Bytes for each part of load that gets better; a group above the wanted amount improves less than it weighs.
			gain := l
			if l > want {
				gain = max(2*want-l, (gap-l)*1e-3)
			}
			if c := (p.w.Bytes[g] + 1e-9) / gain; c < cost {
				best, cost = g, c
			}
		}
		if best >= 0 {
			p.move(best, high, low)
			return true
		}
	}
	return false
}

func (p *planner) move(g int, from, to ShardID) {
	p.groups[from] = slices.DeleteFunc(p.groups[from], func(other int) bool { return other == g })
	p.load[from] -= p.w.load(g)
	p.load[to] += p.w.load(g)
	p.to[g] = to
}

// joinRanges has groups that weigh the same and leave one shard go in neighbouring ranges, as many to each as before:
// clients get one line for each range of slots.
func (p *planner) joinRanges() {
	type kind struct {
		from        ShardID
		load, bytes float64
	}
	groups := map[kind][]int{}
	for _, g := range slices.Sorted(maps.Keys(p.to)) {
		k := kind{p.from[g], p.w.load(g), p.w.Bytes[g]}
		groups[k] = append(groups[k], g)
	}
	for _, list := range groups {
		var to []ShardID
		for _, g := range list {
			to = append(to, p.to[g])
		}
		slices.Sort(to)
		for i, g := range list {
			p.to[g] = to[i]
		}
	}
}

// transfers are the plan by pairs of shards, those with most bytes first.
func (p *planner) transfers() []Transfer {
	type pair struct{ from, to ShardID }
	by := map[pair]*Transfer{}
	for g, to := range p.to {
		k := pair{p.from[g], to}
		if by[k] == nil {
			by[k] = &Transfer{From: k.from, To: k.to}
		}
		by[k].Groups.Add(uint8(g))
		by[k].Bytes += p.w.Bytes[g]
	}
	var list []Transfer
	for _, t := range by {
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b Transfer) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return list
}
