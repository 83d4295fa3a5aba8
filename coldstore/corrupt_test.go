// Scenario: bytes of a file are damaged

package coldstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/counterd/counterd/coldstore/page"
	"github.com/counterd/counterd/internal/testkit/damagetest"
	"github.com/counterd/counterd/internal/testkit/filetest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// memFS serves one file from memory: the corruption tests open tens of thousands.
type memFS struct {
	vfs.FS
	b []byte
}

func (m *memFS) Open(string) (vfs.File, error) { return &memFile{b: m.b}, nil }

type memFile struct {
	vfs.File
	b []byte
}

func (m *memFile) Name() string         { return "mem" }
func (m *memFile) Size() (int64, error) { return int64(len(m.b)), nil }
func (m *memFile) Close() error         { return nil }
func (m *memFile) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(m.b).ReadAt(p, off)
}
func (m *memFile) Map(size int64) ([]byte, func() error, error) {
	return m.b[:size:size], func() error { return nil }, nil
}

// sample is a small file with several pages, all kinds of parts and a last page of its own length.
func sample(t testing.TB) (*rows, []byte) { return sampleOf(t, versionAll) }

func sampleOf(t testing.TB, v int) (*rows, []byte) {
	rnd := rand.New(rand.NewPCG(5, 6))
	r := posts(rnd, 2500, 4000)
	r.meta.Lo, r.meta.Hi = r.mids[0]-100, r.mids[0]+1<<40
	name := filepath.Join(t.TempDir(), "block.cold")
	for i := range 300 { // wide values, equal gaps
		r.mids = append(r.mids, r.mids[len(r.mids)-1]+1000+uint64(i&1))
		r.vals = append(r.vals, []uint64{rnd.Uint64() >> 32, 0, uint64(i)})
	}
	if v > versionAll {
		r.ofGroup(201)
	}
	r.write(t, vfs.OS(), name)
	return r, readFile(t, name)
}

// TestFlips flips every bit of a file: Open refuses it with a CorruptError, or some pages do and the rest is exact.
func TestFlips(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	r, good := sample(t)
	served := 0
	flip := func(bit int) {
		b := bytes.Clone(good)
		b[bit>>3] ^= 1 << (bit & 7)
		served += r.checkDamaged(t, b, bit>>3)
	}
	bits := len(good) * 8
	head, tail := headerSize(3)*8, footerSize*8+64*8
	for bit := 0; bit < head; bit++ {
		flip(bit)
	}
	for bit := bits - tail; bit < bits; bit++ {
		flip(bit)
	}
	rnd := newRand(t)
	for range 1000 {
		flip(rnd.IntN(bits))
	}
	if served == 0 {
		t.Error("damage to one page took all rows")
	}
}

// checkDamaged opens b, damaged at byte at (-1: anywhere), and checks that every row is exact or an ErrCorrupt, and
// that something was found. It returns how many rows of a damaged file were served.
func (r *rows) checkDamaged(t *testing.T, b []byte, at int) (served int) {
	t.Helper()
	f, err := Open(&memFS{b: b}, "mem", nil)
	if err != nil {
		r.wantCorrupt(t, err, at)
		return 0
	}
	defer f.Close()
	err = f.Verify(nil)
	if err == nil {
		t.Fatalf("damage at byte %d not detected", at)
	}
	r.wantCorrupt(t, err, at)
	r.wantCorrupt(t, f.VerifySums(nil), at)
	var dst [3]uint64
	bad := 0
	for i := 0; i < len(r.mids); i += 97 {
		found, err := f.Get(r.mids[i], nil, dst[:])
		switch {
		case err != nil:
			r.wantCorrupt(t, err, at)
			if lo, hi := f.PageRange(r.mids[i]); r.mids[i] < lo || r.mids[i] >= hi {
				t.Fatalf("PageRange(%d) = [%d, %d)", r.mids[i], lo, hi)
			}
			bad++
		case !found || !equal(dst[:], r.vals[i]):
			t.Fatalf("damage at byte %d: Get(%d) = %v, %v, want %v", at, r.mids[i], dst, found, r.vals[i])
		default:
			served++
		}
	}
	err = f.Iterate(0, func(mid uint64, vals []uint64) bool { return true })
	r.wantCorrupt(t, err, at)
	return served
}

func (r *rows) wantCorrupt(t *testing.T, err error, at int) {
	t.Helper()
	var ce *CorruptError
	if !errors.Is(err, ErrCorrupt) || !errors.As(err, &ce) || ce.File != "mem" || ce.Part == "" {
		t.Fatalf("damage at byte %d: error %v, want a CorruptError of this file", at, err)
	}
}

// TestDamageVariants damages a file in every way of package damagetest: Open refuses it with a CorruptError, or some pages do
// and the rest is exact.
func TestDamageVariants(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	r, good := sample(t)
	for _, b := range damagetest.Variants(t, good, headerSize(3)) {
		r.checkDamaged(t, b, -1)
	}
}

// TestTruncated opens every tenth prefix of a file, and the file with bytes appended.
func TestTruncated(t *testing.T) {
	r, good := sample(t)
	for n := 0; n < len(good); n += 10 {
		if _, err := Open(&memFS{b: good[:n]}, "mem", nil); err == nil {
			t.Fatalf("opened %d of %d bytes", n, len(good))
		} else {
			r.wantCorrupt(t, err, n)
		}
	}
	if _, err := Open(&memFS{b: append(bytes.Clone(good), make([]byte, 64)...)}, "mem", nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("opened a longer file: %v", err)
	}
}

// TestMisplaced swaps, duplicates and clears whole pages, and puts in those of another file: checksums of pages in
// the wrong place fail.
func TestMisplaced(t *testing.T) {
	r := posts(rand.New(rand.NewPCG(5, 6)), 12000, 4000)
	dir := t.TempDir()
	r.write(t, vfs.OS(), filepath.Join(dir, "a"))
	r.meta.Offset++
	r.write(t, vfs.OS(), filepath.Join(dir, "b"))
	a, b := readFile(t, filepath.Join(dir, "a")), readFile(t, filepath.Join(dir, "b"))
	if len(a) < 5*4096 || len(a) != len(b) {
		t.Fatal("too small")
	}
	page := func(f []byte, i int) []byte { return f[i*4096 : (i+1)*4096] }
	for i, damage := range []func(f []byte){
		func(f []byte) { copy(page(f, 1), page(a, 2)); copy(page(f, 2), page(a, 1)) },
		func(f []byte) { copy(page(f, 2), page(a, 1)) },
		func(f []byte) { copy(page(f, 3), page(b, 3)) },
		func(f []byte) { clear(page(f, 3)) },
		func(f []byte) { copy(f[2*4096:], f[2*4096+512:3*4096]) },
		func(f []byte) { copy(f[len(f)-footerSize:], b[len(b)-footerSize:]) },
		func(f []byte) { copy(f, b[:headerSize(3)]) },
	} {
		f := bytes.Clone(a)
		damage(f)
		if bytes.Equal(f, a) {
			t.Fatalf("damage %d does nothing", i)
		}
		r.checkDamaged(t, f, -1)
	}
}

// FuzzPage gives the page decoders arbitrary bytes: no panic, no read outside of the page, and whatever a page
// yields, point reads and the cursor agree to be inside its row count.
func FuzzPage(f *testing.F) {
	_, good := sample(f)
	f.Add(good[4096:len(good)-footerSize-16], byte(3), uint64(3655529446300818))
	f.Add(good[headerSize(3):4096], byte(3), uint64(0))
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 10 {
		r := &rows{meta: metaOf(64, 7)}
		r.addRandom(rnd, 300)
		e := page.Encoder{Cols: 2}
		var p page.Plan
		cols := make([][]uint64, 2)
		for _, v := range r.vals {
			cols[0], cols[1] = append(cols[0], v[0]), append(cols[1], v[1])
		}
		e.Plan(&p, r.mids, cols, len(r.mids))
		f.Add(e.AppendPage(nil, &p, r.mids, cols), byte(2), r.mids[len(r.mids)/2])
	}
	f.Fuzz(func(t *testing.T, page []byte, cols byte, mid uint64) { readPage(t, page, max(1, int(cols)), mid) })
}

// TestDamagedPages is what FuzzPage does, with pages that a few bytes were changed of.
func TestDamagedPages(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rnd := newRand(t)
	for range 100 {
		r := posts(rnd, 1+rnd.IntN(1900), 4000)
		if rnd.IntN(2) == 0 {
			r = &rows{meta: metaOf(32, 64, 7)}
			r.addRandom(rnd, 1+rnd.IntN(300))
		}
		e := page.Encoder{Cols: 3}
		var p page.Plan
		cols := make([][]uint64, 3)
		for _, v := range r.vals {
			for c := range cols {
				cols[c] = append(cols[c], v[c])
			}
		}
		e.Plan(&p, r.mids, cols, len(r.mids))
		good := e.AppendPage(nil, &p, r.mids, cols)
		for range 50 {
			page := slices.Clone(good)
			for range 1 + rnd.IntN(3) {
				at := rnd.IntN(len(page))
				if rnd.IntN(2) == 0 {
					at = rnd.IntN(min(40, len(page))) // the directory
				}
				page[at] = byte(rnd.Uint32())
			}
			readPage(t, page, 3, r.mids[rnd.IntN(len(r.mids))])
		}
	}
}

// readPage reads any bytes as a page in all ways.
func readPage(t *testing.T, raw []byte, n int, mid uint64) {
	dst := make([]uint64, 256)
	var c page.Cursor
	if len(raw) < page.TailLen || len(raw) > 1<<page.MaxShift {
		return
	}
	raw = append(make([]byte, 0, len(raw)), raw...) // a read behind it panics
	// A page that stays in the cache is read without and with a directory.
	var v page.View
	var d page.Dir
	points := v.Parse(raw, n) == ""
	if points {
		kept := d.Build(raw, n) == "" && d.State == page.DirReady
		for _, m := range []uint64{mid, v.Mids.First, mid / 2} {
			found, bad := v.Get(m, nil, dst)
			if !kept {
				continue
			}
			d.Touch(raw, m)
			if bad == "" {
				want := slices.Clone(dst[:n])
				if again, _ := d.Get(raw, m, nil, dst); again != found || found && !slices.Equal(want, dst[:n]) {
					t.Fatalf("get(%d) = %v %d, with directory %v %d", m, found, want, again, dst[:n])
				}
			}
		}
	}
	if c.Init(raw, n) != "" {
		return
	}
	for i := 0; ; i++ {
		m, ok, _ := c.Next(dst[:n])
		if !ok {
			break
		}
		if i >= page.MaxItems {
			t.Fatal("more rows than a raw may have")
		}
		if points && i%61 == 0 {
			v.Get(m, nil, dst)
		}
	}
}

// FuzzOpen opens arbitrary bytes: an error, or a file that can be read without a panic. Checksums are mended first,
// or nothing but the first check would be tried.
func FuzzOpen(f *testing.F) {
	_, good := sample(f)
	f.Add(good, true)
	f.Add(good[:200], false)
	small := &rows{meta: metaOf(8)}
	name := filepath.Join(f.TempDir(), "small")
	small.write(f, vfs.OS(), name)
	f.Add(readFile(f, name), true)
	dst := make([]uint64, MaxColumns)
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		if len(b) > 1<<17 {
			return
		}
		b = bytes.Clone(b)
		if mend {
			mendChecksums(b)
		}
		file, err := Open(&memFS{b: b}, "mem", nil)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnreadable) && !errors.Is(err, ErrUnsupportedFormat) {
				t.Fatalf("error %v", err)
			}
			return
		}
		defer file.Close()
		file.Verify(nil)
		file.Get(file.Stat().First, nil, dst)
		n := 0
		file.Iterate(0, func(mid uint64, vals []uint64) bool {
			if n++; n%17 == 0 {
				file.Get(mid, nil, dst)
			}
			return true
		})
		s := file.PageScan()
		defer s.Close()
		out := make([]uint64, 2*page.MaxItems)
		for i := range file.Pages() {
			if s.Load(i, 0) != nil {
				continue
			}
			for k := range 3 {
				col := min(k, len(file.Meta().Columns)-1)
				least, most := file.PageBounds(i, col)
				sel, err := s.Select(nil, s.Row(least), s.Len(), []page.Range{{Col: col, Lo: least + uint64(k), Hi: max(most, least+uint64(k))}})
				if k == 2 {
					sel = sel[:min(3, len(sel))]
				}
				if err == nil && s.Mids(out, 2, sel) == nil && len(sel) > 0 {
					s.Values(out[1:], 2, col, sel)
				}
			}
		}
	})
}

// mendChecksums makes the checksums of a damaged file right where its structure allows.
func mendChecksums(b []byte) {
	if len(b) < headerFixed+columnSize+footerSize {
		return
	}
	le := binary.LittleEndian
	cols, bad := headerColumns(b)
	if bad != nil || len(b) < headerSize(cols)+footerSize {
		return
	}
	head := b[:headerSize(cols)]
	crc := page.Checksum(head[:len(head)-4])
	le.PutUint32(head[len(head)-4:], crc)
	foot := b[len(b)-footerSize:]
	le.PutUint32(foot[12:], crc)
	pages, at := int64(le.Uint32(foot[8:])), int64(le.Uint64(foot[16:]))
	if at < 0 || at > int64(len(b)) || pages > int64(len(b))/8 || at+8*pages+footerSize > int64(len(b)) {
		return
	}
	index := b[at : at+8*pages]
	le.PutUint32(foot[48:], page.Checksum(b[at:len(b)-footerSize]))
	le.PutUint32(foot[52:], page.Checksum(foot[:52]))
	shift := int(b[12])
	if shift < page.MinShift || shift > page.MaxShift {
		return
	}
	for i := range int(pages) {
		lo, hi := int64(i)<<shift, min(int64(i+1)<<shift, at)
		if i == 0 {
			lo = int64(len(head))
		}
		if lo+int64(page.HeadLen+2*cols+9) > hi {
			return
		}
		raw := b[lo:hi]
		copy(raw[page.HeadLen+2*cols+1:], index[8*i:8*i+8])
		page.Seal(raw, page.Seed(crc, i))
	}
}

// TestOtherVersions: a whole file of another version is not damaged, one with a damaged version is.
func TestOtherVersions(t *testing.T) {
	_, whole := sample(t)
	open := func(b []byte) error {
		fs := vfs.NewSim()
		f, err := fs.Create("f")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = f.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		file, err := Open(fs, "f", nil)
		if err == nil {
			file.Close()
		}
		return err
	}
	if err := open(whole); err != nil {
		t.Fatal(err)
	}
	for _, v := range []byte{0, versionAll - 1, version + 1, 77} {
		b := bytes.Clone(whole)
		b[8] = v
		if err := open(b); !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnsupportedFormat) {
			t.Errorf("version %d in place of %d: %v", v, version, err)
		}
		mendChecksums(b)
		if err := open(b); !errors.Is(err, ErrUnsupportedFormat) || errors.Is(err, ErrCorrupt) {
			t.Errorf("a file of version %d: %v", v, err)
		}
	}
}

// TestGolden keeps the format: the bytes that are written, and what they mean.
func TestGolden(t *testing.T) {
	for v := versionAll; v <= version; v++ {
		r, now := sampleOf(t, v)
		name := filepath.Join("testdata", fmt.Sprintf("v%d.cold", v))
		if *filetest.Update {
			if err := os.WriteFile(name, now, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(now, readFile(t, name)) {
			t.Error("the writer's bytes changed: if that is meant, keep the old file under its name and add one (-update)")
		}
		goldenFile(t, r, name)
	}
}

// goldenFile checks that a file has the rows r.
func goldenFile(t *testing.T, r *rows, name string) {
	t.Helper()
	f, err := Open(vfs.OS(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r.check(t, newRand(t), f)
	if m := f.Meta(); m.Counter != r.meta.Counter || m.Lo != r.meta.Lo || m.Hi != r.meta.Hi || m.Offset != r.meta.Offset || len(m.Columns) != 3 || m.Columns[2] != r.meta.Columns[2] {
		t.Errorf("meta %+v, want %+v", m, r.meta)
	}
}
