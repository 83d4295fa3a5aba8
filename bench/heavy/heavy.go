package heavy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/counterd/counterd/internal/wire"
)

// Posts are the posts of the server that commands are about.
type Posts struct {
	Counter  string
	Columns  int
	Key      func(mid uint64, column int) string // of one number
	Pick     func() uint64                       // any mid
	Mid      func(i int) uint64                  // of post i, in rising order
	Count    int
	Page     func(mids []uint64) []byte // the command that reads all columns
	Counterd bool                       // the server has the commands of counterd
}

// Turn is commands that are sent at once, and how many replies are to be read before the next turn.
type Turn struct {
	Send    []byte
	Replies int
}

const (
	// manyKeys and manyPosts are the most that counterd takes: 64 Ki arguments, in 16 MiB.
	manyKeys, manyPosts = 65_535, 65_534
	keySize             = 246 // bytes of a key of mget, most of them leading zeros
	changes             = 10_000
	setPosts            = 4_096
	restored            = 256 // posts of a command that puts deleted posts back: a small one
	// Channel is the channel of the kind publish, Subscribers its subscribers.
	Channel     = "counterbench:heavy"
	Subscribers = 5_000
	message     = 100 // bytes
)

// kind is a row of the table.
type kind struct {
	name, help string
	counterd   bool // other servers have no such command
	turns      func(p *Posts) []Turn
}

var kinds = []kind{
	{"mget", "MGET of 65,535 keys, 16 MiB", false, mget},
	{"counter.mget", "all counters of 65,534 posts in one command", false, page},
	{"pipeline", "a million increments in one pipeline", false, nil},
	{"exec", "MULTI, 10,000 increments, EXEC", false, exec},
	{"counter.mset", "COUNTER.MSET of 4,096 posts", true, mset},
	{"update", "COUNTER.UPDATE of 10,000 posts as one change", true, update},
	{"del", "DEL of 10,000 posts, which are then set again 256 at a time", true, del},
	{"find", "COUNTER.FIND of 10,000 posts, and COUNTER.SUM of all, in turn", true, find},
	{"publish", "PUBLISH to 5,000 subscribers", false, publish},
}

// Kinds lists the kinds, with a line on each.
func Kinds() (list [][2]string) {
	for _, k := range kinds {
		list = append(list, [2]string{k.name, k.help})
	}
	return list
}

// Turns are the commands of a kind, to be sent in turn. The error says that the server has no such command.
func Turns(name string, p *Posts) ([]Turn, error) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name && k.turns != nil })
	if i < 0 {
		return nil, fmt.Errorf("no heavy command is called %q", name)
	}
	if kinds[i].counterd && !p.Counterd {
		return nil, fmt.Errorf("the server has no command for %s", kinds[i].help)
	}
	return kinds[i].turns(p), nil
}

// OfCounterd tells whether only counterd has the command of a kind.
func OfCounterd(name string) bool {
	return slices.ContainsFunc(kinds, func(k kind) bool { return k.name == name && k.counterd })
}

func mget(p *Posts) []Turn {
	b := wire.AppendArg(wire.AppendArray(nil, manyKeys+1), "MGET")
	zeros := strings.Repeat("0", keySize)
	for i := range manyKeys {
		key := p.Key(p.Pick(), i%p.Columns)
		b = wire.AppendArg(b, zeros[:max(0, keySize-len(key))]+key)
	}
	return []Turn{{b, 1}}
}

func page(p *Posts) []Turn {
	mids := make([]uint64, manyPosts)
	for i := range mids {
		mids[i] = p.Pick()
	}
	return []Turn{{p.Page(mids), 1}}
}

func exec(p *Posts) []Turn {
	b := wire.AppendCommand(nil, "MULTI")
	for i := range changes {
		b = wire.AppendCommand(b, "INCR", p.Key(p.Pick(), i%p.Columns))
	}
	return []Turn{{wire.AppendCommand(b, "EXEC"), changes + 2}}
}

// setRows is a COUNTER.MSET of posts.
func setRows(p *Posts, mids []uint64) []byte {
	b := wire.AppendArray(nil, 2+len(mids)*(1+p.Columns))
	b = wire.AppendArg(b, "COUNTER.MSET")
	b = wire.AppendArg(b, p.Counter)
	for i, mid := range mids {
		b = wire.AppendUint(b, mid)
		for c := range p.Columns {
			b = wire.AppendUint(b, uint64(i+c)%15)
		}
	}
	return b
}

func mset(p *Posts) []Turn {
	mids := make([]uint64, setPosts)
	for i := range mids {
		mids[i] = p.Pick()
	}
	return []Turn{{setRows(p, mids), 1}}
}

// span is the mids of so many neighbouring posts in the middle of all.
func span(p *Posts, n int) (mids []uint64) {
	n = min(n, p.Count)
	for i := range n {
		mids = append(mids, p.Mid((p.Count-n)/2+i))
	}
	return mids
}

func update(p *Posts) []Turn {
	mids := span(p, changes)
	from, to := strconv.FormatUint(mids[0], 10), strconv.FormatUint(mids[len(mids)-1], 10)
	// With RETURNING it is one change.
	args := []string{"COUNTER.UPDATE", p.Counter, "MID", ">=", from, "AND", "MID", "<=", to, "RESET", p.columnOf(0), "RETURNING", "NEW"}
	return []Turn{{wire.AppendCommand(nil, args...), 1}}
}

func find(p *Posts) []Turn {
	column := p.columnOf(0)
	found := wire.AppendCommand(nil, "COUNTER.FIND", p.Counter, "WHERE", column, ">=", "0", "LIMIT", strconv.Itoa(changes))
	return []Turn{{found, 1}, {wire.AppendCommand(nil, "COUNTER.SUM", p.Counter, column), 1}}
}

// columnOf is the name of a column in conditions: its suffix is one.
func (p *Posts) columnOf(column int) string {
	key := p.Key(0, column)
	return key[strings.LastIndexAny(key, ".:")+1:]
}

func del(p *Posts) []Turn {
	mids := make([]uint64, 0, changes)
	seen := make(map[uint64]bool)
	for len(mids) < min(changes, p.Count/2) {
		if mid := p.Pick(); !seen[mid] {
			seen[mid] = true
			mids = append(mids, mid)
		}
	}
	b := wire.AppendArg(wire.AppendArray(nil, 1+len(mids)), "DEL")
	for _, mid := range mids {
		b = wire.AppendUint(b, mid)
	}
	turns := []Turn{{b, 1}}
	for rows := range slices.Chunk(mids, restored) {
		turns = append(turns, Turn{setRows(p, rows), 1})
	}
	return turns
}

func publish(*Posts) []Turn {
	return []Turn{{wire.AppendCommand(nil, "PUBLISH", Channel, strings.Repeat("x", message)), 1}}
}
