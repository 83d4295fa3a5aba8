package find

import (
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
)

// movingConn is a connection to a node whose groups of hash slots change within a numbered update.
type movingConn struct {
	fakeConn
	alone int
	moves [2]slot.Set // the groups behind the first look at the number, and in front of the change
}

func (c *movingConn) Number(args [][]byte) (rest [][]byte, num idmp.Number, hash idmp.Hash, text string) {
	return args, idmp.Number{Producer: []byte("p"), Seq: 1}, 7, ""
}

func (c *movingConn) Alone(change func(b *counter.Batch) error) error {
	if c.alone++; c.alone == 2 {
		c.store.Groups().Own(c.moves[1])
	}
	b := c.store.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		return err
	}
	err := change(b)
	b.End()
	if c.alone == 1 {
		c.store.Groups().Own(c.moves[0])
	}
	return err
}

// TestUpdateOnceMoving: groups that come or go while a numbered update finds its posts refuse it, and its number is free: a repeat changes all posts.
func TestUpdateOnceMoving(t *testing.T) {
	half := slot.AllGroups()
	half[0], half[1] = 0, 0
	words := [][]byte{[]byte("COUNTER.UPDATE"), []byte("weibo"), []byte("SET"), []byte("comment"), []byte("2")}
	for _, moves := range [][2]slot.Set{{slot.AllGroups(), half}, {half, half}, {half, slot.AllGroups()}} {
		s := fill(t, 200)
		answer := func(c *movingConn) string {
			c.store, c.steps = s, 1000
			runUpdate(c, words)
			return strings.TrimSpace(string(c.call.Out.From(0)))
		}
		if got := answer(&movingConn{moves: moves}); got != "-"+items.ErrOwning {
			t.Errorf("groups change: %s", got)
		}
		s.Groups().Own(slot.AllGroups())
		if n := count(t, s, 2); n != 0 {
			t.Errorf("%d posts were changed by an update that was refused", n)
		}
		if got := answer(&movingConn{moves: [2]slot.Set{slot.AllGroups(), slot.AllGroups()}}); got != ":200" {
			t.Errorf("the repeat: %s", got)
		}
	}
}

// TestUpdateOnceOlder: the repeat of a numbered update that a node made when it was one of an older version, or of no cluster, is answered.
func TestUpdateOnceOlder(t *testing.T) {
	s := fill(t, 20)
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	once := counter.Once{Producer: []byte("p"), Seq: 1, Hash: idmp.Hash(7).Sum()}
	if !b.TryOnce(&once) {
		t.Fatal(once.Err)
	}
	b.KeepOnce(&once, counter.Result{Kind: counter.ResultInt, N: 5})
	b.End()
	c := &movingConn{moves: [2]slot.Set{slot.AllGroups(), slot.AllGroups()}}
	c.store, c.steps = s, 1000
	runUpdate(c, [][]byte{[]byte("COUNTER.UPDATE"), []byte("weibo"), []byte("SET"), []byte("comment"), []byte("2")})
	if got := strings.TrimSpace(string(c.call.Out.From(0))); got != ":5" || count(t, s, 2) != 0 {
		t.Errorf("the repeat: %s, and %d posts were changed", got, count(t, s, 2))
	}
}
