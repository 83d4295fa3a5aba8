package server

import (
	"strings"
	"sync/atomic"

	"github.com/counterd/counterd/cmd/counterd/internal/items"
)

// command is one row of the command table: everything the server knows of a command. COMMAND, COMMAND DOCS, arity
// checks, key extraction and the statistics of INFO all come from here.
type command struct {
	name       string // lower case; a subcommand's is "config|get"
	arity      int    // number of arguments with the name; -n means at least n
	flags      flag
	first      int    // position of the first key, 0 = no keys
	last       int    // of the last, -1 = the last argument
	step       int    // from key to key
	group      string // as COMMAND DOCS has it
	since      string // version of Redis the command came with, or of counterd for its own
	summary    string
	complexity string
	syntax     string // arguments as the documentation prints them: parsed into the "arguments" of COMMAND DOCS

	// Exactly one of plan, run and sub is set, but for COMMAND, which can do without its subcommands.
	//
	// plan adds operations to the call's batch and says what is to be replied when they have run. args are gone
	// afterwards.
	plan func(c *items.Call, args [][]byte)
	// run does it all at once; all commands before it have been answered.
	run func(c *client, args [][]byte)
	sub []*command

	calls, nanos, rejected, failed atomic.Int64
	times                          histogram
}

// flag are the command flags of Redis that mean something here.
type flag uint32

const (
	write    flag = 1 << iota // may change data
	readonly                  // reads data
	fast                      // O(1) or O(log n)
	admin
	pubsubFlag
	noauth   // allowed before AUTH
	loading  // allowed while data is loaded
	stale    // allowed on a replica without its primary
	noscript // no sense in scripts
	nomulti  // not in MULTI
	now      // executed at once in MULTI, not queued
	blocking // may wait for long; see client.block
	skipSlowlog
	denyoom // may take memory

	// Of what does not exist here: said for those who compare.
	allowBusy      // while a script is running
	noAsyncLoading // not while a replica serves old data beside the new
)

// flagNames in the order in which Redis lists them.
var flagNames = []struct {
	flag flag
	name string
}{
	{write, "write"}, {readonly, "readonly"}, {denyoom, "denyoom"}, {admin, "admin"}, {pubsubFlag, "pubsub"}, {noscript, "noscript"}, {loading, "loading"},
	{stale, "stale"}, {skipSlowlog, "skip_slowlog"}, {fast, "fast"}, {noauth, "no_auth"}, {noAsyncLoading, "no_async_loading"}, {nomulti, "no_multi"},
	{allowBusy, "allow_busy"},
}

// is reports whether the command is the one called name.
func (cmd *command) is(name string) bool { return cmd.name == name }

// arityOK tells whether n arguments, the name included, are right.
func (cmd *command) arityOK(n int) bool {
	if cmd.arity >= 0 {
		return n == cmd.arity
	}
	return n >= -cmd.arity
}

// commands is the table by name. It is built once and then only read.
type commands struct {
	list   []*command // as in table.go
	byName map[string]*command
}

// newCommands builds a table of its own for each server, as the rows count calls.
func newCommands() *commands {
	t := &commands{list: table(), byName: make(map[string]*command)}
	for _, cmd := range t.list {
		t.byName[cmd.name] = cmd
	}
	return t
}

// maxName is longer than any command's name.
const maxName = 32

// find looks a command up in any case, without allocating.
func (t *commands) find(name []byte) *command {
	if len(name) > maxName {
		return nil
	}
	var lower [maxName]byte
	for i, ch := range name {
		if 'A' <= ch && ch <= 'Z' {
			ch |= 0x20
		}
		lower[i] = ch
	}
	return t.byName[string(lower[:len(name)])]
}

// subcommand finds a subcommand by its own name, in any case.
func (cmd *command) subcommand(name []byte) *command {
	for _, s := range cmd.sub {
		if strings.EqualFold(s.name[len(cmd.name)+1:], string(name)) {
			return s
		}
	}
	return nil
}
