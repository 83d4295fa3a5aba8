package format

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// encodeOld encodes a record that tells old values.
func encodeOld(r *Record) []byte {
	var old []uint64
	for _, c := range r.Old.Columns {
		old = append(old, c.Value)
	}
	switch {
	case r.Kind == KindDelete:
		return AppendDeleteOld(nil, r.Counter, r.Mid, r.Old.Columns)
	case r.Kind == KindSetItem:
		return AppendSetItemOld(nil, r.Counter, r.Mid, r.Columns, r.Old.There, old)
	case r.Old.There:
		return AppendSetOld(nil, r.Counter, r.Column, r.Mid, r.Value, true, old[0])
	}
	return AppendSetOld(nil, r.Counter, r.Column, r.Mid, r.Value, false, 0)
}

// TestOldRoundTrip: a record with old values is the record without them, with the old values beside it, for numbers of each length, and a cut one is refused.
func TestOldRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(newSeed(t), 5))
	number := func(bits int) uint64 { return rng.Uint64() >> (64 - bits) >> rng.IntN(bits) }
	var got Record
	for range 3000 {
		want := Record{Kind: []Kind{KindSet, KindSetItem, KindDelete}[rng.IntN(3)], Counter: uint32(number(32)), Mid: number(64), Old: Old{Told: true, There: true}}
		want.Old.There = want.Kind == KindDelete || rng.IntN(4) > 0
		switch want.Kind {
		case KindSet:
			want.Column, want.Value = uint16(number(16)), number(63)
			if want.Old.There {
				want.Old.Columns = []ColumnValue{{want.Column, number(63)}}
			}
		default:
			for range rng.IntN(20) {
				c := ColumnValue{uint16(number(16)), number(63)}
				if want.Kind == KindSetItem {
					want.Columns = append(want.Columns, ColumnValue{c.Column, number(63)})
				}
				if want.Old.There {
					want.Old.Columns = append(want.Old.Columns, c)
				}
			}
		}
		b := encodeOld(&want)
		n, err := DecodeRecord(append(b, 0xff, 0xff), &got)
		must(t, err)
		if n != len(b) || !sameRecord(&want, &got) {
			t.Fatalf("want %+v, got %+v from %d of %d bytes", want, got, n, len(b))
		}
		for i := range b {
			if _, err := DecodeRecord(b[:i], &got); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v cut to %d of %d bytes: %v", want.Kind, i, len(b), err)
			}
		}
		if _, err := DecodeRecord(AppendSet(nil, 1, 2, 3, 4), &got); err != nil || got.Old.Told || len(got.Old.Columns) > 0 {
			t.Fatalf("a set behind it tells %+v, %v", got.Old, err)
		}
	}
}

// TestOldLength: how many bytes the old value of a change takes.
func TestOldLength(t *testing.T) {
	for _, c := range []struct {
		value, old uint64
		there      bool
		more       int
	}{{301, 300, true, 1}, {1, 0, false, 1}, {300, 363, true, 1}, {300, 236, true, 2}, {0, 1<<63 - 1, true, 10}, {1<<63 - 1, 0, true, 10}} {
		plain := len(AppendSet(nil, 1, 2, benchMid, c.value))
		if got := len(AppendSetOld(nil, 1, 2, benchMid, c.value, c.there, c.old)); got != plain+c.more {
			t.Errorf("%+v: %d bytes, want %d and %d", c, got, plain, c.more)
		}
	}
}

// TestOldRefused reads records with old values that claim too much.
func TestOldRefused(t *testing.T) {
	for name, b := range map[string][]byte{
		"too many columns":             AppendSetItemOld(nil, 1, 2, make([]ColumnValue, MaxColumns+1), false, nil),
		"too many columns of a delete": AppendDeleteOld(nil, 1, 2, make([]ColumnValue, MaxColumns+1)),
	} {
		var rec Record
		if n, err := DecodeRecord(b, &rec); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %d bytes, %v", name, n, fmt.Sprint(err))
		}
	}
}
