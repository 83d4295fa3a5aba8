package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/counterd/counterd/internal/wire"
)

// Absent is the value in a page for the counters of a post that the server does not have.
const Absent = -1

// Model is how posts and their counters are laid out in a server's keys and commands. Its methods append the command
// for one operation to dst, and read the reply to it. They allocate nothing, except to extend dst.
//
// A Model holds no state of a connection: any number of goroutines may use one.
type Model interface {
	// AppendRow sets all counters of a post; row has a value for each column. ReadRow reads all replies to it.
	AppendRow(dst []byte, mid uint64, row []uint64) []byte
	ReadRow(r *wire.Reader) error

	// AppendIncr adds one to a counter. One reply.
	AppendIncr(dst []byte, mid uint64, col int) []byte
	ReadIncr(r *wire.Reader) error

	// AppendGet reads a counter.
	AppendGet(dst []byte, mid uint64, col int) []byte
	ReadGet(r *wire.Reader, col int) (int64, error)

	// AppendPage reads all counters of the posts. ReadPage appends them to page, Absent for those of an absent post.
	AppendPage(dst []byte, mids []uint64) []byte
	ReadPage(r *wire.Reader, page []int64, posts int) ([]int64, error)

	// Max returns the largest value that a column holds.
	Max(col int) uint64
}

// Kind names a Model.
type Kind string

// The kinds. All but the first are ways to keep counters in Redis, or anything that speaks like it.
const (
	Counterd     Kind = "counterd"      // an item a post: HSET, INCR MID.suffix, COUNTER.MGET
	RedisStrings Kind = "redis-strings" // a key a counter: MSET, INCR, MGET of posts x columns keys
	RedisSet     Kind = "redis-set"     // as redis-strings, for servers without MSET such as Pogocache: a SET a counter
	RedisHash    Kind = "redis-hash"    // a hash a post: HSET, HINCRBY, a HMGET a post
	RedisPacked  Kind = "redis-packed"  // a string of 4 bytes a counter a post: SET, BITFIELD, MGET; the client unpacks
	RedisBucket  Kind = "redis-bucket"  // a hash a hundred posts, their counters packed in one integer: HSET, HINCRBY, HGET
)

// Kinds lists the kinds.
func Kinds() []Kind {
	return []Kind{Counterd, RedisStrings, RedisSet, RedisHash, RedisPacked, RedisBucket}
}

// ParseKind returns the Kind of that name.
func ParseKind(name string) (Kind, error) {
	if name == "redis-string" || name == "redis" {
		return RedisStrings, nil
	}
	if slices.Contains(Kinds(), Kind(name)) {
		return Kind(name), nil
	}
	var names []string
	for _, kind := range Kinds() {
		names = append(names, string(kind))
	}
	return "", fmt.Errorf("no kind of server is called %q; there are %s", name, strings.Join(names, ", "))
}

// NewModel returns the Model of that kind for the columns of a schema.
func NewModel(kind Kind, schema Schema) (Model, error) {
	if len(schema.Columns) == 0 {
		return nil, fmt.Errorf("counter %q has no columns", schema.Counter)
	}
	switch kind {
	case Counterd:
		return newCounterdModel(schema), nil
	case RedisStrings:
		return newStringsModel(schema), nil
	case RedisSet:
		return &setModel{newStringsModel(schema)}, nil
	case RedisHash:
		return newHashModel(schema), nil
	case RedisPacked:
		return &packedModel{columns: len(schema.Columns)}, nil
	case RedisBucket:
		return newBucketModel(schema)
	}
	_, err := ParseKind(string(kind))
	return nil, err
}

// suffixes returns what names each column in a key: its suffix, or its name where it has none.
func suffixes(schema Schema) []string {
	var all []string
	for _, col := range schema.Columns {
		suffix := col.Suffix
		if suffix == "" {
			suffix = col.Name
		}
		all = append(all, suffix)
	}
	return all
}
