package config

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// Section is a group of settings, for documentation.
type Section struct {
	Title, About string
	Settings     []Description
}

// Description is the documentation of one setting.
type Description struct {
	Name    string
	Arg     string // stands for the value: N, PATH, yes|no
	Usage   string // whole sentences
	Detail  string // more sentences in Markdown; may be empty
	Default string // may be empty
	Values  string // the valid values in words; empty: see Usage
	Unit    string // may be empty
	OldName string // the name with "slave" that Redis had before; may be empty
	Flag    bool   // the command line and the file have it; otherwise it is fixed
	Config  bool   // CONFIG GET shows it
	Runtime bool   // CONFIG SET changes it while the server runs
	Secret  bool   // logs never show its value
}

// Describe returns all settings by section, in the order of --help.
func Describe() []Section {
	defaults := Default()
	fs, _ := Flags(&defaults)
	var all []Section
	for _, s := range sections {
		one := Section{Title: s.title, About: s.about}
		for i := range s.rows {
			one.Settings = append(one.Settings, s.rows[i].describe(fs, &defaults))
		}
		all = append(all, one)
	}
	return all
}

func (s *setting) describe(fs *pflag.FlagSet, defaults *Config) Description {
	d := Description{Name: s.name, Arg: s.arg, Usage: s.usage, Detail: s.detail, Values: s.values, Unit: s.unit, Flag: s.flag != nil, Config: s.get != nil, Runtime: s.live, Secret: s.secret}
	if old := slave(s.name); old != s.name && d.Config {
		d.OldName = old
	}
	if f := fs.Lookup(s.name); f != nil {
		if d.Arg == "" {
			d.Arg = f.Value.Type()
		}
		d.Default = strings.Trim(f.DefValue, "[]")
	} else {
		d.Default = s.get(defaults)
	}
	return d
}

// helpWidth is the width of a line of Help.
const helpWidth = 100

// Help prints all flags by section, as redis.conf does. Flags that are no settings come first.
func Help(w io.Writer, fs *pflag.FlagSet) {
	all := Describe()
	known := make(map[string]bool)
	for _, s := range all {
		for i := range s.Settings {
			known[s.Settings[i].Name] = true
		}
	}
	fmt.Fprintf(w, "General:\n\n")
	fs.VisitAll(func(f *pflag.Flag) {
		if arg, usage := pflag.UnquoteUsage(f); !known[f.Name] {
			helpFlag(w, f.Name, arg, usage)
		}
	})
	for _, s := range all {
		if !s.Settings[0].Flag {
			continue
		}
		fmt.Fprintf(w, "\n%s:\n\n", s.Title)
		for i := range s.Settings {
			d := &s.Settings[i]
			helpFlag(w, d.Name, d.Arg, d.Usage+d.facts())
		}
	}
}

// facts are unit, valid values, default and CONFIG SET, in brackets.
func (d *Description) facts() string {
	var facts []string
	if d.Default != "" {
		facts = append(facts, strings.TrimSpace("default "+d.Default+" "+d.counted()))
	} else if d.Unit != "" {
		facts = append(facts, "in "+d.Unit)
	}
	if d.Values != "" && !strings.Contains(d.Arg, "|") { // where Arg lists the values itself
		facts = append(facts, "valid: "+d.Values)
	}
	if d.Runtime {
		facts = append(facts, "CONFIG SET")
	}
	if facts == nil {
		return ""
	}
	return " [" + strings.Join(facts, "; ") + "]"
}

// counted is the unit behind a number; sizes in bytes are written with their own unit.
func (d *Description) counted() string {
	if d.Unit == "bytes" {
		return ""
	}
	return d.Unit
}

func helpFlag(w io.Writer, name, arg, usage string) {
	fmt.Fprintln(w, strings.TrimRight("  --"+name+" "+arg, " "))
	line := "     "
	for _, word := range strings.Fields(usage) {
		if len(line)+1+len(word) > helpWidth {
			fmt.Fprintln(w, line)
			line = "     "
		}
		line += " " + word
	}
	fmt.Fprintln(w, line)
}
