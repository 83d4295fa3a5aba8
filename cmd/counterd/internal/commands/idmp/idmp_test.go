package idmp

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	testseed "github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/format"
)

var seed = testseed.Value

func words(s string) [][]byte { return bytes.Split([]byte(s), []byte(" ")) }

func TestTail(t *testing.T) {
	long := strings.Repeat("p", MaxProducer)
	for line, want := range map[string]struct {
		rest  int
		num   Number
		error string
	}{
		"incr k":                  {rest: 2},
		"incr k p 5":              {rest: 4},
		"incr k idmp p 5":         {rest: 2, num: Number{[]byte("p"), 5, 0}},
		"incr k IDMP p 0 EPOCH 0": {rest: 2, num: Number{[]byte("p"), 0, 0}},
		"incr k IDMP p 18446744073709551615 epoch 7": {rest: 2, num: Number{[]byte("p"), 1<<64 - 1, 7}},
		"incr k IDMP p 1 EPOCH 9223372036854775807":  {rest: 2, num: Number{[]byte("p"), 1, 1<<63 - 1}},
		"incr k IDMP p 1 EPOCH 9223372036854775808":  {rest: 2, error: ErrEpoch},
		"incr k IDMP p 1 EPOCH x":                    {rest: 2, error: ErrEpoch},
		"incr k IDMP p 1 EPOCHS 1":                   {rest: 7},
		"incr k IDMP p 18446744073709551616":         {rest: 2, error: ErrSeq},
		"incr k IDMP p 184467440737095516150":        {rest: 2, error: ErrSeq},
		"incr k IDMP p -1":                           {rest: 2, error: ErrSeq},
		"incr k IDMP p 01":                           {rest: 2, error: ErrSeq},
		"incr k IDMP p ":                             {rest: 2, error: ErrSeq},
		"incr k IDMP  1":                             {rest: 2, error: ErrProducer},
		"incr k IDMP " + long + " 1":                 {rest: 2, num: Number{[]byte(long), 1, 0}},
		"incr k IDMP " + long + "p 1":                {rest: 2, error: ErrProducer},
		"incr k IDMP p":                              {rest: 4},
		"exec IDMP p 5":                              {rest: 1, num: Number{[]byte("p"), 5, 0}},
		"exec IDMP p 5 EPOCH 1":                      {rest: 1, num: Number{[]byte("p"), 5, 1}},
		"IDMP p 5":                                   {rest: 3},
		"incr k IDMP IDMP 5":                         {rest: 2, num: Number{[]byte("IDMP"), 5, 0}},
		"incr k IDMP EPOCH 5":                        {rest: 2, num: Number{[]byte("EPOCH"), 5, 0}},
		"incr k IDMP EPOCH 5 EPOCH 6":                {rest: 2, num: Number{[]byte("EPOCH"), 5, 6}},
		"hset k IDMP 1":                              {rest: 4},
		"hset k IDMP 1 IDMP p 5":                     {rest: 4, num: Number{[]byte("p"), 5, 0}},
		"hset k IDMP 1 IDMP EPOCH 5":                 {rest: 4, num: Number{[]byte("EPOCH"), 5, 0}},
		"hset k IDMP 1 EPOCH 2":                      {rest: 6},
		"hset k a 1 IDMP p 5 EPOCH 3":                {rest: 4, num: Number{[]byte("p"), 5, 3}},
		"counter.mincrby 1.a 2 QUIET IDMP p 5":       {rest: 4, num: Number{[]byte("p"), 5, 0}},
		"counter.drain 1.a 2.a IDMP p 5":             {rest: 3, num: Number{[]byte("p"), 5, 0}},
		"mset 1.a 2 3.a 4 IDMP p 5 EPOCH 4611686018": {rest: 5, num: Number{[]byte("p"), 5, 4611686018}},
	} {
		args := words(line)
		if TailLen(args) == 0 {
			if want.rest != len(args) {
				t.Errorf("%s: nothing found", line)
			}
			continue
		}
		var num Number
		rest, text := num.Split(args, TailLen(args))
		if len(rest) != want.rest || text != want.error || text == "" && (string(num.Producer) != string(want.num.Producer) || num.Seq != want.num.Seq || num.Epoch != want.num.Epoch) {
			t.Errorf("%s: got %q, %s %d %d, %q; want %+v", line, rest, num.Producer, num.Seq, num.Epoch, text, want)
		}
	}
}

// TestUnsigned compares with strconv, about the highest number and elsewhere.
func TestUnsigned(t *testing.T) {
	for _, text := range []string{"0", "00", "9", "10", "9999999999999999999", "10000000000000000000", "18446744073709551609", "18446744073709551615", "18446744073709551616",
		"18446744073709551620", "18446744073709551625", "1844674407370955161:", "1844674407370955161/", "19999999999999999999", "99999999999999999999", "100000000000000000000", "", "-1", "+1", "1a", " 1", "1_0"} {
		want, err := strconv.ParseUint(text, 10, 64)
		ok := err == nil && (text == "0" || text[0] != '0')
		if got, gotOK := unsigned([]byte(text)); gotOK != ok || ok && got != want {
			t.Errorf("%q: got %d %v, want %d %v", text, got, gotOK, want, ok)
		}
	}
}

// TestRun compares with numbers parsed one by one.
func TestRun(t *testing.T) {
	for list, want := range map[string]int{"": 0, "5": 1, "x 6": 0, "5 6 7": 3, "8 9 10 11": 4, "8 9 :": 2, "99 100 101": 3, "5 7": 1, "5 5": 1, "5 4": 1, "07": 0, "7 08": 1, "7 8 8": 2,
		"199 200 201 203": 3, "9 8": 1, "1099511627775 1099511627776": 2, "18446744073709551614 18446744073709551615": 2, "18446744073709551615 0": 1, "18446744073709551615 18446744073709551616": 1} {
		var args [][]byte
		if list != "" {
			args = words(list)
		}
		seq, n := Run(args)
		if n != want || n > 0 && fmt.Sprint(seq) != string(args[0]) {
			t.Errorf("%q: got %d from %d, want %d", list, n, seq, want)
		}
	}
}

// FuzzTail: any arguments are parted or not, without a panic, and the parts agree with the reference.
func FuzzTail(f *testing.F) {
	f.Add("incr k IDMP p 5 EPOCH 3")
	f.Add("hset k a 1 idmp EPOCH 18446744073709551615")
	f.Add("x IDMP IDMP EPOCH 3")
	f.Add("IDMP IDMP IDMP EPOCH 3")
	f.Fuzz(func(t *testing.T, line string) {
		args := words(line)
		tail := TailLen(args)
		at := func(back int) string {
			if back > len(args) {
				return ""
			}
			return strings.ToUpper(string(args[len(args)-back]))
		}
		want := 0
		if len(args) >= 4 && at(3) == "IDMP" {
			want = 3
		} else if len(args) >= 6 && at(5) == "IDMP" && at(2) == "EPOCH" {
			want = 5
		}
		if ascii(line) && tail != want {
			t.Fatalf("%q: a tail of %d, want %d", args, tail, want)
		}
		if tail == 0 {
			return
		}
		var num Number
		rest, text := num.Split(args, TailLen(args))
		if len(rest) != len(args)-tail || (text == "") != (len(num.Producer) > 0) {
			t.Fatalf("%q: %q %+v %q", args, rest, num, text)
		}
		if text == "" && (fmt.Sprint(num.Seq) != string(args[len(rest)+2]) || tail == 5 && fmt.Sprint(num.Epoch) != string(args[len(rest)+4])) {
			t.Fatalf("%q: %+v", args, num)
		}
	})
}

func ascii(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r > 127 }) }

// TestHash has the vectors of the package comment: they must not change.
func TestHash(t *testing.T) {
	hash := func(line string) Hash {
		args := words(line)
		return Begin(string(args[0])).Add(args[1:]...)
	}
	for line, want := range map[string]uint32{
		"incr 1.cntcm":               671883,
		"incrby 19089006004.cntcm 1": 1877437,
		"hset 7 comment 3 repost 4":  1673504,
		"exec incr 1.a set 2.b 5":    104966,
	} {
		if got := hash(line).Sum(); got != want {
			t.Errorf("%s: got %d, want %d", line, got, want)
		}
	}
	if hash("a bc") == hash("ab c") || hash("a b c") == hash("a bc") {
		t.Error("where arguments end does not matter")
	}
	if got := hash("x " + strings.Repeat("y", 1000)).Sum(); got >= 1<<21 {
		t.Errorf("got %d, want 21 bits", got)
	}
	begin, args := Begin("incrby"), words("1.a 2")
	sum := uint32(0)
	if n := testing.AllocsPerRun(100, func() { sum |= begin.Add(args...).Sum() }); n > 0 || sum == 0 {
		t.Errorf("%v allocations, sum %d", n, sum)
	}
}

// TestUpdate compares with the standard library.
func TestUpdate(t *testing.T) {
	data := []byte(strings.Repeat("0123456789abcdefghijklmnopqrstuvw", 3))
	for from := range 9 {
		for to := from; to <= len(data); to++ {
			state := uint32(from * 0x9e3779b9)
			if got, want := update(state, data[from:to]), crc32.Update(state, castagnoli, data[from:to]); got != want {
				t.Fatalf("%d bytes from %d on: got %x, want %x", to-from, from, got, want)
			}
		}
	}
}

// TestHashSpread: commands that differ little have different hashes as often as those that differ much.
func TestHashSpread(t *testing.T) {
	seen := map[uint32]int{}
	const n = 1 << 16
	for i := range n {
		seen[Begin("incrby").Add([]byte(fmt.Sprintf("%d.cntcm", 19089006004+i)), []byte("1")).Sum()]++
	}
	if free := n - len(seen); free > n/32*2 { // n*n/2/2^21 = 1024 are to be expected
		t.Errorf("%d of %d collide", free, n)
	}
}

// reply writes a random reply with out, of at most depth levels.
func reply(rnd *rand.Rand, out *resp.Replies, depth int) {
	kinds := 9
	if depth == 0 {
		kinds = 6
	}
	switch n := rnd.IntN(5); rnd.IntN(kinds) {
	case 0:
		out.Int(int64(rnd.Uint64() >> rnd.IntN(64)))
	case 1:
		out.Status([]string{"OK", "QUEUED", "PONG x"}[n%3])
	case 2:
		out.BulkUint(rnd.Uint64() >> rnd.IntN(64))
	case 3:
		out.BulkString([]string{"", "007", "a\r\nb", "-5", "18446744073709551616"}[n])
	case 4:
		out.Error([]string{overflow, "ERR x", "WRONGTYPE Operation"}[n%3])
	case 5:
		if n > 2 {
			out.Null()
		} else {
			out.NullArray()
		}
	case 6:
		out.Array(n)
		for range n {
			reply(rnd, out, depth-1)
		}
	case 7:
		out.Map(n)
		for range 2 * n {
			reply(rnd, out, depth-1)
		}
	case 8:
		out.Set(n)
		for range n {
			reply(rnd, out, depth-1)
		}
	}
}

// TestReplies: a kept reply gives the same reply in both versions of the protocol.
func TestReplies(t *testing.T) {
	t.Logf("-seed=%d", *seed)
	var kinds []format.ResultKind
	for i := range uint64(5000) {
		var outs [4]resp.Replies // neutral, RESP2, RESP3
		for proto := 1; proto <= 3; proto++ {
			outs[proto].SetProtocol(proto)
			reply(rand.New(rand.NewPCG(*seed, i)), &outs[proto], 3)
		}
		kept, _ := Keep(outs[1].From(0), make([]byte, 0, 64))
		if !slices.Contains(kinds, kept.Kind) {
			kinds = append(kinds, kept.Kind)
		}
		for proto := 2; proto <= 3; proto++ {
			var again resp.Replies
			again.SetProtocol(proto)
			again.Status("before")
			if !Answer(&again, kept) || !bytes.Equal(again.From(len("+before\r\n")), outs[proto].From(0)) {
				t.Fatalf("RESP%d: got %q, want %q, kept %+v", proto, again.From(0), outs[proto].From(0), kept)
			}
		}
	}
	slices.Sort(kinds)
	if !slices.Equal(kinds, []format.ResultKind{counter.ResultInt, counter.ResultOK, counter.ResultBulk, counter.ResultNil, counter.ResultBlob}) {
		t.Errorf("kinds %v", kinds)
	}
}

// TestBlobs: the form of blobs is part of formats, and must not change.
func TestBlobs(t *testing.T) {
	var out resp.Replies
	out.SetProtocol(resp.Neutral)
	out.Array(10)
	out.Int(-3)
	out.Status("OK")
	out.BulkUint(300)
	out.Null()
	out.NullArray()
	out.BulkString("x")
	out.Status("y")
	out.Error("ERR z")
	out.Map(1)
	out.Int(1)
	out.Set(0)
	out.Error(overflow)
	want := "\x09\x0a" + "\x01\x05" + "\x02" + "\x03\xac\x02" + "\x04" + "\x05" + "\x06\x01x" + "\x07\x01y" + "\x08\x05ERR z" + "\x0a\x01\x01\x02\x0b\x00" + "\x0c"
	if got, _ := Keep(out.From(0), nil); got.Kind != counter.ResultBlob {
		t.Errorf("got %+v", got)
	} else if string(got.Blob) != want {
		t.Errorf("got %q, want %q", got.Blob, want)
	}
	for _, bad := range []string{"", ":1", ":x\r\n", "*2\r\n:1\r\n", ":1\r\n:2\r\n", "$5\r\nab\r\n", "*99999999999\r\n", ",1.5\r\n", "*1\r\n,1.5\r\n"} {
		if got, _ := Keep([]byte(bad), nil); got.Kind != counter.ResultGone {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

// FuzzAnswer: a blob of any bytes gives one whole reply or none.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("\x09\x02\x01\x05\x0a\x01\x02\x04"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var out resp.Replies
		out.SetProtocol(resp.Neutral)
		if !Answer(&out, counter.Result{Kind: counter.ResultBlob, Blob: b}) {
			if out.Len() > 0 {
				t.Fatalf("%q is left of a reply", out.From(0))
			}
			return
		}
		kept, _ := Keep(out.From(0), nil)
		var again resp.Replies
		again.SetProtocol(resp.Neutral)
		if !Answer(&again, kept) || !bytes.Equal(again.From(0), out.From(0)) {
			t.Fatalf("%q becomes %q", out.From(0), again.From(0))
		}
	})
}

// TestHashShort: short arguments, which are summed without crc32.Update, have its sums.
func TestHashShort(t *testing.T) {
	arg := []byte{0x31, 0xff, 0x00, 0x80, 0x39, 0x7f}
	for n := range len(arg) + 1 {
		h := Begin("incrby")
		want := Hash(crc32.Update(uint32(h)^uint32(n), castagnoli, arg[:n]))
		if got := h.Add(arg[:n]); got != want {
			t.Errorf("%d bytes: got %#x, want %#x", n, got, want)
		}
	}
}

// TestTailWord: IDMP is found in any case, and no other byte stands for one of its letters.
func TestTailWord(t *testing.T) {
	for i := range 4 {
		for ch := range 256 {
			word := []byte("idMP")
			word[i] = byte(ch)
			want := 0
			if strings.EqualFold(string(word[i:i+1]), "IDMP"[i:i+1]) {
				want = 3
			}
			if got := TailLen([][]byte{[]byte("incr"), []byte("1.a"), word, []byte("p"), []byte("1")}); got != want {
				t.Errorf("%q: got %d, want %d", word, got, want)
			}
		}
	}
}
