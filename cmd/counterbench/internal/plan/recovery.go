package plan

import (
	"math"
	"math/rand/v2"
	"time"
)

// Recovery is how the copies that a loss took are made again: free nodes, or the fewest others, take a full copy from
// each shard's primary.
type Recovery struct {
	Copies  int
	Bytes   float64
	Longest time.Duration // until the last copy is complete
	Sources int           // machines that send
	Targets int           // machines that receive
}

// flow is a copy on its way.
type flow struct {
	from, to int // machines
	left     float64
}

// Recover takes machines away and tells how long it takes until every shard has its copies again.
func (p *Plan) Recover(l *layout, lost func(machine int) bool) Recovery {
	rng := rand.New(rand.NewPCG(p.Seed, 3))
	shardBytes := p.dataBytes() / float64(p.Shards())
	var flows []*flow
	receiving := make([]int, l.machines)
	for shard, members := range l.members {
		var alive []int
		racks := map[int]bool{}
		for _, n := range members {
			if !lost(l.nodes[n].machine) {
				alive = append(alive, n)
				racks[l.rack(n)] = true
			}
		}
		if len(alive) == 0 || len(alive) == len(members) {
			continue // gone for good, which Copies in different racks keeps from happening, or untouched
		}
		for range len(members) - len(alive) {
			best, ties := -1, 0
			for m := range l.machines {
				switch {
				case lost(m) || racks[m%l.racks]:
				case best < 0 || receiving[m] < receiving[best]:
					best, ties = m, 1
				case receiving[m] == receiving[best]:
					if ties++; rng.IntN(ties) == 0 {
						best = m
					}
				}
			}
			if best < 0 {
				break
			}
			receiving[best]++
			racks[best%l.racks] = true
			flows = append(flows, &flow{from: l.nodes[alive[shard%len(alive)]].machine, to: best, left: shardBytes})
		}
	}
	r := Recovery{Copies: len(flows), Bytes: shardBytes * float64(len(flows))}
	sources, targets := map[int]bool{}, map[int]bool{}
	for _, f := range flows {
		sources[f.from], targets[f.to] = true, true
	}
	r.Sources, r.Targets = len(sources), len(targets)
	rate := p.CopyShare * min(p.DiskRate, p.NetRate)
	seconds := 0.0
	for len(flows) > 0 {
		rates := maxMin(flows, l.machines, rate)
		step := math.Inf(1)
		for i, f := range flows {
			step = min(step, f.left/rates[i])
		}
		seconds += step
		open := flows[:0]
		for i, f := range flows {
			if f.left -= rates[i] * step; f.left > shardBytes*1e-9 {
				open = append(open, f)
			}
		}
		flows = open
	}
	r.Longest = time.Duration(seconds * float64(time.Second))
	return r
}

// maxMin shares what each machine can send and receive: all flows grow alike until a machine is full, its flows stay,
// and the others go on growing.
func maxMin(flows []*flow, machines int, rate float64) []float64 {
	left := make([]float64, 2*machines) // to send, to receive
	for i := range left {
		left[i] = rate
	}
	rates, open := make([]float64, len(flows)), make([]bool, len(flows))
	users := make([]int, 2*machines)
	for i, f := range flows {
		open[i] = true
		users[f.from]++
		users[machines+f.to]++
	}
	for {
		grow := math.Inf(1)
		for m, n := range users {
			if n > 0 {
				grow = min(grow, left[m]/float64(n))
			}
		}
		if math.IsInf(grow, 1) {
			return rates
		}
		for m, n := range users {
			left[m] -= grow * float64(n)
		}
		for i := range flows {
			if open[i] {
				rates[i] += grow
			}
		}
		for i, f := range flows {
			if open[i] && (left[f.from] < rate*1e-9 || left[machines+f.to] < rate*1e-9) {
				open[i] = false
				users[f.from]--
				users[machines+f.to]--
			}
		}
	}
}
