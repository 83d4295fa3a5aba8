package query

import (
	"fmt"
	"strconv"

	"github.com/counterd/counterd/counter"
)

// cursorDigits is the length of a cursor's text: mid and check.
const cursorDigits = 16 + 8

// cursorText writes the cursor of a query that goes on at mid.
func cursorText(check uint32, mid uint64) string {
	return fmt.Sprintf("%016x%08x", mid, mixMid(check, mid))
}

// parseCursor reads a cursor of the query that check is of.
func parseCursor(b []byte, check uint32) (mid uint64, ok bool) {
	if len(b) != cursorDigits {
		return 0, false
	}
	mid, err := strconv.ParseUint(string(b[:16]), 16, 64)
	if err != nil || cursorText(check, mid) != string(b) {
		return 0, false
	}
	return mid, true
}

// checkOf sums what a cursor's query is: counter, range, list, conditions, direction. Ids and not places in the schema,
// so that a column that comes or goes leaves cursors as they are. FNV-1a.
func checkOf(q *counter.Query) uint32 {
	h := uint32(2166136261)
	add := func(v uint64) {
		for range 8 {
			h = (h ^ uint32(v&0xff)) * 16777619
			v >>= 8
		}
	}
	add(uint64(q.Counter.ID))
	add(q.From)
	add(q.To)
	add(uint64(len(q.Mids)))
	for _, m := range q.Mids {
		add(m)
	}
	add(uint64(len(q.NotMids)))
	for _, m := range q.NotMids {
		add(m)
	}
	for _, c := range q.Where {
		add(uint64(q.Counter.Col(int(c.Column)).ID)<<8 | uint64(c.Op))
		add(c.Value)
	}
	if q.Desc {
		add(1)
	}
	return h
}

// mixMid adds the mid to a query's check, so that a digit that was changed shows.
func mixMid(check uint32, mid uint64) uint32 {
	for range 8 {
		check = (check ^ uint32(mid&0xff)) * 16777619
		mid >>= 8
	}
	return check
}
