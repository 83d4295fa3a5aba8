package counter

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/counter/internal/rangecopy"
)

// Digest is a sum over items that does not depend on how they are stored: see package rangecopy.
type Digest = rangecopy.Digest

// MaxDigestParts bounds Digests: 64 KiB of results.
const MaxDigestParts = 4096

// Digest sums the items of a counter with mids in [lo, hi). The error is ErrNoKey, or ErrCold.
func (r Reader) Digest(counterName string, lo, hi uint64) (Digest, error) {
	parts, err := r.Digests(counterName, lo, hi, 1)
	if err != nil {
		return Digest{}, err
	}
	return parts[0], nil
}

// DigestPart returns the bounds of part i of a range that is cut into equal parts, the last ones shorter or empty. They
// depend on the range only, so that nodes whose blocks have other bounds cut alike.
func DigestPart(lo, hi uint64, parts, i int) (from, to uint64) {
	return rangecopy.Bounds(lo, hi, parts, i)
}

// Digests is Digest of each of 1..MaxDigestParts parts of the range, read in one go. See DigestPart for their bounds.
// REQUIRES lo <= hi <= 2^63, and the batch to be open. An exclusive operation, and then all other operations, wait
// until all is read.
func (r Reader) Digests(counterName string, lo, hi uint64, parts int) ([]Digest, error) {
	sums := digesting{lo: lo, hi: hi, sums: rangecopy.NewSums(lo, hi, parts)}
	for group := range r.s.Parts() {
		for at := lo; at < hi; {
			var err error
			if at, err = sums.block(r.b, counterName, group, at); err != nil {
				return nil, err
			}
		}
	}
	return sums.sums.Parts, nil
}

// Digests is Reader.Digests and Commit, block after block, each of them under its lock and with nobody waiting for more
// than one: while there are changes the sums are of no one moment. The error is ErrClosed too, or an *UncertainError.
func (a Admin) Digests(counterName string, lo, hi uint64, parts int) ([]Digest, error) {
	sums := digesting{lo: lo, hi: hi, sums: rangecopy.NewSums(lo, hi, parts)}
	b := a.s.NewBatch()
	for group := range a.s.data.Parts() {
		for at := lo; at < hi; {
			err := b.Begin()
			if err == nil {
				at, err = sums.block(b, counterName, group, at)
				b.End()
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return sums.sums.Parts, b.Commit()
}

// digesting is one on the way.
type digesting struct {
	lo, hi uint64
	sums   *rangecopy.Sums
	row    []uint64
}

// block adds the items of the block of a group that holds at, from there on, and returns where the next one begins.
func (d *digesting) block(b *Batch, counterName string, group int, at uint64) (next uint64, err error) {
	def := b.Schema().Counter(counterName)
	if def == nil {
		return 0, fmt.Errorf("%w: %q", ErrNoKey, counterName)
	}
	d.sums.Of(def)
	s := core.DataOf(b)
	ks := s.Spaces[def.ID][group]
	if s.Hidden(ks) {
		return d.hi, nil
	}
	blk := ks.Lock(at)
	defer blk.Mu.Unlock()
	core.NoteSeen(b, blk.Logged)
	own := &s.Own
	add := func(mid uint64, row []uint64) {
		if own.Hides(mid) {
			return
		}
		d.sums.Add(mid, row)
	}
	if blk.Cold == nil { // in any order: it is a sum
		blk.Tab.Each(func(mid uint64, ref hot.Ref) {
			if mid >= at && mid < d.hi && err == nil {
				if d.row, err = ks.AppendRow(d.row[:0], blk, mid, block.Location{Where: block.InTable, Ref: ref}); err == nil {
					add(mid, d.row)
				}
			}
		})
		return blk.Hi, err
	}
	err = ks.ColdRows(blk, at, nil, func(mid uint64, row []uint64) error {
		if mid >= d.hi {
			return errEnough
		}
		add(mid, row)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return 0, err // ErrCold, if the file is damaged
	}
	return blk.Hi, nil
}

// errEnough ends an iteration.
var errEnough = errors.New("enough")
