package find

import (
	"fmt"
	"strings"
	"testing"
)

// TestPageEnds: a page looks for so many steps and no more; its cursor goes on there, and all pages have all rows once.
func TestPageEnds(t *testing.T) {
	s := fill(t, 20_000)
	for _, direction := range []string{"", " DESC"} {
		seen, pages := 0, 0
		for cursor := "0"; pages == 0 || cursor != "0"; pages++ {
			c := &fakeConn{store: s, steps: 1 << 30}
			var words [][]byte
			for word := range strings.FieldsSeq("COUNTER.FIND weibo COLUMNS comment LIMIT 10000 CURSOR " + cursor + direction) {
				words = append(words, []byte(word))
			}
			findPage(c, words, 1)
			if rows := int(c.call.Out.Len() / 30); c.gaveWay < rows/breath {
				t.Errorf("others had their turn %d times in a reply of %d rows and more", c.gaveWay, rows)
			}
			lines := strings.Split(string(c.call.Out.From(0)), "\r\n")
			var n int
			if _, err := fmt.Sscanf(lines[3], "*%d", &n); err != nil {
				t.Fatalf("%q: %v", lines[:5], err)
			}
			cursor = lines[2]
			for i := range n { // each row is *2 :mid :1
				want := seen + i
				if direction != "" {
					want = 20_000 - 1 - want
				}
				if got := lines[4+3*i+1]; got != fmt.Sprintf(":%d", want) {
					t.Fatalf("row %d is %s, want %d", seen+i, got, want)
				}
			}
			seen += n
		}
		if seen != 20_000 || pages < 4 {
			t.Errorf("%d rows in %d pages, want all in more than LIMIT asks for", seen, pages)
		}
	}
}
