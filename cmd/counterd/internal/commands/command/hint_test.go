package command

import "testing"

// TestMistakes counts the mistakes between two names.
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"get", "get", 0}, {"gte", "get", 1}, {"gett", "get", 1}, {"gt", "get", 1}, {"gat", "get", 1}, {"incrbu", "incrby", 1}, {"icnrbuy", "incrby", 2},
		{"abc", "xyz", 3}, {"", "ab", 2}, {"counter.mge", "counter.mget", 1},
	} {
		if got := mistakes(c.a, c.b, 2); got != min(c.want, 3) {
			t.Errorf("%s, %s: got %d, want %d", c.a, c.b, got, c.want)
		}
		if got := mistakes(c.b, c.a, 2); got != min(c.want, 3) {
			t.Errorf("%s, %s: got %d, want %d", c.b, c.a, got, c.want)
		}
	}
}

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
