package producers

import (
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

// TestBaseMoves: the base moves with the first number that is too far above it for the log.
func TestBaseMoves(t *testing.T) {
	tab := New(Limits{Producers: 10, Bytes: 1 << 20, MinIdle: 60})
	var y Try
	r := request("p", 5000, 5)
	tab.Begin(r, &y)
	tab.Insert(r, &y, format.Result{Kind: format.ResultInt, N: 7}, 3, 1)
	base := y.Base
	if tab.Begin(request("p", base+MaxSeqLess, 5), &y); y.Define || y.Base != base {
		t.Errorf("the highest number above the base: %+v", y)
	}
	if tab.Begin(request("p", base+MaxSeqLess+1, 5), &y); !y.Define || y.Base <= base {
		t.Errorf("a number too far above the base: %+v", y)
	}
}

// TestLogged: a repeat is as safe as the last record of its producer, a floor never falls, and a number that a client used for two
// changes is a repeat of the first one where two tables are merged.
func TestLogged(t *testing.T) {
	tab := New(Limits{Producers: 10, Bytes: 1 << 20, MinIdle: 60})
	var y Try
	for seq, logged := range []uint64{100, 250} {
		r := request("p", uint64(seq+1), 5)
		if tab.Begin(r, &y); y.Verdict != Fresh {
			t.Fatalf("number %d: %+v", r.Seq, y)
		}
		tab.Insert(r, &y, format.Result{Kind: format.ResultInt, N: 7}, 3, logged)
	}
	if tab.Begin(request("p", 1, 5), &y); y.Verdict != Repeat || y.Logged != 250 {
		t.Errorf("a repeat: %+v, want that it waits for offset 250", y)
	}
	other := request("p", 2, 5)
	other.Hash++
	if tab.BeginMerge(other, &y); y.Verdict != Repeat {
		t.Errorf("another change with the number: %+v", y)
	}
	number := y.Number
	for _, from := range []uint64{50, 30} {
		if !tab.Floor(number, from) {
			t.Fatal("the producer is not known")
		}
	}
	if tab.Begin(request("p", 40, 5), &y); y.Verdict != Expired || y.Lowest != 50 {
		t.Errorf("a number below the floor: %+v", y)
	}
}

// TestForgetGroupsBytes: the memory of entries that are forgotten is not counted any more.
func TestForgetGroupsBytes(t *testing.T) {
	tab := New(Limits{Producers: 10, Bytes: 1 << 20, MinIdle: 60})
	for seq := range uint64(20) {
		var y Try
		r := request("p", seq+1, 5)
		r.Room = 100
		tab.Begin(r, &y)
		tab.Insert(r, &y, format.Result{Kind: format.ResultBlob, Blob: make([]byte, 100)}, uint8(seq%2), 0)
	}
	var groups slot.Set
	groups.Add(1)
	tab.ForgetGroups(&groups)
	if err := tab.check(); err != nil {
		t.Error(err)
	}
}
