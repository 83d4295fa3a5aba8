package client

import (
	"errors"
	"math/big"
	"testing"
)

// TestEmptyLists: a list of mids that is empty and not nil means no post, in every call that takes one, and nothing is sent.
func TestEmptyLists(t *testing.T) {
	f := newFake(t)
	c := newTest(t, f, Options{})
	ctx, none := t.Context(), Query{Mids: []uint64{}}
	check := func(what string, n int, err error) {
		t.Helper()
		if n != 0 || err != nil {
			t.Errorf("%s: %d, %v, want nothing", what, n, err)
		}
	}
	rows, err := c.Find(ctx, none)
	check("Find", len(rows), err)
	for row, err := range c.Each(ctx, none) {
		t.Errorf("Each: %v, %v", row, err)
	}
	top, err := c.Top(ctx, "repost", 5, none)
	check("Top", len(top), err)
	n, err := c.Count(ctx, none)
	check("Count", int(n), err)
	n, err = c.Sum(ctx, "repost", none)
	check("Sum", int(n), err)
	for _, extreme := range []func() (int64, bool, error){
		func() (int64, bool, error) { return c.Min(ctx, "repost", none) }, func() (int64, bool, error) { return c.Max(ctx, "repost", none) },
	} {
		n, ok, err := extreme()
		if check("Min or Max", int(n), err); ok {
			t.Error("no post has a least or largest value")
		}
	}
	n, err = c.Update(ctx, none, Change{Do: Delete})
	check("Update", int(n), err)
	rows, err = c.UpdateRows(ctx, ReturnOld, none, Change{Do: Delete})
	check("UpdateRows", len(rows), err)
	rows, err = c.Drain(ctx, []uint64{}, "repost")
	check("Drain", len(rows), err)
	set, err := c.SetRows(ctx, []Row{}, "repost")
	check("SetRows", set, err)
	results, err := c.Batch().Do(ctx)
	check("Batch", len(results), err)
	f.set(func() {
		if len(f.commands) != 0 {
			t.Errorf("sent %v", f.commands)
		}
	})
	rows, err = c.Page(ctx, []uint64{})
	check("Page", len(rows), err)
	if len(f.seen("COUNTER.MGET")) != 0 {
		t.Error("a page without posts was asked for")
	}
}

// TestFindWithoutLimit: Find gives all posts, also where one reply cannot have them.
func TestFindWithoutLimit(t *testing.T) {
	f := newFake(t)
	f.posts = 25_000
	c := newTest(t, f, Options{})
	for _, test := range []struct{ limit, offset, want, first int }{
		{0, 0, 25_000, 0}, {0, 24_000, 1000, 24_000}, {12_345, 0, 12_345, 0}, {7, 0, 7, 0}, {7, 24_998, 2, 24_998}, {20_000, 10_000, 15_000, 10_000},
	} {
		rows, err := c.Find(t.Context(), Query{Limit: test.limit, Offset: test.offset, Columns: []string{"repost"}})
		if err != nil || len(rows) != test.want {
			t.Fatalf("LIMIT %d OFFSET %d: %d rows, %v, want %d", test.limit, test.offset, len(rows), err, test.want)
		}
		for i, row := range rows {
			if v, ok := row.Value("repost"); row.Mid != uint64(test.first+i) || !ok || v != int64(row.Mid) {
				t.Fatalf("LIMIT %d OFFSET %d: row %d is %+v", test.limit, test.offset, i, row)
			}
		}
	}
	if v, ok := (&Row{Mid: 7}).Value("repost"); ok || v != 0 {
		t.Error("a post that is not there has a value")
	}
}

// TestSumOverflow: a sum that is larger than an int64 is an error that shows it.
func TestSumOverflow(t *testing.T) {
	large, _ := new(big.Int).SetString("92233720368547758070", 10)
	for _, reply := range []any{large, "92233720368547758070"} {
		if n, err := sumOf(reply); n != 0 || !errors.Is(err, ErrOverflow) || err.Error() != "client: the sum is 92233720368547758070: above 2^63-1" {
			t.Errorf("%T: %d, %v", reply, n, err)
		}
	}
	if n, err := sumOf(int64(7)); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
