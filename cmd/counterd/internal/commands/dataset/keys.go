package dataset

import (
	"context"
	"math/rand/v2"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/glob"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

const (
	// keysLooked is how many posts KEYS looks at: in 0.2 to 0.4 s of one processor, in steps beside others.
	keysLooked = 1 << 20
	// keysHeld is the same in a transaction, which blocks all other clients: as many as one SCAN reads.
	keysHeld = 10_000
	// keysListed is how many keys it answers: in memory all at once.
	keysListed = 100_000
	keysStep   = 1000
)

// Errors of KEYS.
const (
	errKeys items.Refusal = "ERR KEYS examines at most 1048576 posts and returns at most 100000 keys: use SCAN cursor MATCH pattern, " +
		"or COUNTER.FIND"
	errKeysHeld items.Refusal = "ERR KEYS in a transaction examines at most 10000 posts, because other clients wait meanwhile"
)

// keys: KEYS pattern, as SCAN with MATCH lists them. Redis walks over everything and keeps everybody waiting; here that
// ends with an error where it would take long, and when the client has gone: a pattern of one class of 1,000 characters
// takes 100 times as long as others.
func keys(c Conn, args [][]byte) {
	call := c.Call()
	o, text := items.ParseScan([][]byte{[]byte("MATCH"), args[1]}, false)
	if text != "" {
		call.Out.Error(text)
		return
	}
	o.Count = keysStep
	var found [][]byte
	var err error
	if c.Executing() {
		found, err = keysMatching(context.Background(), c, o, keysHeld)
	} else {
		c.Busy(func(ctx context.Context) { found, err = keysMatching(ctx, c, o, keysLooked) })
	}
	if err != nil {
		call.StoreError(err)
		return
	}
	call.Out.Array(len(found))
	for _, k := range found {
		call.Out.Bulk(k)
	}
}

// keysMatching walks over posts for keys, most of them at most.
func keysMatching(ctx context.Context, c Conn, o items.ScanOptions, most int) (found [][]byte, err error) {
	cursor, looked := uint64(0), 0
	for {
		var list []counter.ScanItem
		var sch *schema.Schema
		err := c.WithStore(false, func(b *counter.Batch) (err error) {
			sch = b.Schema()
			list, cursor, err = counter.NewReader(b).Scan(nil, cursor, o.Count)
			return err
		})
		if err != nil {
			return nil, err
		}
		found, looked = appendKeys(found, c, sch, list, o), looked+len(list)
		switch {
		case looked >= most && cursor != 0 && most == keysHeld:
			return nil, errKeysHeld
		case len(found) > keysListed || looked >= most && cursor != 0:
			return nil, errKeys
		case cursor == 0 || ctx.Err() != nil: // then nobody reads the answer
			return found, nil
		}
		if !c.Executing() {
			c.GiveWay() // or it would keep a processor for 10 ms at a time
		}
	}
}

// appendKeys appends the keys of items that o asks for.
func appendKeys(dst [][]byte, c Conn, sch *schema.Schema, list []counter.ScanItem, o items.ScanOptions) [][]byte {
	numbers := o.Type == "string" || o.Type == "" && strings.Contains(o.Match, ".")
	add := func(key []byte) {
		if glob.Match(o.Match, string(key)) {
			dst = append(dst, key)
		}
	}
	for _, it := range list {
		plain := it.Counter.Plain >= 0 // then the item's key is a number itself
		if !numbers && (o.Type == "" || o.Type == "hash" && !plain) {
			add(c.AppendKey(nil, sch, it.Counter, schema.WholeItem, it.Mid))
		}
		if !numbers {
			continue
		}
		for col := range it.Counter.Width() {
			add(c.AppendKey(nil, sch, it.Counter, col, it.Mid))
		}
	}
	return dst
}

// randomKey: RANDOMKEY, the key of a post, each as likely as the others: one of a block, which is drawn by how many it
// has.
func randomKey(c Conn, _ [][]byte) {
	call := c.Call()
	var key []byte
	err := c.WithStore(false, func(b *counter.Batch) error {
		n := b.Items()
		if n == 0 {
			return nil
		}
		left := rand.IntN(n)
		var from counter.BlockInfo
		counter.NewReader(b).Blocks(func(info counter.BlockInfo) bool {
			if info.Hidden {
				return true
			}
			if info.Items > 0 {
				from = info // the last one, should some have gone meanwhile
			}
			left -= info.Items
			return left >= 0
		})
		if from.Counter == nil {
			return nil
		}
		mid, ok, err := counter.NewReader(b).RandomItem(from)
		if ok {
			key = c.AppendKey(nil, b.Schema(), from.Counter, schema.WholeItem, mid)
		}
		return err
	})
	switch {
	case err != nil:
		call.StoreError(err)
	case key == nil:
		call.Out.Null()
	default:
		call.Out.Bulk(key)
	}
}
