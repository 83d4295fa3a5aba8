package client

import (
	"cmp"
	"context"
)

// drainAtOnce is how many numbers one command drains. The server keeps the reply of a change, up to 64 KiB.
const drainAtOnce = 1000

// Drain reads columns of posts and resets them to their defaults. No other caller gets the same value: an increment that
// comes at the same time is in the result or in the column afterwards. Rows come in the order of mids.
//
// Up to 1,000 numbers are one command (COUNTER.DRAIN), one change and one number: a repeat is answered the same. In a
// cluster the posts of each hash slot are one. After an error the rows that were drained are returned with their values.
// All others have none, as a post that is not there; ClassOf tells whether they may have been drained as well.
func (c *Client) Drain(ctx context.Context, mids []uint64, column string, more ...string) ([]Row, error) {
	if len(mids) == 0 {
		return nil, nil
	}
	cs, list, err := c.columns.choose(ctx, append([]string{column}, more...), false)
	if err != nil {
		return nil, err
	}
	rows, names := make([]Row, len(mids)), cs.some(list)
	for i, mid := range mids {
		rows[i] = Row{Mid: mid, Columns: names}
	}
	lists := [][]int{make([]int, len(mids))} // places in mids, by command
	if c.cluster {
		lists = bySlot(len(mids), func(i int) uint64 { return mids[i] })
	} else {
		for i := range mids {
			lists[0][i] = i
		}
	}
	var parts [][]int
	for _, places := range lists {
		for atOnce := max(1, drainAtOnce/len(list)); len(places) > 0; places = places[min(atOnce, len(places)):] {
			parts = append(parts, places[:min(atOnce, len(places))])
		}
	}
	command := func(places []int) []any {
		args := append(make([]any, 0, 4+len(places)*len(list)), "COUNTER.DRAIN")
		for _, i := range places {
			for _, column := range list {
				args = append(args, cs.key(mids[i], column))
			}
		}
		return args
	}
	fill := func(places []int, reply any) error {
		values, err := slice(reply, len(places)*len(list))
		if err != nil {
			return err
		}
		for at, i := range places {
			its := make([]int64, len(list))
			for k := range its {
				value := values[at*len(list)+k]
				if value == nil { // there is no such post
					its = nil
					break
				}
				if its[k], err = number(value); err != nil {
					return err
				}
			}
			rows[i].Exists, rows[i].Values = its != nil, its
		}
		return nil
	}
	if !c.cluster {
		for _, places := range parts {
			reply, err := c.numbered(ctx, len(places), command(places))
			if err == nil {
				err = fill(places, reply)
			}
			if err != nil {
				return rows, err
			}
		}
		return rows, nil
	}
	all := make([][]any, len(parts))
	for k, places := range parts {
		all[k] = command(places)
	}
	var first error
	c.numberedMany(ctx, all, func(k int, reply any, err error) {
		if err == nil {
			err = fill(parts[k], reply)
		}
		first = cmp.Or(first, err)
	})
	return rows, first
}
