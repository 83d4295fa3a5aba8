// Scenario: cold files are damaged under a store.

package counter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/schema"
)

// coldDir makes a directory with posts of which the older ones are in a cold file, and two snapshots, and returns its
// path, the mids, and the name of the cold file.
func coldDir(t *testing.T, n int) (dir string, s *Store, mids []uint64, cold string) {
	t.Helper()
	dir = t.TempDir()
	s = openDir(t, dir, Options{Manual: true, BlockItems: n * 2 / 3}, seedScript+"alter column weibo repost top=3\nalter column weibo comment top=20\n")
	mids = fill(t, s, n, 3)
	if err := s.Admin().Demote("weibo", mids[0]); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "cold", "*.cold"))
	if len(files) != 1 {
		t.Fatalf("got files %v, want one", files)
	}
	return dir, s, mids, files[0]
}

// flip changes a byte of a file.
func flip(t testing.TB, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

var seedSuffixes = []string{"cntcm", "cntrn", "cntan"}

// partialModel is what a store with a damaged cold file has to answer: the truth, or an error where nothing tells it.
type partialModel struct {
	t     *testing.T
	s     *Store
	mids  []uint64
	truth map[uint64][3]uint64 // of the items that are there
	since map[uint64][3]bool   // columns set since the cold file was written
	whole map[uint64]bool      // needs the file no more: deleted or all set since
	r     *rand.Rand
}

func (m *partialModel) key(mid uint64, c int) string {
	return fmt.Sprintf("%d.%s", mid, seedSuffixes[c])
}

// change sets, adds or deletes at random. What needs a value that cannot be read must answer ErrCold and change
// nothing.
func (m *partialModel) change(mid uint64) {
	m.t.Helper()
	c := m.r.IntN(3)
	row, there := m.truth[mid]
	known := m.whole[mid] || m.since[mid][c]
	put := func(v uint64) {
		row[c] = v
		m.truth[mid] = row
		since := m.since[mid]
		since[c] = true
		m.since[mid] = since
		m.whole[mid] = m.whole[mid] || since == [3]bool{true, true, true}
	}
	switch m.r.IntN(6) {
	case 0:
		if _, err := m.s.do(m.key(mid, 0), Op{Kind: OpDelete}); err != nil {
			m.t.Fatalf("deleting %d: %v", mid, err)
		}
		delete(m.truth, mid)
		delete(m.since, mid)
		m.whole[mid] = true
	case 1, 2:
		v := m.r.Uint64N(1 << m.r.IntN(32))
		if err := m.s.Set(m.key(mid, c), v); err != nil {
			m.t.Fatalf("setting %d: %v", mid, err)
		}
		put(v)
	default:
		v, err := m.s.Incr(m.key(mid, c), 1)
		switch {
		case errors.Is(err, block.ErrCold) && !known:
		case err != nil:
			m.t.Fatalf("adding to %d.%s (known: %v, there: %v): %v", mid, seedSuffixes[c], known, there, err)
		case v != row[c]+1:
			m.t.Fatalf("adding to %d.%s: got %d, want %d", mid, seedSuffixes[c], v, row[c]+1)
		default:
			put(v)
		}
	}
}

// check compares all mids with the truth and returns how many values could not be read.
func (m *partialModel) check(when string) (errs int) {
	m.t.Helper()
	for _, mid := range m.mids {
		row, there := m.truth[mid]
		for c := range 3 {
			v, found, err := m.s.Get(m.key(mid, c))
			switch {
			case errors.Is(err, block.ErrCold) && !m.whole[mid] && !m.since[mid][c]:
				errs++
			case err != nil:
				m.t.Fatalf("%s: %d.%s: %v, which was set since", when, mid, seedSuffixes[c], err)
			case found != there || v != row[c]:
				m.t.Fatalf("%s: %d.%s: got %d, %v, want %d, %v", when, mid, seedSuffixes[c], v, found, row[c], there)
			}
		}
	}
	m.list(when)
	checkTops(m.t, m.s)
	return errs
}

// list scans: each item is listed once, or in a range that the scan says it cannot list.
func (m *partialModel) list(when string) {
	m.t.Helper()
	b := m.s.NewBatch()
	if err := b.Begin(); err != nil {
		m.t.Fatal(err)
	}
	defer b.End()
	listed := map[uint64]bool{}
	var lost []LostRange
	count := 1 + m.r.IntN(5000)
	for cursor, first, calls := uint64(0), true, 0; first || cursor != 0; first, calls = false, calls+1 {
		if calls > 200_000 {
			m.t.Fatalf("%s: the scan does not end", when)
		}
		var items []ScanItem
		var err error
		before := cursor
		items, cursor, err = NewReader(b).Scan(nil, before, count)
		var gone *LostError
		if errors.As(err, &gone) {
			if len(items) > 0 || gone.Resume&^toldCursor != before {
				m.t.Fatalf("%s: from %d: %d items and %v", when, before, len(items), err)
			}
			lost, cursor = append(lost, gone.Lost...), gone.Resume
		} else if err != nil {
			m.t.Fatal(err)
		}
		for _, it := range items {
			if listed[it.Mid] {
				m.t.Fatalf("%s: %d is listed twice", when, it.Mid)
			}
			listed[it.Mid] = true
		}
	}
	for _, mid := range m.mids {
		_, there := m.truth[mid]
		hidden := !m.whole[mid] && m.since[mid] == [3]bool{} && slices.ContainsFunc(lost, func(r LostRange) bool { return r.Lo <= mid && mid < r.Hi })
		if listed[mid] != there && !(there && hidden) {
			m.t.Fatalf("%s: %d is listed: %v, is there: %v (lost: %v)", when, mid, listed[mid], there, lost)
		}
	}
}

// kinds are the kinds of damage that a test tries: all of them, or the first alone in the short runs under the race
// detector, as nothing is concurrent in these tests.
func kinds(all ...string) []string {
	if testing.Short() {
		return all[:1]
	}
	return all
}

// TestPartialRows damages the cold file under a store, in one way after the other, with changes of its rows in the log
// behind the snapshot, and changes them further, live, behind restarts and snapshots: every answer is the truth or
// ErrCold, and the truth alone for what was set since. With the file whole again nothing is missing.
func TestPartialRows(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	for _, how := range kinds("page", "two pages", "missing", "empty", "header") {
		t.Run(how, func(t *testing.T) {
			t.Logf("-seed %d", *seed)
			posts, watched, share := 20_000, 6_000, 3 // every third of the first 6,000 is read, hundreds of each page
			if *long {
				posts, watched, share = 100_000, 20_000, 1
			}
			dir, s, mids, cold := coldDir(t, posts)
			for i := range watched / share {
				mids[i] = mids[i*share]
			}
			mids = mids[:watched/share]
			m := &partialModel{t: t, s: s, mids: mids, truth: map[uint64][3]uint64{}, since: map[uint64][3]bool{}, whole: map[uint64]bool{}, r: rand.New(rand.NewPCG(*seed, 1))}
			defer func() { m.s.Close() }()
			for _, mid := range m.mids {
				row := [3]uint64{}
				for c := range row {
					row[c], _, _ = s.Get(m.key(mid, c))
				}
				m.truth[mid] = row
			}
			change := func(n int) {
				for range n {
					m.change(m.mids[m.r.IntN(len(m.mids))])
				}
			}
			reopen := func() {
				t.Helper()
				if err := m.s.Close(); err != nil {
					t.Fatal(err)
				}
				var err error
				if m.s, err = Open(dir, Options{Manual: true}); err != nil {
					t.Fatalf("the store does not open: %v", err)
				}
			}
			change(500)
			whole, err := os.ReadFile(cold)
			if err != nil {
				t.Fatal(err)
			}
			switch how {
			case "page":
				flip(t, cold, 10_000)
			case "two pages":
				flip(t, cold, 10_000)
				flip(t, cold, 22_000)
			case "missing":
				err = os.Remove(cold)
			case "empty":
				err = os.WriteFile(cold, nil, 0o640)
			case "header":
				flip(t, cold, 20)
			}
			if err != nil {
				t.Fatal(err)
			}
			reopen()
			if m.check("opened") == 0 {
				t.Fatal("nothing is damaged")
			}
			change(3000)
			m.check("changed")
			reopen()
			m.check("opened again")
			if err := m.s.Snapshot(); err != nil {
				t.Fatal(err)
			}
			change(1000)
			reopen()
			m.check("behind a snapshot")
			if how == "page" { // more damage on top
				flip(t, cold, 30_000)
				reopen()
				m.check("with a second page")
			}
			for range 2 {
				if err := m.s.Snapshot(); err != nil {
					t.Fatal(err)
				}
			}
			reopen()
			if m.check("behind more snapshots") == 0 {
				t.Fatal("nothing is damaged any more")
			}
			if err := m.s.Admin().Promote("weibo", mids[0]); !errors.Is(err, block.ErrCold) && !strings.Contains(fmt.Sprint(err), "cold") {
				t.Errorf("promoting what cannot be read: got %v", err)
			}
			if err := m.s.Admin().Demote("weibo", mids[0]); err == nil {
				t.Error("merging what cannot be read: got no error")
			}
			if err := os.WriteFile(cold, whole, 0o640); err != nil {
				t.Fatal(err)
			}
			reopen()
			if n := m.check("with the file whole again"); n > 0 {
				t.Fatalf("%d values cannot be read", n)
			}
			if err := m.s.Admin().Demote("weibo", mids[0]); err != nil {
				t.Fatal(err)
			}
			m.check("merged")
			if err := m.s.Admin().Promote("weibo", mids[0]); err != nil {
				t.Fatal(err)
			}
			m.check("promoted")
			if n := m.s.data.Files.PartialBytes.Load(); n != 0 {
				t.Errorf("%d bytes of partial rows are left", n)
			}
		})
	}
}

// TestPartialDroppedColumns sets more columns of a partial row than a counter may have, each dropped before the next is
// made: what was dropped is not kept, and the snapshot can be read.
func TestPartialDroppedColumns(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	dir, s, mids, cold := coldDir(t, 24_000)
	flip(t, cold, 10_000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, dir, Options{Manual: true}, "")
	mid := uint64(0)
	for _, m := range mids {
		if _, _, err := s.Get(fmt.Sprintf("%d.cntcm", m)); err != nil {
			mid = m
			break
		}
	}
	if mid == 0 {
		t.Fatal("no page is damaged")
	}
	for i := range schema.MaxColumns + 10 {
		if err := s.AlterScript(fmt.Sprintf("add column weibo n%d hint=8 max=32", i)); err != nil {
			t.Fatal(err)
		}
		if err := s.Set(fmt.Sprintf("%d.n%d", mid, i), uint64(i)); err != nil {
			t.Fatal(err)
		}
		if err := s.AlterScript(fmt.Sprintf("drop column weibo n%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Set(fmt.Sprintf("%d.cntcm", mid), 77); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, dir, Options{Manual: true}, "")
	if v, _, err := s.Get(fmt.Sprintf("%d.cntcm", mid)); v != 77 || err != nil {
		t.Fatalf("got %d, %v", v, err)
	}
}

// TestPartialImage: the bytes of partial rows must not change, and any bytes are safe to read.
func TestPartialImage(t *testing.T) {
	b := &block.Block{Lo: 10, Hi: 1000, Cold: &block.ColdRange{Partial: map[uint64]block.PartialRow{
		999: {{Column: 1, Value: 1 << 40}}, 10: {{Column: 2, Value: 7}, {Column: 300, Value: 0}}, 70: {},
	}}}
	const golden = "0000000000000000" + "0300000000000000" +
		"0a00000000000000" + "02" + "0200" + "0700000000000000" + "2c01" + "0000000000000000" +
		"4600000000000000" + "00" +
		"e703000000000000" + "01" + "0100" + "0000000000010000"
	image := b.AppendPartial(nil)
	if got := fmt.Sprintf("%x", image); got != golden {
		t.Fatalf("got  %s\nwant %s", got, golden)
	}
	overlay, rows, err := block.DecodePartial(image, b.Lo, b.Hi)
	if err != nil || len(overlay) != 0 || !reflect.DeepEqual(rows, b.Cold.Partial) {
		t.Fatalf("got %v, %v, %v", overlay, rows, err)
	}
	for n := range image {
		if _, _, err := block.DecodePartial(image[:n], b.Lo, b.Hi); !errors.Is(err, hot.ErrBadImage) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		for bit := range 8 {
			damaged := slices.Clone(image)
			damaged[n] ^= 1 << bit
			_, _, err := block.DecodePartial(damaged, b.Lo, b.Hi)
			if err != nil && !errors.Is(err, hot.ErrBadImage) {
				t.Fatalf("byte %d bit %d: %v", n, bit, err)
			}
		}
	}
	if _, _, err := block.DecodePartial(image, 11, b.Hi); err == nil {
		t.Error("a row below the block's range was taken")
	}
}

// TestPartialRowsReplica: a replica whose cold file goes bad while it runs takes its primary's frames, serves what they
// say, and starts again.
func TestPartialRowsReplica(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	primary := openDir(t, t.TempDir(), Options{Manual: true}, seedScript)
	defer primary.Close()
	mids := fill(t, primary, 100_000, 3)
	dir := t.TempDir()
	replica, err := Open(dir, Options{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { replica.Close() }()
	if _, err := replica.repl.Follow(primary.repl.Lineage()); err != nil {
		t.Fatal(err)
	}
	follow := func() {
		t.Helper()
		if err := primary.data.Log.Sync(); err != nil {
			t.Fatal(err)
		}
		eachFrame(t, primary, replica.data.Log.Position(), func(raw []byte) {
			if _, err := replica.repl.Replicate(raw); err != nil {
				t.Fatalf("the replica does not take a frame: %v", err)
			}
		})
	}
	follow()
	if err := replica.Admin().Demote("weibo", mids[0]); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := replica.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "cold", "*.cold"))
	flip(t, files[0], 10_000)
	check := func(when string) (lost int) {
		t.Helper()
		for i := 0; i < 20_000; i += 10 {
			key := fmt.Sprintf("%d.cntrn", mids[i])
			want, there, err := primary.Get(key)
			if err != nil {
				t.Fatal(err)
			}
			got, found, err := replica.Get(key)
			switch {
			case errors.Is(err, block.ErrCold) && i%20 != 0:
				lost++
			case err != nil || got != want || found != there:
				t.Fatalf("%s: %s: got %d, %v, %v, want %d, %v", when, key, got, found, err, want, there)
			}
		}
		return lost
	}
	for i := 0; i < 20_000; i += 20 {
		if i%60 == 0 {
			_, err = primary.do(fmt.Sprintf("%d.cntrn", mids[i]), Op{Kind: OpDelete})
		} else {
			_, err = primary.Incr(fmt.Sprintf("%d.cntrn", mids[i]), 5)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	follow()
	if check("applied") == 0 {
		t.Fatal("nothing is damaged")
	}
	for range 2 {
		if err := replica.Close(); err != nil {
			t.Fatal(err)
		}
		if replica, err = Open(dir, Options{Manual: true}); err != nil {
			t.Fatalf("the replica does not start again: %v", err)
		}
		check("opened again")
		if err := replica.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := replica.repl.Lead(); err != nil {
		t.Fatal(err)
	}
	check("as primary")
}
