package idmp

import (
	"math/bits"

	"github.com/counterd/counterd/cmd/counterd/internal/resp"
)

// MaxProducer is the longest id of a producer, in bytes.
const MaxProducer = 32

// Number is whose change a command is: what stands behind IDMP.
type Number struct {
	Producer []byte // 1 to MaxProducer bytes
	Seq      uint64
	Epoch    uint64
}

// Errors in the form of replies.
const (
	ErrProducer = "ERR IDMP: want a producer of 1 to 32 bytes"
	ErrSeq      = "ERR IDMP: want a sequence number of 0 to 18446744073709551615"
	ErrEpoch    = "ERR IDMP: want an epoch of 0 to 9223372036854775807"
)

// TailLen is how many of a command's arguments are IDMP and what follows it: 3, 5 with EPOCH, or 0.
func TailLen(args [][]byte) int {
	n := len(args)
	switch {
	case n < 4:
	case len(args[n-3]) == 4 && resp.EqualFold(args[n-3], "IDMP"):
		return 3
	case n > 5 && len(args[n-5]) == 4 && resp.EqualFold(args[n-2], "EPOCH") && resp.EqualFold(args[n-5], "IDMP"):
		return 5
	}
	return 0
}

// Split parts a command's arguments from IDMP and what follows it, which num becomes. tail is TailLen(args), and more
// than 0. text is the error.
func (num *Number) Split(args [][]byte, tail int) (rest [][]byte, text string) {
	at := len(args) - tail
	return args[:at], num.Parse(args[at+1:])
}

// Parse reads producer seq [EPOCH epoch]. text is the error.
func (num *Number) Parse(args [][]byte) (text string) {
	*num = Number{}
	if len(args) != 2 && len(args) != 4 || len(args) == 4 && !resp.EqualFold(args[2], "EPOCH") {
		return "ERR syntax error"
	}
	if n := len(args[0]); n < 1 || n > MaxProducer {
		return ErrProducer
	}
	seq, ok := unsigned(args[1])
	if !ok {
		return ErrSeq
	}
	epoch := uint64(0)
	if len(args) == 4 {
		if epoch, ok = unsigned(args[3]); !ok || epoch > 1<<63-1 {
			return ErrEpoch
		}
	}
	*num = Number{Producer: args[0], Seq: seq, Epoch: epoch}
	return ""
}

// unsigned parses a number of 64 bits without sign or leading zeros.
func unsigned(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 20 || b[0] == '0' && len(b) > 1 {
		return 0, false
	}
	var v uint64
	for _, ch := range b[:min(len(b), 19)] { // 19 digits fit
		d := ch - '0'
		if d > 9 {
			return 0, false
		}
		v = v*10 + uint64(d)
	}
	if len(b) < 20 {
		return v, true
	}
	high, low := bits.Mul64(v, 10)
	d := b[19] - '0'
	v, carry := bits.Add64(low, uint64(d), 0)
	return v, d <= 9 && high == 0 && carry == 0
}
