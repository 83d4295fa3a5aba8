package follow

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/schema"
)

// newTestInterpreter has rules of each kind.
func newTestInterpreter(t testing.TB) *interpreter {
	sch, err := schema.ParseScript(strings.NewReader("add counter c\nadd column c n hint=8 max=32\nadd column c h hint=8 max=32\nadd column c k hint=8 max=32\nadd column c z hint=8 max=63\n"+
		"add counter d\nadd column d a hint=8 max=32 suffix=da\nadd column d b hint=8 max=32 suffix=db\nadd column d f hint=8 max=32 suffix=df\n"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	rules, err := mapping.Parse([]string{"n:{mid}=c.n", "h:{mid}#h=c.h", "h:{mid}#k=c.k", "zs@{mid}=c.z", "t:{mid}=d(a,b)", "fs#{mid}=d.f"}, sch)
	if err != nil {
		t.Fatal(err)
	}
	return &interpreter{rules: rules, window: newWindow(rules.Columns()), unknown: map[string]uint64{}, stale: staleKeys{keys: map[ref]*staleKey{}}, log: func(string, ...any) {}}
}

// effects writes the changes of a window and the stale keys, in order.
func (in *interpreter) effects() string {
	var b strings.Builder
	columns := in.rules.Columns()
	for _, n := range in.window.numbers() {
		c := in.window.changes[n]
		sign := map[mapping.Op]string{mapping.Set: "=", mapping.Add: "+=", mapping.Delete: "="}[c.op]
		fmt.Fprintf(&b, "%s:%d%s%d ", columns[n.column].Name(), n.mid, sign, c.value)
	}
	for _, r := range slices.Sorted(maps.Keys(in.stale.keys)) {
		k := in.stale.keys[r]
		key, field, _ := r.split()
		fmt.Fprintf(&b, "%s%s?", key, field)
		if k.need {
			b.WriteByte('!')
		}
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}

func TestInterpret(t *testing.T) {
	for commands, want := range map[string]string{
		"SET n:5 7":                   "c.n:5=7",
		"set n:5 7 ex 100":            "c.n:5=7",
		"SETEX n:5 10 7":              "c.n:5=7",
		"SET other 7":                 "",
		"SELECT 3|SET n:5 7|INCR n:5": "",
		"SELECT 3|SELECT 0|INCR n:5":  "c.n:5+=1",
		"INCR n:5|INCRBY n:5 10|DECR n:5|DECRBY n:5 20":    "c.n:5+=-10",
		"SET n:5 7|INCR n:5":                               "c.n:5=8",
		"INCR n:5|SET n:5 7":                               "c.n:5=7",
		"INCR n:5|DEL n:5":                                 "c.n:5=0",
		"DEL n:5|INCRBY n:5 4":                             "c.n:5=4",
		"UNLINK n:5 n:6 x":                                 "c.n:5=0 c.n:6=0",
		"SET n:5 7|DECRBY n:5 8":                           "c.n:5=7 n:5?!",
		"SET n:5 4294967295|INCR n:5":                      "c.n:5=4294967295 n:5?!",
		"SET n:5 abc":                                      "c.n:5=0 n:5?",
		"SET n:5 abc|INCR n:5":                             "c.n:5=0 n:5?!",
		"SET n:5 -1|SET n:5 1":                             "c.n:5=1",
		"SET n:5 -1|DEL n:5":                               "c.n:5=0",
		"APPEND n:5 1":                                     "n:5?!",
		"APPEND n:5 1|INCR n:5|SET n:5 3|DEL n:5":          "n:5?!",
		"APPEND other 1|LPUSH n:5 1|EXPIRE n:5 9":          "",
		"RENAME a b|NEWCOMMAND a b c":                      "",
		"MOVE n:5 3":                                       "n:5?!",
		"SELECT 3|MOVE n:5 0":                              "n:5?!",
		"MSET n:1 1 x y n:2 2":                             "c.n:1=1 c.n:2=2",
		"INCRBY n:5 99999999999999999999":                  "n:5?!",
		"HSET h:5 h 3 x y k 4":                             "c.h:5=3 c.k:5=4",
		"HSET h:5 h abc":                                   "c.h:5=0 h:5?",
		"HINCRBY h:5 h 3|HINCRBY h:5 h -1|HINCRBY h:5 x 1": "c.h:5+=2",
		"HDEL h:5 h x":                                     "c.h:5=0",
		"DEL h:5":                                          "c.h:5=0 c.k:5=0",
		"SET h:5 7":                                        "c.h:5=0 c.k:5=0",
		"HSET n:5 a 1|ZADD h:5 1 a|HINCRBY n:5 a 1|HDEL n:5 a": "",
		"HSET fs 5 3 6 x|HINCRBY fs 7 1":                       "d.f:5=3 d.f:6=0 d.f:7+=1 fs6?",
		"HSET fs 5 x|HINCRBY fs 5 1":                           "d.f:5=0 fs5?!",
		"HSET fs 5 x|HSET fs 5 1":                              "d.f:5=1",
		"HSET fs 5 x|HDEL fs 5":                                "d.f:5=0",
		"ZADD zs 5 9|ZINCRBY zs 2 9|ZINCRBY zs 1 8":            "c.z:8+=1 c.z:9=7",
		"ZADD zs 1.5 9":                                        "c.z:9=0 zs9?",
		"ZINCRBY zs 0.5 9":                                     "zs9?!",
		"ZADD zs CH 5 9|ZADD zs GT 7 8|ZADD zs nx ch 1 6 2 5":  "c.z:9=5 zs5?! zs6?! zs8?!",
		"ZADD zs INCR 5 9|ZADD zs 5 9":                         "zs9?!",
		"ZREM zs 9":                                            "c.z:9=0",
		"SET t:5 3,4":                                          "d.a:5=3 d.b:5=4",
		"SET t:5 3":                                            "d.a:5=0 d.b:5=0 t:5?",
		"INCR t:5":                                             "t:5?!",
	} {
		in := newTestInterpreter(t)
		for line := range strings.SplitSeq(commands, "|") {
			var args [][]byte
			for word := range strings.FieldsSeq(line) {
				args = append(args, []byte(word))
			}
			if flush, err := in.command(args); bool(flush) || err != nil {
				t.Fatalf("%s: %v, %v", line, flush, err)
			}
		}
		if got := in.effects(); got != want {
			t.Errorf("%s\n got %s\nwant %s", commands, got, want)
		}
	}
}

// TestInterpretLarge are commands that concern more than keys.
func TestInterpretLarge(t *testing.T) {
	for command, want := range map[string]struct {
		flush bool
		err   error
	}{
		"FLUSHALL": {true, nil}, "FLUSHDB ASYNC": {true, nil}, "SWAPDB 0 1": {false, errRecopy}, "SWAPDB 2 1": {}, "DEL fs": {false, errRecopy}, "RENAME x zs": {false, errRecopy},
		"SELECT x": {false, errStream}, "SELECT": {false, errStream}, "EXEC": {}, "X": {}, "SET": {}, "ZADD zs NX 1": {false, errRecopy}, strings.Repeat("x", 100): {},
	} {
		var args [][]byte
		for word := range strings.FieldsSeq(command) {
			args = append(args, []byte(word))
		}
		if flush, err := newTestInterpreter(t).command(args); bool(flush) != want.flush || !errors.Is(err, want.err) {
			t.Errorf("%s: %v, %v, want %v, %v", command, flush, err, want.flush, want.err)
		}
	}
	in := newTestInterpreter(t)
	in.selected = 4
	if flush, err := in.command([][]byte{[]byte("FLUSHDB")}); bool(flush) || err != nil {
		t.Error("FLUSHDB of another database counts")
	}
}

// TestRewinding: of the applied changes only additions matter, which may have been refused.
func TestRewinding(t *testing.T) {
	in := newTestInterpreter(t)
	in.rewinding = true
	for _, line := range []string{"SET n:1 5", "INCR n:2", "DEL n:3", "HINCRBY h:4 h 1", "HSET fs 5 1", "HINCRBY fs 6 1", "SET n:7 x"} {
		var args [][]byte
		for word := range strings.FieldsSeq(line) {
			args = append(args, []byte(word))
		}
		if _, err := in.command(args); err != nil {
			t.Fatal(err)
		}
	}
	if len(in.window.changes) > 0 || in.stale.wants != 3 || len(in.stale.keys) != 3 {
		t.Errorf("%s", in.effects())
	}
}

// TestStale: a value that was read counts from the offset of its read.
func TestStale(t *testing.T) {
	in := newTestInterpreter(t)
	do := func(line string) {
		t.Helper()
		var args [][]byte
		for word := range strings.FieldsSeq(line) {
			args = append(args, []byte(word))
		}
		if _, err := in.command(args); err != nil {
			t.Fatal(err)
		}
	}
	do("APPEND n:5 1")
	r := newRef([]byte("n:5"), nil)
	if got := in.stale.wanted(10); len(got) != 1 || got[0] != r {
		t.Fatal(got)
	}
	q, ok := ask(in.rules, r)
	if !ok || strings.Join(q.words, " ") != "GET n:5" {
		t.Fatal(q.words)
	}
	in.stale.found(r, 1000, []mapping.Item{{Mid: 5, Value: 70}}, true)
	do("INCR n:5") // before 1000: included in the read
	in.stale.settle(999, in.window.put)
	if got := in.effects(); got != "n:5?" {
		t.Errorf("before its offset: %s", got)
	}
	in.stale.settle(1000, in.window.put)
	do("INCR n:5")
	if got := in.effects(); got != "c.n:5=71" || in.stale.wants != 0 || len(in.stale.read) != 0 {
		t.Errorf("behind its offset: %s", got)
	}
	if key, field, ok := newRef([]byte("fs#"), []byte("#5")).split(); string(key) != "fs#" || string(field) != "#5" || !ok {
		t.Errorf("%q %q %v", key, field, ok)
	}
	for _, bad := range []ref{"", "\x05ab", "\x01ax", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		if _, _, ok := bad.split(); ok {
			t.Errorf("%q is taken for a ref", bad)
		}
	}
}

// FuzzInterpret: whatever commands a source sends, they end in changes, stale keys, or an error of a kind.
func FuzzInterpret(f *testing.F) {
	f.Add([]byte("*3\r\n$3\r\nSET\r\n$3\r\nn:5\r\n$1\r\n7\r\n*2\r\n$4\r\nINCR\r\n$3\r\nn:5\r\n"))
	f.Add([]byte("*4\r\n$7\r\nHINCRBY\r\n$3\r\nh:5\r\n$1\r\nh\r\n$1\r\n7\r\n*2\r\n$3\r\nDEL\r\n$2\r\nzs\r\n"))
	f.Add([]byte("*1\r\n$0\r\n\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nMOVE\r\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		in, p := newTestInterpreter(t), parser{}
		p.feed(stream)
		for {
			args, _, ok, err := p.next()
			if err == nil && ok {
				_, err = in.command(args)
			}
			if err != nil && !errors.Is(err, errStream) && !errors.Is(err, errRecopy) {
				t.Fatal(err)
			}
			if err != nil || !ok {
				break
			}
		}
		for n, c := range in.window.changes {
			if c.op == mapping.Set && uint64(c.value) > in.window.limits[n.column] {
				t.Errorf("%v is set to %d", n, c.value)
			}
		}
	})
}
