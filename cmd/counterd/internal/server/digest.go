package server

import (
	"fmt"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// runDigest: COUNTER.DIGEST [counter [lo hi]], one line a counter: nodes with the same items print the same.
func runDigest(c *client, args [][]byte) {
	lo, hi := uint64(0), uint64(1)<<63
	if len(args) != 1 && len(args) != 2 && len(args) != 4 {
		c.error(errSyntax)
		return
	}
	if len(args) == 4 {
		var ok, ok2 bool
		lo, ok = schema.ParseMid(args[2])
		hi, ok2 = schema.ParseMid(args[3])
		if !ok || !ok2 {
			c.error("ERR want a range of mids: lo, and hi behind it")
			return
		}
	}
	var lines []string
	err := c.withStore(false, func(b *counter.Batch) error {
		for _, def := range b.Schema().Counters() {
			if len(args) > 1 && def.Name != string(args[1]) {
				continue
			}
			d, err := b.Digest(def.Name, lo, hi)
			if err != nil {
				return err
			}
			lines = append(lines, "counter="+def.Name+" "+d.String())
		}
		if len(args) > 1 && len(lines) == 0 {
			return fmt.Errorf("no counter '%s' (see SCHEMA)", printable(args[1], 128))
		}
		return nil
	})
	if err != nil {
		c.storeError(err)
		return
	}
	c.array(len(lines))
	for _, l := range lines {
		c.bulk(l)
	}
}
