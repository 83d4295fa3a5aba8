package damagetest

import (
	"bytes"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestVariants: a quick run has each kind of damage and each byte of the header; a full one has every bit and every length.
func TestVariants(t *testing.T) {
	whole := make([]byte, 3*sector+100)
	for i := range whole {
		whole[i] = byte(i>>9 + i)
	}
	for _, all := range []bool{false, true} {
		kinds, header, bits, lengths := map[string]int{}, 0, 0, 0
		for what, b := range variants(whole, 10, all, rand.New(rand.NewPCG(1, 1))) {
			if bytes.Equal(b, whole) {
				t.Fatalf("%s: nothing is damaged", what)
			}
			switch {
			case strings.HasSuffix(what, "flipped"):
				bits++
				for i := range b[:10] {
					if b[i] != whole[i] {
						header |= 1 << i
					}
				}
			case strings.HasPrefix(what, "cut"):
				lengths++
			default:
				kinds[what[len(what)-4:]]++
			}
		}
		if header != 1<<10-1 || len(kinds) != 3 || kinds["zero"] != 4 {
			t.Errorf("all=%v: bytes %b of the header, others %v", all, header, kinds)
		}
		if all && (bits != 8*len(whole) || lengths < len(whole) || kinds["pped"] != 3) {
			t.Errorf("%d bits and %d lengths of %d bytes, %v", bits, lengths, len(whole), kinds)
		}
	}
}

// TestAllFound: a reader that checks all but its first byte does not pass.
func TestAllFound(t *testing.T) {
	wrong := errors.New("wrong checksum")
	read := func(from int) func(b []byte) error {
		return func(b []byte) error {
			if len(b) < 5 || crc32.ChecksumIEEE(b[from:len(b)-4]) != uint32(b[len(b)-4])|uint32(b[len(b)-3])<<8|uint32(b[len(b)-2])<<16|uint32(b[len(b)-1])<<24 {
				return wrong
			}
			return nil
		}
	}
	sealed := func(from int) []byte {
		b := []byte("a small file")
		sum := crc32.ChecksumIEEE(b[from:])
		return append(b, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
	}
	found := func(err error) bool { return errors.Is(err, wrong) }
	AllFound(t, sealed(0), found, read(0))
	missed := &recorder{TB: t}
	func() {
		defer func() { _ = recover() }()
		AllFound(missed, sealed(1), found, read(1))
	}()
	if !missed.failed {
		t.Error("damage that the reader does not see passes")
	}
}

// recorder notes that a test has failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Fatalf(string, ...any) {
	r.failed = true
	panic("stop")
}
