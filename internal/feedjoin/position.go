package feedjoin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Position is the places in the logs of some shards: the text of a server's position for each. A log that is no cluster's is the shard 0, alone.
type Position map[uint64]string

// The text of a position, which is a format that consumers keep: of a single log that of the server (package feed of counter/internal), of
// a cluster
//
//	c1,<shard>=<position>,<shard>=<position>...
//
// shard is a decimal number, in ascending order. A shard that is not in it is new, and is read from the beginning of its log: it had
// nothing before its first gain.
const clusterPosition = "c1"

const (
	// Now and Oldest stand for the position where a feed begins that has none.
	Now    = "NOW"
	Oldest = "OLDEST"
	// Begin is the position before the first change of a log.
	Begin = "1-0000000000000000-0-0-510b"
	// MaxShards bounds the shards of a position. A cluster has 256 at most that own hash slots.
	MaxShards = 4096
	// MaxText bounds the text of a position, in bytes.
	MaxText = MaxShards * 280
)

// word tells whether a text stands for a position that a server has to tell.
func word(text string) bool { return text == Now || text == Oldest }

// ParsePosition reads a text. A position of a single log is not looked into.
func ParsePosition(text string) (Position, error) {
	if !strings.HasPrefix(text, clusterPosition) {
		return Position{0: text}, nil
	}
	fields := strings.Split(text, ",")
	bad := func() (Position, error) {
		return nil, fmt.Errorf("not a position of the feed of a cluster: %.200q", text)
	}
	if fields[0] != clusterPosition || len(fields) < 2 || len(fields) > 1+MaxShards {
		return bad()
	}
	p := make(Position, len(fields))
	for _, field := range fields[1:] {
		id, at, ok := strings.Cut(field, "=")
		n, err := strconv.ParseUint(id, 10, 64)
		if _, known := Offset(at); !ok || err != nil || n == 0 || p[n] != "" || !known && !word(at) {
			return bad()
		}
		p[n] = at
	}
	return p, nil
}

// IsCluster tells whether a text is a position of a cluster.
func IsCluster(text string) bool { return strings.HasPrefix(text, clusterPosition+",") }

// String is the text.
func (p Position) String() string {
	if at, ok := p[0]; ok && len(p) == 1 {
		return at
	}
	head, tail := p.around(0)
	return head + tail
}

// around is the text in front of the place of a shard and behind it. Of a shard that is not in p, the first has all of it.
func (p Position) around(shard uint64) (head, tail string) {
	if _, ok := p[0]; ok && len(p) == 1 {
		return "", ""
	}
	var b strings.Builder
	b.WriteString(clusterPosition)
	for _, id := range slices.Sorted(maps.Keys(p)) {
		b.WriteByte(',')
		b.WriteString(strconv.FormatUint(id, 10))
		b.WriteByte('=')
		if id == shard {
			head = b.String()
			b.Reset()
			continue
		}
		b.WriteString(p[id])
	}
	if head == "" {
		return b.String(), ""
	}
	return head, b.String()
}

// Offset is the log offset of a server's position; ok is false of another text.
func Offset(position string) (offset uint64, ok bool) {
	fields := strings.Split(position, "-")
	if len(fields) < 5 || fields[0] != "1" {
		return 0, false
	}
	frame, into, _ := strings.Cut(fields[3], "+")
	n, err := strconv.ParseUint(frame, 10, 63)
	inside, _ := strconv.ParseUint(into, 10, 32) // 0 where there is none
	return n + inside, err == nil
}

// Sum is the sum of the offsets of all shards. It grows with each change that a feed gives.
func (p Position) Sum() (sum uint64, ok bool) {
	for _, at := range p {
		offset, known := Offset(at)
		if !known {
			return 0, false
		}
		sum += offset
	}
	return sum, len(p) > 0
}
