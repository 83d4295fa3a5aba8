package schema

import (
	"fmt"
	"strings"
	"testing"
)

// Suffixes of all lengths, each found and nothing else found, at the end of keys
// shorter and longer than a word.
func TestSuffixTable(t *testing.T) {
	r := newRand(t)
	for _, n := range []int{0, 1, 2, 3, 64, 2000, MaxCounters * MaxColumns} {
		want := map[string]address{}
		var counters []*Counter
		for len(want) < n {
			suffix := make([]byte, 1+r.IntN(12))
			for i := range suffix {
				suffix[i] = "abz_019Z"[r.IntN(8)]
			}
			if _, taken := want[string(suffix)]; taken {
				continue
			}
			if len(want)%MaxColumns == 0 {
				counters = append(counters, &Counter{})
			}
			c := counters[len(counters)-1]
			want[string(suffix)] = address{c, len(c.Columns)}
			c.Columns = append(c.Columns, Column{Suffix: string(suffix)})
		}
		if len(counters) > 0 {
			counters = append(counters, &Counter{Columns: []Column{{Suffix: ""}}})
		}
		table := newSuffixTable(counters)
		find := func(suffix string) {
			t.Helper()
			for _, front := range []string{"", ".", "7.", "1234567.", "3612345678901234.", "abcdefgh"} {
				if got := table.find([]byte(front+suffix), len(suffix)); got != want[suffix] {
					t.Fatalf("of %d suffixes, %q in %q: got %v, want %v", n, suffix, front+suffix, got, want[suffix])
				}
			}
		}
		for suffix := range want {
			find(suffix)
			find(suffix + "\x00")
			find("\x00" + suffix)
			find(suffix[1:])
			find(suffix + "a")
			find(suffix[:len(suffix)-1])
			find(strings.ToUpper(suffix))
		}
		find("")
		find("\x00")
		find("\x00\x00\x00\x00\x00\x00\x00\x00")
		find("\xff\xff\xff\xff\xff\xff\xff\xff")
	}
	var zero suffixTable
	if got := zero.find([]byte("7.a"), 1); got != (address{}) {
		t.Errorf("the zero table: got %v", got)
	}
}

// Suffixes as people number them do not crowd the table.
func TestSuffixTableSpreads(t *testing.T) {
	for _, form := range []string{"%d", "s%d", "cnt%05d", "%d_cnt", "%06dab"} {
		c := &Counter{}
		for i := range MaxCounters * MaxColumns {
			c.Columns = append(c.Columns, Column{Suffix: fmt.Sprintf(form, i)})
		}
		table := newSuffixTable([]*Counter{c})
		longest := 0
		for i := range table.slots {
			run := 0
			for table.slots[(i+run)&(len(table.slots)-1)].counter != nil {
				run++
			}
			longest = max(longest, run)
		}
		if longest > 256 {
			t.Errorf("%s: a look-up may take %d steps", form, longest)
		}
		t.Logf("%s: at most %d steps", form, longest)
	}
}
