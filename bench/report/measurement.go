package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Measurement is a value that a script measured: a line of JSON in a file that it appends to. Measurements of one section
// share a table, a row for each name and case and a column for each of whom they are:
//
//	{"section":"Very large","name":"disk","case":"10^10 posts","of":"counterd","unit":"bytes a post","values":[2.13],"goal":"<= 2.2"}
type Measurement struct {
	Section string    `json:"section"`        // of the page
	Name    string    `json:"name"`           // what was measured
	Case    string    `json:"case,omitempty"` // on what, where one name was measured on several: "100 M posts", "2 loops"
	Of      string    `json:"of"`             // whose it is: "counterd", "redis 7.0.15"
	Unit    string    `json:"unit,omitempty"` // ns, us, ms and s are times, bytes sizes, x ratios; any other stands behind the number
	Values  []float64 `json:"values"`         // of one measurement or several: the median counts
	Goal    string    `json:"goal,omitempty"` // "<= 2.2" or ">= 5e6", in the unit
	Note    string    `json:"note,omitempty"` // how it was measured, in words or as the command
}

// Validate returns all that is wrong with the Measurement.
func (f *Measurement) Validate() error {
	var wrong []error
	for _, part := range [][2]string{{"section", f.Section}, {"name", f.Name}, {"of", f.Of}} {
		if strings.TrimSpace(part[1]) == "" {
			wrong = append(wrong, fmt.Errorf("no %s", part[0]))
		}
	}
	if len(f.Values) == 0 {
		wrong = append(wrong, errors.New("no values"))
	}
	for _, v := range f.Values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			wrong = append(wrong, fmt.Errorf("a value of %g, want a number", v))
		}
	}
	if f.Goal != "" {
		if _, _, err := parseGoal(f.Goal); err != nil {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

// Spread returns the median of the values and how far they lie apart.
func (f *Measurement) Spread() Spread { return SpreadOf(f.Values) }

// Met tells whether the median reaches the goal. A measurement without a goal has none to reach.
func (f *Measurement) Met() (met, hasGoal bool) {
	atMost, bound, err := parseGoal(f.Goal)
	if f.Goal == "" || err != nil {
		return false, false
	}
	if median := f.Spread().Median; atMost {
		return median <= bound, true
	} else {
		return median >= bound, true
	}
}

// parseGoal reads "<= 2.2" or ">= 5e6".
func parseGoal(s string) (atMost bool, bound float64, err error) {
	number, atMost := strings.CutPrefix(s, "<=")
	if !atMost {
		var atLeast bool
		if number, atLeast = strings.CutPrefix(s, ">="); !atLeast {
			return false, 0, fmt.Errorf("goal %q is neither \"<= NUMBER\" nor \">= NUMBER\"", s)
		}
	}
	if bound, err = strconv.ParseFloat(strings.TrimSpace(number), 64); err != nil || math.IsNaN(bound) {
		return false, 0, fmt.Errorf("goal %q has no number behind %s", s, s[:2])
	}
	return atMost, bound, nil
}

// goalText is the goal in words: "at most 2.2 bytes a post".
func (f *Measurement) goalText() string {
	atMost, bound, err := parseGoal(f.Goal)
	if f.Goal == "" || err != nil {
		return ""
	}
	if atMost {
		return "at most " + inUnit(bound, f.Unit)
	}
	return "at least " + inUnit(bound, f.Unit)
}

// inUnit formats a value for a person.
func inUnit(v float64, unit string) string {
	times := map[string]time.Duration{"ns": 1, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}
	switch {
	case times[unit] != 0 && v >= 0 && v*float64(times[unit]) < math.MaxInt64:
		return Duration(time.Duration(v * float64(times[unit])))
	case unit == "bytes":
		return Bytes(v)
	}
	text := Significant(v)
	if math.Abs(v) >= 1000 {
		text = Int(int64(math.Round(v)))
	}
	return strings.TrimSpace(text + " " + unit)
}

// AppendTo writes the measurement as a line.
func (f *Measurement) AppendTo(w io.Writer) error {
	if err := f.Validate(); err != nil {
		return err
	}
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// table is a section's measurements as rows of names and cases and columns of whom they are. The later one of two measurements
// for one place counts.
type table struct {
	section string
	of      []string // columns
	rows    []tableRow
	notes   []string
}

type tableRow struct {
	name, caseOf string
	cells        map[string]Measurement // by column
}

// tables sorts measurements into tables, all in the order in which they came.
func tables(measured []Measurement) []*table {
	var all []*table
	for _, f := range measured {
		var t *table
		for _, other := range all {
			if other.section == f.Section {
				t = other
			}
		}
		if t == nil {
			t = &table{section: f.Section}
			all = append(all, t)
		}
		t.add(f)
	}
	return all
}

func (t *table) add(f Measurement) {
	t.of = appendNew(t.of, f.Of)
	if f.Note != "" {
		t.notes = appendNew(t.notes, f.Note)
	}
	for _, row := range t.rows {
		if row.name == f.Name && row.caseOf == f.Case {
			row.cells[f.Of] = f
			return
		}
	}
	row := tableRow{f.Name, f.Case, map[string]Measurement{f.Of: f}}
	// Cases of one name stand together.
	at := len(t.rows)
	for i, other := range t.rows {
		if other.name == f.Name {
			at = i + 1
		}
	}
	t.rows = append(t.rows[:at], append([]tableRow{row}, t.rows[at:]...)...)
}

func appendNew(all []string, s string) []string {
	for _, other := range all {
		if other == s {
			return all
		}
	}
	return append(all, s)
}

// label names a row.
func (r *tableRow) label() string {
	if r.caseOf == "" {
		return r.name
	}
	return r.name + ", " + r.caseOf
}

// goal returns the first measurement of the row that has a goal.
func (r *tableRow) goal(of []string) (Measurement, bool) {
	for _, name := range of {
		if f, ok := r.cells[name]; ok && f.Goal != "" {
			return f, true
		}
	}
	return Measurement{}, false
}
