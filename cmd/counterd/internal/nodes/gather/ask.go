package gather

import (
	"encoding/binary"
	"strconv"
	"time"
)

// Kind says what is to become of a command whose reply was lost with its connection.
type Kind uint8

// The kinds.
const (
	Read     Kind = iota // it is sent again
	Change               // it is sent again with the number that the link gave it: it is made once
	Numbered             // it has a number of its client's, and is sent again
	Once                 // it is not: whether it was made is not known
)

// command is one of an Ask.
type command struct {
	end     int32 // in Ask.out
	replies int32 // on the wire: a transaction has several
	take    int32 // the one of them that is the answer
	extra   int32 // replies that come before, to what the link sent for its sake
	kind    Kind
	packed  bool   // it is a packed page
	foreign bool   // it leaves the connection numbered by another producer than the link's
	seq     uint64 // that the link gave it
}

// Ask is commands to one shard, which are answered in order. Its round has it until it is given to a link, and again
// when it is done.
//
//	made ──▶ queued ──▶ flying ──▶ done      flying: it has been written, or is in the link's buffer
//	            └──────────────────▲         with a new connection it is sent again, from its first command without reply on
type Ask struct {
	Shard *Shard

	round    *Round
	link     *link
	lane     *lane  // that gave its changes their numbers; nil: it has not been written
	out      []byte // commands as they are sent
	cmds     []command
	numbers  int  // of kind Change
	foreign  bool // one of its commands is
	packed   bool // the same
	deadline time.Time
	unsent   time.Time // the same while there is no connection for it: patience behind the last one
	patience time.Duration

	// Guarded by link.mu from the time it is queued until it is done.
	flying bool
	given  bool // up: nobody waits for it any more
	resent int  // commands from here on were sent more than once

	// The link's, which goes on counting the replies of one that was given up.
	at     int   // commands answered
	skip   int32 // extra replies that came for the next one
	got    int32 // its replies that came
	failed bool  // one of those before the last was an error, which is the answer

	refused bool // an answer is an error

	page   joined // being added
	rows   []byte // of an answer to pages: those that Rows has not returned yet
	rowsOf int    // number of that answer, from 1 on

	in   []byte
	ends []int32 // in in, of answers
	err  error   // why those behind len(ends) have none
}

// Len is how many commands it has.
func (a *Ask) Len() int { return len(a.cmds) }

// Bytes is how long they are.
func (a *Ask) Bytes() int { return len(a.out) + len(a.page.ids) }

// Add appends a command and returns its number. It is sent as several, of which the last one's reply is the answer, or
// the first error, where there is a number (CLIENT IDMP) or a transaction.
func (a *Ask) Add(kind Kind, args ...[]byte) int {
	a.endPage()
	a.out = AppendCommand(a.out, args...)
	return a.added(kind, 1, false)
}

// AddNumbered is Add of a change with a number of another producer than the link.
func (a *Ask) AddNumbered(producer []byte, seq, epoch uint64, args ...[]byte) int {
	a.endPage()
	a.out = appendNumbering(a.out, producer, seq, epoch)
	a.out = AppendCommand(a.out, args...)
	return a.added(Numbered, 2, true)
}

// AddAll is Add of commands that are one transaction: the first is MULTI, the last EXEC. Where producer is not nil, EXEC
// has that number.
func (a *Ask) AddAll(kind Kind, producer []byte, seq, epoch uint64, cmds [][][]byte) int {
	a.endPage()
	n := int32(len(cmds))
	if producer != nil {
		a.out = appendNumbering(a.out, producer, seq, epoch)
		kind = Numbered
		n++
	}
	for _, args := range cmds {
		a.out = AppendCommand(a.out, args...)
	}
	return a.added(kind, n, producer != nil)
}

// AddBetween is Add of a command with one before and one behind it, which have to succeed.
func (a *Ask) AddBetween(kind Kind, before, args, behind [][]byte) int {
	a.endPage()
	a.out = AppendCommand(a.out, before...)
	a.out = AppendCommand(a.out, args...)
	a.out = AppendCommand(a.out, behind...)
	i := a.added(kind, 3, false)
	a.cmds[i].take = 2
	return i
}

// AddLike is Add of a command with one argument. head is all of it before the argument, as AppendHead makes it.
func (a *Ask) AddLike(kind Kind, head, arg []byte) int {
	a.endPage()
	a.out = append(append(append(a.out, head...), arg...), '\r', '\n')
	return a.added(kind, 1, false)
}

// firstNumber is the number of its first change. REQUIRES that it has one and was sent.
func (a *Ask) firstNumber() uint64 {
	for i := range a.cmds {
		if a.cmds[i].kind == Change {
			return a.cmds[i].seq
		}
	}
	return 0
}

// Full tells whether the ask is to have no more changes.
func (a *Ask) Full() bool { return a.numbers >= maxNumbers }

func (a *Ask) added(kind Kind, replies int32, foreign bool) int {
	a.cmds = append(a.cmds, command{end: int32(len(a.out)), replies: replies, take: replies, kind: kind, foreign: foreign})
	if kind == Change {
		a.numbers++
	}
	a.foreign = a.foreign || foreign
	a.resent = len(a.cmds)
	return len(a.cmds) - 1
}

// Reply is the answer to command i, neutral, nil where there is none: then err says why. doubt is whether the command
// may have been made although it was refused, or not answered: it was sent before. REQUIRES the round to be over.
func (a *Ask) Reply(i int) (reply []byte, doubt bool, err error) {
	if i < len(a.ends) {
		from := int32(0)
		if i > 0 {
			from = a.ends[i-1]
		}
		return a.in[from:a.ends[i]], i >= a.resent && a.cmds[i].kind != Read, nil
	}
	return nil, a.flying && a.cmds[i].kind != Read, a.err
}

// Answer is the reply to command i, neutral. REQUIRES that the ask is Fine.
func (a *Ask) Answer(i int) []byte {
	from := int32(0)
	if i > 0 {
		from = a.ends[i-1]
	}
	return a.in[from:a.ends[i]]
}

// Fine tells whether each command has a reply, and none is an error. REQUIRES the round to be over.
func (a *Ask) Fine() bool { return len(a.ends) == len(a.cmds) && !a.refused }

// Number is the number that the link gave command i, and whose it is. REQUIRES that it is of kind Change and was sent.
func (a *Ask) Number(i int) (producer []byte, seq uint64) { return a.lane.producer, a.cmds[i].seq }

// Hold keeps the number of command i from being forgotten by its shard, until Release: what came of the command is being
// asked for elsewhere.
func (a *Ask) Hold(i int) { a.link.hold(a.lane, a.cmds[i].seq) }

// Release ends Hold.
func (a *Ask) Release(i int) { a.link.release(a.lane, a.cmds[i].seq) }

// answered takes one reply over, and tells whether it was the last.
func (a *Ask) answered(reply []byte) (done bool, err error) {
	c := &a.cmds[a.at]
	if a.skip < c.extra {
		a.skip++
		if reply[0] == '-' {
			return false, &RefusedError{string(reply[1 : len(reply)-2])}
		}
		return false, nil
	}
	a.got++
	refused := reply[0] == '-'
	a.refused = a.refused || refused
	if !a.given && !a.failed && (refused || a.got == c.take) {
		from := 0
		if len(a.ends) > 0 {
			from = int(a.ends[len(a.ends)-1])
		}
		a.in = append(a.in[:from], reply...)
		a.failed = refused
	}
	if a.got < c.replies {
		return false, nil
	}
	if !a.given {
		a.ends = append(a.ends, int32(len(a.in)))
	}
	a.at++
	a.skip, a.got, a.failed = 0, 0, false
	return a.at == len(a.cmds), nil
}

// counted takes over the integers that b begins with, as far as each is the only reply to its command, and returns how long they are. For the
// replies to a pipeline of changes that takes a third of the instructions of answered. REQUIRES that a reply begins with b.
func (a *Ask) counted(b []byte) (used int) {
	if a.given {
		return 0
	}
	from := int32(len(a.in))
	for ; a.at < len(a.cmds) && a.cmds[a.at].replies == 1 && a.cmds[a.at].extra == 0; a.at++ {
		rest := b[used:]
		if len(rest) < 8 || rest[0] != ':' {
			break
		}
		n := lineEnd(binary.LittleEndian.Uint64(rest)) // most have up to 5 digits
		if n < 3 || rest[n-2] != '\r' {
			if n = integer(rest); n == 0 {
				break
			}
		}
		used += n
		a.ends = append(a.ends, from+int32(used))
	}
	a.in = append(a.in, b[:used]...)
	return used
}

// again prepares for a new connection; false: a command was sent that must not be sent twice.
func (a *Ask) again() bool {
	a.resent = min(a.resent, a.at)
	a.skip, a.got, a.failed = 0, 0, false
	for i := a.at; i < len(a.cmds); i++ {
		if a.cmds[i].kind == Once {
			return false
		}
	}
	return true
}

// AppendHead appends the beginning of a command with one argument of n bytes, all before the argument.
func AppendHead(dst []byte, name string, n int) []byte {
	dst = appendHead(appendHead(dst, '*', 2), '$', len(name))
	dst = append(dst, name...)
	return appendHead(append(dst, '\r', '\n'), '$', n)
}

// AppendCommand appends a command as it is sent.
func AppendCommand(dst []byte, args ...[]byte) []byte {
	dst = appendHead(dst, '*', len(args))
	for _, a := range args {
		dst = appendWord(dst, a)
	}
	return dst
}

func appendWord(dst, word []byte) []byte {
	dst = appendHead(dst, '$', len(word))
	dst = append(dst, word...)
	return append(dst, '\r', '\n')
}

func appendHead(dst []byte, mark byte, n int) []byte {
	switch {
	case n < 10:
		return append(dst, mark, byte('0'+n), '\r', '\n')
	case n < 100: // as the ids of posts have
		return append(dst, mark, byte('0'+n/10), byte('0'+n%10), '\r', '\n')
	}
	dst = strconv.AppendInt(append(dst, mark), int64(n), 10)
	return append(dst, '\r', '\n')
}

// appendNumbering appends the command that makes a connection number its changes.
func appendNumbering(dst []byte, producer []byte, seq, epoch uint64) []byte {
	var digits, more [20]byte
	number := strconv.AppendUint(digits[:0], seq, 10)
	if epoch == 0 {
		return AppendCommand(dst, wordClient, wordIdmp, producer, number)
	}
	return AppendCommand(dst, wordClient, wordIdmp, producer, number, wordEpoch, strconv.AppendUint(more[:0], epoch, 10))
}

var (
	wordClient = []byte("CLIENT")
	wordIdmp   = []byte("IDMP")
	wordEpoch  = []byte("EPOCH")
)
