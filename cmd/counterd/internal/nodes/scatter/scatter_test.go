package scatter

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// refusing is a connection whose node takes no command at the moment.
type refusing struct {
	Conn
	sch *schema.Schema
}

func (c refusing) Schema() *schema.Schema      { return c.sch }
func (c refusing) Observed() bool              { return false }
func (c refusing) Tracks() bool                { return false }
func (c refusing) Serves(*command.Access) bool { return false }

// TestLocalPagesHoldNothing: commands that have all their posts at this node, and are left to it, leave nothing behind in the memory of a
// connection.
func TestLocalPagesHoldNothing(t *testing.T) {
	sch, err := schema.ParseScript(strings.NewReader("add counter weibo\nadd column weibo repost hint=16 max=32 suffix=cntrn\n"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	shards := gather.New(func() gather.Settings { return gather.Settings{Timeout: time.Minute} }, slog.New(slog.DiscardHandler))
	defer shards.Close()
	here, there := &topology.Shard{ID: 1, Primary: "here"}, &topology.Shard{ID: 2, Primary: "there"}
	for g := range slot.Groups {
		if g < slot.Groups/2 {
			here.Groups.Add(uint8(g))
		} else {
			there.Groups.Add(uint8(g))
		}
	}
	shards.Follow(&topology.Map{Shards: []*topology.Shard{here, there}}, "here")
	f := New(refusing{sch: sch}, new(items.Call), shards, false)
	page, keys := [][]byte{[]byte("COUNTER.MGET"), []byte("weibo")}, [][]byte{[]byte("MGET")}
	for mid := uint64(1); len(page) < 22; mid++ {
		if here.Groups.Has(slot.Group(mid)) {
			page = append(page, strconv.AppendUint(nil, mid, 10))
			keys = append(keys, strconv.AppendUint(nil, mid, 10))
		}
	}
	mget := &command.Access{Name: "mget", First: 1, Last: -1, Step: 1, Flags: command.ReadOnly}
	for range 100 {
		if f.Plan(&command.Access{Name: "counter.mget", Flags: command.ReadOnly}, page) || f.Plan(mget, keys) {
			t.Fatal("a command is planned that its node refuses")
		}
	}
	if n := len(f.owners) + len(f.args); n > 0 {
		t.Errorf("%d entries are left behind 200 commands, want none", n)
	}
}
