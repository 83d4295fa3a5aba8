package protocol

import (
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// A difference is an intended one from Redis. The differential tests accept a pair of unequal replies only when
// a row of the table matches the request, Redis' reply and ours; a row that no case needs fails as well, so
// the table is exactly the documentation of what differs.
type difference struct {
	request string // regular expression over the request as typed, in lower case
	redis   string // regular expression over the bytes of Redis' reply
	ours    string // the same over ours
	why     string

	// silent rows match even equal replies, because the states differ afterwards: they name requests, not replies.
	silent bool

	requestRE, redisRE, oursRE *regexp.Regexp
	used                       atomic.Bool
}

const (
	overflow   = `^-ERR increment or decrement would overflow\r\n$`
	notInteger = `^-ERR value is not an integer or out of range\r\n$`
	wrongType  = `^-WRONGTYPE Operation against a key holding the wrong kind of value\r\n$`
	noColumn   = `^-ERR no column '(nofield' in counter 'h'|\w+' in counter 'n') \(see SCHEMA\)\r\n$`
	anything   = ``

	// Parts of requests: a value that is no canonical number below 2^63, a key that names no counter and mid.
	badNumber = `("|[-+]|0\d|\d*[^\d ]|9223372036854775808|[1-9]\d{19,})`
	badKey    = `(foo|n:|n:x|12x|:1)( |$)`
)

// differences is the table of all intended differences. n:MID is a counter of one column of up to 63 bits, h:MID one of
// three.
var differences = []*difference{
	// Values.
	{request: `^(incr|incrby|decr|decrby|hincrby) [nh]:`, redis: `^:-\d+\r\n$`, ours: overflow,
		why: "a counter is never negative: the column's range is [0, 2^max)"},
	{request: `^(set|getset|setnx|mset (n:\d+ \d+ )*) ?n:\d+ ` + badNumber, redis: anything, ours: notInteger,
		why: "a counter holds a number in [0, 2^max): other values are refused, Redis would keep them as text"},
	{request: `^(hset|hmset|hsetnx) h:\d+ (\w+ \d+ )*\w+ ` + badNumber, redis: `^(:|\+OK)`, ours: notInteger,
		why: "a column holds a number, as above"},
	{request: `^set n:\d+ \d+ .*\b(ex|px|exat|pxat)\b`, redis: anything, ours: `^-ERR (syntax error|counters do not expire)`,
		why: "counters do not expire: an option that a counter lacks is refused, and nothing changed"},

	// Keys.
	{request: `^(set|setnx|getset|incr|incrby|decr|decrby|mset (n:\d+ \d+ )*) ?` + badKey, redis: anything, ours: `^-ERR `,
		why: "a key that names no counter and mid cannot be written; Redis takes any name"},
	{request: `^hset ` + badKey, redis: anything, ours: `^-ERR `,
		why: "as above"},

	// Whole items.
	{request: `^(set|setnx|getset|mset) h:\d+ `, redis: anything, ours: wrongType,
		why: "what a key holds is the schema's choice: an item of several columns cannot become a string"},
	{request: `^mset (n:\d+ \d+ )+h:\d+ `, redis: `^\+OK\r\n$`, ours: wrongType,
		why: "as above"},
	{request: `^(incr|incrby|decr|decrby|get|getdel|strlen) h:\d+`, redis: `^([:_]|\$-1)`, ours: wrongType,
		why: "the wrong type is known before the item exists; to Redis an absent key has none"},
	{request: `^(hset|hincrby|hsetnx|hmset) [hn]:\d+ `, redis: anything, ours: noColumn,
		why: "columns are made by ADD COLUMN, not by writing to them"},
	{request: `^(hget|hgetall|hlen|hdel|hkeys|hvals|hmget|hexists|hstrlen|hscan) n:\d+`, redis: wrongType, ours: `^[^-]`,
		why: "hash commands work on every item, on one of a single column too"},
	{request: `^(scan|hscan \S+) -\d`, redis: `^\*2`, ours: `^-ERR invalid cursor\r\n$`,
		why: "a cursor is a mid, which is not negative; Redis takes it for a large unsigned number"},
	{request: `^hdel h:`, silent: true,
		why: "HDEL resets columns to their defaults: an item has all its columns, always"},

	// Commands.
	{request: `^(append|msetnx|getex|setex|setrange|lpush|sadd|zadd|xadd|hincrbyfloat|eval|subscribe|publish)\b`, redis: anything, ours: `^-ERR unknown command '`,
		why: "a counter is a number that stays: what works on other types, parts of texts, expiry, scripts and messages is not offered"},
	{request: `^p?expire(at)? `, redis: `^:`, ours: `^-ERR counters do not expire\r\n$`,
		why: "as with SET's options"},

	// Transactions.
	{request: `^flushall`, silent: true,
		why: "FLUSHALL aborts every transaction that watches a key; in Redis only those whose keys existed"},

	{request: `^client reply`, redis: `^\+QUEUED`, ours: `^-ERR Command not allowed inside a transaction\r\n$`,
		why: "a transaction whose replies are partly left out could not be read by anyone"},

	// Protocol.
	{request: `^"\*1\\r\\n\$4\\r\\npingxxping`, redis: `^\+PONG`, ours: `^-ERR Protocol error: invalid bulk length\r\n$`,
		why: "a bulk string must end in CR LF; Redis skips two bytes, whatever they are, and guesses on"},
	{request: `^"(\*1\\r\\n)?\\x00`, redis: `^$`, ours: `^-ERR `,
		why: "a zero byte is a byte as any other; Redis takes it for the end of the line's text"},
}

func init() {
	for _, d := range differences {
		d.requestRE = regexp.MustCompile(d.request)
		d.redisRE = regexp.MustCompile(d.redis)
		d.oursRE = regexp.MustCompile(d.ours)
	}
}

// intended returns the row that allows the two replies to a request to be unequal, or nil.
func intended(args []string, redis, ours string) *difference {
	line := strings.ToLower(harness.QuoteArgs(args))
	for _, d := range differences {
		if !d.silent && d.requestRE.MatchString(line) && d.redisRE.MatchString(redis) && d.oursRE.MatchString(ours) {
			d.used.Store(true)
			return d
		}
	}
	return nil
}

// silentlyDiffers says that a request leaves the two servers in different states though they may answer the same.
func silentlyDiffers(args []string) bool {
	line := strings.ToLower(harness.QuoteArgs(args))
	for _, d := range differences {
		if d.silent && d.requestRE.MatchString(line) {
			d.used.Store(true)
			return true
		}
	}
	return false
}
