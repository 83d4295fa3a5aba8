package command

import "testing"

// TestSuggest suggests the nearest name, and nothing where that would be a guess.
func TestSuggest(t *testing.T) {
	config := &Row[int]{Name: "config", Sub: []*Row[int]{{Name: "config|get"}, {Name: "config|set"}, {Name: "config|resetstat"}}}
	table := NewTable([]*Row[int]{{Name: "get"}, {Name: "set"}, {Name: "incrby"}, {Name: "decrby"}, {Name: "counter.mget"}, config})
	for name, want := range map[string]string{
		"GTE": "GET", "gett": "GET", "Sett": "SET", "incrbuy": "INCRBY", "COUNTERMGET": "COUNTER.MGET", "confgi": "CONFIG",
		"fet": "", "": "", "g": "", "ge": "", "foo": "", "nosuch": "", "nosuchlongnamethatisinthetableofcommands": "",
	} {
		if got := table.Suggest([]byte(name)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"gte": "CONFIG GET", "RESETSTATS": "CONFIG RESETSTAT", "nosuch": ""} {
		if got := config.Suggest([]byte(name)); got != want {
			t.Errorf("CONFIG %s: got %q, want %q", name, got, want)
		}
	}
}
