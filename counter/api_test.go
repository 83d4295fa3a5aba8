package counter

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
)

// TestMGet: values and absent items in the order of the keys; one bad key and nothing is read.
func TestMGet(t *testing.T) {
	s := open(t, Options{}, "add counter w\nadd column w a hint=8 max=32 suffix=a\nadd column w b hint=8 max=32 suffix=b default=9")
	must(t, s.Set("7.a", 70))
	got, err := s.MGet("8.a", "7.b", "7.a", "7.a", "8.b")
	if want := []Value{{}, {9, true}, {70, true}, {70, true}, {}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got, err := s.MGet(); err != nil || len(got) != 0 {
		t.Errorf("no keys: got %v, %v", got, err)
	}
	for _, bad := range []string{"7", "7.c", ""} {
		if got, err := s.MGet("7.a", bad); !errors.Is(err, ErrNoKey) || got != nil {
			t.Errorf("%q: got %v, %v, want ErrNoKey", bad, got, err)
		}
	}
	must(t, s.Close())
	if _, err := s.MGet("7.a"); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: got %v, want ErrClosed", err)
	}
	if _, _, err := s.Scan(0, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: SCAN got %v, want ErrClosed", err)
	}
}

// TestMGetWhole: what a group sets together, in two counters and so in two blocks, is read together.
func TestMGetWhole(t *testing.T) {
	s := open(t, Options{}, "add counter w\nadd column w a hint=8 max=32 suffix=a\nadd counter x\nadd column x b hint=8 max=32 suffix=b")
	must(t, s.Set("1.a", 0))
	must(t, s.Set("1.b", 0))
	var quit atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := s.NewBatch()
		for n := uint64(1); !quit.Load(); n++ {
			if b.Begin() != nil {
				return
			}
			b.Reset()
			for _, name := range []string{"w", "x"} {
				b.Add(Op{Kind: OpSet, Counter: b.Schema().Counter(name), Mid: 1, Arg: n})
			}
			b.ChangeSet(0)
			b.Run()
			b.End()
		}
	}()
	for range 20000 {
		got, err := s.MGet("1.a", "1.b", "1.a", "1.b")
		if err != nil || slices.ContainsFunc(got, func(v Value) bool { return v != got[0] }) {
			t.Fatalf("a part of a group was read: %v, %v", got, err)
		}
	}
	quit.Store(true)
	<-done
}

// TestScanStore: all items once, by calls of one each.
func TestScanStore(t *testing.T) {
	s := open(t, Options{}, "add counter w\nadd column w a hint=8 max=32 suffix=a")
	for _, key := range []string{"3.a", "1.a", "2.a"} {
		must(t, s.Set(key, 1))
	}
	var mids []uint64
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		items, next, err := s.Scan(cursor, 1)
		must(t, err)
		for _, i := range items {
			mids = append(mids, i.Mid)
		}
		cursor = next
	}
	if !slices.Equal(mids, []uint64{1, 2, 3}) {
		t.Errorf("got %v, want 1, 2, 3", mids)
	}
}
