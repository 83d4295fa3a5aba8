package scatter

import (
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// Conn is the part of a connection that a Scatter uses. Commands that this node answers itself go through it.
type Conn interface {
	// ID is the number of the connection, and Lane that of its event loop.
	ID() int64
	Lane() int
	// InLoop tells whether the connection is in its event loop, where it must not wait. LeaveLoop makes the connection go on
	// outside of the loop.
	InLoop() bool
	LeaveLoop()
	// MayHold tells whether the connection can wait in its loop, until Resume: everything read has been executed. Hold makes it do so.
	MayHold() bool
	Hold()
	// Resume ends Hold. Anybody may call it.
	Resume()

	// Schema is the schema that keys are read by.
	Schema() *schema.Schema
	// Command finds a command by its name.
	Command(name string) *command.Access
	// Lets tells whether the node's role allows commands with such flags now.
	Lets(flags command.Flags) bool
	// Serves tells whether the node takes a command on posts now: its role allows the command (Lets), and the node serves
	// reads, or writes. Serves opens the batch.
	Serves(cmd *command.Access) bool
	// Refusal says why this node does not take a command although it has all posts of the command. Refusal is empty if the
	// node takes the command.
	Refusal(cmd *command.Access, args [][]byte) string
	// Owned are the groups of hash slots that the store has.
	Owned() slot.Set
	// Tracks tells whether the connection has CLIENT TRACKING on.
	Tracks() bool

	// Plan adds a command on posts to the batch, and Run runs the batch.
	Plan(cmd *command.Access, args [][]byte)
	Run()
	// PlanEach is Plan of commands with these keys, one each.
	PlanEach(cmd *command.Access, keys [][]byte)
	// PlanRows is Plan of a page of posts of a counter with these ids and groups of hash slots; packed: its rows are to be packed. REQUIRES that the batch is open, and not
	// Observed: nobody is told of the arguments of commands.
	PlanRows(cmd *command.Access, counter []byte, mids []uint64, groups []uint8, packed bool)
	Observed() bool
	// Execute executes a command that is not planned. Its replies are appended to those of the call.
	Execute(cmd *command.Access, args [][]byte)
	// Numbers is the state of CLIENT IDMP.
	Numbers() *idmp.Sequence
	// Number takes the number out of the arguments of a command. The number is used up. text is the error.
	Number(num *idmp.Number, cmd *command.Access, args [][]byte) (rest [][]byte, text string)

	// Uncommitted tells whether replies wait for a commit, and where in the replies the first of them is.
	Uncommitted() (from int, pending bool)
	// Commit commits what the connection changed.
	Commit() error
	// Settle brings the changes so far that Commit does not wait any more. false: they are not yet, and the connection waits in its loop, or
	// leaves it. REQUIRES MayHold. Behind it the connection may be out of its loop.
	Settle() bool
	// Account counts n executions of a command, Failed its error, and ErrorReply an error in the place of a reply.
	Account(cmd *command.Access, n int, took time.Duration)
	Failed(cmd *command.Access, reply []byte)
	ErrorReply(reply []byte)
}

// Transaction is the queue of a MULTI.
type Transaction interface {
	// Len is the number of its commands.
	Len() int
	// Unplanned is the name of a command that is not on posts; empty: all are.
	Unplanned() string
	// EachPost calls f with the posts of all its commands.
	EachPost(sch *schema.Schema, f func(mid uint64))
	// Denied says why the user of the connection may not execute it any more; empty: it may.
	Denied() string
	// Commands are MULTI, its commands and EXEC, as they are sent to another node.
	Commands() [][][]byte
	// Exec executes it on this node.
	Exec(num idmp.Number)
}

// maxOwed is how many replies are owed at most before the batch is run.
const maxOwed = 1024
