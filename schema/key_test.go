package schema

import (
	"errors"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
)

func TestParseKey(t *testing.T) {
	s := parse(t, richScript)
	type want struct {
		counter string // empty: not a key
		col     int
		mid     uint64
	}
	for key, want := range map[string]want{
		"19089006004.cntcm":         {"weibo", 0, 19089006004},
		"888888.cntrn":              {"weibo", 1, 888888},
		"123456.cntan":              {"weibo", 2, 123456},
		"000010406136.cntrn":        {"weibo", 1, 10406136},
		"19089006004":               {"weibo", WholeItem, 19089006004},
		"0":                         {"weibo", WholeItem, 0},
		"00000000000000000000000.b": {"wide", 1, 0},
		"9223372036854775807.big":   {"wide", 0, MaxMid},
		strings.Repeat("0", 5000) + "9223372036854775807": {"weibo", WholeItem, MaxMid},
		"weibo:7":                 {"weibo", WholeItem, 7},
		"weibo:7.cntcm":           {"weibo", 0, 7},
		"wide:7":                  {"wide", WholeItem, 7},
		"reads:7":                 {"reads", 0, 7}, // its column has no suffix
		"{7}":                     {"weibo", WholeItem, 7},
		"{007}.cntcm":             {"weibo", 0, 7},
		"wide:{7}":                {"wide", WholeItem, 7},
		"wide:{7}.big":            {"wide", 0, 7},
		"reads:{7}":               {"reads", 0, 7},
		"{9223372036854775807}.b": {"wide", 1, MaxMid},
		"{weibo:7}":               {"weibo", WholeItem, 7},
		"{weibo:7}.cntcm":         {"weibo", 0, 7},
		"{wide:007}.big":          {"wide", 0, 7},
		"{reads:7}":               {"reads", 0, 7},

		"":                                       {},
		"9223372036854775808":                    {},
		"10000000000000000000":                   {},
		"18446744073709551616":                   {}, // 2^64
		"18446744073709551617.cntcm":             {},
		"99999999999999999999999999999999999999": {},
		"7.":                                     {},
		"7.nothing":                              {},
		"7.comment":                              {}, // a name is no suffix
		"7.cntcm ":                               {},
		"7.cntcm.":                               {},
		"7..cntcm":                               {},
		"7.cntcm\x00":                            {},
		".cntcm":                                 {},
		"-7":                                     {},
		"+7":                                     {},
		" 7":                                     {},
		"7 ":                                     {},
		"7\n":                                    {},
		"0x7":                                    {},
		"7e3":                                    {},
		"7:8":                                    {},
		"weibo":                                  {},
		"weibo:":                                 {},
		"weibo:.cntcm":                           {},
		"weibo:7.":                               {},
		"weibo:-7":                               {},
		"weibo:7.big":                            {}, // of another counter
		"reads:7.cntcm":                          {},
		"Weibo:7":                                {},
		"later:7":                                {}, // declared only
		"dropped:7":                              {},
		"weibo:weibo:7":                          {},
		":7":                                     {},
		"7.gone":                                 {},
		"{}":                                     {},
		"{7":                                     {},
		"7}":                                     {},
		"{7}7":                                   {},
		"{{7}}":                                  {},
		"{7.cntcm}":                              {},
		"{weibo:7.cntcm}":                        {},
		"{weibo:{7}}":                            {},
		"{weibo:{7}":                             {},
		"{weibo:7}7":                             {},
		"{weibo:7":                               {},
		"{weibo}:7":                              {},
		"{weibo:}":                               {},
		"{nothing:7}":                            {},
		"{wide:7}.cntcm":                         {},
		"{9223372036854775808}":                  {},
		"{-7}":                                   {},
		"{":                                      {},
		"counter:__rand_int__":                   {},
		"key:__rand_int__":                       {},
		"__Booksleeve_TieBreak":                  {},
		strings.Repeat("w", 1<<20) + ":7":        {},
		"weibo" + strings.Repeat("o", 59) + ":7": {},
	} {
		k, ok := s.ParseKey([]byte(key))
		show := key[:min(len(key), 80)]
		if want.counter == "" {
			if ok || k != (Key{}) {
				t.Errorf("%s: got %+v, want no key", show, k)
			}
			continue
		}
		if !ok || k.Counter != s.Counter(want.counter) || k.Col != want.col || k.Mid != want.mid {
			t.Errorf("%s: got %+v, %v, want %+v", show, k, ok, want)
		}
	}
}

// A column is reached by its name unless a suffix says otherwise. A column that was made with the empty suffix
// keeps it through every form of its text, and the line that once made it still fits.
func TestSuffixByDefault(t *testing.T) {
	const line = "add counter a\nadd column a likes hint=4\n"
	s := parse(t, line)
	a := s.Counter("a")
	for key, col := range map[string]int{"5.likes": 0, "a:5.likes": 0, "5": WholeItem, "a:5": WholeItem} {
		if k, ok := s.ParseKey([]byte(key)); !ok || k != (Key{a, col, 5}) {
			t.Errorf("%s: got %+v, %v", key, k, ok)
		}
	}
	old, err := ParseDurable([]byte("schema format=1\nadd counter a id=1\nadd column a likes hint=4 max=4 default=0 suffix= id=1\n" +
		"next column a id=2\nnext counter id=2\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Schema{
		"as it was": old, "its line again": parseOnto(t, line, old), "from its text": parse(t, old.String()),
		"another column": parseOnto(t, "add column a n hint=4", old),
	} {
		if k, ok := s.ParseKey([]byte("a:5")); !ok || k != (Key{s.Counter("a"), 0, 5}) {
			t.Errorf("%s: a:5 is %+v, %v: want column likes", name, k, ok)
		}
		if _, ok := s.ParseKey([]byte("5.likes")); ok {
			t.Errorf("%s: 5.likes is a key", name)
		}
	}
	if parseOnto(t, line, old) != old {
		t.Error("the line that made the schema changed it")
	}
	if _, err := old.Apply(statement(t, "add column a likes hint=4 suffix=likes")); !errors.Is(err, ErrSchemaMismatch) {
		t.Errorf("another suffix that is said: got %v", err)
	}
}

// The empty suffix in the first counter makes MID a number, and ParseItem still
// reaches the item.
func TestPlainColumn(t *testing.T) {
	s := parse(t, "add counter a\nadd counter b\nadd column a x hint=4 suffix=x\nadd column a n hint=4 suffix=\nadd column b m hint=4 suffix=\n")
	a, b := s.Counter("a"), s.Counter("b")
	if a.Plain != 1 || b.Plain != 0 {
		t.Fatalf("the plain columns are %d and %d", a.Plain, b.Plain)
	}
	for key, want := range map[string]Key{"5": {a, 1, 5}, "a:5": {a, 1, 5}, "b:5": {b, 0, 5}, "5.x": {a, 0, 5}} {
		if k, ok := s.ParseKey([]byte(key)); !ok || k != want {
			t.Errorf("%s: got %+v, %v", key, k, ok)
		}
	}
	for key, want := range map[string]*Counter{"5": a, "a:5": a, "b:{05}": b} {
		if c, mid, ok := s.ParseItem([]byte(key)); !ok || c != want || mid != 5 {
			t.Errorf("%s: got %v, %d, %v", key, c, mid, ok)
		}
	}
	for _, key := range []string{"5.x", "a:5.x", "5.", "", "c:5", "a:"} {
		if _, _, ok := s.ParseItem([]byte(key)); ok {
			t.Errorf("%s is an item", key)
		}
	}
	for want, k := range map[string]Key{"5": {a, WholeItem, 5}, "a:5": {a, 1, 5}, "b:5": {b, WholeItem, 5}, "5.x": {a, 0, 5}} {
		if got := string(s.AppendKey(nil, k.Counter, k.Col, k.Mid)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := string(s.AppendKey([]byte(">"), b, 0, MaxMid)); got != ">b:9223372036854775807" {
		t.Errorf("got %s", got)
	}
	// When the first counter goes, the next one takes its place.
	s = parseOnto(t, "drop counter a", s)
	if k, ok := s.ParseKey([]byte("5")); !ok || k != (Key{b, 0, 5}) {
		t.Errorf("got %+v, %v", k, ok)
	}
}

func TestParseMid(t *testing.T) {
	for in, want := range map[string]uint64{"0": 0, "{12}": 12, "0012": 12, "9223372036854775807": MaxMid} {
		if got, ok := ParseMid([]byte(in)); !ok || got != want {
			t.Errorf("%s: got %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "a", "1a", "1.b", "{1", "1}", "9223372036854775808"} {
		if _, ok := ParseMid([]byte(in)); ok {
			t.Errorf("%q is a mid", in)
		}
	}
	// Every length of number, next to every boundary, with any bytes after it.
	for n := range 64 {
		for _, v := range []uint64{1 << n, 1<<n - 1, 1<<n + 1} {
			digits := strconv.FormatUint(v, 10)
			for _, tail := range []string{"", ".", "}", "/", ":", "\x00", "aaaaaaaaaaaa", "\xff12345678"} {
				got, used := parseMid([]byte(digits + tail))
				if v > MaxMid {
					if used != 0 {
						t.Errorf("%s%q is %d", digits, tail, got)
					}
				} else if got != v || used != len(digits) {
					t.Errorf("%s%q is %d, %d bytes", digits, tail, got, used)
				}
			}
		}
	}
}

var keyForm = regexp.MustCompile(`\A(?:\{([A-Za-z_][A-Za-z0-9_]*):([0-9]+)\}|(?:([A-Za-z_][A-Za-z0-9_]*):)?(?:\{([0-9]+)\}|([0-9]+)))(?:\.([A-Za-z0-9_]+))?\z`)

// slowParseKey reads a key as the package comment says, with no regard to time.
func slowParseKey(s *Schema, key string) (k Key, item, ok bool) {
	m := keyForm.FindStringSubmatch(key)
	if m == nil || len(s.counters) == 0 {
		return Key{}, false, false
	}
	name, suffix := m[1]+m[3], m[6]
	mid, _ := new(big.Int).SetString(m[2]+m[4]+m[5], 10)
	if !mid.IsInt64() {
		return Key{}, false, false
	}
	k.Mid = mid.Uint64()
	for i, c := range s.counters {
		if name != "" && name != c.Name || name == "" && suffix == "" && i > 0 {
			continue
		}
		if suffix == "" {
			k.Counter, k.Col = c, WholeItem
		}
		for col := range c.Columns {
			if c.Columns[col].Suffix == suffix {
				k.Counter, k.Col = c, col
			}
		}
	}
	if k.Counter == nil {
		return Key{}, false, false
	}
	return k, suffix == "", true
}

func checkKey(t *testing.T, s *Schema, key string) {
	t.Helper()
	want, item, ok := slowParseKey(s, key)
	if got, gotOK := s.ParseKey([]byte(key)); got != want || gotOK != ok {
		t.Errorf("%q: got %+v, %v; want %+v, %v", key, got, gotOK, want, ok)
	}
	c, mid, gotItem := s.ParseItem([]byte(key))
	if gotItem != item || gotItem && (c != want.Counter || mid != want.Mid) {
		t.Errorf("%q as an item: got %v, %d, %v; want %+v, %v", key, c, mid, gotItem, want, item)
	}
	if !ok {
		return
	}
	canonical := s.AppendKey(nil, want.Counter, want.Col, want.Mid)
	if got, _ := s.ParseKey(canonical); got != want && want.Counter.Plain < 0 {
		t.Errorf("%q: its canonical key %s is %+v, want %+v", key, canonical, got, want)
	}
	if item {
		canonical = s.AppendKey(nil, want.Counter, WholeItem, want.Mid)
		if c, mid, ok := s.ParseItem(canonical); !ok || c != want.Counter || mid != want.Mid {
			t.Errorf("%q: its item's key %s is %v, %d, %v", key, canonical, c, mid, ok)
		}
	}
}

// Keys put together at random from the parts of keys.
func TestParseKeyRandom(t *testing.T) {
	racetest.Skip(t, "one goroutine parses many keys")
	r := newRand(t)
	schemas := []*Schema{
		Empty(), parse(t, seedScript), parse(t, richScript),
		parse(t, "add counter a\nadd column a n hint=1\nadd counter b\nadd column b m hint=1\nadd column b k hint=1 suffix=k"),
	}
	parts := []string{
		"weibo", "reads", "wide", "a", "b", ":", ":", "{", "}", ".", ".", "cntcm", "big", "b", "k", "n",
		"0", "00", "1", "7", "19089006004", "9223372036854775807", "9223372036854775808", "92233720368547758070", "-", " ", "\x00", "\xff",
	}
	for range 100_000 {
		var b strings.Builder
		for range r.IntN(7) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		checkKey(t, schemas[r.IntN(len(schemas))], b.String())
	}
	for range 20_000 { // mids of all lengths, in keys that are right
		mid := strings.Repeat("0", r.IntN(4)*r.IntN(9)) + strconv.FormatUint(r.Uint64()>>r.IntN(64), 10)
		if r.IntN(4) == 0 {
			mid = "{" + mid + "}"
		}
		s := schemas[1+r.IntN(2)]
		checkKey(t, s, []string{"", "weibo:", "wide:", "reads:"}[r.IntN(4)]+mid+[]string{"", ".cntcm", ".cntan", ".big"}[r.IntN(4)])
	}
}

// TestKeyReader: a reader of keys answers as ParseKey does, whatever key was before.
func TestKeyReader(t *testing.T) {
	racetest.Skip(t, "one goroutine parses many keys")
	rng := newRand(t)
	for _, s := range []*Schema{Empty(), parse(t, seedScript), parse(t, richScript)} {
		r := s.Reader()
		for range 20_000 {
			mid := strings.Repeat("0", rng.IntN(3)*rng.IntN(3)) + strconv.FormatUint(rng.Uint64()>>rng.IntN(64), 10)
			key := []byte([]string{"", "", "", "{", "weibo:"}[rng.IntN(5)] + mid + []string{"", ".cntcm", ".cntrn", ".cntrn", ".big", ".none", "}.big", "}.cntcm", "}.cntrn", "}.none", "}cntrn", "}"}[rng.IntN(12)])
			if rng.IntN(20) == 0 {
				key[rng.IntN(len(key))] = byte(rng.Uint32())
			}
			got, ok := r.ParseKey(key)
			if want, known := s.ParseKey(key); got != want || ok != known {
				t.Fatalf("%q: got %v, %v, want %v, %v", key, got, ok, want, known)
			}
		}
	}
}

// TestKeyReaderNext: ParseNext reads keys as ParseKey does, and stops at keys that name another column.
func TestKeyReaderNext(t *testing.T) {
	racetest.Skip(t, "one goroutine parses many keys")
	rng := newRand(t)
	s := parse(t, seedScript)
	r := s.Reader()
	read := 0
	for range 5000 {
		var keys [][]byte
		for range 1 + rng.IntN(9) {
			mid := strconv.FormatUint(rng.Uint64()>>rng.IntN(40), 10)
			if rng.IntN(30) == 0 {
				mid = "{" + mid + "}"
			}
			key := []byte(mid + []string{".cntcm", ".cntrn", ".cntrn", ".cntrn", ".cntrn", ".cntrn", ".cntan", "", ".none"}[rng.IntN(9)])
			if rng.IntN(30) == 0 {
				key[rng.IntN(len(key))] = byte(rng.Uint32())
			}
			keys = append(keys, key)
		}
		before, ok := r.ParseKey(keys[0])
		mids := make([]uint64, len(keys)-1)
		n := r.ParseNext(keys[1:], mids)
		if read += n; n > 0 && !ok {
			t.Fatalf("%q: %d keys behind one that is none", keys, n)
		}
		for i, mid := range mids[:n] {
			if want, ok := s.ParseKey(keys[1+i]); !ok || want != (Key{before.Counter, before.Col, mid}) {
				t.Fatalf("%q: got %d for number %d, want %v, %v", keys, mid, 1+i, want, ok)
			}
		}
	}
	if read == 0 {
		t.Error("no key was read")
	}
}

// TestDigits: eight digits at a time give the number that one at a time gives, of any length and with any bytes behind it.
func TestDigits(t *testing.T) {
	racetest.Skip(t, "one goroutine parses many keys")
	rng := newRand(t)
	for range 100_000 {
		b := make([]byte, rng.IntN(30))
		for i := range b {
			b[i] = '0' + byte(rng.IntN(10))
		}
		if rng.IntN(2) == 0 {
			for i := range min(len(b), rng.IntN(25)) { // leading zeros
				b[i] = '0'
			}
		}
		for range rng.IntN(3) {
			if len(b) > 0 {
				b[rng.IntN(len(b))] = byte(rng.Uint32())
			}
		}
		v, n := parseDigits(b)
		if want, length := parseEachDigit(b); v != want || n != length {
			t.Fatalf("%q: got %d of %d bytes, want %d of %d", b, v, n, want, length)
		}
		mid, ok := ParseMid(b)
		if want, length := parseEachDigit(b); length > 0 && length == len(b) && (!ok || mid != want) {
			t.Fatalf("%q: got %d, %v as a mid, want %d", b, mid, ok, want)
		} else if ok && (length != len(b)) && b[0] != '{' {
			t.Fatalf("%q is %d as a mid, want none", b, mid)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, key := range []string{
		"19089006004.cntcm", "weibo:1.cntrn", "reads:{0042}", "{9223372036854775807}.big", "9223372036854775808", "wide:7.", "weibo:", "",
	} {
		f.Add(key)
	}
	rich, plain := parse(f, richScript), parse(f, "add counter a\nadd column a n hint=1\nadd counter weibo\nadd column weibo k hint=1 suffix=k")
	f.Fuzz(func(t *testing.T, key string) {
		checkKey(t, rich, key)
		checkKey(t, plain, key)
	})
}

func TestHotPathAllocatesNothing(t *testing.T) {
	s := parse(t, richScript)
	c := s.Counter("weibo")
	for _, key := range []string{"4242424242424242.cntcm", "weibo:42", "{42}.big", "nobody:42", "42.nothing"} {
		b := []byte(key)
		if n := testing.AllocsPerRun(100, func() { s.ParseKey(b) }); n != 0 {
			t.Errorf("ParseKey(%s) makes %v allocations", key, n)
		}
		if n := testing.AllocsPerRun(100, func() { s.ParseItem(b) }); n != 0 {
			t.Errorf("ParseItem(%s) makes %v allocations", key, n)
		}
	}
	ids, mids, groups := [][]byte{[]byte("4242424242424242"), []byte("{42}"), []byte("1842424242424242424")}, make([]uint64, 3), make([]uint8, 3)
	if n := testing.AllocsPerRun(100, func() { ParsePosts(ids, mids, groups) }); n != 0 {
		t.Errorf("ParsePosts makes %v allocations", n)
	}
	field, dst := []byte("comment"), make([]byte, 0, 200)
	if n := testing.AllocsPerRun(100, func() {
		c.Field(field)
		s.CounterNamed(field)
		c.Index(2)
		dst = s.AppendKey(dst[:0], c, 0, MaxMid)
	}); n != 0 {
		t.Errorf("Field, CounterNamed, Index and AppendKey make %v allocations", n)
	}
}

// Keys as servers see them: other mids each time, so that no branch is learnt.
func BenchmarkParseKey(b *testing.B) {
	s := parse(b, richScript)
	r := rand.New(rand.NewPCG(1, 2))
	number := func(from, span uint64) string { return strconv.FormatUint(from+r.Uint64N(span), 10) }
	suffixes := []string{".cntcm", ".cntrn", ".cntan"}
	for _, form := range []struct {
		name string
		key  func() string
	}{
		{"16 digits and suffix", func() string {
			return number(3_600_000_000_000_000, 1e15) + suffixes[r.IntN(3)]
		}},
		{"12 digits padded and suffix", func() string { return "0000" + number(10_000_000, 89_999_999) + ".cntrn" }},
		{"19 digits and suffix", func() string { return number(1_200_000_000_000_000_000, 1e17) + ".cntcm" }},
		{"any digits and suffix", func() string { return strconv.FormatUint(r.Uint64()>>(1+r.IntN(63)), 10) + suffixes[r.IntN(3)] }},
		{"16 digits", func() string { return number(3_600_000_000_000_000, 1e15) }},
		{"name and 16 digits", func() string { return "reads:" + number(3_600_000_000_000_000, 1e15) }},
		{"braces and suffix", func() string { return "{" + number(3_600_000_000_000_000, 1e15) + "}.cntcm" }},
	} {
		b.Run("form="+form.name, func(b *testing.B) {
			keys := make([][]byte, 1024)
			for i := range keys {
				keys[i] = []byte(form.key())
			}
			b.ReportAllocs()
			var sum uint64
			for i := 0; b.Loop(); i++ {
				k, ok := s.ParseKey(keys[i&1023])
				if !ok {
					b.Fatal("no key")
				}
				sum += k.Mid
			}
			sink = sum
		})
	}
}

var sink uint64

func BenchmarkField(b *testing.B) {
	c := parse(b, seedScript).Counter("weibo")
	fields := [][]byte{[]byte("comment"), []byte("cntrn"), []byte("attitude"), []byte("cntcm")}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		col, _ := c.Field(fields[i&3])
		sink += uint64(col)
	}
}

func BenchmarkAppendKey(b *testing.B) {
	s := parse(b, seedScript)
	c := s.Counter("weibo")
	dst := make([]byte, 0, 100)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		dst = s.AppendKey(dst[:0], c, i%3, 3_600_000_000_000_000+uint64(i))
	}
}
