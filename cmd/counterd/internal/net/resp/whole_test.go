package resp

import (
	"fmt"
	"strings"
	"testing"
)

// TestSeries: in a pipeline of one command of two arguments, all but the first are of its series. A command with another name, or another
// number of arguments, ends it, and so does a part of a command. FuzzReader compares a series with the commands that Next
// returns.
func TestSeries(t *testing.T) {
	r := NewReader(DefaultLimits())
	arrives := func(input string) { r.Filled(copy(r.Space(len(input)), input)) }
	next := func(words ...string) {
		t.Helper()
		if args, err := r.Next(); err != nil || strings.Join(copyArgs(args), " ") != strings.Join(words, " ") {
			t.Fatalf("got %q, %v, want %q", args, err, words)
		}
	}
	series := func(most int, want ...string) {
		t.Helper()
		if got := copyArgs(r.Series(most)); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	for _, name := range []string{"G", "GET", "INCR", "STRLEN"} {
		var keys []string
		for i := range 20 {
			keys = append(keys, fmt.Sprint(i*7919, ".cntrn"))
			arrives(string(encode(name, keys[i])))
		}
		next(name, keys[0])
		series(5, keys[1:6]...)
		series(100, keys[6:]...)
		if r.Followed() {
			t.Errorf("%s: a command follows the last one", name)
		}
		series(100)
	}
	keys := []string{"1", "22.cntrn", "{333}.cntrn", "4", "55.cntrn"}
	for _, key := range keys {
		arrives(string(encode("INCR", key)))
	}
	next("INCR", keys[0])
	args := r.Series(100)
	r.Return(args[2:])
	next("INCR", keys[3])
	r.Return(r.Series(100))
	next("INCR", keys[4])
	if r.Followed() {
		t.Error("a command follows those that were given back")
	}
	for _, words := range [][]string{{"STRLEX", "1.cntrn"}, {"STRLEN", "1", "2"}, {"STRLEN"}, {"STRLENX", "1.cntrn"}, {"STRLENX", "1.cntrn"}} {
		arrives(string(encode("STRLEN", "1.cntrn")) + string(encode(words...)))
		next("STRLEN", "1.cntrn")
		series(100)
		next(words...)
	}
	arrives(strings.Repeat(string(encode("GET", "1.cntrn")), 3)[:3*len(encode("GET", "1.cntrn"))-1])
	next("GET", "1.cntrn")
	series(100, "1.cntrn")
	arrives("\n")
	series(0)
	next("GET", "1.cntrn")
	r.SetLimits(Limits{MaxBulk: 8})
	arrives(string(encode("GET", "1.cntrn")))
	series(100) // of before other limits
}
