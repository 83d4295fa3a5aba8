package mapping

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/schema"
)

// TestBack writes numbers and reads them again, by rules of every form.
func TestBack(t *testing.T) {
	sch, err := schema.ParseScript(strings.NewReader("add counter c\nadd column c a hint=8 max=32\nadd column c b hint=8 max=24\nadd counter d\nadd column d x hint=8 max=63\n"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for _, texts := range [][]string{{"n:{mid}:a=c.a", "n:{mid}:b=c.b"}, {"h:{mid}#a=c.a", "h:{mid}#b=c.b", "h:{mid}#x=d.x"}, {"h:{mid}#*=c"}, {"f#{mid}=c.a"}, {"l:{mid/100}#{mid%100}=c.b"}, {"l:{mid/100}#{mid:36}=c.b"},
		{"z@{mid:16}=c.a"}, {"p:{mid}=c(a,_,b)"}, {"p:{mid}=c(a b)"}, {"p:{mid}=c[a:u40,b:u24le]"}, {"p:{mid}=c[a:u33,_:u3,b:u25]"}, {"p:{mid}=c[a:u32le,b:u32,...]"}, {`p:{mid}=c{"a b":a,y:b}`}, {`\{mid}:{{mid}}=d.x`}} {
		r, err := Parse(texts, sch)
		if err != nil {
			t.Fatal(texts, err)
		}
		w, err := r.Writer()
		if err != nil {
			t.Fatal(texts, err)
		}
		columns := r.Columns()
		for range 200 {
			mid := rng.Uint64N(1 << (1 + rng.IntN(63)))
			values, has := make([]uint64, len(columns)), make([]bool, len(columns))
			var want, got []string
			for i, c := range columns {
				values[i], has[i] = rng.Uint64N(c.Counter.Columns[c.Index].Limit()+1), true
				want = append(want, fmt.Sprintf("%d %d %d", mid, i, values[i]))
			}
			tally := Tally{}
			w.Commands(mid, values, has, func(words [][]byte) {
				m, ok := r.Key(words[1], &tally)
				if !ok {
					t.Fatalf("%v: key %q fits no rule", texts, words[1])
				}
				var items []Item
				switch string(words[0]) {
				case "SET":
					items = m.Value(nil, words[2], &tally)
				case "HSET":
					for i := 2; i < len(words); i += 2 {
						items = m.Pair(items, words[i], words[i+1], &tally)
					}
				case "ZADD":
					items = m.Pair(nil, words[3], words[2], &tally)
				}
				for _, i := range items {
					got = append(got, fmt.Sprintf("%d %d %d", i.Mid, i.Column, i.Value))
				}
			})
			if slices.Sort(got); !slices.Equal(got, want) || tally.Total() > 0 {
				t.Fatalf("%v: got %q, want %q, skipped %+v", texts, got, want, tally.List())
			}
			w.SkipZeros = true
			w.Commands(mid, make([]uint64, len(columns)), has, func(words [][]byte) { t.Errorf("%v: %q of zeros", texts, words) })
			some := 0
			values[0] = 1
			w.Commands(mid, values, has, func(words [][]byte) { some++ })
			w.SkipZeros = false
			if some == 0 {
				t.Fatalf("%v: a number above 0 was left out", texts)
			}
			w.Commands(mid, values, make([]bool, len(columns)), func(words [][]byte) { t.Errorf("%v: %q of no number", texts, words) })
		}
	}
	for _, texts := range [][]string{{"n:{mid}:{*}=c.a"}, {"n:{mid}=c.a", "m:{mid}=c.a"}} {
		r, err := Parse(texts, sch)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Writer(); err == nil {
			t.Errorf("%v: there is no one way back", texts)
		}
	}
}
