package posts

import (
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/schema"
)

// TestConditions compares conditions with their results for single posts.
func TestConditions(t *testing.T) {
	sch, err := schema.ParseScript(strings.NewReader("add counter c\nadd column c n hint=8 max=32\n"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	holds := map[string]func(a, b uint64) bool{
		"=": func(a, b uint64) bool { return a == b }, "!=": func(a, b uint64) bool { return a != b }, "<": func(a, b uint64) bool { return a < b },
		"<=": func(a, b uint64) bool { return a <= b }, ">": func(a, b uint64) bool { return a > b }, ">=": func(a, b uint64) bool { return a >= b },
	}
	for op, hold := range holds {
		for _, bound := range []string{"0", "1", "5", "9223372036854775807"} {
			q, err := Conditions(sch.Counter("c"), []string{"MID", op, bound})
			if err != nil {
				t.Fatal(err)
			}
			for _, mid := range []uint64{0, 1, 4, 5, 6, schema.MaxMid - 1, schema.MaxMid} {
				v, _ := schema.ParseMid([]byte(bound))
				got := q.From <= mid && mid <= q.To && !slices.Contains(q.NotMids, mid)
				if got != hold(mid, v) {
					t.Errorf("MID %s %s takes %d: %v", op, bound, mid, got)
				}
			}
		}
	}
}
