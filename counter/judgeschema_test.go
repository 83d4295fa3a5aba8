// Scenario: the schema changes while the log is read for a comparison

package counter

import (
	"errors"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

// TestJudgeAfterSchemaChange: a column takes the place of another one while the log is read for a range. The
// values of the old one are not taken for those of the new one, whose posts would be changed to them.
func TestJudgeAfterSchemaChange(t *testing.T) {
	s, err := Open("data", Options{FS: vfs.NewSim(), Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	defer close1(t, s)
	run := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	run(s.AlterScript("add counter w\nadd column w a hint=8 max=30 suffix=a\nadd column w b hint=8 max=30 suffix=b"))
	run(errors.Join(s.Set("1.a", 5), s.Set("1.b", 7)))
	def := s.Schema().Counters()[0]
	r := PostRange{Counter: def.ID, Lo: 0, Hi: 100}
	judge, err := JudgeByLog(s, r)
	run(err)
	defer judge.Close()
	run(s.AlterScript("drop column w b\nadd column w c hint=8 max=30 suffix=c"))
	run(s.Set("1.c", 9))
	var at uint64
	var rows []PostRow
	run(NewRangeCopier(s).Rows(r, 100, func(_ PostRange, offset uint64, now []PostRow) { at, rows = offset, now }))
	run(errors.Join(s.Replication().CommitHere(at), judge.Read(at, func() {})))
	if want, wrong := judge.Correct(s.Schema().CounterByID(r.Counter), r.Lo, r.Hi, rows); wrong != 0 || len(want) != len(rows) {
		t.Errorf("%d posts are wrong: %v, want %v", wrong, want, rows)
	}
}

// TestJudgeOfIDsGivenAgain: a node that joins a cluster adopts a schema that gives the id of a dropped counter, or column, again. Values of the old
// one in the log are not taken for those of the new one.
func TestJudgeOfIDsGivenAgain(t *testing.T) {
	for drop, script := range map[string]string{
		"drop counter a":  "add counter b\nadd column b n hint=8 max=30 suffix=n",
		"drop column a x": "add counter a\nadd column a n hint=8 max=30 suffix=n\nadd column a z hint=8 max=30 default=3 suffix=z",
	} {
		s := openDir(t, t.TempDir(), Options{Manual: true}, "add counter a\nadd column a n hint=8 max=30 suffix=n\nadd column a x hint=8 max=30 suffix=x")
		must(t, errors.Join(s.Set("1.n", 1), s.Set("1.x", 11), s.Set("2.n", 2), s.Set("2.x", 12), s.AlterScript(drop)))
		joined := openDir(t, t.TempDir(), Options{Manual: true}, script)
		b := s.NewBatch()
		must(t, b.BeginExclusive())
		err := b.Whole().Adopt(joined.Schema().AppendText(nil))
		b.End()
		must(t, errors.Join(err, joined.Close(), s.Set("2.n", 5)))

		def := s.Schema().Counters()[0]
		r := PostRange{Counter: def.ID, Hi: 100}
		judge, err := JudgeByLog(s, r)
		must(t, err)
		var at uint64
		var rows []PostRow
		must(t, NewRangeCopier(s).Rows(r, 100, func(_ PostRange, offset uint64, now []PostRow) { at, rows = offset, now }))
		must(t, errors.Join(s.Replication().CommitHere(at), judge.Read(at, func() {})))
		if want, wrong := judge.Correct(def, r.Lo, r.Hi, rows); wrong != 0 {
			t.Errorf("%s: %d posts are wrong: %v, want %v", drop, wrong, want, rows)
		}
		must(t, errors.Join(judge.Close(), s.Close()))
	}
}
