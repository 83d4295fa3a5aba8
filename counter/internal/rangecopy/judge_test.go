package rangecopy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/counterd/counterd/schema"
)

// TestCorrect: posts get what the log says, and columns that it does not know keep their values. Posts of another schema stay as they
// are.
func TestCorrect(t *testing.T) {
	s, err := schema.ParseScript(strings.NewReader("add counter w\nadd column w n hint=8 max=30 suffix=n\nadd column w m hint=8 max=30 default=5 suffix=m\n"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	def := s.Counter("w")
	n := def.Columns[0].ID
	j := NewJudge(def, -1, 0, 100, nil)
	j.posts[1] = loggedPost{values: map[uint16]uint64{n: 10}}
	j.posts[2] = loggedPost{gone: true, all: true}
	j.posts[4] = loggedPost{all: true, values: map[uint16]uint64{n: 40}}
	rows := []Row{{1, []uint64{11, 12}}, {2, []uint64{21, 22}}, {3, []uint64{31, 32}}}
	want := []Row{{1, []uint64{10, 12}}, {3, []uint64{31, 32}}, {4, []uint64{40, 5}}}
	if got, wrong := j.Correct(def, 0, 100, rows); fmt.Sprint(got) != fmt.Sprint(want) || wrong != 3 {
		t.Errorf("got %v, %d wrong, want %v", got, wrong, want)
	}
	old := []Row{{1, []uint64{11}}, {2, []uint64{21}}}
	other, err := schema.ParseScript(strings.NewReader("drop column w m\n"), s)
	if err != nil {
		t.Fatal(err)
	}
	if got, wrong := j.Correct(other.Counter("w"), 0, 100, old); fmt.Sprint(got) != fmt.Sprint(old) || wrong != 0 {
		t.Errorf("posts of another schema: %v, %d wrong", got, wrong)
	}
}
