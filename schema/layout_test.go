package schema

import (
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
)

func TestLayout(t *testing.T) {
	l := parse(t, seedScript).Counter("weibo").Layout
	want := []Field{{1, 0, 16, 32, 0}, {2, 16, 16, 32, 0}, {3, 32, 8, 32, 0}}
	if l.Bits != 40 || !reflect.DeepEqual(l.Fields, want) || l.String() != "1:16/32 2:16/32 3:8/32" {
		t.Errorf("got %d bits, %+v, %s", l.Bits, l.Fields, l)
	}
	for id, want := range map[uint16]int{0: -1, 1: 0, 2: 1, 3: 2, 4: -1, math.MaxUint16: -1} {
		if got := l.Index(id); got != want {
			t.Errorf("column id %d is at %d, want %d", id, got, want)
		}
	}
	wide := parse(t, richScript).Counter("wide").Layout
	if wide.Bits != 65 || wide.Index(1) != 0 || wide.Index(2) != -1 || wide.Index(3) != 1 || wide.Index(4) != -1 || wide.String() != "1:64 3:1" {
		t.Errorf("got %+v", wide)
	}
	if wide.Equal(l) || !wide.Equal(wide) || !l.Equal(parse(t, seedScript).Counter("weibo").Layout) {
		t.Error("Equal is wrong")
	}
	cols := parse(t, seedScript).Counter("weibo").Columns
	narrow, _ := NewLayoutWidths(cols, []uint8{4, 3, 2})
	one := slices.Clone(cols)
	one[1].Default = 7
	other, _ := NewLayout(one)
	if narrow.Equal(l) || !narrow.SameColumns(l) || !l.SameColumns(l) || wide.SameColumns(l) || other.SameColumns(l) {
		t.Error("SameColumns is wrong")
	}
	none, err := NewLayout(nil)
	if err != nil || none.Bits != 0 || none.Index(0) != -1 || none.Index(1) != -1 || none.String() != "" {
		t.Errorf("no columns: got %+v, %v", none, err)
	}
}

func TestLayoutWidths(t *testing.T) {
	cols := parse(t, seedScript).Counter("weibo").Columns
	l, err := NewLayoutWidths(cols, []uint8{32, 1, 5})
	if err != nil || l.Bits != 38 || l.String() != "1:32 2:1/32 3:5/32" || l.Fields[2].Off != 33 {
		t.Errorf("got %v, %v", l, err)
	}
	for _, widths := range [][]uint8{nil, {1, 1}, {1, 1, 1, 1}, {0, 1, 1}, {33, 1, 1}} {
		if l, err := NewLayoutWidths(cols, widths); l != nil || !errors.Is(err, ErrAttribute) {
			t.Errorf("%v: got %v, %v", widths, l, err)
		}
	}
	for _, cols := range [][]Column{
		{{ID: 1, Hint: 9, Max: 8}},
		{{ID: 1, Hint: 8, Max: 65}},
		{{ID: 1, Hint: 1, Max: 1, Default: 2}},
		{{ID: 2, Hint: 1, Max: 1}, {ID: 2, Hint: 1, Max: 1}},
		{{ID: 2, Hint: 1, Max: 1}, {ID: 1, Hint: 1, Max: 1}},
	} {
		if l, err := NewLayout(cols); l != nil || !errors.Is(err, ErrAttribute) {
			t.Errorf("%v: got %v, %v", cols, l, err)
		}
	}
	if _, err := NewLayout(make([]Column, MaxFields+1)); !errors.Is(err, ErrLimit) {
		t.Errorf("too many columns: got %v", err)
	}
}

func TestFieldValues(t *testing.T) {
	for _, c := range []struct {
		width, max    uint8
		limit, inline uint64
		mark          uint64 // 0: none
	}{
		{1, 1, 1, 1, 0},
		{1, 2, 3, 0, 1},
		{8, 8, 255, 255, 0},
		{8, 32, math.MaxUint32, 254, 255},
		{32, 33, 1<<33 - 1, 1<<32 - 2, 1<<32 - 1},
		{62, 63, MaxValue, 1<<62 - 2, 1<<62 - 1},
		{63, 63, MaxValue, MaxValue, 0},
		{63, 64, MaxValue, MaxValue - 1, MaxValue},
		{64, 64, MaxValue, MaxValue, 0},
	} {
		f := Field{Width: c.width, Max: c.max}
		if f.Limit() != c.limit || f.Inline() != c.inline || f.Overflows() != (c.mark != 0) || c.mark != 0 && f.Mark() != c.mark {
			t.Errorf("%d of %d bits: limit %d, inline %d, overflows %v, mark %d; want %+v",
				c.width, c.max, f.Limit(), f.Inline(), f.Overflows(), f.Mark(), c)
		}
	}
	if got := (&Field{Width: 64, Max: 64}).Mark(); got != math.MaxUint64 {
		t.Errorf("64 bits are all ones: got %x", got)
	}
}

// layouts are the binary layouts of the golden file and the fuzz corpus.
func layouts(t testing.TB) map[string]*Layout {
	rich := parse(t, richScript)
	none, err := NewLayout(nil)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := NewLayoutWidths(rich.Counter("weibo").Columns, []uint8{5, 4, 1})
	if err != nil {
		t.Fatal(err)
	}
	far, err := NewLayout([]Column{{ID: 0, Hint: 1, Max: 1, Default: 1}, {ID: math.MaxUint16, Hint: 64, Max: 64, Default: MaxValue}})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*Layout{
		"none": none, "weibo": rich.Counter("weibo").Layout, "reads": rich.Counter("reads").Layout,
		"wide": rich.Counter("wide").Layout, "sealed": sealed, "far": far,
	}
}

func TestLayoutGolden(t *testing.T) {
	all := layouts(t)
	var text []byte
	for _, name := range []string{"none", "weibo", "reads", "wide", "sealed", "far"} {
		l := all[name]
		b := l.AppendBinary([]byte("kept"))[4:]
		text = append(text, name+" "+l.String()+"\n"+hex.Dump(b)...)
		got, rest, err := DecodeLayout(append(b, "rest"...))
		if err != nil || !reflect.DeepEqual(got, l) || string(rest) != "rest" {
			t.Errorf("%s: got %+v, %q, %v", name, got, rest, err)
		}
		for n := range len(b) {
			if _, _, err := DecodeLayout(b[:n]); !errors.Is(err, ErrTruncated) || errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, cut to %d bytes: got %v", name, n, err)
			}
		}
	}
	golden(t, "layouts.v1.hex", text)
}

func TestDecodeLayoutErrors(t *testing.T) {
	sound := layouts(t)["weibo"].AppendBinary(nil)
	set := func(at int, to ...byte) []byte {
		b := append([]byte(nil), sound...)
		copy(b[at:], to)
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		kind error
	}{
		"version 0":       {set(0, 0), ErrVersion},
		"version 2":       {set(0, 2), ErrVersion},
		"66 columns":      {set(1, 66), ErrCorrupt},
		"64 columns":      {set(1, 64), ErrTruncated},
		"ids fall":        {set(2, 9), ErrCorrupt},
		"id twice":        {set(2, 2), ErrCorrupt},
		"width 0":         {set(4, 0), ErrCorrupt},
		"width above max": {set(4, 33), ErrCorrupt},
		"max 65":          {set(5, 65), ErrCorrupt},
		"default":         {set(10, 1), ErrCorrupt},
	} {
		if l, rest, err := DecodeLayout(c.b); l != nil || rest != nil || !errors.Is(err, c.kind) {
			t.Errorf("%s: got %v, %v; want %v", name, l, err, c.kind)
		}
	}
}

func FuzzDecodeLayout(f *testing.F) {
	for _, l := range layouts(f) {
		f.Add(l.AppendBinary(nil))
	}
	f.Add([]byte{1, 64, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, rest, err := DecodeLayout(b)
		if err != nil {
			if !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Errorf("got %v", err)
			}
			return
		}
		if got := append(l.AppendBinary(nil), rest...); string(got) != string(b) {
			t.Errorf("got %x, want %x", got, b)
		}
		if len(b)-len(rest) > MaxLayoutSize || l.Bits > 64*MaxFields {
			t.Errorf("too large: %+v", l)
		}
		for i := range l.Fields {
			if l.Index(l.Fields[i].ID) != i {
				t.Errorf("column id %d is at %d, want %d", l.Fields[i].ID, l.Index(l.Fields[i].ID), i)
			}
		}
	})
}

func BenchmarkLayoutIndex(b *testing.B) {
	l := parse(b, richScript).Counter("wide").Layout
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		sink += uint64(l.Index(uint16(i & 3)))
	}
}
