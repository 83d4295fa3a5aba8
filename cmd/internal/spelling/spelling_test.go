package spelling

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

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

// TestNearest suggests the nearest name, and nothing where that would be a guess.
func TestNearest(t *testing.T) {
	names := []string{"port", "dir", "maxmemory", "maxmemory-clients", ""}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range names {
		if name != "" {
			fs.String(name, "", "")
		}
	}
	for wanted, want := range map[string]string{
		"prot": "port", "ports": "port", "maxmemroy": "maxmemory", "maxmemory-client": "maxmemory-clients", "dri": "dir",
		"sort": "", "p": "", "": "", "maxmem": "", strings.Repeat("p", MaxName+1): "",
	} {
		if got := Nearest(wanted, slices.Values(names)); got != want {
			t.Errorf("%s: got %q, want %q", wanted, got, want)
		}
		if got := NearestFlag(strings.ToUpper(wanted), fs); got != want {
			t.Errorf("the flag %s: got %q, want %q", wanted, got, want)
		}
	}
}
