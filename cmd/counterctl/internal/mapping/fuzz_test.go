package mapping

import (
	"bytes"
	"fmt"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
)

// expression writes a pattern as a regular expression, in its own way: {*} is bytes up to the next literal
// byte.
func expression(text string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	quote := func(c byte) string { return fmt.Sprintf(`\x{%02x}`, c) }
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		classes := map[string]string{"{mid}": "[0-9]", "{mid:10}": "[0-9]", "{mid:16}": "[0-9a-fA-F]", "{mid:36}": "[0-9a-zA-Z]"}
		end := strings.IndexByte(rest, '}') + 1
		switch {
		case strings.HasPrefix(rest, "{*}"):
			next := rest[len("{*}"):]
			next = strings.TrimPrefix(next, `\`)
			if next == "" {
				b.WriteString(`.+`)
			} else {
				b.WriteString(`[^` + quote(next[0]) + `]+`)
			}
			i += len("{*}") - 1
		case end > 0 && classes[rest[:end]] != "":
			b.WriteString(`(` + classes[rest[:end]] + `+)`)
			i += end - 1
		case rest[0] == '\\':
			i++
			b.WriteString(quote(text[i]))
		default:
			b.WriteString(quote(text[i]))
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

// latin makes every byte a rune, as a regular expression reads UTF-8.
func latin(b []byte) string {
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return string(runes)
}

// FuzzPattern compares matching with regular expressions, and meeting with a text that fits both.
func FuzzPattern(f *testing.F) {
	f.Add("post:{mid}:likes", "post:{*}", []byte("post:12:likes"))
	f.Add("{*}:{mid:16}", `a\{b:{mid:36}`, []byte("a{b:ff"))
	f.Add("{mid}", "{mid:16}", []byte("99999999999999999999999"))
	f.Add("a{*}b{*}c", "{*}b{mid}.", []byte("axbxc"))
	f.Fuzz(func(t *testing.T, one, two string, key []byte) {
		a, err := parsePattern(one)
		if err != nil {
			return
		}
		id, fits, ok := a.match(key)
		if a.id != quotient && a.id != remainder {
			groups := expression(one).FindStringSubmatch(latin(key))
			if ok != (groups != nil) {
				t.Fatalf("%q matches %q: %v", one, key, ok)
			}
			if ok && a.id == whole && len(groups[1]) <= midDigits {
				want, _ := new(big.Int).SetString(groups[1], int(a.base))
				if fits != (want.BitLen() <= 63) || fits && want.Uint64() != id {
					t.Fatalf("%q in %q: %d, %v, want %v", one, key, id, fits, want)
				}
			}
		}
		b, err := parsePattern(two)
		if err != nil {
			return
		}
		if a.meets(b) != b.meets(a) || !a.meets(a) && len(one) > 0 {
			t.Fatalf("%q and %q meet in one direction only, or not themselves", one, two)
		}
		if _, _, both := b.match(key); ok && both && !a.meets(b) {
			t.Fatalf("%q and %q do not meet, but in %q", one, two, key)
		}
	})
}

// TestMeets: patterns over a tiny alphabet meet just when one of all short texts fits both.
func TestMeets(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var texts [][]byte
	for n, codes := 1, 5; n <= 6; n, codes = n+1, codes*5 {
		for code := range codes {
			text := make([]byte, n)
			for i := range text {
				text[i] = "12a:."[code%5]
				code /= 5
			}
			texts = append(texts, text)
		}
	}
	pieces := []string{"1", "a", ":", "{mid}", "{mid:16}", "{*}"}
	random := func() *pattern {
		for {
			var b strings.Builder
			for range 1 + rng.IntN(3) {
				b.WriteString(pieces[rng.IntN(len(pieces))])
			}
			if p, err := parsePattern(b.String()); err == nil {
				return p
			}
		}
	}
	for range 100 {
		a, b := random(), random()
		both := []byte(nil)
		for _, text := range texts {
			if _, _, ok := a.match(text); ok {
				if _, _, ok := b.match(text); ok {
					both = text
					break
				}
			}
		}
		if a.meets(b) != (both != nil) {
			t.Fatalf("%q and %q meet: %v, but %q fits both (seed %d)", a.text, b.text, a.meets(b), both, seed)
		}
	}
}

// FuzzRules: no rule and no value is too strange to be refused or counted, and every item fits its column.
func FuzzRules(f *testing.F) {
	for _, rule := range []string{"post:{mid}:likes=weibo.attitude", "p:{mid}:c#*=weibo", "l:{mid/1000}#{mid%1000}=weibo.attitude", "z@{mid}=video.plays",
		"p:{mid}=weibo(repost,_,attitude)", "p:{mid}=weibo[repost:u31,attitude:u3,...]", `p:{mid}=weibo{"a":repost,b:attitude}`} {
		f.Add(rule, "q:{mid}=video.plays", []byte("p:12"), []byte("17"), []byte(`{"a":1,"b":"2"}`))
	}
	s := testSchema(f)
	f.Fuzz(func(t *testing.T, one, two string, key, field, value []byte) {
		rules, err := Parse([]string{one, two}, s)
		if err != nil {
			return
		}
		if !bytes.HasPrefix(key, rules.Prefix()) {
			key = append(rules.Prefix()[:len(rules.Prefix()):len(rules.Prefix())], key...)
		}
		var tally Tally
		m, ok := rules.Key(key, &tally)
		if !ok {
			if tally.Total() != 1 {
				t.Fatalf("%s: a key without a rule was counted %d times", one, tally.Total())
			}
			return
		}
		var items []Item
		if m.Shape() == String {
			items = m.Value(nil, value, &tally)
		} else {
			items = m.Pair(nil, field, value, &tally)
		}
		for _, i := range items {
			c := rules.Columns()[i.Column]
			if i.Value < 0 || uint64(i.Value) > c.Counter.Columns[c.Index].Limit() || i.Mid > 1<<63-1 {
				t.Fatalf("%s: %v is out of the range of %s", one, i, c.Name())
			}
		}
	})
}
