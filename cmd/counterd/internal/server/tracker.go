package server

import (
	"sync/atomic"

	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/tracking"
)

// tracker is a connection as package tracking knows it. Anybody may call its methods.
type tracker struct {
	table   *tracking.Table
	session *front.Session

	client atomic.Pointer[tracking.Client] // nil: it never tracked, nor was it told of what others do
	ended  atomic.Bool                     // end was called
}

// enter returns what package tracking knows the connection by. It is made by the first CLIENT TRACKING, or when another
// connection names this one by REDIRECT.
func (t *tracker) enter() *tracking.Client {
	if c := t.client.Load(); c != nil {
		return c
	}
	t.client.CompareAndSwap(nil, tracking.NewClient(t.session.ID(), t.session.Wake))
	c := t.client.Load()
	if t.ended.Load() { // end saw none, and what others are told there would be lost
		t.table.End(c)
	}
	return c
}

// state is how the connection tracks.
func (t *tracker) state() (s tracking.State) {
	if c := t.client.Load(); c != nil {
		s = c.State()
	}
	return s
}

// end forgets the connection.
func (t *tracker) end() {
	t.ended.Store(true) // before: see enter
	if c := t.client.Load(); c != nil {
		t.table.End(c)
	}
}
