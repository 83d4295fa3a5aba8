package dataset

import (
	"context"
	"errors"
	"fmt"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// dropRange: COUNTER.DROPRANGE counter from to answers the number of posts. It takes no number (IDMP): a repeat removes the posts written since, as that
// of FLUSHALL does.
func dropRange(c Conn, args [][]byte) {
	call := c.Call()
	from, ok := schema.ParseMid(args[2])
	if !ok {
		call.Out.Error(items.ErrNoMid(args[2]))
		return
	}
	to, ok := parseEnd(args[3])
	if !ok {
		call.Out.Error(items.ErrNoMid(args[3]))
		return
	}
	log := c.Store().Replication()
	err := error(context.Canceled) // as long as it is not its turn
	c.Busy(func(context.Context) { err = log.AdmitCursors() })
	if errors.Is(err, counter.ErrInMemory) {
		err = nil
	}
	posts, blocks, steps := 0, 0, 0
	for i, groups := range c.Store().Admin().DropSteps() {
		if err != nil {
			break
		}
		if i > 0 {
			c.GiveWay()
		}
		err = c.WithStore(true, func(b *counter.Batch) error {
			def := b.Schema().CounterNamed(args[1])
			if def == nil {
				return fmt.Errorf("no counter '%s' (see SCHEMA)", resp.Printable(args[1], 128))
			}
			drop, err := b.Whole().DropRange(def, from, to, groups)
			if drop == nil {
				return err
			}
			if drop.Posts+drop.Blocks > 0 {
				c.TouchRange(def, from, to)
			}
			posts, blocks = posts+drop.Posts, blocks+drop.Blocks
			if err == nil && drop.Posts+drop.Blocks > 0 {
				steps++
			}
			return err
		})
	}
	if posts > 0 {
		c.Log().Info("posts of a range were dropped", "counter", string(args[1]), "lo", from, "hi", to, "items", posts, "blocks", blocks)
	}
	switch {
	case err != nil && steps > 0: // as where the node gave its role up meanwhile
		call.Out.Error("UNCERTAIN the change was made in a part: " + items.ErrorText(err))
		return
	case err != nil:
		call.StoreError(err)
		return
	}
	call.Out.Int(int64(posts))
}

// parseEnd reads the end of a range: an id, or 2^63, which is behind all of them.
func parseEnd(text []byte) (end uint64, ok bool) {
	if string(text) == "9223372036854775808" {
		return schema.MaxMid + 1, true
	}
	return schema.ParseMid(text)
}
