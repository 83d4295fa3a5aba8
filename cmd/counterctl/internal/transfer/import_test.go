package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// list is a Source of items in memory, a few a chunk.
type list struct {
	items    []mapping.Item
	identity string
	chunk    int
	at       int
	skip     int // every so many keys one does not map; 0: none
	err      error
}

func (l *list) Name() string                             { return "a list" }
func (l *list) Identity(context.Context) (string, error) { return l.identity, nil }
func (l *list) Total() uint64                            { return uint64(len(l.items)) }
func (l *list) Close() error                             { return nil }

func (l *list) Seek(text json.RawMessage) error { return json.Unmarshal(text, &l.at) }

func (l *list) Next(ctx context.Context, c *Chunk) (err error) {
	if l.err != nil {
		return l.err
	}
	select { // a source takes time
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Millisecond):
	}
	for range l.chunk {
		if l.at == len(l.items) {
			err = io.EOF
			break
		}
		if l.at++; l.skip > 0 && l.at%l.skip == 0 {
			c.Skipped.Skip(mapping.NotANumber, fmt.Append(nil, l.at), nil, nil)
		} else {
			c.Items = append(c.Items, l.items[l.at-1])
		}
		c.Keys++
	}
	text, _ := json.Marshal(l.at)
	c.Position = text
	return err
}

// values makes n items to be set, of different numbers, and the model of their effect.
func values(f *fake, rng *rand.Rand, n int) (items []mapping.Item, want map[string]int64) {
	for i := range n {
		items = append(items, mapping.Item{Mid: uint64(i / 3), Column: uint16(i % 3), Value: rng.Int64N(1000)})
	}
	rng.Shuffle(n, func(i, j int) { items[i], items[j] = items[j], items[i] })
	want = map[string]int64{}
	model(f, want, items)
	return items, want
}

// same compares the target with a model; a number that is 0 may be absent.
func same(f *fake, want map[string]int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	has := maps.Clone(f.values)
	for _, m := range []map[string]int64{has, want} {
		maps.DeleteFunc(m, func(_ string, v int64) bool { return v == 0 })
	}
	return maps.Equal(has, want)
}

// TestImport: whatever ends an import, and wherever, going on brings each value once.
func TestImport(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	for round := range 12 { // the last ones into a cluster
		if testing.Short() && round%4 > 1 { // under the race detector: half of them, of each kind
			continue
		}
		add := round%2 == 1
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, uint64(round)))
			f, often := newFake(t), 60
			if round >= 8 { // there are more commands
				often = 1500
			}
			items, want := values(f, rng, 3000)
			path := filepath.Join(t.TempDir(), "state")
			open := func(context.Context) (Source, error) {
				f.mu.Lock() // rng and cancel are used by connections that are not quite closed, too
				defer f.mu.Unlock()
				return &list{items: items, identity: "list", chunk: 1 + rng.IntN(400)}, nil
			}
			ctx, cancel := context.WithCancel(t.Context())
			f.next = func(args []string) fate {
				switch n := rng.IntN(often); {
				case n == 0:
					cancel() // before it is done
					return fate{lost: true, cut: true}
				case n == 1:
					cancel() // behind it
					return fate{cut: true}
				case n == 2:
					return fate{cut: true}
				case n == 3:
					return fate{lost: true, answer: "LOADING"}
				}
				return fate{}
			}
			o := ImportOptions{Open: open, Target: "t", Rules: []string{"r"}, Add: add, Resume: path, Verify: VerifyAuto,
				Sink: SinkOptions{Dial: f.dial, Schema: f.schema, Columns: f.columns()}}
			if round >= 8 {
				f.slots = &fakeSlots{rng: rng}
				var err error
				if o.Sink.Shards, err = FindShards(t.Context(), o.Sink, fakeNodes[round%3], f.dialNode); err != nil {
					t.Fatal(err)
				}
			}
			for runs := 0; ; runs++ {
				result, err := Import(ctx, o)
				if ctx.Err() != nil {
					if !errors.Is(err, ErrInterrupted) && err != nil {
						t.Fatalf("round %d: %v (seed %d)", round, err, seed)
					}
					f.mu.Lock()
					ctx, cancel = context.WithCancel(t.Context())
					f.mu.Unlock()
					if runs == 200 {
						t.Fatal("no end")
					}
					if err != nil {
						continue
					}
				}
				if err != nil {
					t.Fatalf("round %d: %v (seed %d)", round, err, seed)
				}
				if !result.Verified.OK || result.Keys != 3000 || result.Values() != 3000 {
					t.Fatalf("round %d: %v, %d keys, %d values (seed %d)", round, result.Verified, result.Keys, result.Values(), seed)
				}
				break
			}
			f.mu.Lock()
			cancel()
			f.next = nil
			f.mu.Unlock()
			if !same(f, want) {
				t.Fatalf("round %d: the target has other values (seed %d)", round, seed)
			}
			if f.slots != nil && (f.slots.moves == 0 || f.slots.moved == 0) {
				t.Errorf("%d groups moved, %d commands went elsewhere: want some", f.slots.moves, f.slots.moved)
			}
			_, err := Import(t.Context(), o)
			if again := (*StateError)(nil); add != errors.As(err, &again) || !add && err != nil {
				t.Errorf("a second import: %v", err)
			}
			if !same(f, want) {
				t.Errorf("a second import changed something")
			}
		})
	}
}

// TestImportVerify: a difference from the source is found, by sums or by values.
func TestImportVerify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		items, _ := values(f, rand.New(rand.NewPCG(1, 1)), 3000)
		o := ImportOptions{Open: func(context.Context) (Source, error) {
			return &list{items: items, identity: "x", chunk: 1000, skip: 100}, nil
		},
			Sink: SinkOptions{Dial: f.dial, Schema: f.schema, Columns: f.columns()}}
		check := func(verify Verify, by Verify, ok bool, words string) {
			t.Helper()
			o.Verify = verify
			r, err := Import(t.Context(), o)
			if err != nil || r.Verified.By != by || r.Verified.OK != ok || !strings.Contains(r.Verified.String(), words) || r.Skipped.Count(mapping.NotANumber) != 30 {
				t.Errorf("%s: %v, %+v, %v, want %s", verify, err, r.Verified, r.Verified, words)
			}
		}
		check(VerifyAuto, VerifySums, true, "number and sum of each column's values are those")
		check(VerifyNone, VerifyNone, false, "not verified")
		check(VerifySums, VerifySums, false, "weibo.repost held ")
		check(VerifyAuto, VerifyFull, true, "all 2970 values are the source's")
		f.values["video:5000 plays"] = 7 // not of this source: only sums see it
		check(VerifyFull, VerifyFull, true, "all 2970")
		twice := items[0] // two keys of one number, as post:5 and post:05 are, side by side
		twice.Value++
		items = slices.Insert(items, 1, twice)
		check(VerifyFull, VerifyFull, false, "1 of 2971 values differ")
		check(VerifyAuto, VerifyFull, false, "or keys such as post:5 and post:05 are of one")
		items = slices.Delete(items, 1, 2)
		f.values = map[string]int64{}
		losing := ""
		f.next = func(args []string) fate { // a target that loses what it says it did
			if args[0] == "MSET" && losing == "" {
				losing = args[1]
			}
			if args[0] == "MSET" && args[1] == losing {
				return fate{lost: true, answer: "+OK"}
			}
			return fate{}
		}
		check(VerifyAuto, VerifyFull, false, "values differ: ")
		f.values = map[string]int64{}
		check(VerifySums, VerifySums, false, "the sum is ")
	})
}

// TestImportState: resume files of another import, and such as are none, are refused, and nothing is written.
func TestImportState(t *testing.T) {
	f := newFake(t)
	items, _ := values(f, rand.New(rand.NewPCG(1, 1)), 30)
	path := filepath.Join(t.TempDir(), "state")
	source := &list{items: items, identity: "x", chunk: 7}
	o := ImportOptions{Open: func(context.Context) (Source, error) { l := *source; return &l, nil }, Target: "t", Rules: []string{"r"}, Resume: path,
		Sink: SinkOptions{Dial: f.dial, Schema: f.schema, Columns: f.columns()}}
	if _, err := Import(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(string(whole), `"complete":true`, `"complete":false`, 1)
	added := strings.Replace(broken, `"add":false`, `"add":true`, 1)
	for name, test := range map[string]struct {
		text   string
		change func(o *ImportOptions)
		want   string
	}{
		"no JSON":          {"{", nil, "is no resume file"},
		"version":          {strings.Replace(broken, `"version":1`, `"version":2`, 1), nil, "is no resume file of version 1"},
		"sums":             {strings.Replace(broken, `"sums":[{`, `"sums":[{"sum":"-1"},{`, 1), nil, "is not a sum"},
		"columns":          {strings.Replace(broken, `"columns":["weibo.repost",`, `"columns":[`, 1), nil, "is no resume file"},
		"another target":   {broken, func(o *ImportOptions) { o.Target = "u" }, "is of an import into t, not u"},
		"other rules":      {broken, func(o *ImportOptions) { o.Rules = []string{"s"} }, `is of an import with the rules ["r"], not ["s"]`},
		"add":              {broken, func(o *ImportOptions) { o.Add = true }, "--add"},
		"position":         {strings.Replace(broken, `"position":30`, `"position":"x"`, 1), nil, "cannot unmarshal"},
		"restarted, added": {added, func(o *ImportOptions) { o.Add = true; source.identity = "y" }, "the source is another one than it was"},
		"pending":          {strings.Replace(added, `"saved"`, `"pending":{"items":"AAA="},"saved"`, 1), func(o *ImportOptions) { o.Add = true }, "damaged items"},
		"forgotten":        {strings.Replace(added, `"saved"`, `"seq":7,"producer":"gone","pending":{"items":""},"saved"`, 1), func(o *ImportOptions) { o.Add = true }, "the target has forgotten"},
		"clock set back":   {strings.Replace(added, `"saved":"20`, `"producer":"gone","pending":{"items":""},"saved":"21`, 1), func(o *ImportOptions) { o.Add = true }, "the target has forgotten"},
		"noted as lost":    {strings.Replace(added, `"saved"`, `"lost":"the target has lost x","saved"`, 1), func(o *ImportOptions) { o.Add = true }, "has lost x; begin anew"},
		"lost":             {strings.Replace(added, `"saved"`, `"seq":7,"producer":"back","pending":{"items":""},"saved"`, 1), func(o *ImportOptions) { o.Add = true }, "the target has lost what it added: its last number is 6"},
		"lost, none open":  {strings.Replace(added, `"saved"`, `"seq":7,"producer":"back","saved"`, 1), func(o *ImportOptions) { o.Add = true }, "the target has lost"},
		"no position":      {strings.Replace(added, `"position":30,`, ``, 1), func(o *ImportOptions) { o.Add = true }, "cannot be read from the middle"},
	} {
		f.made = map[string]string{"back 6": "of an earlier moment\n"}
		f.names = map[string]int{}
		source.identity = "x"
		p := o
		if test.change != nil {
			test.change(&p)
		}
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Import(t.Context(), p)
		if wrong := (*StateError)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
		if n := f.names["MSET"] + f.names["COUNTER.MINCRBY"]; n > 0 {
			t.Errorf("%s: %d commands were sent", name, n)
		}
	}
	source.identity = "y" // restarted: begun anew, as values are set
	if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Import(t.Context(), o); err != nil || r.Keys != 30 || r.Resumed {
		t.Errorf("%v, %+v", err, r)
	}
	source.err = errors.New("the disk is gone")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("an error of the source: %v", err)
	}
}

// TestSum: sums beyond 64 bits, and in JSON.
func TestSum(t *testing.T) {
	var s, back Sum
	for range 5 {
		s.Add(1<<63 - 1)
	}
	s.Add(0)
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"values":6,"nonzero":5,"sum":"46116860184273879035"}`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	if err := json.Unmarshal(text, &back); err != nil || back != s {
		t.Errorf("%+v, %v, want %+v", back, err, s)
	}
}

// FuzzItems: damaged items of a resume file are refused, and whole ones are unchanged.
func FuzzItems(f *testing.F) {
	f.Add(packItems(nil, []mapping.Item{{Mid: 1<<63 - 1, Value: -1 << 63, Column: 2, Op: mapping.Add}, {Mid: 3}}))
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		items, err := unpackItems(b, 3)
		if err != nil {
			return
		}
		again, err := unpackItems(packItems(nil, items), 3)
		if err != nil || len(again) != len(items) {
			t.Fatalf("%v, %d items, want %d", err, len(again), len(items))
		}
		for i := range items {
			if items[i] != again[i] || items[i].Column > 2 || items[i].Op > mapping.Delete {
				t.Fatalf("%v, want %v", again[i], items[i])
			}
		}
	})
}
