// Scenario: commands arrive while the store is being opened.

package server

import (
	"strings"
	"testing"
)

// TestLoadingEnds: a connection that came while the store was already there, but loading had not been declared over,
// must not answer LOADING for ever.
func TestLoadingEnds(t *testing.T) {
	s := wireServe(t, nil)
	s.progress.beginLoading()
	c := wireDial(t, s, 2)
	if got := c.do("GET 1.none"); !strings.HasPrefix(got.Text, "LOADING ") {
		t.Errorf("while loading: got %+v, want LOADING", got)
	}
	s.progress.endLoading()
	if got := c.do("GET 1.none"); strings.HasPrefix(got.Text, "LOADING ") {
		t.Errorf("after loading: got %+v", got)
	}
}
