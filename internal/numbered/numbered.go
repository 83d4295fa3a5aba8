// Package numbered lists the commands that accept a number, the words IDMP producer seq [EPOCH epoch] behind their other
// arguments. The server makes such a command once, however often it is sent.
//
// The list is the only one of its kind in Go. The server's command table, the hook for go-redis, the classes for other
// libraries (counter/client/howto) and docs/concepts/exactly-once.md are compared with it by tests, so that a new command is in all of them.
package numbered

import "strings"

// names is in the order in which the documentation lists the commands.
var names = []string{"INCR", "INCRBY", "DECR", "DECRBY", "INCREX", "HINCRBY", "SET", "GETSET", "SETNX", "GETDEL", "HSET", "HMSET", "HSETNX", "MSET", "DEL", "UNLINK", "HDEL",
	"COUNTER.MINCRBY", "COUNTER.MSET", "COUNTER.DRAIN", "COUNTER.UPDATE", "EXEC"}

var byName = func() map[string]bool {
	m := make(map[string]bool)
	for _, name := range names {
		m[strings.ToLower(name)] = true
	}
	return m
}()

// Names returns the commands that accept a number, in capitals. EXEC is the last: its number is the transaction's.
func Names() []string { return append([]string(nil), names...) }

// Accepts reports whether a command, in lower case, accepts a number.
func Accepts(command string) bool { return byName[command] }
