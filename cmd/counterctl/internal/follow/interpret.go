package follow

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
)

// errRecopy is a command after which only a whole copy helps.
var errRecopy = errors.New("a new copy is needed")

// interpreter turns commands of the stream into changes of a window. A source sends effects to replicas: executed
// commands without their conditions, and an expired key as DEL.
type interpreter struct {
	rules    *mapping.Rules
	db       int // that is followed
	selected int
	multi    bool // between MULTI and EXEC
	window   *window
	stale    staleKeys
	skipped  mapping.Tally // values that did not map
	expiring uint64        // commands that give a key a time to live
	unknown  map[string]uint64
	log      func(format string, args ...any)
	items    []mapping.Item

	rewinding bool // the commands were applied already: see state.resume
}

// Commands that change no number, whatever their arguments are.
var harmless = words(`PING REPLCONF PUBLISH SPUBLISH SCRIPT FUNCTION EXPIRE PEXPIRE EXPIREAT PEXPIREAT PERSIST GETEX TOUCH HEXPIRE HPEXPIRE HEXPIREAT HPEXPIREAT HPERSIST XADD XTRIM XDEL XACK XGROUP
	LPUSH RPUSH LPOP RPOP LPUSHX RPUSHX LREM LTRIM LSET LINSERT SADD SREM SPOP PFADD CLIENT CONFIG`)

// expiries are those of them that give a key a time to live.
var expiries = words(`EXPIRE PEXPIRE EXPIREAT PEXPIREAT GETEX HEXPIRE HPEXPIRE HEXPIREAT HPEXPIREAT`)

func words(text string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		set[w] = true
	}
	return set
}

// flushed is the request of a command to the loop.
type flushed bool

// command applies a command. flush says that all mapped columns must be emptied after the earlier changes.
func (in *interpreter) command(args [][]byte) (flush flushed, err error) {
	var room [32]byte
	name := room[:min(len(args[0]), len(room))]
	for i := range name {
		if name[i] = args[0][i]; 'a' <= name[i] && name[i] <= 'z' {
			name[i] -= 'a' - 'A'
		}
	}
	if len(args[0]) > len(room) {
		name = nil
	}
	if handled, err := in.control(string(name), args); handled || err != nil {
		return false, err
	}
	switch string(name) {
	case "FLUSHALL":
		return true, nil
	case "FLUSHDB":
		return in.selected == in.db, nil
	case "SWAPDB":
		if len(args) >= 3 && (in.isDB(args[1]) || in.isDB(args[2])) {
			return false, fmt.Errorf("SWAPDB %s %s: %w", args[1], args[2], errRecopy)
		}
		return false, nil
	case "MOVE", "COPY": // also from and to other databases
		return false, in.touched(string(name), args[1:])
	}
	if in.selected != in.db {
		return false, nil
	}
	return false, in.change(string(name), args)
}

// control applies commands about the stream, which name no key.
func (in *interpreter) control(name string, args [][]byte) (handled bool, err error) {
	switch name {
	case "SELECT":
		if len(args) != 2 {
			return true, fmt.Errorf("%w: SELECT of %d arguments", errStream, len(args)-1)
		}
		db, err := strconv.Atoi(string(args[1]))
		if err != nil {
			return true, fmt.Errorf("%w: SELECT %.20q", errStream, args[1])
		}
		in.selected = db
		return true, nil
	case "MULTI", "EXEC":
		in.multi = name == "MULTI"
		return true, nil
	}
	return false, nil
}

func (in *interpreter) isDB(arg []byte) bool {
	db, err := strconv.Atoi(string(arg))
	return err == nil && db == in.db
}

// change applies a command on keys of the database.
func (in *interpreter) change(name string, args [][]byte) error {
	n := len(args)
	switch name {
	case "SET", "SETNX", "GETSET":
		if n >= 3 {
			if n > 3 && hasTTL(args[3:]) {
				in.expiring++
			}
			return in.set(args[1], args[2])
		}
	case "SETEX", "PSETEX":
		if n == 4 {
			in.expiring++
			return in.set(args[1], args[3])
		}
	case "MSET", "MSETNX":
		for i := 1; i+1 < n; i += 2 {
			if err := in.set(args[i], args[i+1]); err != nil {
				return err
			}
		}
		return nil
	case "INCR", "DECR":
		if n == 2 {
			return in.add(args[1], map[bool]int64{true: 1, false: -1}[name == "INCR"])
		}
	case "INCRBY", "DECRBY":
		if n == 3 {
			delta, ok := parseDelta(args[2], name == "DECRBY")
			if !ok {
				return in.touched(name, args[1:2])
			}
			return in.add(args[1], delta)
		}
	case "DEL", "UNLINK", "GETDEL":
		for _, key := range args[1:] {
			if err := in.gone(key); err != nil {
				return err
			}
		}
		return nil
	case "HSET", "HMSET", "HSETNX":
		if n >= 4 {
			return in.pairs(args[1], mapping.Hash, args[2:], false)
		}
	case "HINCRBY":
		if n == 4 {
			return in.addPair(args[1], mapping.Hash, args[2], args[3])
		}
	case "HDEL":
		if n >= 3 {
			in.pairsGone(args[1], mapping.Hash, args[2:])
			return nil
		}
	case "ZADD":
		rest, plain := args[min(n, 2):], true
		for ; len(rest) > 0 && isWord(rest[0]); rest = rest[1:] {
			plain = plain && strings.EqualFold(string(rest[0]), "CH") // the others depend on the present value
		}
		switch {
		case len(rest) < 2 || len(rest)%2 != 0:
		case plain:
			return in.pairs(args[1], mapping.SortedSet, rest, true)
		default:
			return in.rereadPairs(name, args[1], rest)
		}
	case "ZINCRBY":
		if n == 4 {
			return in.addPair(args[1], mapping.SortedSet, args[3], args[2])
		}
	case "ZREM":
		if n >= 3 {
			in.pairsGone(args[1], mapping.SortedSet, args[2:])
			return nil
		}
	}
	if expiries[name] && n > 1 {
		if _, ok := in.rules.Find(args[1]); ok {
			in.expiring++
		}
	}
	if harmless[name] {
		return nil
	}
	return in.touched(name, args[1:])
}

// hasTTL tells whether options of SET give a time to live.
func hasTTL(options [][]byte) bool {
	for _, o := range options {
		switch strings.ToUpper(string(o[:min(len(o), 8)])) {
		case "EX", "PX", "EXAT", "PXAT":
			return true
		}
	}
	return false
}

// isWord tells an option of ZADD from a score.
func isWord(b []byte) bool {
	return len(b) > 0 && (b[0]|0x20) >= 'a' && (b[0]|0x20) <= 'z' && !bytes.EqualFold(b, []byte("inf"))
}

// parseDelta reads the amount to add.
func parseDelta(b []byte, negate bool) (delta int64, ok bool) {
	delta, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || negate && delta == math.MinInt64 {
		return 0, false
	}
	if negate {
		delta = -delta
	}
	return delta, true
}

// touched makes the keys among arguments stale, as the change of them is not known.
func (in *interpreter) touched(name string, args [][]byte) error {
	for _, key := range args {
		m, ok := in.rules.Find(key)
		if !ok {
			continue
		}
		if in.unknown[name]++; in.unknown[name] == 1 {
			in.log("%s %s: what it did is read from the source, as it will be after each %s", name, mapping.Quote(key), name)
		}
		if err := in.reread(m, key); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// reread makes a key stale, to be read.
func (in *interpreter) reread(m mapping.Match, key []byte) error {
	if namesPosts(m) {
		return fmt.Errorf("%s, whose fields name posts: %w", mapping.Quote(key), errRecopy)
	}
	return in.stale.add(refOf(m, key, nil), true)
}

// rereadPairs makes members of a sorted set stale, to be read: args are scores and members.
func (in *interpreter) rereadPairs(name string, key []byte, args [][]byte) error {
	m, ok := in.rules.Find(key)
	if !ok || !namesPosts(m) {
		return in.touched(name, [][]byte{key})
	}
	for ; len(args) >= 2; args = args[2:] {
		if err := in.stale.add(newRef(key, args[1]), true); err != nil {
			return err
		}
	}
	return nil
}

// namesPosts tells whether the fields of a key say which posts they are of.
func namesPosts(m mapping.Match) bool { return m.Shape() != mapping.String && m.Fields() == nil }

// refOf returns the unit that becomes stale: a key, or one field of a key whose fields name posts.
func refOf(m mapping.Match, key, field []byte) ref {
	if !namesPosts(m) {
		field = nil
	}
	return newRef(key, field)
}

// passes tells whether changes of a key are ignored. replaces is whether it makes the key fresh, whatever it held.
func (in *interpreter) passes(r ref, replaces bool) bool {
	if in.rewinding {
		return true
	}
	k := in.stale.keys[r]
	switch {
	case k == nil:
		return false
	case k.need || k.at > 0:
		return true
	case replaces:
		in.stale.cure(r)
		return false
	}
	k.need = true // it is stale as its value did not fit: it may now
	in.stale.wants++
	return true
}

// put puts items into the window.
func (in *interpreter) put(r ref) (ok bool) {
	ok = true
	for _, i := range in.items {
		ok = in.window.put(i, r) && ok
	}
	return ok
}

func (in *interpreter) set(key, value []byte) error {
	m, ok := in.rules.Find(key)
	if !ok {
		return nil
	}
	if m.Shape() != mapping.String {
		m.Wrong("string", &in.skipped)
		return in.gone(key)
	}
	r := refOf(m, key, nil)
	if in.passes(r, true) {
		return nil
	}
	before := in.skipped.Total()
	in.items, _ = m.Gone(in.items[:0]) // numbers that the value does not have are gone
	in.items = m.Value(in.items, value, &in.skipped)
	if in.put(r); in.skipped.Total() != before {
		return in.stale.add(r, false)
	}
	return nil
}

func (in *interpreter) add(key []byte, delta int64) error {
	m, ok := in.rules.Find(key)
	if !ok {
		return nil
	}
	r := refOf(m, key, nil)
	if in.rewinding { // the target may have refused it
		return in.stale.add(r, true)
	}
	if in.passes(r, false) {
		return nil
	}
	if in.items, ok = m.Added(in.items[:0], delta); ok && in.put(r) {
		return nil
	}
	return in.stale.add(r, true)
}

func (in *interpreter) gone(key []byte) error {
	m, ok := in.rules.Find(key)
	if !ok {
		return nil
	}
	if in.items, ok = m.Gone(in.items[:0]); !ok {
		return fmt.Errorf("%s, whose fields name posts, is gone: %w", mapping.Quote(key), errRecopy)
	}
	if r := refOf(m, key, nil); !in.passes(r, true) {
		in.put(r)
	}
	return nil
}

// match finds the rule of a hash or a sorted set, and tells whether there is one.
func (in *interpreter) match(key []byte, shape mapping.Shape) (m mapping.Match, ok bool) {
	m, ok = in.rules.Find(key)
	if ok && m.Shape() != shape {
		m.Wrong(shape.String(), &in.skipped)
		ok = false
	}
	return m, ok
}

// pairs sets fields and values; of sorted sets the value comes first.
func (in *interpreter) pairs(key []byte, shape mapping.Shape, args [][]byte, valueFirst bool) error {
	m, ok := in.match(key, shape)
	if !ok {
		return nil
	}
	if !namesPosts(m) && in.passes(newRef(key, nil), false) {
		return nil
	}
	for ; len(args) >= 2; args = args[2:] {
		field, value := args[0], args[1]
		if valueFirst {
			field, value = value, field
		}
		r := refOf(m, key, field)
		if namesPosts(m) && in.passes(r, true) {
			continue
		}
		before := in.skipped.Total() - in.skipped.Count(mapping.NoField)
		in.items = m.Pair(m.PairGone(in.items[:0], field), field, value, &in.skipped)
		if in.put(r); in.skipped.Total()-in.skipped.Count(mapping.NoField) != before {
			if err := in.stale.add(r, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (in *interpreter) addPair(key []byte, shape mapping.Shape, field, by []byte) error {
	m, ok := in.match(key, shape)
	if !ok {
		return nil
	}
	delta, whole := parseDelta(by, false)
	r := refOf(m, key, field)
	if !in.rewinding {
		if in.passes(r, false) {
			return nil
		}
		if in.items, ok = m.PairAdded(in.items[:0], field, delta); ok && whole && in.put(r) {
			return nil
		}
	}
	return in.stale.add(r, true)
}

func (in *interpreter) pairsGone(key []byte, shape mapping.Shape, fields [][]byte) {
	m, ok := in.match(key, shape)
	if !ok || !namesPosts(m) && in.passes(newRef(key, nil), false) {
		return
	}
	for _, field := range fields {
		r := refOf(m, key, field)
		if namesPosts(m) && in.passes(r, true) {
			continue
		}
		in.items = m.PairGone(in.items[:0], field)
		in.put(r)
	}
}
