package repl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
)

// A primary and its replicas compare what they have, range by range, all the time. Two nodes whose logs agree up to an
// offset have the same posts there, so both copy a range at one offset of the log, and compare the digests of the copies:
//
//	primary (comparer.go)                                  replica (compareside.go)
//	copies a range at the end X of its log
//	Q  id, X, range               -- in the stream, at X -->  copies the range, if its log ends at X
//	D  id, a digest of each of 64 parts                -->  compares its own
//	                   <-- REPLCONF compare <id> same, or differs <lo> <hi>, or why there is no answer
//
// A difference is asked again at another offset, and narrowed down to a part of some posts. Then
//
//	R  id, X, range, its posts    -- in the stream, at X -->  gives the range these posts, if its log ends at X
//	                   <-- REPLCONF compare <id> mended <posts>
//
// A replica that is not at X answers elsewhere, and the range is asked for again: no race looks like a difference.
// The messages begin with 4 bytes of their length; numbers are little-endian. A replica says by capaCompare that it knows
// them, so one of an older build is never asked, and an older primary never asks.
const (
	msgQuestion = 'Q'
	msgDigests  = 'D'
	msgRows     = 'R'

	capaCompare = "compare"
)

const (
	// compareParts is how many parts of a range have a digest of their own.
	compareParts = 64
	// mendRows is how many posts of a part that differs are sent at a time.
	mendRows = 256
	// maxCompareMessage bounds a message: mendRows posts take 130 KB.
	maxCompareMessage = 1 << 20
)

// Answers of a replica.
const (
	saysSame       = "same"
	saysDiffers    = "differs"
	saysMended     = "mended"
	saysElsewhere  = "elsewhere"  // its log did not end at the offset, or a file was replaced meanwhile: ask again
	saysUnreadable = "unreadable" // a file of the range is damaged
	saysOff        = "off"        // it does not compare
)

// question is a range at a log offset.
type question struct {
	id uint64
	at uint64
	r  counter.PostRange
}

// questionLen is of id, offset, counter, group, lo, hi.
const questionLen = 8 + 8 + 4 + 1 + 8 + 8

// appendCompare begins a message; the caller appends n bytes.
func appendCompare(dst []byte, kind byte, n int) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, kind), uint32(n))
}

func (q *question) append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(le.AppendUint64(dst, q.id), q.at)
	dst = append(le.AppendUint32(dst, q.r.Counter), q.r.Group)
	return le.AppendUint64(le.AppendUint64(dst, q.r.Lo), q.r.Hi)
}

// parseQuestion reads a question, and returns the bytes after it.
func parseQuestion(b []byte) (q question, rest []byte, err error) {
	if len(b) < questionLen {
		return q, nil, fmt.Errorf("%w: a range to compare of %d bytes, want %d", ErrProtocol, len(b), questionLen)
	}
	le := binary.LittleEndian
	q.id, q.at = le.Uint64(b), le.Uint64(b[8:])
	q.r = counter.PostRange{Counter: le.Uint32(b[16:]), Group: b[20], Lo: le.Uint64(b[21:]), Hi: le.Uint64(b[29:])}
	return q, b[questionLen:], nil
}

// encodeQuestion makes a Q message.
func encodeQuestion(q *question) []byte {
	return q.append(appendCompare(make([]byte, 0, 5+questionLen), msgQuestion, questionLen))
}

// encodeDigests makes a D message.
func encodeDigests(id uint64, sums []counter.Digest) []byte {
	le, n := binary.LittleEndian, 8+16*len(sums)
	b := le.AppendUint64(appendCompare(make([]byte, 0, 5+n), msgDigests, n), id)
	for _, d := range sums {
		b = le.AppendUint64(le.AppendUint64(b, d.Items), d.Sum)
	}
	return b
}

// parseDigests reads what a D message holds.
func parseDigests(b []byte) (id uint64, sums []counter.Digest, err error) {
	if len(b) < 8 || (len(b)-8)%16 != 0 {
		return 0, nil, fmt.Errorf("%w: digests of %d bytes", ErrProtocol, len(b))
	}
	le := binary.LittleEndian
	id = le.Uint64(b)
	for b = b[8:]; len(b) > 0; b = b[16:] {
		sums = append(sums, counter.Digest{Items: le.Uint64(b), Sum: le.Uint64(b[8:])})
	}
	return id, sums, nil
}

// encodeRows makes an R message: the question, the number of columns, and for each post its mid and values.
func encodeRows(q *question, rows []counter.PostRow) []byte {
	columns := 0
	if len(rows) > 0 {
		columns = len(rows[0].Values)
	}
	le, n := binary.LittleEndian, questionLen+1+len(rows)*8*(1+columns)
	b := append(q.append(appendCompare(make([]byte, 0, 5+n), msgRows, n)), byte(columns))
	for _, row := range rows {
		b = le.AppendUint64(b, row.Mid)
		for _, v := range row.Values {
			b = le.AppendUint64(b, v)
		}
	}
	return b
}

// parseRows reads what an R message holds. The mids rise and are in the range.
func parseRows(b []byte) (q question, rows []counter.PostRow, err error) {
	q, b, err = parseQuestion(b)
	if err != nil {
		return q, nil, err
	}
	if len(b) == 0 || (len(b)-1)%(8*(1+int(b[0]))) != 0 {
		return q, nil, fmt.Errorf("%w: posts of a range in %d bytes", ErrProtocol, len(b))
	}
	le, columns, least := binary.LittleEndian, int(b[0]), q.r.Lo
	for b = b[1:]; len(b) > 0; {
		row := counter.PostRow{Mid: le.Uint64(b), Values: make([]uint64, columns)}
		if row.Mid < least || row.Mid >= q.r.Hi {
			return q, nil, fmt.Errorf("%w: post %d of a range [%d,%d)", ErrProtocol, row.Mid, least, q.r.Hi)
		}
		least = row.Mid + 1
		for i := range row.Values {
			row.Values[i] = le.Uint64(b[8+8*i:])
		}
		rows, b = append(rows, row), b[8*(1+columns):]
	}
	return q, rows, nil
}

// readCompare reads what follows the kind of a message.
func readCompare(r *wire.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxCompareMessage {
		return nil, fmt.Errorf("%w: a comparison of %d bytes, at most %d", ErrProtocol, n, maxCompareMessage)
	}
	return readSteps(r, int(n))
}

// answerTo is the answer of a replica for an error of a copy.
func answerTo(err error) string {
	if errors.Is(err, counter.ErrCold) {
		return saysUnreadable
	}
	return saysElsewhere
}

// CompareInfo is the result of comparing with other nodes, as primary and as replica together.
type CompareInfo struct {
	Budget      time.Duration // processor time a second; 0: this node does not compare
	Posts       uint64        // that were compared
	Ranges      uint64
	Missed      uint64 // ranges for which a replica gave no answer
	Unreadable  uint64 // ranges of which a node cannot read a file
	Passes      uint64 // over all posts of this node, with its replicas
	LastPass    time.Time
	PassTook    time.Duration
	Differences uint64 // posts that were different on a replica
	Mended      uint64 // those that got the values of the primary
	Differing   uint64 // ranges of replicas that differ and could not be mended, as far as the last pass or this one found
	Last        string // the last difference, for people
	LastAt      time.Time
}

// differedFor is how long a difference is something to hear of: Recently.
const differedFor = 24 * time.Hour

// Recently tells whether posts differed in the last day.
func (i *CompareInfo) Recently() bool { return i.Differences > 0 && time.Since(i.LastAt) < differedFor }

// compareStats counts. Safe for concurrent use.
type compareStats struct {
	mu sync.Mutex
	CompareInfo
}

func (s *compareStats) change(f func(i *CompareInfo)) {
	s.mu.Lock()
	f(&s.CompareInfo)
	s.mu.Unlock()
}

// Compare tells what comparing came to.
func (n *Node) Compare() CompareInfo {
	budget := n.settings().CompareBudget
	n.compared.mu.Lock()
	defer n.compared.mu.Unlock()
	i := n.compared.CompareInfo
	i.Budget = budget
	return i
}
