package resp

import (
	"errors"
	"fmt"
)

// Bounds that Redis 7.0 itself puts on declared lengths. Lengths above them are
// "invalid" even before authentication; lengths between them and the limits of
// an unauthenticated connection are "unauthenticated".
const (
	redisMaxArgs = 1<<31 - 1
	redisMaxBulk = 512 << 20
)

// maxCommandBound is the most that MaxCommand can be set to: positions in the
// buffer then fit an int32 span and no sum of two of them can overflow an int.
const maxCommandBound = 1 << 30

// minLine is the least that MaxInline and MaxCommand can be: every header of a
// valid length fits (22 bytes), so the fast path need not measure lines.
const minLine = 64

// Limits bound what one connection may send. They are plain numbers, checked
// where a length is declared and before any memory is taken for it.
type Limits struct {
	MaxArgs    int // arguments of one command, its name included
	MaxBulk    int // bytes of one argument
	MaxInline  int // bytes of one line without its line feed: inline command, or length header
	MaxCommand int // bytes of one command as sent, headers and line ends included

	// Unauthenticated selects the texts that Redis uses for clients which
	// still have to authenticate.
	Unauthenticated bool
}

// DefaultLimits are those of an authenticated connection. A counter command is
// tens of bytes; 64 Ki arguments and 16 MiB leave room for bulk loads by MSET
// and MGET without letting one client hold a noticeable share of the memory.
func DefaultLimits() Limits {
	return Limits{
		MaxArgs:    64 << 10,
		MaxBulk:    1 << 20,
		MaxInline:  64 << 10, // PROTO_INLINE_MAX_SIZE of Redis
		MaxCommand: 16 << 20,
	}
}

// PreAuthLimits are those of a connection that must authenticate and has not:
// HELLO with AUTH and SETNAME needs 7 arguments. The counts are those of Redis,
// and one whole command instead of one argument has to fit in 16 KiB.
func PreAuthLimits() Limits {
	return Limits{
		MaxArgs:         10,
		MaxBulk:         16 << 10,
		MaxInline:       16 << 10,
		MaxCommand:      16 << 10,
		Unauthenticated: true,
	}
}

// Validate reports everything that is wrong with l, nil if nothing is. A zero is
// not wrong: it stands for the value of DefaultLimits.
func (l Limits) Validate() error {
	var errs []error
	check := func(name string, got, least, most int) {
		if got != 0 && (got < least || got > most) {
			errs = append(errs, fmt.Errorf("resp: %s is %d, want %d to %d, or 0 for the default", name, got, least, most))
		}
	}
	check("MaxArgs", l.MaxArgs, 1, redisMaxArgs)
	check("MaxBulk", l.MaxBulk, 1, redisMaxBulk)
	check("MaxInline", l.MaxInline, minLine, maxCommandBound)
	check("MaxCommand", l.MaxCommand, minLine, maxCommandBound)
	return errors.Join(errs...)
}

// normal returns l with zeros replaced by the defaults and every value brought
// into the range that Validate accepts, so the Reader never has to doubt its own
// arithmetic. A line is part of a command, so MaxInline <= MaxCommand.
func (l Limits) normal() Limits {
	d := DefaultLimits()
	fix := func(got, def, least, most int) int {
		if got == 0 {
			got = def
		}
		return min(max(got, least), most)
	}
	l.MaxArgs = fix(l.MaxArgs, d.MaxArgs, 1, redisMaxArgs)
	l.MaxBulk = fix(l.MaxBulk, d.MaxBulk, 1, redisMaxBulk)
	l.MaxCommand = fix(l.MaxCommand, d.MaxCommand, minLine, maxCommandBound)
	l.MaxInline = fix(l.MaxInline, d.MaxInline, minLine, l.MaxCommand)
	return l
}
