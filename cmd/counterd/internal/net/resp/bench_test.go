package resp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/tidwall/redcon"
)

// benchPackets are the shapes of traffic the server lives on.
func benchPackets() []struct {
	name     string
	packet   []byte
	commands int
	args     int
} {
	type shape = struct {
		name     string
		packet   []byte
		commands int
		args     int
	}
	incr := encode("INCR", "000010406136.cntrn")
	mget := []string{"COUNTER.MGET", "weibo"}
	for i := range 20 {
		mget = append(mget, strconv.FormatInt(3342818919841793+int64(i)*7919, 10))
	}
	return []shape{
		{"cmd=incr/depth=1", incr, 1, 2},
		{"cmd=incr/depth=64", bytes.Repeat(incr, 64), 64, 128},
		{"cmd=mget20/depth=1", encode(mget...), 1, 22},
		{"cmd=mget20/depth=16", bytes.Repeat(encode(mget...), 16), 16, 22 * 16},
	}
}

func reportPerArg(b *testing.B, commands, args int) {
	ns := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	b.ReportMetric(ns/float64(commands), "ns/cmd")
	b.ReportMetric(ns/float64(args), "ns/arg")
}

func BenchmarkRead(b *testing.B) {
	for _, s := range benchPackets() {
		b.Run("impl=resp/"+s.name, func(b *testing.B) {
			r := NewReader(DefaultLimits())
			memory := NewMemory(MaxRetained)
			r.Attach(&memory)
			b.ReportAllocs()
			b.SetBytes(int64(len(s.packet)))
			for b.Loop() {
				r.Filled(copy(r.Space(len(s.packet)), s.packet))
				n := 0
				for {
					args, err := r.Next()
					if err != nil {
						break
					}
					n += len(args)
				}
				if n != s.args {
					b.Fatal(n)
				}
			}
			reportPerArg(b, s.commands, s.args)
		})
		b.Run("impl=redcon/"+s.name, func(b *testing.B) {
			buf := make([]byte, len(s.packet))
			var args [][]byte
			b.ReportAllocs()
			b.SetBytes(int64(len(s.packet)))
			for b.Loop() {
				copy(buf, s.packet)
				n := 0
				for left := buf; len(left) > 0; {
					var complete bool
					var err error
					complete, args, _, left, err = redcon.ReadNextCommand(left, args[:0])
					if err != nil || !complete {
						b.Fatal(complete, err)
					}
					n += len(args)
				}
				if n != s.args {
					b.Fatal(n)
				}
			}
			reportPerArg(b, s.commands, s.args)
		})
	}
}

// BenchmarkReadPieces has a large command arrive in reads of one network packet;
// a parser that starts over each time is quadratic here.
func BenchmarkReadPieces(b *testing.B) {
	const pairs, piece = 10_000, 1460
	words := []string{"MSET"}
	for i := range pairs {
		words = append(words, fmt.Sprintf("%d.cntrn", 3342818919841793+int64(i)), "1")
	}
	packet := encode(words...)
	r := NewReader(DefaultLimits())
	b.ReportAllocs()
	b.SetBytes(int64(len(packet)))
	for b.Loop() {
		n := 0
		for rest := packet; len(rest) > 0; {
			room := r.Space(piece)
			k := copy(room[:min(piece, len(room))], rest)
			rest = rest[k:]
			r.Filled(k)
			if args, err := r.Next(); err == nil {
				n = len(args)
			}
		}
		if n != len(words) {
			b.Fatal(n)
		}
	}
	reportPerArg(b, 1, len(words))
}

func BenchmarkAppendBulkUint(b *testing.B) {
	for _, v := range []uint64{7, 123, 10406136, 3342818919841793} {
		b.Run(fmt.Sprintf("impl=resp/v=%d", v), func(b *testing.B) {
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf = AppendBulkUint(buf[:0], v)
			}
		})
		b.Run(fmt.Sprintf("impl=redcon/v=%d", v), func(b *testing.B) {
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf = redcon.AppendBulkUint(buf[:0], v)
			}
		})
	}
}

// BenchmarkRows appends the rows of a page: 20 of three numbers with up to so many bits.
func BenchmarkRows(b *testing.B) {
	for _, most := range []int{3, 7, 20} {
		b.Run("bits="+strconv.Itoa(most), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			values := make([]uint64, 60*1024)
			for i := range values {
				values[i] = rng.Uint64N(1 << rng.IntN(most+1))
			}
			var r Replies
			for n := 0; n < b.N; n++ {
				at := n % 1024 * 60
				r.Rows(values[at:at+60], 20)
				r.Cut(0)
			}
		})
	}
}
