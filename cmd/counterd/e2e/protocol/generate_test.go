package protocol

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

// generator makes requests that mean the same to a hash or a string of digits in Redis and to a counter.
type generator struct{ *rand.Rand }

// generate makes a sequence of about n units.
func generate(r *rand.Rand, n int) []unit {
	g := generator{r}
	seq := make([]unit, 0, n)
	client := 0
	for len(seq) < n {
		if g.IntN(6) == 0 {
			client = g.IntN(clients)
		}
		u := unit{client: client, more: g.IntN(3) > 0, reqs: g.one(), inline: g.IntN(20) == 0}
		seq = append(seq, u)
	}
	return seq
}

// plain is the key of a string of digits. Few keys, so that requests meet.
func (g generator) plain() string {
	return pick(g, "n:1", "n:1", "n:2", "n:3", "n:77", "n:19089006004", "n:9223372036854775807", "n:0")
}

// whole is the key of an item with three columns, a hash to Redis.
func (g generator) whole() string { return pick(g, "h:1", "h:1", "h:2", "h:9223372036854775807") }

func (g generator) any() string {
	if g.IntN(3) == 0 {
		return g.whole()
	}
	return g.plain()
}

func (g generator) field() string { return pick(g, "a", "b", "c") }

// number is a value in a counter's range, near a boundary of some width more often than not.
func (g generator) number() string {
	switch g.IntN(4) {
	case 0:
		return strconv.Itoa(g.IntN(10))
	case 1:
		return strconv.FormatUint(uint64(1)<<g.IntN(63)-uint64(g.IntN(2)), 10)
	case 2:
		return pick(g, "254", "255", "256", "65534", "65535", "65536", "9223372036854775806", "9223372036854775807")
	}
	return strconv.FormatInt(g.Int64(), 10)
}

// delta is an increment: mostly small, so that values move about, at times enough to leave the range.
func (g generator) delta() string {
	switch g.IntN(8) {
	case 0:
		return g.number()
	case 1:
		return strconv.FormatInt(-int64(g.IntN(300)), 10)
	case 2:
		return pick(g, "9223372036854775807", "-9223372036854775808", "-9223372036854775807", "9223372036854775808", "abc", "", "1.5", " 1", "+1", "007", "-0")
	}
	return strconv.Itoa(g.IntN(300))
}

// odd is a value that no counter takes.
func (g generator) odd() string {
	return pick(g, "abc", "", "-1", "1.5", "9223372036854775808", "18446744073709551616", " 1", "1 ", "0x10", "1e3")
}

// fullHash sets all columns together, in the order of the schema, as a Redis hash keeps the order of insertion.
func (g generator) fullHash(key string) []string {
	return []string{"HSET", key, "a", g.number(), "b", g.number(), "c", g.number()}
}

// one returns the requests of one unit.
func (g generator) one() [][]string {
	switch n := g.IntN(100); {
	case n < 45:
		return [][]string{g.cased(g.text())}
	case n < 65:
		return g.hash()
	case n < 80:
		return [][]string{g.cased(g.transaction())}
	case n < 88:
		return [][]string{g.cased(g.connection())}
	case n < 96:
		return [][]string{g.wrong()}
	}
	return [][]string{g.different()}
}

// text is a request on plain numbers.
func (g generator) text() []string {
	k := g.plain()
	switch g.IntN(24) {
	case 22:
		return append([]string{"TOUCH"}, g.keys(g.any)...)
	case 23:
		return []string{pick(g, "EXPIRETIME", "PEXPIRETIME", "PERSIST"), g.any()}
	case 0, 1:
		return []string{"GET", k}
	case 2:
		return []string{"SET", k, g.number()}
	case 3:
		args := []string{"SET", k, g.number()}
		for _, option := range []string{pick(g, "NX", "XX", "nx", "xx", ""), pick(g, "GET", "get", ""), pick(g, "KEEPTTL", "", "", "")} {
			if option != "" {
				args = append(args, option)
			}
		}
		return args
	case 4:
		return []string{"SETNX", k, g.number()}
	case 5:
		return []string{"GETSET", k, g.number()}
	case 6:
		return []string{"GETDEL", k}
	case 7:
		return append([]string{"MGET"}, g.keys(g.any)...)
	case 8:
		args := []string{"MSET"}
		for _, k := range g.keys(g.plain) {
			args = append(args, k, g.number())
		}
		return args
	case 9, 10, 11:
		return []string{"INCR", k}
	case 12, 13:
		return []string{"INCRBY", k, g.delta()}
	case 14:
		return []string{"DECR", k}
	case 15:
		return []string{"DECRBY", k, g.delta()}
	case 16:
		return []string{"STRLEN", k}
	case 17:
		return append([]string{"EXISTS"}, g.keys(g.any)...)
	case 18:
		return append([]string{pick(g, "DEL", "UNLINK")}, g.keys(g.any)...)
	case 19:
		return []string{"TYPE", k}
	case 20:
		return []string{pick(g, "TTL", "PTTL"), g.any()}
	}
	return []string{"DBSIZE"}
}

// hash is a unit on a whole item. Writes of single columns follow a write of all, because Redis
// would otherwise make a hash that lacks the others.
func (g generator) hash() [][]string {
	k := g.whole()
	switch g.IntN(14) {
	case 13:
		return [][]string{{"HSCAN", k, "0"}}
	case 0, 1:
		return [][]string{g.fullHash(k)}
	case 2, 3:
		reqs := [][]string{g.fullHash(k)}
		for range 1 + g.IntN(3) {
			reqs = append(reqs, pick(g,
				[]string{"HINCRBY", k, g.field(), g.delta()},
				[]string{"HSET", k, g.field(), g.number()},
				[]string{"HSET", k, g.field(), g.number(), g.field(), g.number()},
				[]string{"HMSET", k, g.field(), g.number()},
				[]string{"HSETNX", k, g.field(), g.number()}))
		}
		return reqs
	case 4:
		return [][]string{{"HGET", k, g.field()}}
	case 5:
		return [][]string{append([]string{"HMGET", k}, g.keys(g.field)...)}
	case 6, 7:
		return [][]string{{"HGETALL", k}}
	case 8:
		return [][]string{{"HKEYS", k}}
	case 9:
		return [][]string{{"HVALS", k}}
	case 10:
		return [][]string{{"HLEN", k}}
	case 11:
		return [][]string{{pick(g, "HEXISTS", "HGET", "HSTRLEN"), k, pick(g, "a", "b", "nofield", "")}}
	}
	return [][]string{{pick(g, "GET", "STRLEN", "GETDEL", "TYPE"), k}}
}

// transaction is a request of the MULTI family, in any state.
func (g generator) transaction() []string {
	switch g.IntN(14) {
	case 0, 1, 2:
		return []string{"MULTI"}
	case 3, 4, 5, 6:
		return []string{"EXEC"}
	case 7:
		return []string{"DISCARD"}
	case 8, 9, 10:
		return append([]string{"WATCH"}, g.keys(g.any)...)
	}
	return pick(g, []string{"UNWATCH"}, []string{"UNWATCH"}, []string{"FLUSHALL"})
}

// connection is a request that is about no key.
func (g generator) connection() []string {
	return pick(g,
		[]string{"PING"}, []string{"PING", "hello world"}, []string{"PING", ""}, []string{"PING", "a", "b"},
		[]string{"ECHO", "x\r\ny"}, []string{"ECHO", strings.Repeat("long ", 30)}, []string{"ECHO"},
		[]string{"SELECT", "0"}, []string{"SELECT", "1"}, []string{"SELECT", "-1"}, []string{"SELECT", "abc"},
		[]string{"CLIENT", "GETNAME"}, []string{"CLIENT", "SETNAME", "some-name"}, []string{"CLIENT", "SETNAME", "some name"},
		[]string{"HELLO", "9"}, []string{"HELLO", "x"}, []string{"HELLO", "2", "FOO"})
}

// wrong is a request that both refuse.
func (g generator) wrong() []string {
	k, h := g.plain(), g.whole()
	return pick(g,
		[]string{"GET"}, []string{"GET", k, k}, []string{"SET", k}, []string{"INCR"}, []string{"INCR", k, "1"}, []string{"INCRBY", k},
		[]string{"MGET"}, []string{"MSET"}, []string{"MSET", k}, []string{"MSET", k, "1", k}, []string{"DEL"}, []string{"EXISTS"},
		[]string{"HSET", h}, []string{"HSET", h, "a"}, []string{"HSET", h, "a", "1", "b"}, []string{"HGET", h}, []string{"HGETALL"},
		[]string{"HGETALL", h, "a"}, []string{"HMGET", h}, []string{"HINCRBY", h, "a"}, []string{"HDEL", h}, []string{"HLEN"},
		[]string{"EXEC", "x"}, []string{"MULTI", "x"}, []string{"WATCH"}, []string{"DBSIZE", "x"}, []string{"TTL"}, []string{"TYPE"},
		[]string{"nosuch"}, []string{"nosuch", "a", "b c", "d"}, []string{"NoSuch", strings.Repeat("x", 200), "y"},
		[]string{"CLIENT", "nosuch"}, []string{"CONFIG", "nosuch", "x"}, []string{"CLIENT"}, []string{"CONFIG"}, []string{"COMMAND", "nosuch"},
		[]string{"SET", k, "1", "NX", "XX"}, []string{"SET", k, "1", "FOO"}, []string{"SET", k, "1", "GET", "BAR"},
		[]string{"INCRBY", k, "abc"}, []string{"DECRBY", k, "1.5"}, []string{"DECRBY", k, "-9223372036854775808"},
		[]string{"INCRBY", k, "99999999999999999999"}, []string{"HINCRBY", h, "a", "abc"})
}

// different is a request of which the table of differences says that we answer otherwise.
func (g generator) different() []string {
	k, h := g.plain(), g.whole()
	return pick(g,
		[]string{"DECRBY", k, g.number()}, []string{"SET", k, g.odd()}, []string{"GETSET", k, g.odd()}, []string{"SETNX", k, g.odd()},
		[]string{"MSET", k, "1", g.plain(), g.odd()}, []string{"SET", k, "5", "EX", "100"}, []string{"SET", k, "5", "PX", "100000", "NX"},
		[]string{"HDEL", h, g.field()}, []string{"SET", "foo", "1"}, []string{"INCR", "n:x"})
}

// keys returns one to four of something.
func (g generator) keys(one func() string) []string {
	keys := make([]string, 1+g.IntN(4))
	for i := range keys {
		keys[i] = one()
	}
	return keys
}

// cased writes a command's name in another way now and then: names are case-insensitive.
func (g generator) cased(args []string) []string {
	switch g.IntN(8) {
	case 0:
		args[0] = strings.ToLower(args[0])
	case 1:
		args[0] = args[0][:1] + strings.ToLower(args[0][1:])
	}
	return args
}

func pick[T any](g generator, of ...T) T { return of[g.IntN(len(of))] }

// keysOf returns the keys that a request names.
func keysOf(args []string) []string {
	if len(args) < 2 {
		return nil
	}
	switch strings.ToLower(args[0]) {
	case "mget", "del", "unlink", "exists", "touch", "watch":
		return args[1:]
	case "mset", "msetnx":
		var keys []string
		for i := 1; i < len(args); i += 2 {
			keys = append(keys, args[i])
		}
		return keys
	case "ping", "echo", "select", "client", "config", "command", "hello", "multi", "exec", "discard", "unwatch", "dbsize", "scan", "nosuch":
		return nil
	}
	return args[1:2]
}
