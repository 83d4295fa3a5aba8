package schema

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
)

var (
	updateFlag = flag.Bool("update", false, "write the golden files instead of comparing with them")
)

// newRand is a source whose seed is printed when the test fails.
func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seed.Of(t), 1))
}

// golden compares got with testdata/name. A file of a released format is never
// updated: a new format gets a new file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *updateFlag {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// parse is the schema that script makes of the empty one.
func parse(t testing.TB, script string) *Schema {
	t.Helper()
	return parseOnto(t, script, Empty())
}

func parseOnto(t testing.TB, script string, s *Schema) *Schema {
	t.Helper()
	s, err := ParseScript(strings.NewReader(script), s)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// statement is the statement that line says.
func statement(t testing.TB, line string) Statement {
	t.Helper()
	st, err := ParseStatement(strings.Fields(line))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

const seedScript = `add column weibo mid hint=64 max=64 primarykey
add counter weibo
add column weibo comment hint=16 max=32 default=0 suffix=cntcm
add column weibo repost hint=16 max=32 suffix=cntrn
add column weibo attitude hint=8 max=32 suffix=cntan
`

// seedText is how a schema prints what seedScript says.
const seedText = `add column weibo mid hint=64 max=64 primarykey
add counter weibo
add column weibo comment hint=16 max=32 default=0 suffix=cntcm
add column weibo repost hint=16 max=32 default=0 suffix=cntrn
add column weibo attitude hint=8 max=32 default=0 suffix=cntan
`

// richScript uses all forms there are: a counter with a plain column, several
// counters, a drop that leaves a gap, a key for a counter to come.
const richScript = seedScript + `
add counter reads
add column reads n hint=12 max=40 default=7 suffix=       # the empty suffix: reads:MID is a number
add counter wide
add column wide big hint=64 max=64 default=9223372036854775807 suffix=big
add column wide gone hint=3 max=3 suffix=gone
add column wide bit hint=1 max=1 suffix=b
drop column wide gone
add counter dropped
add column later id hint=64 max=64 primarykey
drop counter dropped
add column wide last hint=5 max=63 suffix=last
drop column wide last
`
