package feedjoin

import (
	"errors"
	"testing"
)

// TestRefusal: a node that cannot go on from a position says where a feed can, or - if nothing is known.
func TestRefusal(t *testing.T) {
	for text, want := range map[string]*PositionError{
		"POSGONE 1-a no longer kept":        {Next: "1-a"},
		"POSHISTORY 1-b the log differs":    {History: true, Next: "1-b"},
		"POSHISTORY - nothing is known":     {History: true},
		"POSGONE":                           {},
		"LOADING the server loads its data": nil,
	} {
		sent := errors.New(text)
		got := Refusal(text, sent)
		if (got == nil) != (want == nil) || got != nil && (got.History != want.History || got.Next != want.Next || !errors.Is(got, sent)) {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
}
