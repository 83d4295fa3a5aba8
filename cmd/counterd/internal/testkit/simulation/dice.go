package simulation

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Dice is a source of random numbers for several goroutines. Each part of a run has dice of its own, which depend on the seed
// and on the part's name alone: what one part draws does not change what another draws.
type Dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

// NewDice returns the dice of a part of the run of a seed.
func NewDice(seed uint64, part string) *Dice {
	h := uint64(14695981039346656037)
	for i := range len(part) {
		h = (h ^ uint64(part[i])) * 1099511628211
	}
	return &Dice{rng: rand.New(rand.NewPCG(seed, h))}
}

// N returns a number below n, which is positive.
func (d *Dice) N(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// Bits returns 64 random bits.
func (d *Dice) Bits() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Uint64()
}

// Chance is true in so many of a thousand cases.
func (d *Dice) Chance(perMille int) bool { return d.N(1000) < perMille }

// Between returns a time from least up to most.
func (d *Dice) Between(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(d.N(int(most-least)))
}

// Pick returns one element.
func Pick[T any](d *Dice, list []T) T { return list[d.N(len(list))] }

// Shuffle returns the numbers below n in random order.
func (d *Dice) Shuffle(n int) []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Perm(n)
}
