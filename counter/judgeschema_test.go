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
