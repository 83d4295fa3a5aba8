package client

import (
	"slices"
	"strings"
	"testing"
)

// TestSetRows sends posts in commands of 1,000, each with its number, and stops at the first that is refused.
func TestSetRows(t *testing.T) {
	f := newFake(t)
	c := newTest(t, f, Options{Counter: "weibo"})
	ctx := t.Context()
	var rows []Row
	for mid := range uint64(2500) {
		rows = append(rows, Row{Mid: mid, Values: []int64{int64(mid), 7}})
	}
	if n, err := c.SetRows(ctx, rows, "cntrn", "comment"); n != 2500 || err != nil {
		t.Fatalf("got %d posts, %v", n, err)
	}
	var sizes []int
	for _, args := range f.seen("COUNTER.MSET") {
		if tail := args[len(args)-6 : len(args)-2]; !slices.Equal(tail[:3], []string{"COLUMNS", "repost", "comment"}) || tail[3] != "IDMP" {
			t.Errorf("a command ends with %q", args[len(args)-6:])
		}
		sizes = append(sizes, (len(args)-7)/3)
	}
	if !slices.Equal(sizes, []int{1000, 1000, 500}) || f.value("2499.cntrn") != 2499 || f.value("1000.cntcm") != 7 {
		t.Errorf("got commands of %d posts", sizes)
	}
	rows[1500].Values = []int64{1, -5}
	if n, err := c.SetRows(ctx, rows, "cntrn", "comment"); n != 1000 || err == nil || ClassOf(err) != Permanent {
		t.Errorf("a value out of range: got %d posts, %v", n, err)
	}
	sent := len(f.seen("COUNTER.MSET"))
	fresh := newTest(t, f, Options{Counter: "weibo"})
	schemas := len(f.seen("SCHEMA"))
	if _, err := fresh.SetRows(ctx, []Row{{Mid: 1, Values: []int64{1, 2, 3}}}, "cntrn"); ClassOf(err) != Permanent || err.Error() != "client: got 3 values for post 1, want 1" {
		t.Errorf("a row that is too wide: %v, of class %v", err, ClassOf(err))
	}
	if _, err := fresh.SetRows(ctx, []Row{{Mid: 1 << 63, Values: []int64{1}}}, "cntrn"); ClassOf(err) != Permanent || len(f.seen("SCHEMA")) != schemas {
		t.Errorf("a mid of 2^63: %v, of class %v, or something was sent", err, ClassOf(err))
	}
	if _, err := fresh.SetRows(ctx, []Row{{Mid: 1, Values: []int64{1}}}); ClassOf(err) != Permanent || len(f.seen("COUNTER.MSET")) != sent {
		t.Errorf("a row that is too narrow: %v, of class %v, or something was sent", err, ClassOf(err))
	}
	rows[0].Values = nil
	if n, err := c.SetRows(ctx, rows, "cntrn", "comment"); n != 0 || err == nil || !strings.Contains(err.Error(), "got 0 values for post 0, want 2") {
		t.Errorf("a row without values: got %d posts, %v", n, err)
	}
	if n, err := c.SetRows(ctx, []Row{{Mid: 9, Values: []int64{1, 2, 3}}}); n != 1 || err != nil || f.value("9.cntan") != 3 {
		t.Errorf("all columns: got %d posts, %v", n, err)
	}
}
