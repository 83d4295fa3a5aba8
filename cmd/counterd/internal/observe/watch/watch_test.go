package watch

import (
	"testing"

	"github.com/counterd/counterd/schema"
)

// keysOf returns keys of n items from mid on.
func keysOf(def *schema.Counter, mid, n uint64) []schema.Key {
	keys := make([]schema.Key, n)
	for i := range keys {
		keys[i] = schema.Key{Counter: def, Mid: mid + uint64(i), Col: i % 2}
	}
	return keys
}

// TestLimit: a client that asks for too many keys keeps the keys that it watched
// before, whichever client fills the table.
func TestLimit(t *testing.T) {
	var w Table
	def := &schema.Counter{ID: 1}
	var m Mark
	if w.Add(&m, keysOf(def, 0, maxWatched+1)) {
		t.Fatal("too much is watched")
	}
	if connections, items := w.Len(); connections != 0 || items != 0 {
		t.Errorf("%d connections watch %d items", connections, items)
	}
	if !w.Add(&m, append(keysOf(def, 0, maxWatched), keysOf(def, 0, 9)...)) {
		t.Error("as much as may be, some of it twice, is refused")
	}
	if !w.Add(&m, keysOf(def, 0, 9)) || !w.Add(&m, nil) {
		t.Error("what it watches is refused")
	}
	if w.Add(&m, append(keysOf(def, 0, 9), keysOf(def, maxWatched, 1)...)) {
		t.Error("one more is watched")
	}
	marks := make([]Mark, maxWatchedInAll/maxWatched)
	for i := range marks[1:] {
		if !w.Add(&marks[i], keysOf(def, uint64(i+1)*maxWatched, maxWatched)) {
			t.Fatalf("connection %d is refused", i)
		}
	}
	var last Mark
	if !w.Add(&last, keysOf(def, 5, 2)) {
		t.Error("what others watch is refused")
	}
	if w.Add(&last, append(keysOf(def, 7, 2), keysOf(def, maxWatchedInAll, 1)...)) {
		t.Error("more than all may watch is watched")
	}
	if _, items := w.Len(); items != maxWatchedInAll {
		t.Errorf("%d items are watched", items)
	}
	if n := len(w.of[&last]); n != 2 {
		t.Errorf("it watches %d items, want those of the call that was not refused", n)
	}
	w.Remove(&m)
	if connections, items := w.Len(); connections != len(marks) || items != maxWatchedInAll-maxWatched+2 {
		t.Errorf("%d connections watch %d items", connections, items)
	}
	w.TouchAll()
	if m.Dirty() || !last.Dirty() {
		t.Error("the wrong ones are marked")
	}
}
