package schema

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// agingScript has counters whose mids carry time.
const agingScript = `add counter weibo ids=weibo retain=730d
add column weibo comment hint=8
add counter plain
add counter other ids=ms:20:1700000000000
add column key mid hint=64 max=64 primarykey
add counter key ids=mastodon retain=36h
`

// TestIDsTimes: mids of real posts.
func TestIDsTimes(t *testing.T) {
	for name, c := range map[string]struct {
		mid  uint64
		want string
	}{
		"weibo":     {3653000000000000, "2013-12-07T14:28:52Z"},
		"snowflake": {1238024384851488768, "2020-03-12T08:49:49.386Z"},
		"mastodon":  {109319338345000000, "2022-11-10T11:45:24.258Z"},
		"discord":   {175928847299117063, "2016-04-30T11:18:25.796Z"},
	} {
		f, err := parseIDs(name)
		if err != nil {
			t.Fatal(err)
		}
		got := f.UnixMilli(c.mid)
		if text := time.UnixMilli(got).UTC().Format(time.RFC3339Nano); text != c.want {
			t.Errorf("%s: %d is of %s, want %s", name, c.mid, text, c.want)
		}
		if before, later := f.Before(got), f.Before(got+f.Unit); before > c.mid || later <= c.mid {
			t.Errorf("%s: %d is not from %d on and below %d", name, c.mid, before, later)
		}
	}
	if f := (IDs{}); f.UnixMilli(MaxMid) != 0 || f.Before(math.MaxInt64) != 0 {
		t.Error("ids without time have some")
	}
}

// TestIDsModel: whatever the layout and the moment, all posts below Before were made before it, and others in its unit or later.
func TestIDsModel(t *testing.T) {
	rng := newRand(t)
	for range 20000 {
		f := IDs{Unit: 1, Shift: uint8(rng.IntN(maxShift + 1)), Epoch: rng.Int64N(maxEpoch+1) >> rng.IntN(48)}
		if rng.IntN(2) == 0 {
			f.Unit = 1000
		}
		mid, ms := rng.Uint64()>>1>>rng.IntN(40), rng.Int64()>>rng.IntN(40)
		if rng.IntN(10) == 0 {
			ms = -ms
		}
		at, cut := f.UnixMilli(mid), f.Before(ms)
		if at < 0 || cut > MaxMid+1 {
			t.Fatalf("%s: %d is of %d, and %d cuts at %d", f, mid, at, ms, cut)
		}
		if mid < cut && at >= ms {
			t.Fatalf("%s: %d is of %d, and below the cut %d of %d", f, mid, at, cut, ms)
		}
		if per := f.Unit; mid >= cut && ms > 0 && at < ms-ms%per && at/per >= f.Epoch {
			t.Fatalf("%s: %d is of %d, and not below the cut %d of %d", f, mid, at, cut, ms)
		}
		again, err := parseIDs(f.String())
		if err != nil || again != f {
			t.Fatalf("%s reads as %s, %v", f, again, err)
		}
	}
}

// TestAging: attributes of a counter, and values of them that are refused.
func TestAging(t *testing.T) {
	s := parse(t, agingScript)
	if got := s.String(); got != strings.ReplaceAll(agingScript, "hint=8", "hint=8 max=8 default=0 suffix=comment") {
		t.Errorf("got %s", got)
	}
	for _, c := range []struct {
		line string
		kind error  // nil: it is taken
		say  string // of the error, or the line of the counter then
	}{
		{"add counter weibo", nil, "add counter weibo ids=weibo retain=730d"},
		{"add counter weibo IDS=s:22:515483463 Retain=17520H", nil, "add counter weibo ids=weibo retain=730d"},
		{"add counter weibo retain=1d", ErrSchemaMismatch, "counter weibo is defined differently: retain have 730d want 1d: use ALTER COUNTER"},
		{"add counter plain ids=weibo", ErrSchemaMismatch, "ids have none want weibo"},
		{"add counter new retain=1d", ErrAttribute, "retain without ids"},
		{"add counter new ids=discord retain=90m", nil, "add counter new ids=discord retain=90m"},
		{"add counter new ids=none retain=off", nil, "add counter new"},
		{"alter counter weibo retain=365d", nil, "add counter weibo ids=weibo retain=365d"},
		{"alter counter weibo retain=off", nil, "add counter weibo ids=weibo"},
		{"alter counter weibo retain=off ids=none", nil, "add counter weibo"},
		{"alter counter weibo ids=none", ErrAttribute, "retain without ids"},
		{"alter counter weibo ids=snowflake", nil, "add counter weibo ids=snowflake retain=730d"},
		{"alter counter plain retain=1d", ErrAttribute, "retain without ids"},
		{"alter counter plain", ErrAttribute, "nothing to alter"},
		{"alter counter nothing retain=1d", ErrUnknown, "no counter nothing"},
		{"alter row plain x", ErrSyntax, "unknown statement"},
		{"alter counter weibo hint=8", ErrSyntax, "unknown attribute"},
		{"alter counter weibo retain=1d retain=1d", ErrAttribute, "twice"},
		{"alter counter weibo retain", ErrAttribute, "needs a value"},
		{"alter counter weibo retain=0d", ErrAttribute, "not a length of time"},
		{"alter counter weibo retain=-1d", ErrAttribute, "not a length of time"},
		{"alter counter weibo retain=1.5d", ErrAttribute, "not a length of time"},
		{"alter counter weibo retain=1w", ErrAttribute, "not a length of time"},
		{"alter counter weibo retain=d", ErrAttribute, "not a length of time"},
		{"alter counter weibo retain=36500d", nil, "add counter weibo ids=weibo retain=36500d"},
		{"alter counter weibo retain=36501d", ErrAttribute, "out of range"},
		{"alter counter weibo retain=4294967295d", ErrAttribute, "out of range"},
		{"alter counter weibo retain=4294967296d", ErrAttribute, "not a length of time"},
		{"alter counter weibo ids=ulid", ErrAttribute, "is unknown"},
		{"alter counter weibo ids=ms:49:0", ErrAttribute, "out of range"},
		{"alter counter weibo ids=ms:22", ErrAttribute, "is unknown"},
		{"alter counter weibo ids=us:22:0", ErrAttribute, "is unknown"},
		{"alter counter weibo ids=ms:22:-1", ErrAttribute, "is unknown"},
		{"alter counter weibo ids=ms:22:253402300800000", ErrAttribute, "out of range"},
		{"alter counter weibo ids=ms:0:0", nil, "add counter weibo ids=ms:0:0 retain=730d"},
	} {
		st, err := ParseStatement(strings.Fields(c.line))
		next := s
		if err == nil {
			if again, err := ParseStatement(strings.Fields(st.String())); err != nil || again != st {
				t.Errorf("%s: prints as %s", c.line, st)
			}
			next, err = s.Apply(st)
		}
		if c.kind != nil {
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.say) {
				t.Errorf("%s: got %v, want %v with %q", c.line, err, c.kind, c.say)
			}
			continue
		}
		if err != nil || !strings.Contains(next.String(), c.say+"\n") {
			t.Errorf("%s: got %v, %s", c.line, err, next)
			continue
		}
		checkSchema(t, next)
		back, err := ParseDurable(next.AppendText(nil))
		if err != nil || back.String() != next.String() {
			t.Errorf("%s: reads as %v, %v", c.line, back, err)
		}
	}
}
