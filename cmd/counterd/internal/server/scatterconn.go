package server

import (
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/scatter"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// scatterConn is a connection as package scatter sees it.
type scatterConn struct{ c *client }

var _ scatter.Conn = scatterConn{}

func (s scatterConn) ID() int64                    { return s.c.session.ID() }
func (s scatterConn) InLoop() bool                 { return s.c.session.InLoop() }
func (s scatterConn) Leave()                       { s.c.session.Leave() }
func (s scatterConn) Schema() *schema.Schema       { return s.c.call.names() }
func (s scatterConn) Lets(f command.Flags) bool    { return s.c.srv.node.Lets(f) }
func (s scatterConn) Owned() slot.Set              { return s.c.call.store.Groups().Owned() }
func (s scatterConn) Tracks() bool                 { return s.c.call.reads != nil }
func (s scatterConn) Run()                         { s.c.call.flush() }
func (s scatterConn) Numbers() *idmp.Sequence      { return &s.c.call.numbers }
func (s scatterConn) ErrorReply(reply []byte)      { s.c.srv.stats.ErrorReply(reply) }
func (s scatterConn) row(cmd *command.Access) *row { return s.c.srv.commands.Row(cmd) }

func (s scatterConn) Command(name string) *command.Access {
	return s.c.srv.commands.Find([]byte(name)).Access()
}

func (s scatterConn) Serves(cmd *command.Access) bool {
	return s.c.srv.node.Lets(cmd.Flags) && s.c.local(s.row(cmd), nil)
}

func (s scatterConn) Refusal(cmd *command.Access, args [][]byte) string {
	text, _ := s.c.routed(s.c.srv.cluster.Now(), s.row(cmd), args)
	return text
}

func (s scatterConn) Plan(cmd *command.Access, args [][]byte)    { s.c.call.plan(s.row(cmd), args) }
func (s scatterConn) Execute(cmd *command.Access, args [][]byte) { s.row(cmd).Run(s.c, args) }

func (s scatterConn) Number(num *idmp.Number, cmd *command.Access, args [][]byte) (rest [][]byte, text string) {
	return s.c.call.number(num, s.row(cmd), args)
}

func (s scatterConn) Uncommitted() (from int, pending bool) {
	return s.c.call.unsure, s.c.call.ack.Pending()
}

func (s scatterConn) Commit() error {
	s.c.call.unsureN = 0
	return s.c.call.ack.Commit()
}

func (s scatterConn) Account(cmd *command.Access, took time.Duration) {
	s.row(cmd).Account(s.c.session.Lane(), 1, took)
}

func (s scatterConn) Failed(cmd *command.Access, reply []byte) { s.c.call.failed(s.row(cmd), reply) }

// queue is a transaction as package scatter sees it.
type queue struct {
	c *client
	t *transaction
}

func (q queue) Len() int             { return len(q.t.queued) }
func (q queue) Denied() string       { return q.t.denied(q.c) }
func (q queue) Exec(num idmp.Number) { q.t.exec(q.c, num) }

func (q queue) Unplanned() string {
	for i := range q.t.queued {
		if cmd := q.t.queued[i].cmd; cmd.Plan == nil {
			return cmd.Name
		}
	}
	return ""
}

func (q queue) EachPost(sch *schema.Schema, f func(mid uint64)) {
	for i := range q.t.queued {
		q.t.queued[i].eachPost(sch, f)
	}
}

func (q queue) Commands() [][][]byte {
	list := [][][]byte{{[]byte("MULTI")}}
	for _, c := range q.t.queued {
		list = append(list, c.args)
	}
	return append(list, [][]byte{[]byte("EXEC")})
}
