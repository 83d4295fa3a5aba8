package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Collected is the results of several runs and scripts, to be shown together.
type Collected struct {
	Title        string
	Reports      []*Report
	Idles        []*Idle
	Measurements []Measurement
}

// Collect reads files of measurements, and those that Report.Write and Idle.Write wrote.
func Collect(paths []string) (*Collected, error) {
	c := &Collected{}
	for _, path := range paths {
		if err := c.read(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return c, nil
}

// read reads a file, which has one JSON value or, of measurements, many.
func (c *Collected) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	decoder := json.NewDecoder(f)
	for i := 1; ; i++ {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err == io.EOF && i > 1 {
			return nil
		} else if err == io.EOF {
			return errors.New("it is empty")
		} else if err != nil {
			return fmt.Errorf("value %d is no JSON: %w", i, err)
		}
		if err := c.add(raw); err != nil {
			return fmt.Errorf("value %d: %w", i, err)
		}
	}
}

// add adds one JSON value.
func (c *Collected) add(raw json.RawMessage) error {
	var is struct {
		Section *string
		Idle    *int `json:"idle_version"`
		Version *int
	}
	if err := json.Unmarshal(raw, &is); err != nil {
		return err
	}
	switch {
	case is.Section != nil:
		var f Measurement
		if err := json.Unmarshal(raw, &f); err != nil {
			return err
		}
		if err := f.Validate(); err != nil {
			return fmt.Errorf("measurement %q: %s", f.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		c.Measurements = append(c.Measurements, f)
	case is.Idle != nil:
		idle := &Idle{}
		if err := json.Unmarshal(raw, idle); err != nil {
			return err
		}
		if idle.Version != IdleVersion {
			return fmt.Errorf("idle connections of version %d, want %d", idle.Version, IdleVersion)
		}
		c.Idles = append(c.Idles, idle)
	case is.Version != nil:
		r, err := parseReport(raw)
		if err != nil {
			return err
		}
		c.Reports = append(c.Reports, r)
	default:
		return errors.New("neither a measurement nor a report of counterbench")
	}
	return nil
}

// Markdown writes all of it as tables for a README.
func (c *Collected) Markdown(w io.Writer) error {
	if len(c.Reports) > 0 {
		if err := Markdown(w, c.Reports); err != nil {
			return err
		}
	}
	out := &strings.Builder{}
	for i, t := range tables(c.Measurements) {
		if i > 0 || len(c.Reports) > 0 {
			out.WriteByte('\n')
		}
		t.markdown(out)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// markdown writes the table.
func (t *table) markdown(out *strings.Builder) {
	goals := false
	for _, row := range t.rows {
		if _, has := row.goal(t.of); has {
			goals = true
		}
	}
	fmt.Fprintf(out, "| %s | %s |", t.section, strings.Join(t.of, " | "))
	if goals {
		out.WriteString(" goal |")
	}
	fmt.Fprintf(out, "\n|---%s|\n", strings.Repeat("|---", len(t.of)+b2i(goals)))
	for _, row := range t.rows {
		fmt.Fprintf(out, "| %s |", row.label())
		for _, of := range t.of {
			text := ""
			if f, ok := row.cells[of]; ok {
				text = f.text()
			}
			fmt.Fprintf(out, " %s |", text)
		}
		if goals {
			text := ""
			if f, has := row.goal(t.of); has {
				text = f.goalText()
				if met, _ := f.Met(); !met {
					text += ": **missed**"
				}
			}
			fmt.Fprintf(out, " %s |", text)
		}
		out.WriteByte('\n')
	}
}

// text is the measurement with its spread.
func (f *Measurement) text() string {
	s := f.Spread()
	text := inUnit(s.Median, f.Unit)
	if len(f.Values) > 1 {
		text += fmt.Sprintf(" ±%.0f %%", s.Percent())
		if s.Wide() {
			text += " (!)"
		}
	}
	return text
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
