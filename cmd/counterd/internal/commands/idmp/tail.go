package idmp

import (
	"encoding/binary"
	"math/bits"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// MaxProducer is the longest id of a producer, in bytes.
const MaxProducer = 32

// Number is the producer and number of a command: the arguments after IDMP.
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

// TailLen is how many of a command's arguments IDMP and its own arguments are: 3, 5 with EPOCH, or 0. It is asked twice a
// command: whether there are as many arguments as there should be, and where they end.
func TailLen(args [][]byte) int {
	if n := len(args); n > 3 && isIDMP(args[n-3]) {
		return 3
	}
	return epochTailLen(args)
}

func epochTailLen(args [][]byte) int {
	if n := len(args); n > 5 && isIDMP(args[n-5]) && resp.EqualFold(args[n-2], "EPOCH") {
		return 5
	}
	return 0
}

// isIDMP tells whether b is IDMP in any case: letters of two cases differ in the bit 0x20, which makes a letter of no
// other byte.
func isIDMP(b []byte) bool {
	const idmp = 'i' | 'd'<<8 | 'm'<<16 | 'p'<<24
	return len(b) == 4 && binary.LittleEndian.Uint32(b)|0x20202020 == idmp
}

// Split cuts IDMP and its arguments from a command's arguments, and puts them into num. tail is TailLen(args), and more
// than 0. text is the error.
func (num *Number) Split(args [][]byte, tail int) (rest [][]byte, text string) {
	at := len(args) - tail
	return args[:at], num.Parse(args[at+1:])
}

// Parse reads producer seq [EPOCH epoch]. text is the error.
func (num *Number) Parse(args [][]byte) (text string) {
	num.Producer = nil
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
	num.Producer, num.Seq, num.Epoch = args[0], seq, epoch
	return ""
}

// Run parses the sequence number that a list begins with, and tells how many of the list follow each other, it included. It is 0 if that is none.
func Run(list [][]byte) (seq uint64, n int) {
	if len(list) == 0 {
		return 0, 0
	}
	seq, ok := unsigned(list[0])
	if !ok {
		return 0, 0
	}
	for n = 1; n < len(list); n++ {
		if follows(list[n-1], list[n]) { // nine of ten
			continue
		}
		if next, ok := unsigned(list[n]); !ok || next != seq+uint64(n) || next == 0 {
			break
		}
	}
	return seq, n
}

// follows tells whether b is the number behind a, which is one, where only the last digit differs. Of 20 digits it does not know.
func follows(a, b []byte) bool {
	last := len(a) - 1
	return len(b) == len(a) && last < 19 && b[last] == a[last]+1 && b[last] <= '9' && string(a[:last]) == string(b[:last])
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
