package transfer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/counterd/counterd/internal/testkit/seed"
)

// fakeLog is the log of a fake: its changes, in order.
type fakeLog struct {
	changes [][]string
	history int
	earlier position
}

func (l *fakeLog) add(args []string) {
	if l != nil && args[0] != "INFO" && args[0] != "IDMP" && !strings.HasPrefix(args[0], "COUNTER.C") && !strings.HasPrefix(args[0], "COUNTER.S") {
		l.changes = append(l.changes, args)
	}
}

func (l *fakeLog) id() string { return fmt.Sprintf("%040d", l.history+1) }

func (l *fakeLog) info() string {
	text := fmt.Sprintf("# Replication\r\nrole:master\r\nmaster_replid:%s\r\nmaster_repl_offset:%d\r\n", l.id(), len(l.changes))
	if l.earlier.History == "" {
		return text + "master_replid2:" + noHistory + "\r\nsecond_repl_offset:-1\r\n"
	}
	return text + fmt.Sprintf("master_replid2:%s\r\nsecond_repl_offset:%d\r\n", l.earlier.History, l.earlier.Offset)
}

// cut leaves a part of a fake's log, and its effect. Without anew the history stays, as in an older copy of a directory.
func (f *fake) cut(left int, anew bool) {
	l := f.log
	if anew {
		l.earlier = position{l.id(), uint64(left)}
		l.history++
	}
	changes := l.changes[:left]
	f.values, f.made, l.changes = map[string]int64{}, map[string]string{}, nil
	for _, args := range changes {
		f.numbered(args)
		l.add(args)
	}
}

// TestImportTakenBack imports into a target whose log is cut again and again: by the promotion of a replica that lagged or did not, by two of them, by a restart from an older copy, by a loss of power. Values that are set are all there in the end. An import that adds
// ends well only with all that it added, once, and otherwise says that a part is lost, each time. A FLUSHALL is found by the comparison.
func TestImportTakenBack(t *testing.T) {
	rngSeed := seed.Of(t)
	t.Logf("seed %d", rngSeed)
	ends := map[string]int{}
	// One seed of some hundred has no FLUSHALL that hits in 48 rounds.
	for round := range seed.Rounds(t, 48, ends, "set again", "add: lost", "add: not verified", "whole, add=false", "whole, add=true") {
		add, flush := round%2 == 1, round%8 >= 6
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(rngSeed, uint64(round)))
			f := newFake(t)
			f.log = &fakeLog{}
			items, want := values(f, rng, 3000)
			o := ImportOptions{Target: "t", Add: add, Resume: filepath.Join(t.TempDir(), "state"), Verify: VerifyAuto,
				Open: func(context.Context) (Source, error) { return &list{items: items, identity: "list", chunk: 700}, nil },
				Sink: SinkOptions{Dial: f.dial, Schema: f.schema, Columns: f.columns()}}
			if !add && !flush && round%4 == 0 {
				o.Verify = VerifyNone
			}
			ctx, cancel := context.WithCancel(t.Context())
			strikes, flushed := 1+rng.IntN(2), false
			f.next = func(args []string) fate {
				if args[0] != "MSET" && args[0] != "COUNTER.MINCRBY" {
					return fate{}
				}
				switch n := rng.IntN(10); {
				case n == 0 && flush && !flushed && len(f.log.changes) > 0:
					flushed = true
					f.numbered([]string{"FLUSHALL"})
					f.log.add([]string{"FLUSHALL"})
					return fate{}
				case n > 1 || flush || strikes == 0 || len(f.log.changes) == 0:
					return fate{}
				}
				strikes--
				left, kind := len(f.log.changes)-rng.IntN(min(len(f.log.changes), 1+rng.IntN(5))), rng.IntN(4)
				f.cut(left, kind > 0)
				if kind == 1 {
					f.cut(left, true) // two failovers, one after the other
				}
				if rng.IntN(3) == 0 {
					cancel() // the importer is ended, too
				}
				return fate{lost: true, cut: true}
			}
			for runs := 0; ; runs++ {
				result, err := Import(ctx, o)
				again := (*StateError)(nil)
				switch {
				case runs == 50:
					t.Fatalf("round %d: no end: %v (seed %d)", round, err, rngSeed)
				case ctx.Err() != nil:
					f.mu.Lock()
					ctx, cancel = context.WithCancel(t.Context())
					f.mu.Unlock()
					continue
				case err == nil && !result.Verified.OK && !add && o.Verify != VerifyNone: // FLUSHALL: said, and mended by the next run
					ends["set again"]++
					continue
				case add && errors.As(err, &again) && strings.Contains(err.Error(), "lost"):
					ends["add: lost"]++
					if _, err = Import(t.Context(), o); !errors.As(err, &again) {
						t.Errorf("round %d: an import goes on behind a loss: %v (seed %d)", round, err, rngSeed)
					}
				case err != nil:
					t.Fatalf("round %d: %v (seed %d)", round, err, rngSeed)
				case !result.Verified.OK && o.Verify != VerifyNone:
					ends["add: not verified"]++
					if same(f, want) {
						t.Errorf("round %d: all is there, and the import says %v (seed %d)", round, result.Verified, rngSeed)
					}
				default:
					ends[fmt.Sprintf("whole, add=%v", add)]++
					if !same(f, want) {
						t.Errorf("round %d: the target has other values, and the import says %v (seed %d)", round, result.Verified, rngSeed)
					}
				}
				f.mu.Lock()
				cancel()
				f.next = nil
				f.mu.Unlock()
				return
			}
		})
	}
	t.Log(ends)
}
