package harness

import (
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Cli runs redis-cli against a server and returns what it printed, standard error included. The exit
// status must be 0.
func (s *Server) Cli(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), IoTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "redis-cli", append([]string{"-p", strconv.Itoa(s.Port)}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("redis-cli %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// KeySet is what a server has been filled with.
type KeySet map[string]bool

// FillItems makes items of every kind of key and returns them by the names that SCAN must give them.
func FillItems(t testing.TB, s *Server) KeySet {
	t.Helper()
	c := s.Dial(t)
	keys := KeySet{}
	for i := range 300 {
		mid := strconv.Itoa(i*i + 100)
		c.Want("+OK\r\n", "SET", mid+".cntcm", "5")
		c.Want("+OK\r\n", "SET", "n:"+mid, "5")
		c.Want(":3\r\n", "HSET", "h:"+mid, "a", "1", "b", "2", "c", "3")
		keys[mid], keys["n:"+mid], keys["h:"+mid] = true, true, true
	}
	return keys
}

func (k KeySet) Len() int { return len(k) }

func (k KeySet) SortedKeys() []string {
	keys := make([]string, 0, len(k))
	for key := range k {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Matching returns the keys that match a pattern of *, ? and [a-b], sorted.
func (k KeySet) Matching(pattern string) []string {
	re := regexp.MustCompile("^" + strings.NewReplacer("*", ".*", "?", ".", ".", `\.`).Replace(pattern) + "$")
	return slices.DeleteFunc(k.SortedKeys(), func(key string) bool { return !re.MatchString(key) })
}
