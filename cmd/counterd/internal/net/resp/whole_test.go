package resp

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
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
		keys, lasts := r.Series(most)
		if got := copyArgs(keys); lasts != nil || strings.Join(got, " ") != strings.Join(want, " ") {
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
	args, _ := r.Series(100)
	r.Return(args[2:], nil)
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

// TestSeriesOfPairs: commands of five arguments that differ in the second and the last one alone are a series. One with another argument in between
// ends it.
func TestSeriesOfPairs(t *testing.T) {
	r := NewReader(DefaultLimits())
	arrives := func(input string) { r.Filled(copy(r.Space(len(input)), input)) }
	next := func(words ...string) {
		t.Helper()
		if args, err := r.Next(); err != nil || strings.Join(copyArgs(args), " ") != strings.Join(words, " ") {
			t.Fatalf("got %q, %v, want %q", args, err, words)
		}
	}
	series := func(most int, want ...string) (keys, lasts [][]byte) {
		t.Helper()
		keys, lasts = r.Series(most)
		var got []string
		for i, key := range keys {
			got = append(got, string(key)+" "+string(lasts[i]))
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Fatalf("got %q, want %q", got, want)
		}
		return keys, lasts
	}
	producer := strings.Repeat("p", 32)
	numbers := []string{"7", "8", "99", "1099511627776", "1099511627777", "0"}
	for _, n := range numbers {
		arrives(string(encode("INCR", n+".cntrn", "IDMP", producer, n)))
	}
	next("INCR", "7.cntrn", "IDMP", producer, "7")
	series(1, "8.cntrn 8")
	keys, lasts := series(100, "99.cntrn 99", "1099511627776.cntrn 1099511627776", "1099511627777.cntrn 1099511627777", "0.cntrn 0")
	r.Return(keys[1:], lasts[1:])
	next("INCR", numbers[3]+".cntrn", "IDMP", producer, numbers[3])
	r.Return(r.Series(100))
	next("INCR", numbers[4]+".cntrn", "IDMP", producer, numbers[4])
	series(100, "0.cntrn 0")
	for _, words := range [][]string{{"INCR", "1", "IDMP", "q", "2"}, {"INCR", "1", "IDMQ", "p", "2"}, {"INCR", "1", "IDMP", "pp", "2"}, {"DECR", "1", "IDMP", "p", "2"}, {"INCR", "1"},
		{"INCR", "1", "IDMP", "p", "2", "EPOCH", "3"}, {"INCR", "1", "IDMP", strings.Repeat("p", 80), "2"}} {
		arrives(string(encode("INCR", "1", "IDMP", "p", "1")) + string(encode(words...)) + string(encode(words...)))
		next("INCR", "1", "IDMP", "p", "1")
		series(100)
		next(words...)
		if len(words) == 5 && len(words[3]) < 80 {
			series(100, "1 2")
		} else {
			next(words...)
		}
	}
	one := string(encode("INCR", "1", "IDMP", "p", "1"))
	arrives(one + one + one[:len(one)-1])
	next("INCR", "1", "IDMP", "p", "1")
	series(100, "1 1")
	arrives("\n")
	series(0)
	next("INCR", "1", "IDMP", "p", "1")
}

// TestSeriesOfProducers compares random commands of pairs with Next: of producers of each length, and of a second producer in between, one byte of which differs.
func TestSeriesOfProducers(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for size := range 33 {
		producer := strings.Repeat("p", size)
		for other := range size + 1 { // the last round has no other producer
			fast, slow := NewReader(DefaultLimits()), NewReader(DefaultLimits())
			var input []byte
			count := 3 + rng.IntN(40)
			odd := 1 + rng.IntN(count-1)
			for i := range count {
				name := []byte(producer)
				if i == odd && other < size {
					name[other] = 'q'
				}
				input = append(input, encode("INCR", strings.Repeat("k", rng.IntN(100)), "IDMP", string(name), strings.Repeat("9", rng.IntN(100)))...)
			}
			for _, r := range []*Reader{fast, slow} { // the bytes stay in its buffer, behind those of the next input
				r.Filled(copy(r.Space(len(input)), input))
				for err := error(nil); err == nil; {
					_, err = r.Next()
				}
			}
			input = input[:len(input)-rng.IntN(9)] // the last one may be a part
			for _, r := range []*Reader{fast, slow} {
				r.Filled(copy(r.Space(len(input)), input))
			}
			got := 0
			for {
				args, err := fast.Next()
				want, wantErr := slow.Next()
				if err != wantErr || strings.Join(copyArgs(args), " ") != strings.Join(copyArgs(want), " ") {
					t.Fatalf("producer of %d bytes, other at %d, command %d: got %q, %v, want %q, %v", size, other, got, args, err, want, wantErr)
				}
				if err != nil {
					break
				}
				got++
				name := string(want[3])
				keys, lasts := fast.Series(1 + rng.IntN(50))
				for i := range keys {
					want, err := slow.Next()
					if err != nil || len(want) != 5 || string(want[1]) != string(keys[i]) || string(want[3]) != name || string(want[4]) != string(lasts[i]) {
						t.Fatalf("producer of %d bytes, other at %d, command %d: got %q and %q behind producer %q, want %q, %v", size, other, got, keys[i], lasts[i], name, want, err)
					}
					got++
				}
			}
			if got < count-1 {
				t.Fatalf("producer of %d bytes, other at %d: got %d commands, want %d", size, other, got, count)
			}
		}
	}
}
