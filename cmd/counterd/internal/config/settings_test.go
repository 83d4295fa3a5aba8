package config

import (
	"strings"
	"testing"
)

// TestRows: a setting has one row, a constant has no flag, and a setting that may change while the server runs can be
// set.
func TestRows(t *testing.T) {
	rows := make(map[string]bool)
	for i := range settings {
		s := &settings[i]
		if rows[s.name] {
			t.Errorf("%s has two rows", s.name)
		}
		rows[s.name] = true
		if s.live && s.set == nil {
			t.Errorf("%s may be set, and nothing sets it", s.name)
		}
		if (s.usage == "") != (s.flag == nil) {
			t.Errorf("%s: a flag has a text for --help, and nothing else has", s.name)
		}
		if s.flag == nil && (s.live || s.secret || s.role) {
			t.Errorf("%s is a constant", s.name)
		}
		if _, ok := foreign[s.name]; ok {
			t.Errorf("%s is in the list of what is not here", s.name)
		}
	}
}

// TestSecret: a password is shown by CONFIG GET alone, and so is the value of a misspelt name.
func TestSecret(t *testing.T) {
	for name, want := range map[string]bool{"requirepass": true, "MasterAuth": true, "masteruser": true, "requirepas": true, "timeout": false, "slave-priority": false} {
		if Secret(name) != want {
			t.Errorf("%s: got %v, want %v", name, !want, want)
		}
	}
}

// TestDescribe: --help and the reference page show every setting of the table, in whole sentences, with its default and
// its valid values.
func TestDescribe(t *testing.T) {
	c := Default()
	fs, _ := Flags(&c)
	var help strings.Builder
	Help(&help, fs)
	described := 0
	for _, section := range Describe() {
		if section.About == "" || section.Settings[0].Flag && !strings.Contains(help.String(), "\n"+section.Title+":\n") {
			t.Errorf("section %s: about %q", section.Title, section.About)
		}
		for _, d := range section.Settings {
			described++
			if !d.Flag {
				continue
			}
			if !strings.HasSuffix(d.Usage, ".") || strings.ToUpper(d.Usage[:1]) != d.Usage[:1] || d.Arg == "" {
				t.Errorf("%s: %q with %q: want whole sentences and a placeholder", d.Name, d.Usage, d.Arg)
			}
			if !strings.Contains(help.String(), "\n  --"+d.Name+" "+d.Arg+"\n") {
				t.Errorf("--help lacks %s", d.Name)
			}
			if d.Arg == "N" && (d.Values == "" || d.Unit == "" && d.Name != "replica-priority") {
				t.Errorf("%s: values %q, unit %q of a number", d.Name, d.Values, d.Unit)
			}
		}
	}
	if described != len(settings) {
		t.Errorf("%d settings are described, want %d", described, len(settings))
	}
}

// TestValid: the values that a row says are valid are those that Validate accepts.
func TestValid(t *testing.T) {
	for i := range settings {
		s := &settings[i]
		if s.check == nil {
			continue
		}
		c := Default()
		if err := s.set(&c, "-2"); err != nil { // a size, which cannot be negative
			if err := s.set(&c, "1"); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), s.name+": got") {
			t.Errorf("%s has a value that is not valid (%s), and Validate returns %v", s.name, s.values, err)
		}
	}
}
