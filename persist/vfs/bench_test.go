package vfs

import (
	"fmt"
	"path/filepath"
	"testing"
)

// crashBase is a file system as a crash test of the storage code has it: 20 files of 8 KB and one being appended to.
func crashBase(b *testing.B) *Sim {
	s := NewSim()
	must(b, s.MkdirAll("log"))
	for i := range 20 {
		must(b, WriteFileAtomic(s, fmt.Sprintf("log/%03d", i), make([]byte, 8<<10)))
	}
	must(b, s.SyncDir("/"))
	return s
}

// BenchmarkCrashPoint is what the file system costs of one crash point: fork, 50 operations, power failure.
func BenchmarkCrashPoint(b *testing.B) {
	base := crashBase(b)
	record := make([]byte, 100)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s := base.Kill()
		s.CrashAt(50)
		f, err := s.Create("log/new")
		must(b, err)
		for off := int64(0); !s.Crashed(); off += 100 {
			_, _ = f.WriteAt(record, off)
			if off%500 == 0 {
				_ = f.Sync()
			}
		}
		s.Crash(uint64(i), 30)
	}
}

func BenchmarkKill(b *testing.B) {
	base := crashBase(b)
	b.ReportAllocs()
	for b.Loop() {
		base.Kill()
	}
}

// BenchmarkAppend is a group commit: a write of len bytes and a sync.
func BenchmarkAppend(b *testing.B) {
	for _, impl := range []string{"OS", "Sim"} {
		for _, n := range []int{100, 4096} {
			for _, prealloc := range []bool{false, true} {
				b.Run(fmt.Sprintf("impl=%s/len=%d/preallocated=%v", impl, n, prealloc), func(b *testing.B) {
					fsys, dir := OS(), b.TempDir()
					if impl == "Sim" {
						fsys, dir = NewSim(), "/"
					}
					f, err := fsys.Create(filepath.Join(dir, "f"))
					must(b, err)
					defer f.Close()
					if prealloc {
						must(b, f.Preallocate(64<<20))
						must(b, f.Sync())
					}
					record := make([]byte, n)
					b.SetBytes(int64(n))
					b.ReportAllocs()
					for off := int64(0); b.Loop(); off = (off + int64(n)) % (60 << 20) {
						_, err := f.WriteAt(record, off)
						must(b, err)
						must(b, f.Sync())
					}
				})
			}
		}
	}
}
