// Package factstest makes States for tests of what shows them.
package factstest

import (
	"errors"
	"reflect"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
	"github.com/counterd/counterd/counter"
)

// Full returns a State in which no fact is unknown and each number differs from the others: a replica of a cluster with
// a data directory, that takes a full copy and has replicas of its own.
func Full() *facts.State {
	s := &facts.State{Commands: []facts.Command{{Name: "get"}, {Name: "config|set"}}, Errors: []stats.ErrorCount{{Word: "ERR"}, {Word: "OOM"}},
		Cluster: &facts.Cluster{}, Agent: &facts.Agent{Troubles: make([]facts.Trouble, 1)}, Usage: make([]counter.Usage, 3), Replicas: make([]facts.Replica, 2), Link: &facts.Link{}, Cursors: make([]counter.FeedCursorState, 2), Aging: make([]facts.Aging, 2), Hot: []facts.HotPost{{Rank: 1, Reads: 9, Writes: 2}, {Rank: 2, Reads: 1, Writes: 1}}}
	n := 0
	fill(reflect.ValueOf(s).Elem(), &n)
	for i := range s.Commands {
		s.Commands[i].Times = new(stats.Histogram)
		for j := range s.Commands[i].Times {
			s.Commands[i].Times[j] = int64(i + j + 1)
		}
	}
	s.Filled, s.Process.Version, s.Process.Started = facts.AllParts, "1.2.3", time.Now().Add(-100*time.Hour)
	s.Commands[0].Name, s.Commands[1].Name, s.Errors[0].Word, s.Errors[1].Word = "get", "config|set", "ERR", "OOM"
	s.Role, s.Usage[0].Counter, s.Usage[1].Counter = "replica", "weibo", "video"
	s.Usage[0].Column, s.Usage[1].Column, s.Usage[2].Counter, s.Usage[2].Column = "", "", "weibo", "repost1h"
	s.Cursors[0].Name, s.Cursors[1].Name = "search", "warehouse"
	s.Aging[0].Counter, s.Aging[1].Counter = "weibo", "video"
	s.Aging[0].Known, s.Aging[1].Known = true, true
	s.Cursors[0].Lost, s.Cursors[1].Lost = false, false
	s.Replicas[0].Addr, s.Replicas[1].Addr = "10.0.0.1:6379", "[fd00::1]:6379"
	s.Link.State, s.Link.Primary = "sync", "10.0.0.9:6379"
	s.Disk.Total += int64(1 << 40)
	s.Snapshots.LastErr = errors.New("no space left on device")
	s.Agent.Etcd, s.Agent.Troubles[0] = "refused", facts.Trouble{ID: "disk", Severity: "error", Text: "the disk takes no writes"}
	return s
}

// fill gives every number in v a value of its own, and every text one.
func fill(v reflect.Value, n *int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem(), n)
		}
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*n++
			*at = time.Unix(int64(*n), 0)
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		*n++
		v.SetString("text" + string(rune('a'+*n%26)))
	case reflect.Int, reflect.Int64:
		*n++
		v.SetInt(int64(*n))
		if v.Type() == reflect.TypeFor[time.Duration]() {
			v.SetInt(int64(time.Duration(*n) * time.Second))
		}
	case reflect.Uint64:
		*n++
		v.SetUint(uint64(*n))
	case reflect.Float64:
		*n++
		v.SetFloat(float64(*n))
	}
}

// Loading returns Full while data is being loaded.
func Loading() *facts.State {
	s := Full()
	s.Loading = &facts.Loading{Began: time.Unix(1e9, 0), Done: 1 << 30, Total: 4 << 30, Left: 10 * time.Second}
	return s
}
