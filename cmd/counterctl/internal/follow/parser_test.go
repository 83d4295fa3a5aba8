package follow

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/internal/wire"
)

// commandsOf cuts a stream that comes in pieces.
func commandsOf(stream []byte, pieces func() int) (commands []string, consumed uint64, err error) {
	p := parser{}
	for {
		args, size, ok, err := p.next()
		if err != nil {
			return commands, consumed, err
		}
		if ok {
			words := make([]string, len(args))
			for i, a := range args {
				words[i] = string(a)
			}
			commands = append(commands, strings.Join(words, " "))
			consumed += size
			continue
		}
		n := min(pieces(), len(stream))
		if n == 0 {
			return commands, consumed, nil
		}
		p.feed(stream[:n])
		stream = stream[n:]
	}
}

func TestParser(t *testing.T) {
	seed := seed.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	var stream []byte
	var want []string
	for range 300 {
		words := make([]string, 1+r.IntN(5))
		for i := range words {
			words[i] = strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(1<<r.IntN(8)))
		}
		stream = wire.AppendCommand(stream, words...)
		want = append(want, strings.Join(words, " "))
	}
	for _, size := range []int{1, 2, 7, 1000, 1 << 20} {
		got, consumed, err := commandsOf(stream, func() int { return 1 + r.IntN(size) })
		if err != nil || consumed != uint64(len(stream)) || strings.Join(got, "|") != strings.Join(want, "|") {
			t.Fatalf("seed %d, pieces of %d: %d commands, %d bytes, %v, want %d, %d", seed, size, len(got), consumed, err, len(want), len(stream))
		}
	}
	// A value that is no number comes as an empty one, and takes no memory.
	long := append(wire.AppendCommand(nil, "SET", "k", strings.Repeat("x", 10*maxArg)), wire.AppendCommand(nil, "PING")...)
	got, consumed, err := commandsOf(long, func() int { return 1000 })
	if err != nil || consumed != uint64(len(long)) || strings.Join(got, "|") != "SET k |PING" {
		t.Errorf("a long value: %q, %d, %v", got, consumed, err)
	}
	for _, bad := range []string{"PING\r\n", "*0\r\n", "*-1\r\n", "*1\r\n*1\r\n", "*1\r\n$-1\r\n", "*99999999\r\n", "*1\n$1\n", "*1\r\n$99999999999999999999\r\n", "+OK\r\n", "*" + strings.Repeat("1", 40), "\r\n\r\n"} {
		if got, _, err := commandsOf([]byte(bad), func() int { return 1 << 20 }); !errors.Is(err, errStream) {
			t.Errorf("%q: %q, %v", bad, got, err)
		}
	}
}

// FuzzParser: a stream is cut in the same way however it comes.
func FuzzParser(f *testing.F) {
	f.Add([]byte("*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nDEL\r\n$0\r\n\r\n"), 3)
	f.Add([]byte("*2\r\n$99999\r\nxx"), 1)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		whole, n, err := commandsOf(stream, func() int { return len(stream) })
		parts, m, err2 := commandsOf(stream, func() int { return 1 + max(size, 0)%100 })
		if fmt.Sprint(whole) != fmt.Sprint(parts) || n != m || (err == nil) != (err2 == nil) || n > uint64(len(stream)) {
			t.Errorf("at once %q %d %v, in parts %q %d %v", whole, n, err, parts, m, err2)
		}
	})
}

func TestSpool(t *testing.T) {
	s, err := newSpool(t.TempDir() + "/spool")
	if err != nil {
		t.Fatal(err)
	}
	defer s.file.Close()
	r := rand.New(rand.NewPCG(1, 2))
	var in, out bytes.Buffer
	buf := make([]byte, 300_000)
	for range 200 {
		part := make([]byte, r.IntN(100_000))
		for i := range part {
			part[i] = byte(r.Uint32())
		}
		in.Write(part)
		if _, err := s.Write(part); err != nil {
			t.Fatal(err)
		}
		for range r.IntN(3) {
			n, closed, err := s.take(buf[:r.IntN(len(buf))])
			if err != nil || closed != nil {
				t.Fatal(closed, err)
			}
			out.Write(buf[:n])
		}
		if s.waiting() != int64(in.Len()-out.Len()) {
			t.Fatalf("%d wait, want %d", s.waiting(), in.Len()-out.Len())
		}
	}
	why := errors.New("why")
	s.close(why)
	s.close(errors.New("later"))
	for {
		n, closed, err := s.take(buf)
		if err != nil {
			t.Fatal(err)
		}
		if out.Write(buf[:n]); closed != nil {
			if closed != why || n > 0 {
				t.Errorf("closed with %v, %d bytes", closed, n)
			}
			break
		}
	}
	if !bytes.Equal(in.Bytes(), out.Bytes()) {
		t.Error("other bytes came out")
	}
	if info, err := s.file.Stat(); err != nil || info.Size() > 0 {
		t.Errorf("an empty spool takes %d bytes, %v", info.Size(), err)
	}
	if err := s.reset(); err != nil {
		t.Fatal(err)
	}
	if n, closed, err := s.take(buf); n != 0 || closed != nil || err != nil {
		t.Error("not as new", n, closed, err)
	}
}
