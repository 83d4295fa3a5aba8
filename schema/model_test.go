// Scenario: random statements and keys against a model.

package schema

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
)

// model is the schema as the package comment tells it, in lists that are searched
// from end to end. It prints the durable form by itself.
type model struct {
	entries []*modelCounter // counters, and keys of counters to come (id 0)
	lastID  int
}

type modelCounter struct {
	id, lastID int
	name       string
	key        string // empty: not declared
	columns    []modelColumn
	ids        IDs
	retain     int64
	old        bool
}

type modelColumn struct {
	id int
	st Statement
}

func (m *model) find(name string) *modelCounter {
	for _, e := range m.entries {
		if e.name == name {
			return e
		}
	}
	return nil
}

// apply answers the kind of error, and changes nothing then.
func (m *model) apply(st Statement) error {
	e := m.find(st.Counter)
	switch {
	case st.Op == AlterCounter:
		if e == nil || e.id == 0 {
			return ErrUnknown
		}
		now := *e
		if st.SaysIDs {
			now.ids = st.IDs
		}
		if st.SaysRetain {
			now.retain = st.Retain
		}
		if st.SaysOld {
			now.old = st.Old
		}
		if now.retain > 0 && now.ids == (IDs{}) {
			return ErrAttribute
		}
		*e = now
		return nil

	case st.Op == AlterColumn:
		if e == nil || e.id == 0 || e.column(st.Column) < 0 {
			return ErrUnknown
		}
		c := &e.columns[e.column(st.Column)].st
		if st.Top > 0 && c.Top == 0 && e.tops() == MaxTops {
			return ErrLimit
		}
		c.Top = st.Top
		return nil

	case st.Op == AddCounter:
		if e != nil && e.id != 0 {
			if st.SaysIDs && st.IDs != e.ids || st.SaysRetain && st.Retain != e.retain || st.SaysOld && st.Old != e.old {
				return ErrSchemaMismatch
			}
			return nil
		}
		if st.Retain > 0 && st.IDs == (IDs{}) {
			return ErrAttribute
		}
		m.lastID++
		n := &modelCounter{name: st.Counter, ids: st.IDs, retain: st.Retain, old: st.Old}
		if e != nil {
			n.key = e.key
			m.remove(e)
		}
		n.id = m.lastID
		m.entries = append(m.entries, n)
		return nil

	case st.Op == DropCounter:
		if e == nil {
			return ErrUnknown
		}
		m.remove(e)
		return nil

	case st.PrimaryKey:
		switch {
		case e == nil:
			m.entries = append(m.entries, &modelCounter{name: st.Counter, key: st.Column})
		case e.column(st.Column) >= 0:
			return ErrClash
		case e.key == "":
			e.key = st.Column
		case e.key != st.Column:
			return ErrSchemaMismatch
		}
		return nil

	case st.Op == DropColumn:
		switch {
		case e == nil:
			return ErrUnknown
		case st.Column == e.key, st.Column == "mid" && e.key == "":
			return ErrClash
		case e.id == 0, e.column(st.Column) < 0:
			return ErrUnknown
		}
		i := e.column(st.Column)
		e.columns = append(e.columns[:i:i], e.columns[i+1:]...)
		return nil
	}

	if e == nil || e.id == 0 {
		return ErrUnknown
	}
	if st.Column == e.key || st.Column == "mid" && e.key == "" {
		return ErrClash
	}
	if i := e.column(st.Column); i >= 0 {
		have := e.columns[i].st
		if st.SuffixUnsaid && have.Suffix == "" {
			st.Suffix = ""
		}
		if have.SaysTop = st.SaysTop; !st.SaysTop {
			have.Top = 0
		}
		if have.SuffixUnsaid = st.SuffixUnsaid; have != st {
			return ErrSchemaMismatch
		}
		return nil
	}
	for _, o := range m.entries {
		for _, c := range o.columns {
			if c.st.Suffix == st.Suffix && (st.Suffix != "" || o == e) {
				return ErrClash
			}
		}
	}
	if st.Top > 0 && e.tops() == MaxTops {
		return ErrLimit
	}
	e.lastID++
	e.columns = append(e.columns, modelColumn{e.lastID, st})
	return nil
}

func (m *model) remove(e *modelCounter) {
	m.entries = slices.DeleteFunc(m.entries, func(o *modelCounter) bool { return o == e })
}

func (e *modelCounter) column(name string) int {
	return slices.IndexFunc(e.columns, func(c modelColumn) bool { return c.st.Column == name })
}

// tops is how many columns have a top list.
func (e *modelCounter) tops() (n int) {
	for _, c := range e.columns {
		if c.st.Top > 0 {
			n++
		}
	}
	return n
}

// durable is the text that AppendText has to write.
func (m *model) durable() string {
	var b, later strings.Builder
	format := 1
	for _, e := range m.entries {
		if e.ids != (IDs{}) {
			format = 2
		}
	}
	for _, e := range m.entries {
		if e.tops() > 0 {
			format = 3
		}
	}
	for _, e := range m.entries {
		if e.old {
			format = 7
		}
	}
	fmt.Fprintf(&b, "schema format=%d\n", format)
	for _, e := range m.entries {
		out := &b
		if e.id == 0 {
			out = &later
		}
		if e.key != "" {
			fmt.Fprintf(out, "add column %s %s hint=64 max=64 primarykey\n", e.name, e.key)
		}
		if e.id == 0 {
			continue
		}
		fmt.Fprintf(out, "add counter %s", e.name)
		if e.ids != (IDs{}) {
			fmt.Fprintf(out, " ids=%s", e.ids)
		}
		if e.retain > 0 {
			fmt.Fprintf(out, " retain=%s", []string{1: "1s", 61: "61s"}[e.retain])
		}
		if e.old {
			fmt.Fprint(out, " old=on")
		}
		fmt.Fprintf(out, " id=%d\n", e.id)
		for _, c := range e.columns {
			top := ""
			if c.st.Top > 0 {
				top = fmt.Sprintf(" top=%d", c.st.Top)
			}
			fmt.Fprintf(out, "add column %s %s hint=%d max=%d default=%d suffix=%s%s id=%d\n",
				e.name, c.st.Column, c.st.Hint, c.st.Max, c.st.Default, c.st.Suffix, top, c.id)
		}
		fmt.Fprintf(out, "next column %s id=%d\n", e.name, e.lastID+1)
	}
	return fmt.Sprintf("%s%snext counter id=%d\n", &b, &later, m.lastID+1)
}

// line is the text of st, without a suffix where it was unsaid.
func line(st Statement) string {
	text := st.String()
	if st.SuffixUnsaid {
		text = strings.Replace(text, " suffix="+st.Suffix, "", 1)
	}
	return text
}

// randomStatement draws from few names, so that statements meet.
func randomStatement(r *rand.Rand) Statement {
	counter := string(rune('a' + r.IntN(4)))
	column := []string{"mid", "id", "n", "m", "o", "p"}[r.IntN(6)]
	switch p := r.IntN(100); {
	case p < 20:
		st := Statement{Op: AddCounter, Counter: counter}
		if p < 8 {
			st.Op, st.SaysIDs = AlterCounter, true
		}
		if st.SaysIDs = st.SaysIDs || p < 11; st.SaysIDs {
			st.IDs = namedIDs[r.IntN(3)].ids
		}
		if st.SaysOld = r.IntN(3) == 0; st.SaysOld {
			st.Old = r.IntN(2) == 0
		}
		if st.SaysRetain = r.IntN(3) == 0; st.SaysRetain {
			st.Retain = []int64{0, 1, 61}[r.IntN(3)]
		}
		return st
	case p < 24:
		return Statement{Op: DropCounter, Counter: counter}
	case p < 35:
		return keyStatement(counter, column)
	case p < 42:
		return Statement{Op: AlterColumn, Counter: counter, Column: column, SaysTop: true, Top: uint16(r.IntN(3))}
	case p < 52:
		return Statement{Op: DropColumn, Counter: counter, Column: column}
	default:
		st := Statement{Op: AddColumn, Counter: counter, Column: column, Hint: uint8(1 + r.IntN(2)), Max: 2}
		st.Default = uint64(r.IntN(2))
		st.Suffix = []string{"", "n", "m", "s", "t", "u", "v", "w"}[r.IntN(8)]
		if r.IntN(4) == 0 {
			st.Suffix, st.SuffixUnsaid = st.Column, true
		}
		if st.SaysTop = r.IntN(4) == 0; st.SaysTop {
			st.Top = uint16(r.IntN(3))
		}
		return st
	}
}

func TestSchemaAgainstModel(t *testing.T) {
	racetest.Skip(t, "one goroutine runs a long model")
	r := newRand(t)
	for range 40 {
		s, m := Empty(), &model{}
		var history []string
		for range 250 {
			st := randomStatement(r)
			history = append(history, st.String())
			oldText, oldModel := string(s.AppendText(nil)), m.durable()
			next, err := s.Apply(st)
			kind := m.apply(st)
			want := m.durable()

			bad := func(format string, args ...any) {
				t.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(history, "\n"))
			}
			if !errors.Is(err, kind) || (err == nil) != (kind == nil) {
				bad("got %v, want %v", err, kind)
			}
			if got := string(s.AppendText(nil)); got != oldText {
				bad("the old schema changed from\n%sto\n%s", oldText, got)
			}
			if err != nil {
				if next != nil || want != oldModel {
					bad("an error, and a change all the same")
				}
				continue
			}
			if (next == s) != (want == oldModel) {
				bad("same schema: %v; same model: %v", next == s, want == oldModel)
			}
			if got := string(next.AppendText(nil)); got != want {
				bad("got\n%swant\n%s", got, want)
			}
			checkSchema(t, next)
			if t.Failed() {
				bad("the schema is not sound")
			}
			// The statement as text does the same, also through a restart.
			if back, err := ParseDurable([]byte(oldText)); err != nil {
				bad("%v", err)
			} else if got := string(parseOnto(t, line(st), back).AppendText(nil)); got != want {
				bad("after a restart: got\n%swant\n%s", got, want)
			}
			s = next
		}
	}
}
