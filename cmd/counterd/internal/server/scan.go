package server

import (
	"strconv"
	"strings"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// scanOptions are those of SCAN and HSCAN.
type scanOptions struct {
	match string
	count int
	kind  string // TYPE, lower case
}

// parseScan reads options; text is the error.
func parseScan(args [][]byte, types bool) (o scanOptions, text string) {
	o.count, o.match = 10, "*"
	for i := 0; i < len(args); i += 2 {
		if i+1 == len(args) {
			return o, errSyntax
		}
		switch {
		case equalFold(args[i], "COUNT"):
			n, ok := number(args[i+1])
			if !ok {
				return o, errNotInteger
			}
			if n < 1 {
				return o, errSyntax
			}
			o.count = int(min(n, maxScanCount))
		case equalFold(args[i], "MATCH"):
			o.match = string(args[i+1])
		case equalFold(args[i], "TYPE") && types:
			o.kind = strings.ToLower(string(args[i+1]))
		default:
			return o, errSyntax
		}
	}
	return o, ""
}

// maxScanCount bounds what one SCAN looks at, and so its reply and the time it takes: COUNT is a hint.
const maxScanCount = 10_000

// parseCursor reads a cursor as strtoul does, and so Redis, but for the sign -: a cursor is a mid.
func parseCursor(b []byte) (uint64, bool) {
	text := strings.TrimPrefix(string(b), "+")
	if text == "" {
		return 0, len(b) == 0
	}
	v, err := strconv.ParseUint(text, 10, 64)
	return v, err == nil
}

// runScan: SCAN cursor [MATCH pattern] [COUNT count] [TYPE type].
//
// Without TYPE and MATCH it lists the keys of items: MID, or NAME:MID for other counters than the first. TYPE string, or a
// pattern with a dot in it, lists the keys of their numbers instead: MID.suffix. Where keys cannot be listed, as a page of a cold file cannot be
// read, the answer is an error that names them and the cursor to go on with.
func runScan(c *client, args [][]byte) {
	cursor, ok := parseCursor(args[1])
	if !ok {
		c.error("ERR invalid cursor")
		return
	}
	o, text := parseScan(args[2:], true)
	if text != "" {
		c.error(text)
		return
	}
	numbers := o.kind == "string" || o.kind == "" && strings.Contains(o.match, ".")
	var items []counter.ScanItem
	var sch *schema.Schema
	err := c.withStore(false, func(b *counter.Batch) (err error) {
		sch = b.Schema()
		items, cursor, err = b.Scan(nil, cursor, o.count)
		return err
	})
	if err != nil {
		c.storeError(err)
		return
	}
	var keys [][]byte
	add := func(key []byte) {
		if matchGlob(o.match, string(key)) {
			keys = append(keys, key)
		}
	}
	for _, it := range items {
		plain := it.Counter.Plain >= 0 // then the item's key is a number itself
		if !numbers && (o.kind == "" || o.kind == "hash" && !plain) {
			add(sch.AppendKey(nil, it.Counter, schema.WholeItem, it.Mid))
		}
		if !numbers {
			continue
		}
		for col := range it.Counter.Columns {
			add(sch.AppendKey(nil, it.Counter, col, it.Mid))
		}
	}
	c.array(2)
	c.bulk(strconv.FormatUint(cursor, 10))
	c.array(len(keys))
	for _, k := range keys {
		c.bulk(string(k))
	}
}

func runDBSize(c *client, _ [][]byte) {
	n := 0
	if err := c.withStore(false, func(b *counter.Batch) error { n = b.Items(); return nil }); err != nil {
		c.storeError(err)
		return
	}
	c.integer(int64(n))
}

// runFlush: FLUSHALL and FLUSHDB [ASYNC | SYNC]. Memory goes back at once either way.
func runFlush(c *client, args [][]byte) {
	if len(args) > 2 || len(args) == 2 && !equalFold(args[1], "ASYNC") && !equalFold(args[1], "SYNC") {
		c.error(errSyntax)
		return
	}
	err := c.withStore(true, func(b *counter.Batch) error {
		c.srv.watches.touchAll()
		return b.Clear()
	})
	if err != nil {
		c.storeError(err)
		return
	}
	c.ok()
}
