package dataset

import (
	"errors"
	"fmt"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// endMid is behind all mids.
const endMid = uint64(1) << 63

// digestRequest are the arguments of COUNTER.DIGEST.
type digestRequest struct {
	counter string // empty: all
	lo, hi  uint64
	parts   int // 0: one line for the whole range
}

// parseDigest reads [counter [lo hi] [PARTS n]]. text is the error.
func parseDigest(args [][]byte) (r digestRequest, text string) {
	r.hi = endMid
	if len(args) == 0 {
		return r, ""
	}
	r.counter, args = string(args[0]), args[1:]
	if n := len(args); n >= 2 && resp.EqualFold(args[n-2], "PARTS") {
		parts, ok := resp.Number(args[n-1])
		if !ok || parts < 1 || parts > counter.MaxDigestParts {
			return r, fmt.Sprintf("ERR PARTS: want 1..%d", counter.MaxDigestParts)
		}
		r.parts, args = int(parts), args[:n-2]
	}
	switch len(args) {
	case 0:
		return r, ""
	case 2:
		var ok, ok2 bool
		r.lo, ok = schema.ParseMid(args[0])
		if r.hi, ok2 = schema.ParseMid(args[1]); string(args[1]) == fmt.Sprint(endMid) {
			r.hi, ok2 = endMid, true
		}
		if !ok || !ok2 || r.lo > r.hi {
			return r, fmt.Sprintf("ERR want a range of mids: lo, and hi behind it, at most %d", endMid)
		}
		return r, ""
	}
	return r, items.ErrSyntax
}

// digest: COUNTER.DIGEST [counter [lo hi] [PARTS n]], one line a counter: nodes with the same items print the same.
// With PARTS one line for each of n equal parts of the range that has items.
func digest(c Conn, args [][]byte) {
	call := c.Call()
	r, text := parseDigest(args[1:])
	if text != "" {
		call.Out.Error(text)
		return
	}
	digests, names := c.Store().Admin().Digests, []string{r.counter}
	if c.Executing() {
		digests = counter.NewReader(call.Batch).Digests
	}
	var err error
	if r.counter == "" {
		names = names[:0]
		for _, def := range c.Store().Schema().Counters() {
			names = append(names, def.Name)
		}
	}
	var lines []string
	for _, name := range names {
		var sums []counter.Digest
		if sums, err = digests(name, r.lo, r.hi, max(1, r.parts)); err != nil {
			if errors.Is(err, counter.ErrNoKey) {
				err = errors.New(strings.TrimPrefix(items.ErrNoCounter([]byte(name)), "ERR "))
			}
			break
		}
		if r.parts == 0 {
			lines = append(lines, "counter="+name+" "+sums[0].String())
			continue
		}
		for i, d := range sums {
			if d.Items > 0 {
				from, to := counter.DigestPart(r.lo, r.hi, r.parts, i)
				lines = append(lines, fmt.Sprintf("counter=%s lo=%d hi=%d %s", name, from, to, d))
			}
		}
	}
	if err != nil {
		call.StoreError(err)
		return
	}
	call.Out.BulkStrings(lines)
}
