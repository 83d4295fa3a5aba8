package server

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/argqueue"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/serving"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// transaction is the state of MULTI on one connection.
type transaction struct {
	active bool // between MULTI and EXEC or DISCARD
	failed bool // a command was refused while queueing
	queued argqueue.Queue
	rows   []*row // of the commands that are queued, each once: their numbers in the queue
	bytes  int

	flags     command.Flags // that any of the commands has
	missing   command.Flags // that not all of them have
	unplanned *row          // the first command that is not about posts
	passwords int           // that queued commands give: see client.awaitGuesses
}

const (
	// maxQueueBytes bounds what a MULTI may hold in memory before EXEC.
	maxQueueBytes = 16 << 20
	// queuedSize and argumentSize are counted for a command and for an argument besides their bytes. That is more than they take, so that
	// a queue has no more than some 170,000 commands.
	queuedSize, argumentSize = 40, 24
	// maxExecReplies bounds the replies of a transaction: 20,000 times COMMAND, 480 KB to send, is answered by 900 MB.
	maxExecReplies = 64 << 20
)

// queue copies a command for EXEC. text is the error.
func (t *transaction) queue(cmd *row, args [][]byte) (text string) {
	t.bytes += queuedSize
	for _, a := range args {
		t.bytes += len(a) + argumentSize
	}
	if t.bytes > maxQueueBytes {
		t.failed = true
		t.queued.Free()
		t.rows, t.flags, t.missing, t.unplanned = nil, 0, 0, nil
		return "ERR transaction is larger than 16 MiB"
	}
	i := len(t.rows) - 1
	if i < 0 || t.rows[i] != cmd {
		if i = slices.Index(t.rows, cmd); i < 0 {
			i = len(t.rows)
			t.rows = append(t.rows, cmd)
			t.flags |= cmd.Flags
			t.missing |= ^cmd.Flags
			if cmd.Plan == nil && t.unplanned == nil {
				t.unplanned = cmd
			}
		}
	}
	t.queued.Add(i, args)
	if cmd.Is("auth") || cmd.Is("hello") && len(args) > 2 {
		t.passwords++
	}
	return ""
}

// all returns the commands of the queue in order. The slice of arguments is valid until the next command.
func (t *transaction) all() iter.Seq2[*row, [][]byte] {
	return func(yield func(*row, [][]byte) bool) {
		for i, args := range t.queued.All() {
			if !yield(t.rows[i], args) {
				return
			}
		}
	}
}

// changes tells whether cmd changes posts now: a queued command does so at its EXEC.
func (t *transaction) changes(cmd *row) bool {
	if !t.active {
		return cmd.Flags&command.Write != 0
	}
	return cmd.Is("exec") && t.writes()
}

// writes tells whether a command of the queue changes posts.
func (t *transaction) writes() bool { return t.flags&command.Write != 0 }

// flagsOf are a command's flags; EXEC has those of its commands.
func (t *transaction) flagsOf(cmd *row) command.Flags {
	if !cmd.Is("exec") {
		return cmd.Flags
	}
	return (cmd.Flags | t.flags&command.Write) &^ (t.missing & (command.Loading | command.Stale))
}

// refusal says why a command must not be queued; empty: it may, or there is no transaction.
func (t *transaction) refusal(cmd *row, args [][]byte) string {
	switch {
	case !t.active:
	case cmd.Flags&command.NoMulti != 0:
		return "ERR Command not allowed inside a transaction"
	case cmd.Flags&command.Idmp != 0 && cmd.Flags&command.Now == 0 && idmp.TailLen(args) > 0:
		return "ERR IDMP: in a transaction EXEC takes the number"
	}
	return ""
}

// route adds the queue to the question of a routing.
func (t *transaction) route(r *routing, to *serving.Routing, names *schema.Schema) {
	for cmd, args := range t.all() {
		r.add(to, names, cmd.Access(), args, true)
	}
}

// eachPost calls f with the posts of a command on posts.
func eachPost(cmd *row, args [][]byte, sch *schema.Schema, f func(mid uint64)) {
	switch {
	case cmd.Plan == nil:
		return
	case cmd.Is("counter.mget"):
		for _, a := range args[2:] {
			mid, ok := schema.ParseMid(a)
			if !ok {
				return
			}
			f(mid)
		}
		return
	}
	_, last := cmd.Access().Keys(args)
	for i := cmd.First; i > 0 && i <= last; i += cmd.Step {
		if mid, ok := items.Mid(sch, args[i]); ok {
			f(mid)
		}
	}
}

// numbered makes the Once of a transaction. text is the error: all its commands must be about items, as only its
// replies are kept, and a repeat executes nothing.
func (t *transaction) numbered(cmd *row, num idmp.Number, sch *schema.Schema) (o *counter.Once, text string) {
	// Any reply may be an error, which quotes what it is about: a bound by the number of arguments would be too low.
	o = &counter.Once{Producer: num.Producer, Seq: num.Seq, Epoch: num.Epoch, Room: counter.MaxResult}
	h, found, size, derives := cmd.Hash(), false, 0, sch.Derives()
	for cmd, args := range t.all() {
		if cmd.Plan == nil && cmd.Flags&(command.ReadOnly|command.Idmp) == 0 {
			return nil, "ERR IDMP: a numbered transaction accepts commands on posts only, not " + strings.ToUpper(cmd.Name)
		}
		h = h.Add([]byte(cmd.Name)).Add(args[1:]...)
		if !found && cmd.First > 0 && cmd.First < len(args) {
			o.Mid, found = items.Mid(sch, args[cmd.First])
		}
		switch n := changesOf(cmd, args); {
		case n > 0 && derives:
			size += n * changeBytes(cmd, args, sch)
		case n > 0: // keys need not be parsed
			size += n * counter.ChangeBytes(&schema.Counter{}, schema.WholeItem)
		}
	}
	if size > counter.MaxOnceBytes { // a crash between two frames of the log would leave those of the first to be made again
		return nil, fmt.Sprintf("ERR IDMP: a numbered transaction makes changes of at most %d bytes of log, and these may take %d", counter.MaxOnceBytes, size)
	}
	o.Hash = h.Sum()
	return o, ""
}

// expect tells a batch, with everybody else kept out, how much the queue changes, if the log has old values.
func (t *transaction) expect(b *counter.Batch) {
	if !b.Schema().HasOld() {
		return
	}
	changes := 0
	for cmd, args := range t.all() {
		changes += changesOf(cmd, args)
	}
	counter.Expect(b, changes)
}

// changeBytes is the most bytes of log that a change of a queued command may take: of that of its keys from which most follows.
func changeBytes(cmd *row, args [][]byte, sch *schema.Schema) int {
	most := counter.ChangeBytes(&schema.Counter{}, schema.WholeItem)
	if cmd.First == 0 {
		return most
	}
	_, last := cmd.Access().Keys(args)
	for i := cmd.First; i <= last; i += cmd.Step {
		if def, _, ok := sch.ParseItem(args[i]); ok {
			most = max(most, counter.ChangeBytes(def, schema.WholeItem))
		} else if k, ok := sch.ParseKey(args[i]); ok {
			most = max(most, counter.ChangeBytes(k.Counter, k.Col))
		}
	}
	return most
}

// changesOf is the most items or columns that a queued command changes.
func changesOf(cmd *row, args [][]byte) int {
	switch {
	case cmd.Flags&command.Write == 0:
		return 0
	case cmd.Last < 0: // keys, each with its other arguments
		_, last := cmd.Access().Keys(args)
		return (last-cmd.First)/cmd.Step + 1
	case cmd.Is("hdel"):
		return len(args) - 2
	case cmd.Group == "hash": // columns and values
		return (len(args) - 2) / 2
	}
	return 1
}

func runMulti(c *client, _ [][]byte) {
	if c.multi.active {
		c.call.items.Out.Error("ERR MULTI calls can not be nested")
		return
	}
	c.multi.active = true
	c.call.items.Out.Status("OK")
}

func runDiscard(c *client, _ [][]byte) {
	if !c.multi.active {
		c.call.items.Out.Error("ERR DISCARD without MULTI")
		return
	}
	c.multi = transaction{}
	c.srv.watches.Remove(&c.watch)
	c.call.items.Out.Status("OK")
}

// runExec: EXEC [IDMP producer seq [EPOCH epoch]].
func runExec(c *client, args [][]byte) {
	var num idmp.Number
	_, text := c.call.number(&num, c.executed, args)
	if !c.multi.active {
		c.call.items.Out.Error("ERR EXEC without MULTI")
		return
	}
	t := c.multi
	c.multi = transaction{}
	switch {
	case t.failed:
		text = "EXECABORT Transaction discarded because of previous errors."
	case text != "":
		text = items.ExecAborted(text)
	case num.Producer != nil && c.confined&command.ConfinedReader != 0: // what is kept of it would be a change
		text = items.ExecAborted(command.ErrReaderWrites)
	case c.scatter != nil && c.scatter.Forwards() && c.scatter.Exec(c.executed.Access(), execution{c, &t}, num):
		return
	default:
		execution{c, &t}.exec(num)
		return
	}
	c.srv.watches.Remove(&c.watch)
	c.call.items.Out.Error(text)
}

func runWatch(c *client, args [][]byte) {
	if c.multi.active {
		c.call.items.Out.Error("ERR WATCH inside MULTI is not allowed")
		return
	}
	store := c.srv.store()
	sch := store.Schema()
	keys := make([]schema.Key, 0, len(args)-1)
	for _, a := range args[1:] {
		if k, ok := sch.ParseKey(a); ok {
			keys = append(keys, k)
		}
	}
	if !c.srv.watches.Add(&c.watch, keys) {
		c.call.items.Out.Error("ERR too many keys are watched")
		return
	}
	c.watch.Since(keys, store.Windows().Time())
	if c.call.loading || c.srv.store() != store || store.Schema() != sch { // the meaning of the keys was not known, or has changed meanwhile
		c.watch.Spoil()
	}
	c.call.items.Out.Status("OK")
}

// dirty tells whether something that the connection watches has changed. REQUIRES the store held: time does not pass then.
func (c *client) dirty() bool {
	return c.watch.Dirty() || c.watch.Passed(c.srv.store().Windows().Time())
}

func runUnwatch(c *client, _ [][]byte) {
	c.srv.watches.Remove(&c.watch)
	c.call.items.Out.Status("OK")
}
