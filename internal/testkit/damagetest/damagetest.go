// Package damagetest damages the bytes of a file in the ways that a disk does: flipped bits, a file cut short, ranges of zeros,
// and ranges that stand in each other's place. Only tests import it.
//
// Each kind of file of a data directory has a test that its damage is found, or does no harm, and never gives a wrong number:
//
//	file                          its bytes                                 a start of the store
//	hot image                     snapfile.TestImageDamage                  counter.TestDamagedFiles
//	cold file: page, index        coldstore.TestFlips, TestDamageVariants   counter.TestDamagedFiles
//	log segment                   persist.TestLogDamage                     counter.TestDamagedFiles
//	packed log segment            persist.TestPackDamage                    counter.TestDamagedFiles
//	manifest                      format.TestManifestDamage                 counter.TestDamagedFiles
//	producers                     snapfile.TestImageDamage                  counter.TestDamagedFiles
//	HISTORY                       format.TestLineageDamage                  logfile.TestLineageTwice
//	DURABLE                       format.TestClaimDamage                    counter.TestDamagedFiles
//	HEALING                       format.TestHealingText
//	BOOT                          counter.TestBootDamage
//	CONFIRMED                     repl.TestConfirmedDamage
//	PRIMARY, HANDOVER             repl.TestAddressNoteDamage
//	node.json                     cluster.TestDirectoryDamage
//	archive                       archive.TestArchiveDamage, TestArchiveCompressedDamage
//
// The others have no content: LOCK, and MONITORED, whose presence counts. A new kind of file gets a row here.
package damagetest

import (
	"bytes"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
)

var every = flag.Bool("every-damage", false, "damage every bit, every length and every pair of sectors of a file; without it, each byte of its header and a random sample of the rest")

// sector is the unit in which a disk loses or misplaces bytes.
const sector = 512

// How many random damages of each kind a quick run makes.
const (
	someBits    = 64
	someLengths = 32
	someSectors = 16
	somePairs   = 16
)

// Variants yields damaged copies of a file, each with a description. A quick run has one bit of each of the first header bytes,
// and a random sample of everything else; with -every-damage there is every bit, every length, every sector and every pair
// of sectors. Zeros at the end of a file, up to which it is preallocated, count as one sector. No variant equals the file. The random ones replay by -seed.
func Variants(t testing.TB, whole []byte, header int) iter.Seq2[string, []byte] {
	t.Helper()
	return variants(whole, min(header, len(whole)), *every, seed.Rand(t))
}

// AllFound flips every bit of a file, tries every length, zeros each sector and swaps all pairs of sectors. read must find each
// damage: found reports whether its error is the one wanted. It is for small files, as it tries each byte nine times.
func AllFound(t testing.TB, whole []byte, found func(error) bool, read func([]byte) error) {
	t.Helper()
	if err := read(bytes.Clone(whole)); err != nil {
		t.Fatal(err)
	}
	for what, b := range variants(whole, 0, true, seed.Rand(t)) {
		if err := read(b); !found(err) {
			t.Fatalf("%s: got %v", what, err)
		}
	}
}

// used is the number of bytes of a file that are not only zeros up to its end, and a sector more: what a log segment is
// preallocated with makes no difference anywhere else.
func used(whole []byte) int {
	return min(len(bytes.TrimRight(whole, "\x00"))+sector, len(whole))
}

func variants(whole []byte, header int, all bool, rng *rand.Rand) iter.Seq2[string, []byte] {
	used := used(whole)
	return func(yield func(string, []byte) bool) {
		more := true
		try := func(b []byte, format string, args ...any) bool {
			if !bytes.Equal(b, whole) {
				more = yield(fmt.Sprintf(format, args...), b)
			}
			return more
		}
		// sample calls f with the numbers from..to, or with some of them.
		sample := func(from, to, some int, f func(i int)) {
			if all || to-from <= some {
				for i := from; i < to && more; i++ {
					f(i)
				}
				return
			}
			for n := 0; n < some && more; n++ {
				f(from + rng.IntN(to-from))
			}
		}
		flip := func(i int) {
			b := bytes.Clone(whole)
			b[i/8] ^= 1 << (i % 8)
			try(b, "byte %d bit %d flipped", i/8, i%8)
		}
		for i := 0; i < header && !all && more; i++ {
			flip(8*i + rng.IntN(8))
		}
		sample(0, 8*used, someBits, flip)
		cut := func(n int) { try(bytes.Clone(whole[:n]), "cut to %d of %d bytes", n, len(whole)) }
		sample(0, used, someLengths, cut)
		for n := max(0, len(whole)-4); n < len(whole) && more; n++ {
			cut(n)
		}
		for _, n := range []int{1, sector} {
			if more {
				try(append(bytes.Clone(whole), make([]byte, n)...), "%d zeros behind it", n)
			}
		}
		sectors := (used + sector - 1) / sector
		part := func(b []byte, i int) []byte { return b[i*sector : min((i+1)*sector, len(b))] }
		sample(0, sectors, someSectors, func(i int) {
			b := bytes.Clone(whole)
			clear(part(b, i))
			try(b, "%d bytes from %d are zero", sector, i*sector)
		})
		sample(0, sectors*sectors, somePairs, func(n int) {
			i, j := n/sectors, n%sectors
			if x, y := part(whole, i), part(whole, j); i < j && len(x) == len(y) {
				b := bytes.Clone(whole)
				copy(part(b, i), y)
				copy(part(b, j), x)
				try(b, "%d bytes from %d and from %d swapped", sector, i*sector, j*sector)
			}
		})
	}
}
