package find

import (
	"github.com/counterd/counterd/cmd/internal/query"
	"github.com/counterd/counterd/counter"
)

// runTop is COUNTER.TOP.
func runTop(c Conn, args [][]byte) {
	q, err := query.ParseTop(c.Schema(), args[1:])
	if err != nil {
		c.Call().StoreError(err)
		return
	}
	t, err := counter.NewTop(q.Query, q.Column, q.K)
	if err == nil {
		t.GiveWay(c.GiveWay)
		err = c.Steps(false, t.Step)
	}
	if err != nil {
		c.Call().StoreError(err)
		return
	}
	var found rows
	found.add(t.Rows(), nil)
	found.reply(&c.Call().Out, c.GiveWay)
}

// runAggregate is COUNTER.COUNT, SUM, MIN and MAX.
func runAggregate(c Conn, kind counter.AggregateKind, args [][]byte) {
	q, err := query.ParseAggregate(c.Schema(), kind, args[1:])
	if err != nil {
		c.Call().StoreError(err)
		return
	}
	a, err := counter.NewAggregate(q.Query, kind, q.Column)
	if err == nil {
		a.GiveWay(c.GiveWay)
		err = c.Steps(false, a.Step)
	}
	if err != nil {
		c.Call().StoreError(err)
		return
	}
	out := &c.Call().Out
	if hi, lo, some := a.Result(); !some && (kind == counter.Min || kind == counter.Max) {
		out.Null()
	} else {
		out.Uint128(hi, lo)
	}
}
