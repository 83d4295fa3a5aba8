package facts

import (
	"strings"
	"time"
)

// Section is a section of INFO.
type Section struct {
	Title string
	Asked bool // it is shown only if it is asked for, or with ALL
	rows  []*Fact
}

// Sections of INFO, in the order of Redis.
var Sections = func() []Section {
	list := []Section{{Title: "Server"}, {Title: "Clients"}, {Title: "Memory"}, {Title: "Persistence"}, {Title: "Stats"}, {Title: "Replication"}, {Title: "CPU"},
		{Title: "Modules"}, {Title: "Commandstats", Asked: true}, {Title: "Errorstats"}, {Title: "Latencystats", Asked: true}, {Title: "Cluster"}, {Title: "Keyspace"},
		{Title: "Tiers"}, {Title: "Idmp"}, {Title: "Feed"}, {Title: "Counterd"}}
	for i := range list {
		for j := range table {
			if f := &table[j]; f.Section == list[i].Title && !f.column {
				list[i].rows = append(list[i].rows, f)
			}
		}
	}
	return list
}()

// Wanted parses the arguments of INFO: names of sections, ALL, EVERYTHING and DEFAULT. Unknown names are ignored.
func Wanted(args [][]byte) (wanted func(title string) bool) {
	all, standard := false, len(args) == 0
	named := make(map[string]bool)
	for _, a := range args {
		switch name := strings.ToLower(string(a)); name {
		case "all", "everything":
			all = true
		case "default":
			standard = true
		default:
			named[name] = true
		}
	}
	chosen := make(map[string]bool)
	for i := range Sections {
		s := &Sections[i]
		chosen[s.Title] = all || standard && !s.Asked || named[strings.ToLower(s.Title)]
	}
	return func(title string) bool { return chosen[title] }
}

// Info is the text of INFO. Tools expect "\r\n", and "# Title" before the lines of a section. s needs the parts that
// InfoParts returns.
func Info(s *State, wanted func(title string) bool) string {
	out := make([]byte, 0, 2<<10)
	field := func(name, value string) {
		out = append(append(append(append(out, name...), ':'), value...), "\r\n"...)
	}
	for i := range Sections {
		sec := &Sections[i]
		if !wanted(sec.Title) {
			continue
		}
		if len(out) > 0 {
			out = append(out, "\r\n"...)
		}
		out = append(append(append(out, "# "...), sec.Title...), "\r\n"...)
		for _, f := range sec.rows {
			if f.lines != nil {
				f.lines(s, field)
				continue
			}
			v := f.read(s)
			if v.kind == unknown {
				continue
			}
			out = append(append(out, f.Info...), ':')
			out = append(v.appendInfo(out, infoUnit(f.Info)), "\r\n"...)
			if f.Human {
				field(f.Info+"_human", Human(v.n))
			}
		}
	}
	return string(out)
}

// infoUnit is the unit of a span in a field of INFO, which ends in it.
func infoUnit(name string) time.Duration {
	switch {
	case strings.HasSuffix(name, "_usec"):
		return time.Microsecond
	case strings.HasSuffix(name, "_msec"), strings.HasSuffix(name, "_ms"):
		return time.Millisecond
	}
	return time.Second
}
