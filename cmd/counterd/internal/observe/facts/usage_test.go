package facts

import (
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
)

// TestUsageCache: blocks are counted again only when a hundred times as long as that takes has passed, and at once for
// another store.
func TestUsageCache(t *testing.T) {
	store, err := counter.Open("", counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.AlterScript("add counter weibo\nadd column weibo cntcm hint=8 max=32 suffix=cntcm"); err != nil {
		t.Fatal(err)
	}
	u := new(UsageCache)
	posts := func(st *counter.Store) int64 { return u.Of(st)[0].HotItems }
	if n := posts(store); n != 0 {
		t.Fatalf("an empty store has %d posts", n)
	}
	if err := store.Set("weibo:1.cntcm", 1); err != nil {
		t.Fatal(err)
	}
	u.next = time.Now().Add(time.Hour)
	if n := posts(store); n != 0 {
		t.Errorf("got %d posts, want what was counted before", n)
	}
	u.next = time.Now()
	if n := posts(store); n != 1 {
		t.Errorf("got %d posts, want 1", n)
	}
	u.next = time.Now().Add(time.Hour)
	other, err := counter.Open("", counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if got := u.Of(other); len(got) != 0 {
		t.Errorf("another store has %v", got)
	}
}
