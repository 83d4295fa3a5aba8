package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// outcomes counts what check says of the file system after many power failures of one state.
func outcomes(s *Sim, keep int, check func(*Sim) string) map[string]int {
	seen := map[string]int{}
	for seed := range uint64(300) {
		seen[check(s.Crash(seed, keep))]++
	}
	return seen
}

// contentOr returns the content of a file, or "gone".
func contentOr(s *Sim, name string) string {
	got, err := get(s, name)
	if err != nil {
		return "gone"
	}
	return got
}

// wantOutcomes checks that exactly the given outcomes occur.
func wantOutcomes(t *testing.T, seen map[string]int, want ...string) {
	t.Helper()
	var got []string
	for o := range seen {
		got = append(got, o)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("outcomes %.200q, want %.200q", got, want)
	}
}

func sectorsOf(letters string) string {
	var b strings.Builder
	for _, l := range letters {
		b.WriteString(strings.Repeat(string(l), sectorSize))
	}
	return b.String()
}

// lettersOf is the inverse of sectorsOf; a sector of zeros is '.', a short last one counts too, a mixed one is '?'.
func lettersOf(content string) string {
	var b strings.Builder
	for part := range slices.Chunk([]byte(content), sectorSize) {
		switch {
		case len(bytes.Trim(part, string(part[0]))) > 0:
			b.WriteByte('?')
		case part[0] == 0:
			b.WriteByte('.')
		default:
			b.WriteByte(part[0])
		}
	}
	return b.String()
}

// durableFile makes the file f with the given sectors, all of it durable.
func durableFile(t *testing.T, letters string) (*Sim, File) {
	t.Helper()
	s := NewSim()
	f, err := s.Create("f")
	must(t, err)
	_, err = f.WriteAt([]byte(sectorsOf(letters)), 0)
	must(t, err)
	must(t, f.Sync())
	must(t, s.SyncDir("."))
	return s, f
}

func letters(s *Sim) string { return lettersOf(contentOr(s, "f")) }

func writeSectors(t *testing.T, f File, at int, text string) {
	t.Helper()
	_, err := f.WriteAt([]byte(sectorsOf(text)), int64(at)*sectorSize)
	must(t, err)
}

func TestCrashOverwrite(t *testing.T) {
	s, f := durableFile(t, "AB")
	writeSectors(t, f, 0, "ab")
	wantOutcomes(t, outcomes(s, 0, letters), "AB")
	wantOutcomes(t, outcomes(s, 30, letters), "AB", "aB", "Ab", "ab") // in any order, each sector for itself
	wantOutcomes(t, outcomes(s, 100, letters), "ab")
	wantOutcomes(t, map[string]int{letters(s.Kill()): 1}, "ab")
	must(t, f.Sync())
	wantOutcomes(t, outcomes(s, 0, letters), "ab")
}

// TestCrashKeepIsAChance: keep is the percentage of sectors that survive.
func TestCrashKeepIsAChance(t *testing.T) {
	s, f := durableFile(t, strings.Repeat("A", 100))
	writeSectors(t, f, 0, strings.Repeat("b", 100))
	for _, keep := range []int{30, 70} {
		kept := 0
		for seed := range uint64(100) {
			kept += strings.Count(letters(s.Crash(seed, keep)), "b")
		}
		if kept < keep*95 || kept > keep*105 { // 10,000 draws: 5 percent is over 3 standard deviations; the seeds are fixed
			t.Errorf("keep %d: %d of 10000 sectors survived", keep, kept)
		}
	}
}

// TestCrashOlderVersion: the kernel may have written a sector before its last change.
func TestCrashOlderVersion(t *testing.T) {
	s, f := durableFile(t, "A")
	writeSectors(t, f, 0, "b")
	writeSectors(t, f, 0, "c")
	wantOutcomes(t, outcomes(s, 50, letters), "A", "b", "c")
	wantOutcomes(t, outcomes(s, 100, letters), "c")
	wantOutcomes(t, outcomes(s.Kill(), 50, letters), "A", "b", "c")
}

// TestCrashAppend: the size may survive without the bytes and the bytes without the size.
func TestCrashAppend(t *testing.T) {
	s, f := durableFile(t, "A")
	writeSectors(t, f, 1, "bc")
	wantOutcomes(t, outcomes(s, 0, letters), "A")
	wantOutcomes(t, outcomes(s, 50, letters), "A", "A..", "Ab.", "A.c", "Abc")
	wantOutcomes(t, outcomes(s, 100, letters), "Abc")
	must(t, f.Sync())
	wantOutcomes(t, outcomes(s, 0, letters), "Abc")
}

func TestCrashPreallocate(t *testing.T) {
	s, f := durableFile(t, "A")
	must(t, f.Preallocate(3*sectorSize))
	wantOutcomes(t, outcomes(s, 50, letters), "A", "A..")
	must(t, f.Sync())
	writeSectors(t, f, 1, "b")
	wantOutcomes(t, outcomes(s, 50, letters), "A..", "Ab.")
}

// TestCrashTruncate: a truncate is there or not, as a whole; what it cut comes back only without it.
func TestCrashTruncate(t *testing.T) {
	s, f := durableFile(t, "ABCD")
	must(t, f.Truncate(sectorSize))
	wantOutcomes(t, outcomes(s, 0, letters), "ABCD")
	wantOutcomes(t, outcomes(s, 50, letters), "ABCD", "A")
	wantOutcomes(t, outcomes(s, 100, letters), "A")
	must(t, f.Truncate(3*sectorSize))
	wantOutcomes(t, outcomes(s, 50, letters), "ABCD", "A", "A..")
	writeSectors(t, f, 2, "x")
	wantOutcomes(t, outcomes(s, 50, letters), "ABCD", "A", "A..", "A.x", "ABxD")
	must(t, f.Sync())
	wantOutcomes(t, outcomes(s, 0, letters), "A.x")
}

// TestCrashTruncateInsideSector: the rest of the last sector is zeros when the file grows again.
func TestCrashTruncateInsideSector(t *testing.T) {
	s, f := durableFile(t, "A")
	must(t, f.Truncate(10))
	must(t, f.Truncate(sectorSize))
	want := strings.Repeat("A", 10)
	wantOutcomes(t, outcomes(s, 50, func(s *Sim) string { return strings.TrimRight(contentOr(s, "f"), "\x00") }),
		sectorsOf("A"), want)
	must(t, f.Sync())
	wantContent(t, s.Crash(1, 0), "f", want+strings.Repeat("\x00", sectorSize-10))
}

func TestCrashNewFile(t *testing.T) {
	s := NewSim()
	put(t, s, "f", "content")
	content := func(s *Sim) string { return contentOr(s, "f") }
	zeros := strings.Repeat("\x00", 7)
	wantOutcomes(t, outcomes(s, 0, content), "gone")
	wantOutcomes(t, outcomes(s, 50, content), "gone", "", zeros, "content")
	wantOutcomes(t, outcomes(s, 100, content), "content")

	synced := s.Kill() // the content is durable, the name is not
	f, err := synced.OpenRW("f")
	must(t, err)
	must(t, f.Sync())
	wantOutcomes(t, outcomes(synced, 50, content), "gone", "content")

	must(t, s.SyncDir("/")) // the name is durable, the content is not
	wantOutcomes(t, outcomes(s, 50, content), "", zeros, "content")
}

// names shows a directory as "name=content ...".
func names(dir string) func(*Sim) string {
	return func(s *Sim) string {
		list, err := s.List(dir)
		if err != nil {
			return "gone"
		}
		for i, name := range list {
			list[i] += "=" + contentOr(s, dir+"/"+name)
		}
		return strings.Join(list, " ")
	}
}

func syncedFile(t *testing.T, s *Sim, name, content string) {
	t.Helper()
	put(t, s, name, content)
	f, err := s.OpenRW(name)
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

func TestCrashRename(t *testing.T) {
	s := NewSim()
	syncedFile(t, s, "a", "1")
	syncedFile(t, s, "a.tmp", "2")
	must(t, s.SyncDir("/"))
	must(t, s.Rename("a.tmp", "a"))
	wantOutcomes(t, outcomes(s, 50, names("/")), "a=1 a.tmp=2", "a=2")

	// A second replacement on top: the first may be lost alone, and its file then goes with the name.
	syncedFile(t, s, "a.tmp", "3")
	must(t, s.Rename("a.tmp", "a"))
	wantOutcomes(t, outcomes(s, 50, names("/")), "a=1 a.tmp=2", "a=2", "a=1 a.tmp=3", "a=2 a.tmp=3", "a=3", "a=3 a.tmp=2")
	wantOutcomes(t, outcomes(s, 100, names("/")), "a=3")
	must(t, s.SyncDir("/"))
	wantOutcomes(t, outcomes(s, 0, names("/")), "a=3")
}

// TestCrashRenameChain: a file has one name also when the first of two renames is lost.
func TestCrashRenameChain(t *testing.T) {
	s := NewSim()
	syncedFile(t, s, "a", "1")
	must(t, s.SyncDir("/"))
	must(t, s.Rename("a", "b"))
	must(t, s.Rename("b", "c"))
	wantOutcomes(t, outcomes(s, 50, names("/")), "a=1", "b=1", "c=1")
	wantOutcomes(t, outcomes(s.Kill(), 50, names("/")), "a=1", "b=1", "c=1")
	must(t, s.Remove("c"))
	wantOutcomes(t, outcomes(s, 50, names("/")), "a=1", "b=1", "c=1", "")
}

// TestCrashReordersEntries: the new file replaces the old one in the wrong order, and both are lost.
func TestCrashReordersEntries(t *testing.T) {
	s := NewSim()
	syncedFile(t, s, "old", "1")
	must(t, s.SyncDir("/"))
	syncedFile(t, s, "new", "2")
	must(t, s.Remove("old"))
	wantOutcomes(t, outcomes(s, 50, names("/")), "old=1", "new=2 old=1", "new=2", "")
}

// TestCrashDirectory: a directory is lost with all that is synced in it.
func TestCrashDirectory(t *testing.T) {
	s := NewSim()
	must(t, s.MkdirAll("d/e"))
	syncedFile(t, s, "d/e/f", "1")
	must(t, s.SyncDir("d/e"))
	must(t, s.SyncDir("d"))
	wantOutcomes(t, outcomes(s, 50, names("d/e")), "gone", "f=1")
	must(t, s.SyncDir(""+"/"))
	wantOutcomes(t, outcomes(s, 0, names("d/e")), "f=1")
	must(t, s.Remove("d/e/f"))
	must(t, s.Remove("d/e"))
	wantOutcomes(t, outcomes(s, 50, names("d/e")), "gone", "f=1", "")
}

// TestCrashNames: of the changes of a directory since its sync the removals are left and nothing else, and none behind a sync.
func TestCrashNames(t *testing.T) {
	s := NewSim()
	write := func(name, content string) {
		put(t, s, name, content)
		f, err := s.OpenRW(name)
		must(t, err)
		must(t, errors.Join(f.Sync(), f.Close()))
	}
	must(t, s.MkdirAll("d"))
	for _, name := range []string{"d/old", "d/gone", "d/other"} {
		write(name, name)
	}
	must(t, errors.Join(s.SyncDir("/"), s.SyncDir("d")))
	write("d/new", "new")
	must(t, errors.Join(s.Remove("d/gone"), s.Rename("d/old", "d/renamed"), s.Rename("d/new", "d/other"), s.MkdirAll("d/sub")))
	list := func(s *Sim) string {
		names, err := s.List("d")
		must(t, err)
		return strings.Join(names, " ") + ": " + contentOr(s, "d/other")
	}
	if got, want := list(s.CrashNames()), "old other: d/other"; got != want {
		t.Errorf("before the sync: got %q, want %q", got, want)
	}
	must(t, s.SyncDir("d"))
	if got, want := list(s.CrashNames()), "other renamed sub: new"; got != want {
		t.Errorf("behind the sync: got %q, want %q", got, want)
	}
}

// TestFailedSync: the bytes of a failed sync are lost though they can be read and the next sync returns nil.
func TestFailedSync(t *testing.T) {
	s, f := durableFile(t, "AB")
	writeSectors(t, f, 1, "bc")
	f.(*simHandle).failSync()
	must(t, f.Sync())
	wantOutcomes(t, outcomes(s, 100, letters), "AB")
	wantOutcomes(t, outcomes(s.Kill(), 50, letters), "AB")
	if got := letters(s); got != "Abc" {
		t.Errorf("a process reads %s, want Abc", got)
	}

	writeSectors(t, f, 3, "d") // appending after it leaves a hole
	must(t, f.Sync())
	wantOutcomes(t, outcomes(s, 0, letters), "AB.d")

	writeSectors(t, f, 2, "c") // only writing it again makes it durable
	must(t, f.Sync())
	wantOutcomes(t, outcomes(s, 0, letters), "ABcd")

	s, f = durableFile(t, "")
	writeSectors(t, f, 0, "a")
	f.(*simHandle).failSync()
	writeSectors(t, f, 0, "a") // the same bytes again, which need the lost size
	must(t, f.Sync())
	wantOutcomes(t, outcomes(s, 0, letters), "a")
}

// TestCrashAt crashes one history at each of its operations and looks at what was done.
func TestCrashAt(t *testing.T) {
	history := func(s *Sim) error {
		if err := s.MkdirAll("d/e"); err != nil { // op 0 and 1
			return err
		}
		f, err := s.Create("d/f") // op 2
		if err != nil {
			return err
		}
		_, err1 := f.WriteAt([]byte(sectorsOf("abcd")), 100) // op 3, 5 sectors
		err2 := f.Preallocate(5 * sectorSize)                // op 4
		err3 := f.Truncate(sectorSize)                       // op 5
		err4 := f.Sync()                                     // op 6
		err5 := f.Close()
		err6 := s.Rename("d/f", "d/g") // op 7
		err7 := s.SyncDir("d")         // op 8
		err8 := s.Remove("d/g")        // op 9
		_, err9 := s.List("d")
		return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9)
	}
	states := []string{ // before the operation of that number
		"/:", "/d:", "/d:e", "/d:e f0", "/d:e f2148", "/d:e f2560", "/d:e f512", "/d:e f512", "/d:e g512", "/d:e g512", "/d:e",
	}
	for n, want := range states {
		for _, percent := range []int{0, 40, 100} {
			s := NewSim()
			s.TornCrashAt(n, percent)
			err := history(s)
			if n == len(states)-1 {
				must(t, err)
				if s.Crashed() || s.Ops() != n {
					t.Fatalf("crashed %v after %d operations", s.Crashed(), s.Ops())
				}
			} else if wantErr(t, err, ErrCrashed); !s.Crashed() || s.Ops() != n+1 {
				t.Fatalf("crash at %d: crashed %v after %d operations", n, s.Crashed(), s.Ops())
			}
			if percent == 100 {
				want = states[min(n+1, len(states)-1)]
			} else if percent == 40 && n == 3 {
				want = "/d:e f1024" // 2 of 5 sectors
			}
			if got := treeOf(s.Kill()); got != want {
				t.Errorf("crash at %d, %d %% done: %q, want %q", n, percent, got, want)
			}
			if _, err := s.Stat("d"); s.Crashed() != errors.Is(err, ErrCrashed) {
				t.Errorf("stat after the crash: %v", err)
			}
			want = states[n]
		}
	}
}

// treeOf shows the directory d, or the root before it is there.
func treeOf(s *Sim) string {
	list, err := s.List("d")
	if err != nil {
		return "/:"
	}
	for i, name := range list {
		if info, err := s.Stat("d/" + name); err == nil && !info.IsDir() {
			list[i] = fmt.Sprint(name, info.Size())
		}
	}
	return "/d:" + strings.Join(list, " ")
}

// TestCrashReleases: locks and open files end with the process, in the copy only.
func TestCrashReleases(t *testing.T) {
	s := NewSim()
	l, err := s.Lock("LOCK")
	must(t, err)
	must(t, s.SyncDir("/"))
	for _, after := range []*Sim{s.Crash(1, 50), s.Kill()} {
		l, err := after.Lock("LOCK")
		must(t, err)
		must(t, l.Close())
	}
	_, err = s.Lock("LOCK")
	wantErr(t, err, ErrLocked)
	s.CrashAt(s.Ops())
	wantErr(t, s.MkdirAll("d"), ErrCrashed)
	wantErr(t, l.Close(), ErrCrashed)
}

// TestForksAreIndependent: contents are shared, changes are not.
func TestForksAreIndependent(t *testing.T) {
	s, f := durableFile(t, "ABC")
	writeSectors(t, f, 1, "x")
	forks := []*Sim{s.Kill(), s.Kill(), s.Crash(1, 100), s.Crash(1, 100)}
	for i, fork := range forks {
		g, err := fork.OpenRW("f")
		must(t, err)
		must(t, g.Truncate(2*sectorSize))
		writeSectors(t, g, 2+i, "z")
		must(t, g.Sync())
	}
	writeSectors(t, f, 0, "y")
	for i, fork := range forks {
		if got, want := letters(fork.Crash(1, 0)), "Ax"+strings.Repeat(".", i)+"z"; got != want {
			t.Errorf("fork %d has %s, want %s", i, got, want)
		}
	}
	if got := letters(s); got != "yxC" {
		t.Errorf("original has %s", got)
	}
}

func TestMisuseAndLeaks(t *testing.T) {
	s := NewSim()
	f, err := s.Create("f")
	must(t, err)
	r, err := s.Open("f")
	must(t, err)
	must(t, f.Truncate(4))
	data, unmap, err := r.Map(4)
	must(t, err)
	l, err := s.Lock("LOCK")
	must(t, err)
	if got := fmt.Sprint(s.Leaks()); got != "[file f file f lock LOCK map f]" {
		t.Errorf("leaks %s", got)
	}
	if m := s.Misuse(); len(m) > 0 {
		t.Errorf("misuse %v", m)
	}
	_, err = r.WriteAt([]byte("x"), 0)
	must(t, errors.Join(f.Close(), r.Close(), l.Close(), unmap()))
	wantErr(t, f.Sync(), fs.ErrClosed)
	wantErr(t, unmap(), fs.ErrClosed)
	if err == nil || data[0] != unmappedByte {
		t.Errorf("write error %v, byte after unmap %#x", err, data[0])
	}
	want := []string{"before op 3: write of f, opened for reading", "before op 3: sync of the closed file f",
		"before op 3: second close of the map f"}
	if got := s.Misuse(); !slices.Equal(got, want) {
		t.Errorf("misuse %q, want %q", got, want)
	}
	if leaks := s.Leaks(); len(leaks) > 0 {
		t.Errorf("leaks %v", leaks)
	}
}

// TestTrace holds the texts that explain a failing crash point.
func TestTrace(t *testing.T) {
	s, f := durableFile(t, "A")
	writeSectors(t, f, 0, "bc")
	must(t, f.Truncate(10))
	must(t, f.Preallocate(4096))
	f.(*simHandle).failSync()
	writeSectors(t, f, 0, "d")
	must(t, s.Rename("f", "g"))
	put(t, s, "h", "")
	must(t, s.Remove("h"))
	s.TornCrashAt(s.Ops(), 50)
	_, _ = f.WriteAt(make([]byte, 1024), 512)
	var b strings.Builder
	s.WriteTrace(&b)
	s.ExplainCrash(&b, 7, 50)
	want := `op 0: create f
op 1: write f [0,512)
op 2: sync f
op 3: syncdir .
op 4: write f [0,1024)
op 5: truncate f to 10
op 6: preallocate f to 4096
note: sync f failed, 2 sectors lost
op 7: write f [0,512)
op 8: rename f to g
op 9: create h
op 10: remove h
op 11: write f [512,1536) -- crash, 50 % done
crash seed 7 keep 50 after 12 operations:
	/: rename of f to g kept
	/: new entry h lost
	/: removal of h lost
	/g: size 4096 of durable 512, then [4096]
	/g: sector 0: version 1 of 1
	/g: sector 1: version 0 of 1
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestTraceIsBounded: a long run keeps the last operations.
func TestTraceIsBounded(t *testing.T) {
	s := NewSim()
	for range 2*maxTrace + 5 {
		must(t, s.SyncDir("/"))
	}
	var b strings.Builder
	s.WriteTrace(&b)
	lines := strings.Split(b.String(), "\n")
	if len(lines) != maxTrace+7 || lines[0] != "(10000 earlier lines dropped)" || lines[1] != "op 10000: syncdir /" {
		t.Errorf("%d lines, %q", len(lines), lines[:2])
	}
}
