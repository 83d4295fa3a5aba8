package scatter

import (
	"bytes"
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
	"github.com/counterd/counterd/cmd/internal/query"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// One answer of those of all shards: see all.go.

// number reads an integer, or the digits of a large one; nil: there is none.
func number(reply []byte) *big.Int {
	line := reply
	if reply[0] == '$' {
		_, n, size := gather.Head(reply)
		if n < 0 {
			return nil
		}
		line = append([]byte("$"), reply[size:]...)
	}
	n, ok := new(big.Int).SetString(string(bytes.TrimRight(line[1:], "\r\n")), 10)
	if !ok {
		return nil
	}
	return n
}

// answerNumber appends a number as an aggregate's.
func answerNumber(out *resp.Replies, n *big.Int) {
	low := new(big.Int).And(n, new(big.Int).SetUint64(1<<64-1)).Uint64()
	out.Uint128(new(big.Int).Rsh(n, 64).Uint64(), low)
}

func mergeTotal(f *Scatter, _ [][]byte, replies [][]byte) string {
	sum := new(big.Int)
	for _, r := range replies {
		if n := number(r); n != nil {
			sum.Add(sum, n)
		}
	}
	answerNumber(&f.call.Out, sum)
	return ""
}

func mergeLeast(f *Scatter, _ [][]byte, replies [][]byte) string { return mergeEnd(f, replies, -1) }
func mergeMost(f *Scatter, _ [][]byte, replies [][]byte) string  { return mergeEnd(f, replies, 1) }

func mergeEnd(f *Scatter, replies [][]byte, want int) string {
	var end *big.Int
	for _, r := range replies {
		if n := number(r); n != nil && (end == nil || n.Cmp(end) == want) {
			end = n
		}
	}
	if end == nil {
		f.call.Out.Null()
	} else {
		answerNumber(&f.call.Out, end)
	}
	return ""
}

// mergeSeq has the highest of the sequence numbers.
func mergeSeq(f *Scatter, _ [][]byte, replies [][]byte) string {
	var highest *big.Int
	for _, r := range replies {
		if n := number(r); n != nil && (highest == nil || n.Cmp(highest) > 0) {
			highest = n
		}
	}
	if highest == nil {
		f.call.Out.Null()
	} else {
		idmp.AppendSeq(&f.call.Out, highest.Uint64())
	}
	return ""
}

// foundRow is a row of FIND or TOP: its mid, and the reply that it is.
type foundRow struct {
	mid, value uint64
	reply      []byte
}

// above tells whether a row of TOP comes before another.
func (r foundRow) above(x foundRow) bool {
	return r.value > x.value || r.value == x.value && r.mid > x.mid
}

// rowsOf appends the rows of an array.
func rowsOf(list []foundRow, array []byte) []foundRow {
	for rest := gather.Elements(array); len(rest) > 0; {
		n := gather.Size(rest)
		if n == 0 {
			break
		}
		row := foundRow{reply: rest[:n]}
		fields := gather.Elements(row.reply)
		row.mid = integer(fields)
		if next := fields[gather.Size(fields):]; len(next) > 0 {
			row.value = integer(next)
		}
		list = append(list, row)
		rest = rest[n:]
	}
	return list
}

func integer(b []byte) uint64 {
	_, n, _ := gather.Head(b)
	return uint64(n)
}

// mergeFind merges rows by mid. A page ends where the first shard's does that has not come to its end.
func mergeFind(f *Scatter, args [][]byte, replies [][]byte) string {
	q, err := query.ParseFind(f.conn.Schema(), args[1:])
	if err != nil {
		return items.ErrorText(err)
	}
	var list []foundRow
	end, bounded := uint64(0), false
	before := func(a, b uint64) bool { return a < b != q.Desc && a != b }
	for _, r := range replies {
		if q.Paged {
			next := gather.Elements(r)
			n := gather.Size(next)
			_, length, head := gather.Head(next)
			if length >= 16 {
				mid, _ := strconv.ParseUint(string(next[head:head+16]), 16, 64)
				if !bounded || before(mid, end) {
					end, bounded = mid, true
				}
			}
			r = next[n:]
		}
		list = rowsOf(list, r)
	}
	slices.SortFunc(list, func(a, b foundRow) int {
		if q.Desc {
			return cmp.Compare(b.mid, a.mid)
		}
		return cmp.Compare(a.mid, b.mid)
	})
	if bounded {
		if at := slices.IndexFunc(list, func(r foundRow) bool { return !before(r.mid, end) }); at >= 0 {
			list = list[:at]
		}
	}
	if len(list) > q.Limit {
		end, bounded = list[q.Limit].mid, true
		list = list[:q.Limit]
	}
	if q.Paged {
		f.call.Out.Array(2)
		if bounded {
			f.call.Out.BulkString(q.Next(end))
		} else {
			f.call.Out.BulkString("0")
		}
	}
	answerRows(&f.call.Out, list)
	return ""
}

const errOffset = "ERR OFFSET is not supported in a cluster: use CURSOR"

func answerRows(out *resp.Replies, list []foundRow) {
	out.Array(len(list))
	for _, r := range list {
		gather.AppendAs(out, r.reply)
	}
}

// mergeTop takes the best row of all that the shards begin with, again and again. The rows of a shard keep their order: those of a column that decays
// are ranked more finely than by their values.
func mergeTop(f *Scatter, args [][]byte, replies [][]byte) string {
	q, err := query.ParseTop(f.conn.Schema(), args[1:])
	if err != nil {
		return items.ErrorText(err)
	}
	lists := make([][]foundRow, len(replies))
	for i, r := range replies {
		lists[i] = rowsOf(nil, r)
	}
	var list []foundRow
	for len(list) < q.K {
		best := -1
		for i, rows := range lists {
			if len(rows) > 0 && (best < 0 || rows[0].above(lists[best][0])) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		list, lists[best] = append(list, lists[best][0]), lists[best][1:]
	}
	answerRows(&f.call.Out, list)
	return ""
}

// stringsOf are the strings of an array.
func stringsOf(list [][]byte, array []byte) [][]byte {
	for rest := gather.Elements(array); len(rest) > 0; {
		n := gather.Size(rest)
		if n == 0 {
			break
		}
		_, length, head := gather.Head(rest)
		if length >= 0 {
			list = append(list, rest[head:head+int(length)])
		}
		rest = rest[n:]
	}
	return list
}

// mergeDigest adds up the sums of lines that are about the same.
func mergeDigest(f *Scatter, _ [][]byte, replies [][]byte) string {
	type line struct {
		name   string
		lo     uint64
		of     int
		digest counter.Digest
	}
	var lines []*line
	byName := make(map[string]*line)
	order := make(map[string]int)
	for i, def := range f.conn.Schema().Counters() {
		order[def.Name] = i
	}
	for _, r := range replies {
		for _, text := range stringsOf(nil, r) {
			name, sums, _ := strings.Cut(string(text), " items=")
			var d counter.Digest
			if _, err := fmt.Sscanf(sums, "%d digest=%x", &d.Items, &d.Sum); err != nil {
				return "ERR " + gather.ErrProtocol.Error()
			}
			l := byName[name]
			if l == nil {
				l = &line{name: name}
				var counterName string
				if _, err := fmt.Sscanf(name, "counter=%s lo=%d", &counterName, &l.lo); err != nil {
					_, _ = fmt.Sscanf(name, "counter=%s", &counterName)
				}
				l.of = order[counterName]
				byName[name] = l
				lines = append(lines, l)
			}
			l.digest.Items += d.Items
			l.digest.Sum += d.Sum
		}
	}
	slices.SortStableFunc(lines, func(a, b *line) int { return cmp.Or(cmp.Compare(a.of, b.of), cmp.Compare(a.lo, b.lo)) })
	f.call.Out.Array(len(lines))
	for _, l := range lines {
		f.call.Out.BulkString(l.name + " " + l.digest.String())
	}
	return ""
}

// listed is a key that SCAN or KEYS lists, with its place.
type listed struct {
	mid        uint64
	order, col int
	key        []byte
}

// keysOf are keys in the order in which one server lists them: by mid, then as counters and columns are in the schema.
func keysOf(sch *schema.Schema, keys [][]byte) []listed {
	order := make(map[*schema.Counter]int)
	for i, def := range sch.Counters() {
		order[def] = i
	}
	list := make([]listed, 0, len(keys))
	for _, key := range keys {
		if k, ok := sch.ParseKey(key); ok {
			list = append(list, listed{k.Mid, order[k.Counter], k.Col, key})
		}
	}
	slices.SortFunc(list, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.mid, b.mid), cmp.Compare(a.order, b.order), cmp.Compare(a.col, b.col))
	})
	return list
}

func answerKeys(out *resp.Replies, list []listed) {
	out.Array(len(list))
	for _, k := range list {
		out.Bulk(k.key)
	}
}

// scanOrder compares mids, or cursors, by when SCAN comes to them.
func scanOrder(a, b uint64) int {
	a, b = a&^toldCursor, b&^toldCursor
	return cmp.Or(cmp.Compare(scanTurn(a), scanTurn(b)), cmp.Compare(a, b))
}

// toldCursor is the bit of a cursor that is no mid's: see counter.Batch.Scan.
const toldCursor = 1 << 63

// scanTurn is when a group's posts are listed by SCAN: see counter.Batch.Scan.
func scanTurn(mid uint64) uint8 { return slot.Group(mid) - slot.Group(0) }

// mergeScan lists keys as far as all shards did, group of hash slots after group as each does. So its cursor is a mid as
// that of one shard, which any node takes, and posts that move between shards meanwhile are not missed.
func mergeScan(f *Scatter, _ [][]byte, replies [][]byte) string {
	var keys [][]byte
	next := uint64(0)
	for _, r := range replies {
		cursor := gather.Elements(r)
		_, length, head := gather.Head(cursor)
		at, err := strconv.ParseUint(string(cursor[head:head+int(length)]), 10, 64)
		if err != nil {
			return "ERR " + gather.ErrProtocol.Error()
		}
		if at != 0 && (next == 0 || scanOrder(at, next) < 0) {
			next = at
		}
		keys = stringsOf(keys, cursor[gather.Size(cursor):])
	}
	list := keysOf(f.conn.Schema(), keys)
	slices.SortStableFunc(list, func(a, b listed) int { return cmp.Compare(scanTurn(a.mid), scanTurn(b.mid)) })
	if next != 0 {
		if at := slices.IndexFunc(list, func(k listed) bool { return scanOrder(k.mid, next) >= 0 }); at >= 0 {
			list = list[:at]
		}
	}
	f.call.Out.Array(2)
	f.call.Out.BulkString(strconv.FormatUint(next, 10))
	answerKeys(&f.call.Out, list)
	return ""
}

// maxKeys is the most keys that KEYS answers, as on one server.
const maxKeys = 100_000

func mergeKeys(f *Scatter, _ [][]byte, replies [][]byte) string {
	var keys [][]byte
	for _, r := range replies {
		keys = stringsOf(keys, r)
	}
	if len(keys) > maxKeys {
		return "ERR KEYS examines at most 1048576 posts and returns at most 100000 keys: use SCAN cursor MATCH pattern, or COUNTER.FIND"
	}
	answerKeys(&f.call.Out, keysOf(f.conn.Schema(), keys))
	return ""
}
