package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
)

var (
	update = flag.Bool("update", false, "rewrite golden files")

	le = binary.LittleEndian

	testHistory = History{ReplID: ReplID{1, 2, 3, 19: 9}, Epoch: 7}
)

const benchMid = 4_812_345_678_901_234

// newSeed returns the seed of a random test and prints it if the test fails.
func newSeed(t testing.TB) uint64 {
	return seed.Of(t)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// golden compares got with testdata/name, or writes it with -update.
func golden(t *testing.T, name string, got []byte) []byte {
	t.Helper()
	path := "testdata/" + name
	if *update {
		must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if string(want) != string(got) {
		t.Errorf("%s differs from the golden file: %d bytes, want %d", name, len(got), len(want))
	}
	return want
}

// everyDamage flips every bit and tries every truncation of a file's bytes, and some runs of zeros, and demands that
// read finds all of it: with ErrCorrupt, and never as something else.
func everyDamage(t *testing.T, whole []byte, read func([]byte) error) {
	t.Helper()
	must(t, read(bytes.Clone(whole)))
	check := func(b []byte, what string) {
		if err := read(b); !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnsupportedFormat) {
			t.Fatalf("%s: got %v", what, err)
		}
	}
	for i := range whole {
		for bit := range 8 {
			b := bytes.Clone(whole)
			b[i] ^= 1 << bit
			check(b, fmt.Sprintf("byte %d bit %d flipped", i, bit))
		}
		check(bytes.Clone(whole[:i]), fmt.Sprintf("cut to %d bytes", i))
		if b := bytes.Clone(whole); i%64 == 0 {
			clear(b[i:min(i+64, len(b))])
			if !bytes.Equal(b, whole) {
				check(b, fmt.Sprintf("64 bytes from %d zero", i))
			}
		}
	}
	check(append(bytes.Clone(whole), 0), "a byte more")
}
