package dataset

import (
	"strconv"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// scan: SCAN cursor [MATCH pattern] [COUNT count] [TYPE type].
//
// Without TYPE and MATCH it lists the keys of items: MID, or NAME:MID for other counters than the first. TYPE string,
// or a pattern with a dot in it, lists the keys of their numbers instead: MID.suffix. Where keys cannot be listed, as a
// page of a cold file cannot be read, the answer is an error that names them and the cursor to go on with.
func scan(c Conn, args [][]byte) {
	call := c.Call()
	cursor, ok := items.ParseCursor(args[1])
	if !ok {
		call.Out.Error("ERR invalid cursor")
		return
	}
	o, text := items.ParseScan(args[2:], true)
	if text != "" {
		call.Out.Error(text)
		return
	}
	var found []counter.ScanItem
	var sch *schema.Schema
	err := c.WithStore(false, func(b *counter.Batch) (err error) {
		sch = b.Schema()
		found, cursor, err = counter.NewReader(b).Scan(nil, cursor, o.Count)
		return err
	})
	if err != nil {
		call.StoreError(err)
		return
	}
	keys := appendKeys(nil, c, sch, found, o)
	call.Out.Array(2)
	call.Out.BulkString(strconv.FormatUint(cursor, 10))
	call.Out.Array(len(keys))
	for _, k := range keys {
		call.Out.Bulk(k)
	}
}

func size(c Conn, _ [][]byte) {
	call := c.Call()
	n := 0
	if err := c.WithStore(false, func(b *counter.Batch) error { n = b.Items(); return nil }); err != nil {
		call.StoreError(err)
		return
	}
	call.Out.Int(int64(n))
}

// flush: FLUSHALL and FLUSHDB [ASYNC | SYNC]. Memory goes back at once either way.
func flush(c Conn, args [][]byte) {
	call := c.Call()
	if len(args) > 2 || len(args) == 2 && !resp.EqualFold(args[1], "ASYNC") && !resp.EqualFold(args[1], "SYNC") {
		call.Out.Error(items.ErrSyntax)
		return
	}
	err := c.WithStore(true, func(b *counter.Batch) error {
		c.TouchAll()
		return b.Whole().Clear()
	})
	if err != nil {
		call.StoreError(err)
		return
	}
	call.Out.Status("OK")
}
