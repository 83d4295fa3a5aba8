package slot

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
)

var sink uint8

// crcOf is the CRC16 of a text, bit by bit.
func crcOf(s string) (c uint16) {
	for i := range len(s) {
		c ^= uint16(s[i]) << 8
		for range 8 {
			if c&0x8000 != 0 {
				c = c<<1 ^ 0x1021
			} else {
				c <<= 1
			}
		}
	}
	return c
}

func TestOf(t *testing.T) {
	if got := crcOf("123456789"); got != 0x31c3 {
		t.Fatalf("%#x is not CCITT's", got)
	}
	for mid, slot := range map[uint64]uint16{19089006004: 12075, 0: 13907} {
		if got := Of(mid); got != slot || Group(mid) != uint8(slot>>6) {
			t.Errorf("%d: got slot %d and group %d, want %d", mid, got, Group(mid), slot)
		}
	}
	for v := range uint64(12345) {
		checkOf(t, v)
	}
	for tens := uint64(10); ; tens *= 10 { // of each length
		for i := range uint64(300) {
			checkOf(t, tens-150+i)
		}
		if tens == 1e19 {
			break
		}
	}
	for b := range 64 { // of each number of bits
		checkOf(t, 1<<b-1)
		checkOf(t, 1<<b)
	}
	checkOf(t, 1<<64-1)
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 100_000 {
		checkOf(t, rng.Uint64()>>rng.IntN(64))
	}
}

// checkOf compares the slot and the group of an id with those of its text.
func checkOf(t *testing.T, v uint64) {
	t.Helper()
	text := fmt.Sprint(v)
	want := crcOf(text)
	if got := crc16(v); got != want || Of(v) != want%Slots {
		t.Fatalf("%d: got CRC16 %d and slot %d, want %d and %d", v, got, Of(v), want, want%Slots)
	}
	group := GroupOf(want % Slots)
	if got := Group(v); got != group {
		t.Fatalf("%d: got group %d, want %d", v, got, group)
	}
	if len(text) <= shortDigits {
		high, low := v/1e8, v%1e8
		const rest = 0xffff0000ffff0000 // means nothing
		if got := OfFours(uint(len(text)), high/1e4+high%1e4<<32|rest, low/1e4+low%1e4<<32|rest); got != group {
			t.Fatalf("%d: got group %d of its digits, want %d", v, got, group)
		}
	}
}

// TestOfKey has slots that a redis-server 7.0 answered to CLUSTER KEYSLOT.
func TestOfKey(t *testing.T) {
	for key, want := range map[string]uint16{
		"123456789": 12739, "foo": 12182, "foo{}{bar}": 8363, "foo{{bar}}zap": 4015, "foo{bar}{zap}": 5061, "": 0, "{": 4092,
		"19089006004": 12075, "{19089006004}.cntcm": 12075, "weibo:{19089006004}": 12075, "19089006004.cntcm": 13543, "19089006004.cntrn": 13510,
	} {
		if got := OfKey([]byte(key)); got != want {
			t.Errorf("%q: got slot %d, want %d", key, got, want)
		}
	}
	for mid := uint64(1); mid < 1<<62; mid = mid*5 + 1 {
		if got, want := OfKey(fmt.Append(nil, mid)), Of(mid); got != want {
			t.Errorf("%d: got slot %d by its text, %d by its value", mid, got, want)
		}
	}
}

func BenchmarkGroup(b *testing.B) {
	for _, mid := range []uint64{7, 19089006004, 1<<63 - 1} {
		b.Run(fmt.Sprint("mid=", mid), func(b *testing.B) {
			for b.Loop() {
				sink += Group(mid)
			}
		})
	}
}
