package find

import (
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Conn is the part of a connection that the commands use. It is for the goroutine that executes the command.
type Conn interface {
	// Call has its replies.
	Call() *items.Call
	// Schema is the one in force.
	Schema() *schema.Schema
	// Steps calls step, which takes about a millisecond, again and again until it is done or fails, each time with the
	// batch open that is handed to it. Between two calls all others may have the store. It ends early by an error of its
	// own: errors.Is(err, ErrGone), or, if changes is set, the reason why changes are refused now. The command's reply
	// waits for the log as far as the steps looked and changed.
	Steps(changes bool, step func(b *counter.Batch) (done bool, err error)) error
	// Alone calls change once with all others kept out, so that what it changes is one change, and one frame of the log,
	// and makes it safe. It ends as Steps does before it comes to it.
	Alone(change func(b *counter.Batch) error) error
	// Number parts the command from its number; without one Producer is nil. hash is of what it says beside that; text is
	// the error.
	Number(args [][]byte) (rest [][]byte, num idmp.Number, hash idmp.Hash, text string)
	// Clustered tells whether the node is one of a cluster.
	Clustered() bool
	// GiveWay lets others have their turn, within a long step and while a long answer is made.
	GiveWay()
	// Changed marks who watches the items. REQUIRES the batch of a step to be open.
	Changed(def *schema.Counter, mids []uint64)
}
