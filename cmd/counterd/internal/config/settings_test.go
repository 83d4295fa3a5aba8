package config

import "testing"

// TestRows: a setting has one row, a constant has no flag, and what may change while the server runs can be set.
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

// TestSecret: a password is shown by CONFIG GET alone, and so is what a misspelt name was given.
func TestSecret(t *testing.T) {
	for name, want := range map[string]bool{"requirepass": true, "MasterAuth": true, "masteruser": true, "requirepas": true, "timeout": false, "slave-priority": false} {
		if Secret(name) != want {
			t.Errorf("%s: got %v, want %v", name, !want, want)
		}
	}
}
