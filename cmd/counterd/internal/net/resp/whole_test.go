package resp

import (
	"fmt"
	"testing"
)

// TestRepeated: in a pipeline of one command of two arguments, all but the first are noticed to repeat it. A command with
// another name, or another number of arguments, repeats nothing.
func TestRepeated(t *testing.T) {
	r := NewReader(DefaultLimits())
	next := func(words ...string) bool {
		input := encode(words...)
		r.Filled(copy(r.Space(len(input)), input))
		args, err := r.Next()
		if err != nil || len(args) != len(words) {
			t.Fatalf("%q: got %q, %v", words, args, err)
		}
		return r.Repeated()
	}
	for _, name := range []string{"G", "GET", "INCR", "STRLEN"} {
		if next(name, "1.cntrn") {
			t.Errorf("the first %s repeats the command before", name)
		}
		for i := range 20 {
			if !next(name, fmt.Sprint(i*7919, ".cntrn")) {
				t.Errorf("%s %d repeats nothing", name, i)
			}
		}
	}
	for _, words := range [][]string{{"STRLEX", "1.cntrn"}, {"STRLEN", "1", "2"}, {"STRLEN"}, {"STRLENX", "1.cntrn"}, {"STRLENX", "1.cntrn"}} {
		if next(words...) {
			t.Errorf("%q repeats the command before", words)
		}
	}
	next("GET", "1.cntrn")
	if r.SetLimits(Limits{MaxBulk: 8}); next("GET", "1.cntrn") {
		t.Error("a command repeats one of before other limits")
	}
}
