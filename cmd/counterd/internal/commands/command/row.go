package command

import (
	"strings"
	"sync/atomic"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
)

// Row is one row of the command table: everything that is known of a command. COMMAND, COMMAND DOCS, arity checks, key
// extraction and the statistics of INFO all come from here. C is the connection that commands which are not planned
// see.
type Row[C any] struct {
	Name       string // lower case; a subcommand's is "config|get"
	Arity      int    // number of arguments with the name; -n means at least n
	Flags      Flags
	Hidden     Flags  // of Flags, those that Redis does not have for the command: COMMAND INFO does not show them
	First      int    // position of the first key, 0 = no keys
	Last       int    // of the last, -1 = the last argument
	Step       int    // from key to key
	Group      string // as COMMAND DOCS has it
	Since      string // version of Redis the command came with, or of counterd for its own
	Summary    string
	Complexity string
	Syntax     string // arguments as the documentation prints them: parsed into the "arguments" of COMMAND DOCS

	// Exactly one of Plan, Run and Sub is set, but for COMMAND, which can do without its subcommands.
	//
	// Plan adds operations to the call's batch and says how to reply after they have run. args are gone afterwards.
	Plan func(c *items.Call, args [][]byte)
	// PlanEach, where it is set, is Plan of several commands that have one argument each, a key. Pipelines of such commands take fewer
	// instructions by it.
	PlanEach func(c *items.Call, keys [][]byte)
	// Run does it all at once; all commands before it have been answered.
	Run func(c C, args [][]byte)
	Sub []*Row[C]

	// Asks asks for the data that the command touches beside the keys that First, Last and Step name, and returns which
	// argument was refused: see Access.Ask. A command that has ReadOnly or Write, no such keys and no Asks asks for
	// everything.
	Asks func(r Rights, args [][]byte) (refused int)

	// Executions refused before they ran, and those answered by an error. Executed commands: see Account.
	Rejected, Failed atomic.Int64
	executed         executed

	hash   idmp.Hash // of the name; set by NewTable
	access *Access   // set by NewTable
}

// Flags are the command flags of Redis that mean something here.
type Flags uint32

const (
	Write    Flags = 1 << iota // may change data
	ReadOnly                   // reads data
	Fast                       // O(1) or O(log n)
	Admin
	PubSub
	NoAuth   // allowed before AUTH
	Loading  // allowed while data is loaded
	Stale    // allowed on a replica without its primary
	NoScript // no sense in scripts
	NoMulti  // not in MULTI
	Now      // executed at once in MULTI, not queued
	Blocking // may wait for long, as WAIT does
	SkipSlowlog
	DenyOOM // may take memory

	// Redis's flag for features that do not exist here, kept for comparison.
	AllowBusy      // while a script is running
	NoAsyncLoading // not while a replica serves old data beside the new

	Idmp // takes IDMP and its arguments after all others: see package idmp. All commands that change posts by a Plan do
)

// IdmpSyntax is behind the syntax of commands that take IDMP.
const IdmpSyntax = " [IDMP producer seq [EPOCH epoch]]"

// flagNames in the order in which Redis lists them.
var flagNames = []struct {
	flag Flags
	name string
}{
	{Write, "write"}, {ReadOnly, "readonly"}, {DenyOOM, "denyoom"}, {Admin, "admin"}, {PubSub, "pubsub"}, {NoScript, "noscript"}, {Loading, "loading"},
	{Stale, "stale"}, {SkipSlowlog, "skip_slowlog"}, {Fast, "fast"}, {NoAuth, "no_auth"}, {NoAsyncLoading, "no_async_loading"}, {NoMulti, "no_multi"},
	{AllowBusy, "allow_busy"},
}

// Access is the rights that the command needs.
func (cmd *Row[C]) Access() *Access { return cmd.access }

// Is reports whether the command is the one called name.
func (cmd *Row[C]) Is(name string) bool { return cmd.Name == name }

// HasKeys tells whether First to Last are keys: SSUBSCRIBE and its kin have the names of channels there.
func (cmd *Row[C]) HasKeys() bool { return cmd.First > 0 && cmd.Group != "pubsub" }

// Reads tells whether the command reads data and does nothing else.
func (cmd *Row[C]) Reads() bool { return cmd.Flags&(ReadOnly|Write|Admin) == ReadOnly }

// ArityOK tells whether n arguments, the name included, are right.
func (cmd *Row[C]) ArityOK(n int) bool {
	if cmd.Arity >= 0 {
		return n == cmd.Arity
	}
	return n >= -cmd.Arity
}

// Takes tells whether the number of arguments is right.
func (cmd *Row[C]) Takes(args [][]byte) bool {
	n := len(args)
	if cmd.Flags&Idmp != 0 && n > 3 {
		n -= idmp.TailLen(args)
	}
	return cmd.ArityOK(n)
}

// Hash is the start value of the hash of a command with a number.
func (cmd *Row[C]) Hash() idmp.Hash { return cmd.hash }

// Numbered tells whether the command is one of those that CLIENT IDMP numbers: commands that change items, and EXEC.
func (cmd *Row[C]) Numbered() bool { return cmd.Flags&Idmp != 0 }

// Subcommand finds a subcommand by its own name, in any case.
func (cmd *Row[C]) Subcommand(name []byte) *Row[C] {
	for _, s := range cmd.Sub {
		if strings.EqualFold(s.Name[len(cmd.Name)+1:], string(name)) {
			return s
		}
	}
	return nil
}
