package main

import (
	"bytes"
	"context"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/internal/slot"
)

// names gives each name of a key a post of its own in the hash slot of the name, and each value that is no whole number a number. It
// knows which arguments of a command are keys and values. Its methods may be called from many goroutines. All nodes of a cluster share
// one.
type names struct {
	keys map[string]keyRange // by command, in lower case

	mu   sync.Mutex
	mids map[string]uint64
	of   map[uint64]string        // the name of each of mids
	nums map[string]uint64        // of values
	said []string                 // the value of firstValue + its place
	free [slot.Slots][]uint64     // mids below next that no name has, by hash slot
	next uint64                   // no name has it, or one above
	move func(slot uint16) uint16 // nil, or the slot of the server for one of the client
}

// keyRange is which arguments of a command are keys, as COMMAND says: from first to last in steps, last from the end if it is negative.
type keyRange struct{ first, last, step int }

// Numbers that stand for names and values are above those that tests use.
const (
	firstMid   = 7_770_000_000_000
	firstValue = 8_880_000_000_000
)

// values are the arguments of commands that are values.
var values = map[string]keyRange{"set": {2, 2, 1}, "setnx": {2, 2, 1}, "getset": {2, 2, 1}, "mset": {2, -1, 2}}

func newNames(keys map[string]keyRange) *names {
	return &names{keys: keys, mids: map[string]uint64{}, of: map[uint64]string{}, nums: map[string]uint64{}, next: firstMid}
}

// keysOf asks a server for the arguments that are keys.
func keysOf(ctx context.Context, rdb *redis.Client) (map[string]keyRange, error) {
	commands, err := rdb.Command(ctx).Result()
	if err != nil {
		return nil, err
	}
	keys := map[string]keyRange{"object": {2, 2, 1}, "memory": {2, 2, 1}}
	for name, c := range commands {
		if c.FirstKeyPos > 0 && !slices.Contains(c.Flags, "pubsub") { // those have channels there
			keys[strings.ToLower(name)] = keyRange{int(c.FirstKeyPos), int(c.LastKeyPos), int(c.StepCount)}
		}
	}
	return keys, nil
}

// post is the key of the post that a name stands for.
func (n *names) post(name []byte) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	mid, ok := n.mids[string(name)]
	if !ok {
		mid = n.take(slot.OfKey(name))
		n.mids[string(name)], n.of[mid] = mid, string(name)
	}
	return append(strconv.AppendUint([]byte{'{'}, mid, 10), "}.n"...)
}

// take returns a mid of a hash slot.
func (n *names) take(s uint16) uint64 {
	if n.move != nil {
		s = n.move(s)
	}
	for len(n.free[s]) == 0 {
		at := slot.Of(n.next)
		n.free[at] = append(n.free[at], n.next)
		n.next++
	}
	mid := n.free[s][0]
	n.free[s] = n.free[s][1:]
	return mid
}

var whole = regexp.MustCompile(`^\s*-?[0-9]+\s*$`)

// number is the number that stands for a value; a whole number stands for itself.
func (n *names) number(value []byte) []byte {
	if whole.Match(value) {
		return value // also one with spaces or too many digits, which must be refused
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	number, ok := n.nums[string(value)]
	if !ok {
		number = firstValue + uint64(len(n.said))
		n.nums[string(value)], n.said = number, append(n.said, string(value))
	}
	return strconv.AppendUint(nil, number, 10)
}

// original is the name or the value that a key or a number of a reply stands for. ok is false if it stands for nothing.
func (n *names) original(reply []byte) (s string, ok bool) {
	reply = bytes.TrimSuffix(reply, []byte(".n"))
	reply = bytes.TrimSuffix(bytes.TrimPrefix(reply, []byte("{")), []byte("}"))
	v, err := strconv.ParseUint(string(reply), 10, 64)
	if err != nil || v < firstMid {
		return "", false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if v >= firstValue && v-firstValue < uint64(len(n.said)) {
		return n.said[v-firstValue], true
	}
	s, ok = n.of[v]
	return s, ok
}

// translate replaces the keys and the values of a command.
func (n *names) translate(args [][]byte) [][]byte {
	command := word(args, 0)
	for i := range n.keys[command].in(args) {
		args[i] = n.post(args[i])
		if command == "del" || command == "unlink" {
			args[i] = bytes.TrimSuffix(args[i], []byte(".n")) // the whole post: all counters of a post that exists are numbers
		}
	}
	for i := range values[command].in(args) {
		args[i] = n.number(args[i])
	}
	return args
}

// in yields the places of its arguments.
func (k keyRange) in(args [][]byte) iter.Seq[int] {
	last := k.last
	if last < 0 {
		last += len(args)
	}
	return func(yield func(int) bool) {
		for i := k.first; i > 0 && i <= last && i < len(args); i += max(k.step, 1) {
			if !yield(i) {
				break
			}
		}
	}
}
