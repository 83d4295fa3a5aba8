package counter

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/schema"
)

// Digest is a sum over items that does not depend on how they are stored: nodes with the same items have the same
// digest, whatever their blocks and tiers, and whatever columns they once had. Two that differ are found by comparing
// halves of the range.
type Digest struct {
	Items uint64
	Sum   uint64
}

func (d Digest) String() string { return fmt.Sprintf("items=%d digest=%016x", d.Items, d.Sum) }

// MaxDigestParts bounds Digests: 64 KiB of results.
const MaxDigestParts = 4096

// Digest sums the items of a counter with mids in [lo, hi). The error is ErrNoKey, or ErrCold.
func (b *Batch) Digest(counterName string, lo, hi uint64) (Digest, error) {
	parts, err := b.Digests(counterName, lo, hi, 1)
	if err != nil {
		return Digest{}, err
	}
	return parts[0], nil
}

// DigestPart returns the bounds of part i of a range that is cut into equal parts, the last ones shorter or empty. They
// depend on the range only, so that nodes whose blocks have other bounds cut alike.
func DigestPart(lo, hi uint64, parts, i int) (from, to uint64) {
	width := partWidth(lo, hi, parts)
	from = lo + min(width*uint64(i), hi-lo)
	return from, from + min(width, hi-from)
}

func partWidth(lo, hi uint64, parts int) uint64 { return max(1, (hi-lo+uint64(parts)-1)/uint64(parts)) }

// Digests is Digest of each of 1..MaxDigestParts parts of the range, read in one go. See DigestPart for their bounds.
// REQUIRES lo <= hi <= 2^63, and the batch to be open: what needs it exclusively, and then everybody, waits until all
// is read.
func (b *Batch) Digests(counterName string, lo, hi uint64, parts int) ([]Digest, error) {
	sums := digesting{lo: lo, hi: hi, width: partWidth(lo, hi, parts), sums: make([]Digest, parts)}
	for group := range b.s.parts() {
		for at := lo; at < hi; {
			var err error
			if at, err = sums.block(b, counterName, group, at); err != nil {
				return nil, err
			}
		}
	}
	return sums.sums, nil
}

// Digests is Batch.Digests and Commit, block after block, each of them under its lock and with nobody waiting for more
// than one: while there are changes the sums are of no one moment. The error is ErrClosed too, or an *UncertainError.
func (a Admin) Digests(counterName string, lo, hi uint64, parts int) ([]Digest, error) {
	sums := digesting{lo: lo, hi: hi, width: partWidth(lo, hi, parts), sums: make([]Digest, parts)}
	b := a.s.NewBatch()
	for group := range a.s.parts() {
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
	return sums.sums, b.Commit()
}

// digesting is one on the way.
type digesting struct {
	lo, hi, width uint64
	sums          []Digest
	row           []uint64
	def           *schema.Counter // of names
	// Hashes of the columns' names. Their ids and order tell what was dropped and when, which is no difference of items.
	names []uint64
}

// nameHashes are the hashes of a counter's columns' names: FNV-1a, mixed.
func (d *digesting) nameHashes(def *schema.Counter) {
	if d.def == def {
		return
	}
	d.def, d.names = def, d.names[:0]
	for i := range def.Columns {
		h := uint64(14695981039346656037)
		for _, c := range []byte(def.Columns[i].Name) {
			h = (h ^ uint64(c)) * 1099511628211
		}
		d.names = append(d.names, mix(h))
	}
}

// block adds the items of the block of a group that holds at, from there on, and returns where the next one begins.
func (d *digesting) block(b *Batch, counterName string, group int, at uint64) (next uint64, err error) {
	def := b.Schema().Counter(counterName)
	if def == nil {
		return 0, fmt.Errorf("%w: %q", ErrNoKey, counterName)
	}
	d.nameHashes(def)
	ks := b.s.spaces[def.ID][group]
	if b.s.hidden(ks) {
		return d.hi, nil
	}
	blk := ks.Lock(at)
	defer blk.Mu.Unlock()
	b.noteSeen(blk.Logged)
	own := &b.s.own
	add := func(mid uint64, row []uint64) {
		if own.Hides(mid) {
			return
		}
		h := mix(mid)
		total := h
		for c, v := range row {
			total += mix(h ^ v ^ d.names[c])
		}
		sum := &d.sums[(mid-d.lo)/d.width]
		sum.Items++
		sum.Sum += total
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

// mix is splitmix64's finalizer: each bit of x changes half of the result's.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
