package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/slot"
)

// TestAppendOnceSet: the two records at once are those that AppendOnce and AppendSet make.
func TestAppendOnceSet(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var got, want []byte
	for range 20_000 {
		any := func(most uint64) uint64 { return min(most, rnd.Uint64()>>rnd.IntN(64)) }
		number, hash, counter, column := uint32(any(MaxProducers-1)), uint32(any(1<<HashBits-1)), uint32(any(1<<32-1)), uint16(any(1<<16-1))
		seq, mid, value := any(1<<64-1), any(1<<64-1), any(1<<64-1)
		if rnd.IntN(2) == 0 { // as most records are, and beside that
			number, counter, column, seq = uint32(rnd.IntN(130)), uint32(rnd.IntN(130)), uint16(rnd.IntN(130)), []uint64{rnd.Uint64N(1 << 14), 127 + rnd.Uint64N(3), 1<<14 - 2 + rnd.Uint64N(4)}[rnd.IntN(3)]
		}
		if len(got) > 1000 {
			got, want = got[:0], want[:0]
		}
		got = AppendOnceSet(got, number, seq, hash, counter, column, mid, value)
		want = AppendSet(AppendOnce(want, number, seq, hash, 0, Result{Kind: ResultNext}), counter, column, mid, value)
		if !bytes.Equal(got, want) {
			t.Fatalf("number %d, seq %d, hash %d, counter %d, column %d, mid %d, value %d: got %x, want %x", number, seq, hash, counter, column, mid, value, got, want)
		}
	}
}

// TestPutVarint: numbers of each length, at each place, are written as encoding/binary writes them.
func TestPutVarint(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var b [setRoom]byte
	for size := range 65 {
		for range 1000 {
			v := uint64(0)
			if size > 0 {
				v = 1<<(size-1) | rnd.Uint64()>>(64-size)
			}
			at := rnd.Uint64N(setRoom - binary.MaxVarintLen64 + 1)
			end := putVarint(&b, uint(at), v)
			if want := binary.AppendUvarint(nil, v); !bytes.Equal(b[at:end], want) {
				t.Fatalf("%d at %d: got %x, want %x", v, at, b[at:end], want)
			}
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(AppendSet(nil, 1, 2, 3, 4))
	f.Add(AppendSet(nil, 1<<31, 1<<15, 1<<63, 1<<62))
	f.Add(AppendSetItem(nil, 1, 2, []ColumnValue{{1, 2}, {3, 4}}))
	f.Add(AppendDelete(nil, 1, 2))
	f.Add(AppendSetOld(nil, 1, 2, 3, 4, true, 3))
	f.Add(AppendSetOld(nil, 1, 2, 3, 4, false, 0))
	f.Add(AppendSetItemOld(nil, 1, 2, []ColumnValue{{1, 2}, {3, 4}}, true, []uint64{7, 0}))
	f.Add(AppendSetItemOld(nil, 1, 2, []ColumnValue{{1, 2}, {3, 4}}, false, nil))
	f.Add(AppendDeleteOld(nil, 1, 2, []ColumnValue{{1, 2}, {3, 4}}))
	f.Add(AppendFlush(nil))
	f.Add(AppendSchema(nil, "add counter weibo"))
	f.Add(AppendDefine(nil, 7, 1, 1<<60, []byte("producer")))
	f.Add(AppendDefine(nil, 7, 0, 0, nil))
	for k := range ResultKind(8) {
		f.Add(AppendOnce(nil, 7, 300, 0x1fffff, 255, Result{k, 77, []byte("blob")}))
	}
	for _, k := range []Kind{KindImport, KindAccept, KindDrop} {
		f.Add(AppendMove(nil, k, "0123456789abcdef", slot.Set{1, 2, 3, 1 << 63}))
	}
	f.Add(AppendRows(nil, 1, []uint16{1, 2, 1 << 15}, []byte("items")))
	f.Add(AppendFloor(nil, 7, 1<<40))
	f.Add(AppendTick(nil, MaxTick))
	f.Add(AppendCursor(nil, "search-1", 1<<40, "1-00"))
	f.Add(AppendCursor(nil, "a", 0, ""))
	f.Add(AppendDropRange(nil, 1, 0, 1<<63, slot.AllGroups()))
	f.Add(AppendDropRange(nil, 300, 7, 8, slot.Set{1, 0, 0, 1 << 63}))
	var rec, again Record
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := DecodeRecord(b, &rec)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if n < 1 || n > len(b) || len(rec.Columns) > MaxColumns {
			t.Fatalf("%d of %d bytes, %d columns", n, len(b), len(rec.Columns))
		}
		enc := encode(&rec)
		m, err := DecodeRecord(enc, &again)
		must(t, err)
		if m != len(enc) || len(enc) > n || !sameRecord(&rec, &again) {
			t.Fatalf("%+v encodes to %x, which is %+v", rec, enc, again)
		}
	})
}

// encode encodes any record.
func encode(r *Record) []byte {
	if r.Old.Told {
		return encodeOld(r)
	}
	switch r.Kind {
	case KindSet:
		return AppendSet(nil, r.Counter, r.Column, r.Mid, r.Value)
	case KindSetItem:
		return AppendSetItem(nil, r.Counter, r.Mid, r.Columns)
	case KindDelete:
		return AppendDelete(nil, r.Counter, r.Mid)
	case KindFlush:
		return AppendFlush(nil)
	case KindSchema:
		return AppendSchema(nil, string(r.Text))
	case KindDefine:
		return AppendDefine(nil, r.Number, r.Epoch, r.Seq, r.Text)
	case KindOnce:
		return AppendOnce(nil, r.Number, r.Seq, r.Hash, r.Group, Result{r.Result, r.Value, r.Text})
	case KindImport, KindAccept, KindDrop:
		return AppendMove(nil, r.Kind, string(r.Text), r.Groups)
	case KindRows:
		columns := make([]uint16, len(r.Columns))
		for i, c := range r.Columns {
			columns[i] = c.Column
		}
		return AppendRows(nil, r.Counter, columns, r.Text)
	case KindFloor:
		return AppendFloor(nil, r.Number, r.Seq)
	case KindTick:
		return AppendTick(nil, r.Value)
	case KindDropRange:
		return AppendDropRange(nil, r.Counter, r.Mid, r.Value, r.Groups)
	case KindCursor:
		return AppendCursor(nil, string(r.Text), r.Value, string(r.Position))
	}
	panic("kind without an encoder")
}

func sameRecord(a, b *Record) bool {
	x, y := *a, *b
	x.Columns, y.Columns, x.Text, y.Text, x.Position, y.Position = nil, nil, nil, nil, nil, nil
	x.Old.Columns, y.Old.Columns = nil, nil
	return slices.Equal(a.Old.Columns, b.Old.Columns) && fmt.Sprint(x) == fmt.Sprint(y) && bytes.Equal(a.Position, b.Position) && slices.Equal(a.Columns, b.Columns) && bytes.Equal(a.Text, b.Text)
}

func TestRecordRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(newSeed(t), 4))
	number := func(bits int) uint64 { return rng.Uint64() >> (64 - bits) >> rng.IntN(bits) }
	var got Record
	for range 2000 {
		want := Record{Kind: []Kind{KindSet, KindSetItem, KindDelete, KindFlush, KindSchema, KindDefine, KindOnce,
			KindImport, KindRows, KindAccept, KindDrop, KindFloor, KindCursor, KindDropRange, KindTick}[rng.IntN(15)]}
		switch want.Kind {
		case KindImport, KindAccept, KindDrop:
			want.Text = make([]byte, 1+rng.IntN(MaxMoveID))
			for i := range want.Groups {
				want.Groups[i] = number(64)
			}
		case KindRows:
			want.Counter, want.Text = uint32(number(32)), make([]byte, rng.IntN(300))
			for range rng.IntN(20) {
				want.Columns = append(want.Columns, ColumnValue{Column: uint16(number(16))})
			}
		case KindTick:
			want.Value = number(40)
		case KindDropRange:
			want.Counter, want.Mid = uint32(number(32)), number(62)
			want.Value, want.Groups = want.Mid+1+number(62), slot.AllGroups()
			if rng.IntN(2) == 0 {
				want.Groups[rng.IntN(4)] = rng.Uint64()
			}
		case KindCursor:
			want.Text = []byte(strings.Repeat("n", 1+rng.IntN(MaxCursorName)))
			if want.Position = make([]byte, rng.IntN(MaxCursorPosition+1)); len(want.Position) > 0 {
				want.Value = number(62)
			}
		case KindFloor:
			want.Number, want.Seq = uint32(number(14)), number(64)
		case KindSetItem:
			for range rng.IntN(20) {
				want.Columns = append(want.Columns, ColumnValue{uint16(number(16)), number(64)})
			}
			fallthrough
		case KindSet, KindDelete:
			want.Counter, want.Mid = uint32(number(32)), number(64)
			if want.Kind == KindSet {
				want.Column, want.Value = uint16(number(16)), number(64)
			}
		case KindDefine:
			want.Number = uint32(number(14))
			if want.Text = make([]byte, rng.IntN(MaxProducerID+1)); len(want.Text) > 0 {
				want.Epoch, want.Seq = number(63), number(64)
			}
		case KindOnce:
			want.Number, want.Seq, want.Hash = uint32(number(14)), number(64), uint32(number(HashBits))
			if want.Result = ResultKind(rng.IntN(resultKinds)); want.Result != ResultNext {
				want.Group = uint8(number(8))
			}
			switch want.Result {
			case ResultInt, ResultBulk:
				want.Value = number(64)
			case ResultBlob:
				want.Text = make([]byte, rng.IntN(300))
			}
		case KindSchema:
			want.Text = make([]byte, rng.IntN(300))
		}
		b := encode(&want)
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
	}
	if n := len(AppendSet(nil, 1, 2, 19089006004, 300)); n > 11 {
		t.Errorf("an INCR of a mid of 11 digits takes %d bytes", n)
	}
	if n := len(AppendSet(nil, 1, 2, benchMid, 300)); n > 13 {
		t.Errorf("an INCR of a mid of 16 digits takes %d bytes", n)
	}
	if n := len(AppendOnce(nil, 1<<14-1, 1<<14-1, 1<<HashBits-1, 0, Result{})); n > 8 {
		t.Errorf("a producer adds %d bytes to an INCR", n)
	}
	longest := AppendDefine(nil, MaxProducers-1, MaxEpoch, 1<<64-1, make([]byte, MaxProducerID))
	if len(longest) > MaxDefineLen {
		t.Errorf("a define takes %d bytes, at most %d are said", len(longest), MaxDefineLen)
	}
	longest = AppendOnce(nil, MaxProducers-1, 1<<64-1, 1<<HashBits-1, 255, Result{Kind: ResultBlob, Blob: make([]byte, MaxResult)})
	if len(longest) > MaxOnceLen {
		t.Errorf("a once takes %d bytes, at most %d are said", len(longest), MaxOnceLen)
	}
	if n := len(AppendMove(nil, KindImport, strings.Repeat("m", MaxMoveID), slot.Set{})); n > MaxMoveLen {
		t.Errorf("an import takes %d bytes, at most %d are said", n, MaxMoveLen)
	}
	if n := len(AppendDropRange(nil, 1<<32-1, 1<<63-1, 1<<63, slot.Set{})); n > MaxDropRangeLen {
		t.Errorf("a dropped range takes %d bytes, at most %d are said", n, MaxDropRangeLen)
	}
	if n := len(AppendCursor(nil, strings.Repeat("c", MaxCursorName), 1<<62, strings.Repeat("p", MaxCursorPosition))); n > MaxCursorLen {
		t.Errorf("a cursor takes %d bytes, at most %d are said", n, MaxCursorLen)
	}
	if n := len(AppendRows(nil, 1<<32-1, []uint16{1<<16 - 1}, make([]byte, MaxPage))); n > 1+5+2+3+3+MaxPage {
		t.Errorf("rows take %d bytes, at most %d are said", n, 1+5+2+3+3+MaxPage)
	}
}

// TestRecordRefused reads records that break a rule.
func TestRecordRefused(t *testing.T) {
	for name, b := range map[string][]byte{
		"a number too high to define": AppendDefine(nil, MaxProducers, 0, 0, []byte("a")),
		"an epoch too high":           AppendDefine(nil, 1, MaxEpoch+1, 0, []byte("a")),
		"an epoch of nobody":          AppendDefine(nil, 1, 1, 0, nil),
		"a base of nobody":            AppendDefine(nil, 1, 0, 1, nil),
		"an id too long":              AppendDefine(nil, 1, 0, 0, make([]byte, MaxProducerID+1)),
		"a number too high":           AppendOnce(nil, MaxProducers, 0, 0, 0, Result{}),
		"a kind that is none":         AppendOnce(nil, 1, 0, 0, 0, Result{Kind: resultKinds}),
		"a blob too long":             AppendOnce(nil, 1, 0, 0, 0, Result{Kind: ResultBlob, Blob: make([]byte, MaxResult+1)}),
		"a move without an id":        AppendMove(nil, KindImport, "", slot.Set{1}),
		"a move's id too long":        AppendMove(nil, KindDrop, strings.Repeat("m", MaxMoveID+1), slot.Set{1}),
		"too many columns":            AppendRows(nil, 1, make([]uint16, MaxColumns+1), nil),
		"items too long":              AppendRows(nil, 1, nil, make([]byte, MaxPage+1)),
		"a floor of nobody":           AppendFloor(nil, MaxProducers, 1),
		"a cursor without a name":     AppendCursor(nil, "", 1, "p"),
		"a cursor's name with blanks": AppendCursor(nil, "a b", 1, "p"),
		"a cursor's name too long":    AppendCursor(nil, strings.Repeat("c", MaxCursorName+1), 1, "p"),
		"a position too long":         AppendCursor(nil, "a", 1, strings.Repeat("p", MaxCursorPosition+1)),
		"a range without a mid":       AppendDropRange(nil, 1, 7, 7, slot.AllGroups()),
		"a range above all mids":      AppendDropRange(nil, 1, 7, 1<<63+1, slot.AllGroups()),
		"a range without its groups":  AppendDropRange(nil, 1, 7, 9, slot.Set{})[:20],
		"an offset without a cursor":  AppendCursor(nil, "a", 1, ""),
		"a kind that never was":       {6, 1, 'a', 7, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		var rec Record
		if n, err := DecodeRecord(b, &rec); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
}

// TestAppendSetStays: a record is appended where its place is, as long as it fits. A chunk of the log's tail that was moved to twice its size took frames of twice the
// size that a start reads.
func TestAppendSetStays(t *testing.T) {
	for _, mid := range []uint64{1, 1 << 20, 1 << 62} {
		for room := range 2 * setRoom {
			want := AppendSet(nil, 1, 1, mid, mid)
			dst := make([]byte, 1, 1+len(want)+room)
			got := AppendSet(dst, 1, 1, mid, mid)
			if &got[0] != &dst[0] || !bytes.Equal(got[1:], want) {
				t.Errorf("mid %d, %d bytes more than a record: got %x, want %x in the same place", mid, room, got[1:], want)
			}
		}
	}
}
