package dataset

import (
	"context"
	"log/slog"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Conn is the part of a connection that the commands use. It is for the goroutine that executes the command.
type Conn interface {
	// Call has its replies.
	Call() *items.Call
	// Store is the one being served.
	Store() *counter.Store
	// WithStore calls f with an open batch: that of the transaction while EXEC runs, else one for this call. The reply
	// comes behind it.
	WithStore(exclusive bool, f func(b *counter.Batch) error) error
	// Executing tells whether the command is one of a transaction that EXEC runs with the store held.
	Executing() bool
	// Busy runs work that may take its time, few at once: not if the client has gone. Its ctx ends with the client, and
	// then the connection does. REQUIRES not Executing.
	Busy(work func(ctx context.Context))
	// GiveWay lets others have their turn. A command that works for long calls it now and then. REQUIRES no batch open.
	GiveWay()
	// AppendKey appends a key as this server lists them: see Schema.AppendKey of package schema, and for a node of a cluster AppendTagged.
	AppendKey(dst []byte, sch *schema.Schema, def *schema.Counter, col int, mid uint64) []byte
	// AlterCluster has a statement change the schema of the cluster that the server is of; false: it is of none.
	AlterCluster(statement string) (done bool, err error)
	// TouchAll says that any key may have changed. REQUIRES an exclusive batch open.
	TouchAll()
	// TouchRange says that posts of a counter with ids from from on and below to are gone. REQUIRES as TouchAll.
	TouchRange(def *schema.Counter, from, to uint64)
	// Log names the connection.
	Log() *slog.Logger
}
