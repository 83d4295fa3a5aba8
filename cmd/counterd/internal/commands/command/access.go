package command

import (
	"slices"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
)

// Need is the kind of access that a command needs to a key.
type Need uint8

// Needs; a command may have both for a key, or none: then any right to the key will do, as in Redis.
const (
	NeedRead  Need = 1 << iota // tells something of the values
	NeedWrite                  // changes them
)

// Rights is the rights of a user on data: it answers the questions of a command.
type Rights interface {
	// Key tells whether the user has the needed rights for a key.
	Key(key []byte, need Need) bool
	// Post is Key for a post of a counter; where columns are named, the rights to these numbers of it will do.
	Post(counter, mid []byte, columns [][]byte, need Need) bool
	// Counter tells whether the user has the needed rights for all present and future data of the counter.
	Counter(name []byte, need Need) bool
	// Everything is Counter for all counters.
	Everything(need Need) bool
	// Prefix is Key for all keys that begin with that.
	Prefix(prefix []byte, need Need) bool
}

// Access is a row without the type of its connection: users' rights, hash slots and shards depend on it.
type Access struct {
	ID         int // from 0 on, in the order of the table: no two commands have the same
	Name       string
	Group      string // see Row
	Flags      Flags
	Planned    bool // the row has a Plan
	Sub        []*Access
	Container  bool // it is nothing without a subcommand
	Categories []string
	Free       bool // allowed to everybody, as AUTH is

	// First, Last and Step are the places of the keys, see Row, and need is the kind of access to them.
	First, Last, Step int
	need              Need
	options           bool // the need depends on the options: SET
	idmp              bool

	asks     func(r Rights, args [][]byte) (refused int)
	channels channels
}

// NoData is the Asks of commands that tell of data no more than INFO does.
func NoData(Rights, [][]byte) int { return allowed }

// AskEverything is the Asks of commands on all data.
func AskEverything(need Need) func(Rights, [][]byte) int {
	return func(r Rights, _ [][]byte) int { return ok(r.Everything(need), 0) }
}

// AskCounter is the Asks of commands on a whole counter, whose name is argument at. Where that may be left out, all
// counters are meant.
func AskCounter(at int, need Need) func(Rights, [][]byte) int {
	return func(r Rights, args [][]byte) int {
		if len(args) <= at || len(args[at]) == 0 {
			return ok(r.Everything(need), 0)
		}
		return ok(r.Counter(args[at], need), at)
	}
}

// allowed is the result of Asks if nothing was refused.
const allowed = -1

func ok(yes bool, at int) int {
	if yes {
		return allowed
	}
	return at
}

// access makes the Access of a row. A command that reads or changes data and does not say which asks for everything.
func (cmd *Row[C]) makeAccess(id int) *Access {
	a := &Access{
		ID: id, Name: cmd.Name, Group: cmd.Group, Flags: cmd.Flags, Planned: cmd.Plan != nil, Categories: cmd.categories(), Container: cmd.Sub != nil && cmd.Run == nil, Free: cmd.Flags&NoAuth != 0,
		First: cmd.First, Last: cmd.Last, Step: cmd.Step, idmp: cmd.Flags&Idmp != 0, options: cmd.Is("set"), asks: cmd.Asks, channels: channelsOf[cmd.Name],
	}
	if cmd.Flags&PubSub != 0 { // names of shard channels stand where other commands have keys, and are none
		a.First = 0
	}
	flags := cmd.keyFlags()
	if slices.Contains(flags, "access") {
		a.need |= NeedRead
	}
	if slices.ContainsFunc(flags, func(f string) bool { return f == "update" || f == "insert" || f == "delete" }) {
		a.need |= NeedWrite
	}
	if a.First == 0 && a.asks == nil && cmd.Flags&(ReadOnly|Write) != 0 {
		a.asks = AskEverything(NeedRead | NeedWrite)
	}
	return a
}

// Is tells whether the command is the one called name.
func (a *Access) Is(name string) bool { return a.Name == name }

// Reads tells whether the command reads data and does nothing else.
func (a *Access) Reads() bool { return a.Flags&(ReadOnly|Write|Admin) == ReadOnly }

// Numbered tells whether the command is one of those that CLIENT IDMP numbers.
func (a *Access) Numbered() bool { return a.Flags&Idmp != 0 }

// HasKeys tells whether First to Last are keys of posts.
func (a *Access) HasKeys() bool { return a.First > 0 }

// Asks tells whether the command asks anything of data.
func (a *Access) Asks() bool { return a.First > 0 || a.asks != nil }

// Single tells whether the only thing that the command asks for is its one key, which is argument 1, and the need for
// it. It is the short way for most commands.
func (a *Access) Single() (need Need, yes bool) {
	return a.need, a.First == 1 && a.Last == 1 && a.asks == nil && !a.options
}

// Keys returns the needs for the keys in a whole command, which are the arguments from First on to last, each Step.
// Without keys last is below First.
func (a *Access) Keys(args [][]byte) (need Need, last int) {
	if a.First == 0 {
		return 0, -1
	}
	need = a.need
	if a.options && !setGets(args) {
		need &^= NeedRead
	}
	return need, a.lastKey(args)
}

// Ask asks for all data that a whole command touches beside its keys. It returns the position of the argument that was
// refused, 0 for none in particular, and -1 if nothing was.
func (a *Access) Ask(r Rights, args [][]byte) (refused int) {
	if a.asks == nil {
		return allowed
	}
	return a.asks(r, args)
}

// AsksMore tells whether Ask would ask anything.
func (a *Access) AsksMore() bool { return a.asks != nil }

// lastKey is the position behind which no key is.
func (a *Access) lastKey(args [][]byte) int {
	n := len(args)
	if a.idmp {
		n -= idmp.TailLen(args)
	}
	if a.Last >= 0 {
		return min(a.Last, n-1)
	}
	return n + a.Last - (a.Step - 1) // a key comes with its values: a last word such as QUIET is no key
}

// channels is where a command has names of channels.
type channels uint8

const (
	noChannels  channels = iota
	oneChannel           // argument 1
	allChannels          // from argument 1 on
	allPatterns          // the same, and they are patterns
)

var channelsOf = map[string]channels{
	"publish": oneChannel, "spublish": oneChannel, "subscribe": allChannels, "ssubscribe": allChannels, "psubscribe": allPatterns,
}

// Channels returns the names of channels in a whole command, which begin with argument 1. pattern tells that they are
// patterns.
func (a *Access) Channels(args [][]byte) (names [][]byte, pattern bool) {
	switch a.channels {
	case oneChannel:
		return args[1:2], false
	case allChannels, allPatterns:
		return args[1:], a.channels == allPatterns
	}
	return nil, false
}

// Talks tells whether the command has names of channels.
func (a *Access) Talks() bool { return a.channels != noChannels }
