package resp

import (
	"strings"
	"sync"
	"testing"
)

// TestLarge: the memory of large replies goes to later ones, and to one at a time.
func TestLarge(t *testing.T) {
	var each sync.WaitGroup
	for i := range 8 {
		each.Go(func() {
			text := strings.Repeat(string(rune('a'+i)), 1<<15)
			for range 100 {
				var r Replies
				r.Status("before")
				r.TakeLarge()
				r.BulkString(text)
				if got := string(r.From(0)); got != "$32768\r\n"+text+"\r\n" {
					t.Errorf("got %.40q, want %.40q", got, text)
				}
				r.DropLarge()
				if r.Len() > 0 || r.Cap() > 0 {
					t.Errorf("%d bytes are left, in %d", r.Len(), r.Cap())
				}
			}
		})
	}
	each.Wait()
	var m Region
	r := Replies{}
	r.TakeLarge()
	r.BulkString("x")
	r.GiveMemory(&m)
	kept := m.b
	r.DropLarge()
	var other Replies
	other.TakeLarge()
	other.BulkString("y")
	if &kept[:1][0] == &other.From(0)[0] {
		t.Error("memory that was given away is used by others")
	}
	r = Replies{}
	r.BulkString("z")
	r.DropLarge()
	for m, ok := large.Get().(*Region); ok; m, ok = large.Get().(*Region) {
		if cap(m.b) < 1<<15 {
			t.Errorf("memory of %d bytes that was not taken as large", cap(m.b))
		}
	}
}
