package block

import (
	"math/bits"

	"github.com/counterd/counterd/internal/slot"
)

// Ownership is which groups clients may touch. The zero value is all of them. Guarded by Store.gate.
type Ownership struct {
	Foreign slot.Set // those they may not
	Some    bool     // there are some
}

// Lacks tells whether a group is not owned.
func (o *Ownership) Lacks(group uint8) bool { return o.Foreign[group>>6]>>(group&63)&1 != 0 }

// Hides tells whether a post is not to be seen. One compare while all groups are owned.
func (o *Ownership) Hides(mid uint64) bool { return o.Some && o.Lacks(slot.Group(mid)) }

// Share is the part of n posts of all groups that is owned.
func (o *Ownership) Share(n int) int {
	if !o.Some {
		return n
	}
	owned := slot.Groups
	for _, set := range o.Foreign {
		owned -= bits.OnesCount64(set)
	}
	return int(uint64(n) * uint64(owned) / slot.Groups)
}
