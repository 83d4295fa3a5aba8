package repl

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
)

// TestCompareSide: a replica that was not at the offset of a question takes the next one, and digests of another number of parts are
// none.
func TestCompareSide(t *testing.T) {
	h, n := comparingNode(t)
	c := newCompareSide(&session{Link: &Link{node: n, ctx: t.Context()}, conn: wire.NewConn(&scripted{}, 4<<10)})
	defer c.close()
	r := counter.PostRange{Counter: h.Store().Schema().Counter("w").ID, Lo: 0, Hi: 100}
	if err := c.question(question{id: 3, at: h.Store().Replication().Position() - 1, r: r}); err != nil {
		t.Fatal(err)
	}
	if len(c.free) != 1 {
		t.Error("the copier stays in use: no other question is answered")
	}
	c.theirs <- digestsOf{4, make([]counter.Digest, 1)}
	if got := c.compare(&question{id: 4, r: r}, make([]counter.Digest, 2)); !slices.Equal(got, []string{saysElsewhere}) {
		t.Errorf("digests of one part: %v", got)
	}
	if got := answerTo(fmt.Errorf("a page: %w", counter.ErrCold)); got != saysUnreadable {
		t.Errorf("a damaged file: %s", got)
	}
	if got := answerTo(errors.New("anything")); got != saysElsewhere {
		t.Errorf("anything: %s", got)
	}
}
