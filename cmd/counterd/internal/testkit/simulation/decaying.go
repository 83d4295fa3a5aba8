package simulation

import (
	"fmt"
	"slices"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Column h of counter c is the sum of the additions to n, which decays. They are deleted together, so h never has more than n.

// halfLife is that of column h: so long that hardly anything decays in a run, or so short that sums fade.
func halfLife(r *Run) string {
	if r.Config.Window == longWindow {
		return "366d"
	}
	return "1m"
}

// verifySums compares column h with n on all nodes, the nodes of a shard with each other, and the top list of h with the posts.
func verifySums(r *Run) {
	if r.Config.Window == "" || r.lossy {
		return
	}
	r.await("all nodes have the sums of their posts", func() string { return sameSums(r) })
}

// sameSums tells which node has a sum that does not belong to its values, or another one than the others of its shard.
func sameSums(r *Run) string {
	first := make(map[topology.ShardID][]uint64)
	for _, m := range r.Machines {
		srv := m.server()
		if srv == nil {
			return m.name + " does not run"
		}
		shard, ok := shardOf(r, srv)
		if !ok {
			continue
		}
		def := srv.Store().Schema().Counter("c")
		n, h := column(def, "n"), column(def, "h")
		if n < 0 || h < 0 {
			return m.name + " lacks a column"
		}
		var rows, sums []uint64
		wrong := ""
		err := srv.Store().Find(counter.Query{Counter: def, To: schema.MaxMid, Columns: []int16{n, h}}, func(mid uint64, values []uint64) bool {
			rows, sums = append(rows, mid, values[1]), append(sums, values[1])
			if values[1] > values[0] || halfLife(r) == "366d" && rightClocks(r) && values[1]+1 < values[0]-values[0]/10 {
				wrong = fmt.Sprintf("the decaying sum of post %d is %d, of %d additions", mid, values[1], values[0])
			}
			return true
		})
		if err == nil && wrong == "" {
			wrong, err = wrongTop(srv.Store(), def, h, sums)
		}
		if err != nil || wrong != "" {
			return fmt.Sprintf("%s: %s %v", m.name, wrong, err)
		}
		if other, ok := first[shard]; ok && !slices.Equal(other, rows) {
			return fmt.Sprintf("%s has the sums %v, another node of its shard %v", m.name, rows, other)
		}
		first[shard] = rows
	}
	return ""
}

// wrongTop tells whether the posts with the largest sums, of which a list is kept, have other values than the largest of all.
func wrongTop(s *counter.Store, def *schema.Counter, column int16, sums []uint64) (wrong string, err error) {
	rows, err := s.Top(counter.Query{Counter: def, To: schema.MaxMid}, column, 3)
	if err != nil {
		return "", err
	}
	var got []uint64
	for i := range rows.Len() {
		_, values := rows.At(i)
		got = append(got, values[0])
	}
	slices.Sort(sums)
	slices.Reverse(sums)
	if want := sums[:min(3, len(sums))]; !slices.Equal(got, want) {
		return fmt.Sprintf("the largest sums are %v, and the list has %v", want, got), nil
	}
	return "", nil
}
