package simulation

import (
	"context"
	"errors"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// view is the map that etcd has.
func (r *Run) view() *topology.Map {
	m, err := r.Etcd.Map()
	if err != nil {
		panic(err) // nodes wrote what nodes cannot read
	}
	return m
}

// change makes a change of the map, again if a node changed it in between.
func (r *Run) change(f func(m *topology.Map) (topology.Change, error)) {
	reg := r.Etcd.Open(nil)
	defer reg.Close()
	for {
		c, err := f(r.view())
		if err == nil {
			err = reg.Commit(context.Background(), c)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, topology.ErrConflict) {
			r.Fault("the map: %v", err)
			return
		}
	}
}

// try makes a change of the map, if it can be made now.
func (r *Run) try(f func(m *topology.Map) (topology.Change, error)) {
	if c, err := f(r.view()); err == nil {
		reg := r.Etcd.Open(nil)
		_ = reg.Commit(context.Background(), c)
		_ = reg.Close()
	}
}
