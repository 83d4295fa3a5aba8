package main

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// names gives each name of a key a post of its own, and knows which arguments of a command are keys. Its methods may be called from many
// goroutines.
type names struct {
	keys map[string]keyRange // by command, in lower case
	mu   sync.Mutex
	mids map[string]uint64
}

// keyRange is which arguments of a command are keys, as COMMAND says: from first to last in steps, last from the end if it is negative.
type keyRange struct{ first, last, step int }

// firstMid keeps mids at a usual length.
const firstMid = 1_000_000

func newNames(ctx context.Context, rdb *redis.Client) (*names, error) {
	commands, err := rdb.Command(ctx).Result()
	if err != nil {
		return nil, err
	}
	n := &names{keys: map[string]keyRange{}, mids: map[string]uint64{}}
	for name, c := range commands {
		if c.FirstKeyPos > 0 {
			n.keys[strings.ToLower(name)] = keyRange{int(c.FirstKeyPos), int(c.LastKeyPos), int(c.StepCount)}
		}
	}
	return n, nil
}

// post is the key of the post that a name stands for.
func (n *names) post(name []byte) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	mid, ok := n.mids[string(name)]
	if !ok {
		mid = firstMid + uint64(len(n.mids))
		n.mids[string(name)] = mid
	}
	return append(strconv.AppendUint([]byte{'{'}, mid, 10), "}.n"...)
}

// translate replaces the keys of a command.
func (n *names) translate(args [][]byte) [][]byte {
	if len(args) == 0 {
		return args
	}
	where, ok := n.keys[strings.ToLower(string(args[0]))]
	if !ok {
		return args
	}
	last := where.last
	if last < 0 {
		last += len(args)
	}
	for i := where.first; i <= last && i < len(args); i += max(where.step, 1) {
		args[i] = n.post(args[i])
	}
	return args
}
