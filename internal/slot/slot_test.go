package slot

import (
	"fmt"
	"testing"
)

var sink uint8

func TestOf(t *testing.T) {
	crc := func(s string) (c uint16) {
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
	if got := crc("123456789"); got != 0x31c3 {
		t.Fatalf("%#x is not CCITT's", got)
	}
	for mid, slot := range map[uint64]uint16{19089006004: 12075, 0: 13907} {
		if got := Of(mid); got != slot || Group(mid) != uint8(slot>>6) {
			t.Errorf("%d: got slot %d and group %d, want %d", mid, got, Group(mid), slot)
		}
	}
	for v := uint64(1); ; v = v*7 + 3 {
		if got, want := crc16(v), crc(fmt.Sprint(v)); got != want {
			t.Fatalf("%d: got %d, want %d", v, got, want)
		}
		if v > 1<<60 {
			break
		}
	}
	for v := range uint64(12345) {
		if got, want := crc16(v), crc(fmt.Sprint(v)); got != want {
			t.Fatalf("%d: got %d, want %d", v, got, want)
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
