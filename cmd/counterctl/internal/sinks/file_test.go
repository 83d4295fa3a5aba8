package sinks

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// place is the position behind change n.
func place(n int) string {
	p := counter.FeedPosition{Frame: uint64(n) * 10}
	p.Term[0] = 1
	return p.String()
}

// batch is the changes behind from up to to.
func batch(from, to int) *Batch {
	b := &Batch{After: place(from)}
	for n := from + 1; n <= to; n++ {
		b.Text = fmt.Appendf(b.Text, `{"position":"%s","time":1,"parts":[{"kind":"del","counter":"c","mid":"%d"}]}`+"\n", place(n), n)
		b.Changes = append(b.Changes, Change{place(n), len(b.Text)})
	}
	return b
}

// open opens a place by the text behind --to.
func open(t *testing.T, to string) (Sink, error) {
	t.Helper()
	p, err := Parse(to, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Open(t.Context())
}

// opened opens a place that must be there.
func opened(t *testing.T, to string) Sink {
	t.Helper()
	s, err := open(t, to)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t *testing.T, s Sink, b *Batch) {
	t.Helper()
	if err := s.Write(t.Context(), b); err != nil || s.Position() != b.Position() {
		t.Fatalf("at %s, want %s: %v", s.Position(), b.Position(), err)
	}
}

// textOf is the lines of a file, which zstd reads if it is compressed.
func textOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil && strings.HasSuffix(path, ".zst") {
		var d *zstd.Decoder
		if d, err = zstd.NewReader(nil); err == nil {
			defer d.Close()
			data, err = d.DecodeAll(data, nil)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestTornFiles cuts the last batch at many places, and puts zeros in its place, as a power failure does: the file goes on behind a whole
// batch or line, and has each change once.
func TestTornFiles(t *testing.T) {
	rng := seed.Rand(t)
	for _, name := range []string{"a.jsonl", "a.jsonl.zst"} {
		path := filepath.Join(t.TempDir(), name)
		s := opened(t, path)
		if s.Position() != "" {
			t.Fatalf("a new file is at %s", s.Position())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = opened(t, path)
		write(t, s, batch(0, 3))
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		whole := int(info.Size())
		write(t, s, batch(3, 6))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		const stride = 13 // each sync takes its time
		for cut := whole + rng.IntN(stride); cut < len(data); cut += stride {
			torn := bytes.Clone(data[:cut])
			if rng.IntN(2) == 0 { // the length is there and some bytes are not
				torn = bytes.Clone(data)
				clear(torn[cut:min(len(data), cut+1+rng.IntN(100))])
			}
			if bytes.Equal(torn, data) { // zeros stood there
				continue
			}
			if err := os.WriteFile(path, torn, 0o644); err != nil {
				t.Fatal(err)
			}
			s := opened(t, path)
			at := 3
			for at < 6 && s.Position() != place(at) {
				at++
			}
			if at == 6 || name != "a.jsonl" && at != 3 {
				t.Fatalf("%s, torn at %d of %d: it is at %s", name, cut, len(data), s.Position())
			}
			write(t, s, batch(at, 6))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if got, want := textOf(t, path), string(batch(0, 6).Text); got != want {
				t.Fatalf("%s, torn at %d: got %s", name, cut, got)
			}
		}
		for cut := rng.IntN(stride); cut < whole; cut += stride { // the first batch, and the head
			if err := os.WriteFile(path, data[:cut], 0o644); err != nil {
				t.Fatal(err)
			}
			s := opened(t, path)
			at := 0
			for at < 3 && s.Position() != "" && s.Position() != place(at) {
				at++
			}
			write(t, s, batch(at, 3))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if got, want := textOf(t, path), string(batch(0, 3).Text); got != want {
				t.Fatalf("%s, cut to %d: got %s", name, cut, got)
			}
		}
	}
}

// wholeBatch is a batch whose changes belong together.
func wholeBatch(from, to int) *Batch {
	b := &Batch{After: place(from), Whole: true}
	for n := from + 1; n <= to; n++ {
		end := LineMore
		if n == to {
			end = "}\n"
		}
		b.Text = fmt.Appendf(b.Text, `{"position":"%s","time":1,"parts":[{"kind":"del","counter":"c","mid":"%d"}]`+"%s", place(n), n, end)
		b.Changes = append(b.Changes, Change{place(n), len(b.Text)})
	}
	return b
}

// TestTornWholeBatch cuts a batch whose changes belong together at many places: the file goes on in front of it. It went on behind the last whole line.
func TestTornWholeBatch(t *testing.T) {
	rng := seed.Rand(t)
	for _, first := range []int{0, 3} { // changes in front of it
		path := filepath.Join(t.TempDir(), "a.jsonl")
		s, want := opened(t, path), ""
		if first > 0 {
			write(t, s, wholeBatch(0, first))
			want = place(first)
		}
		before := len(textOf(t, path))
		write(t, s, wholeBatch(first, 6))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		data := textOf(t, path)
		const stride = 13
		for cut := before + rng.IntN(stride); cut < len(data); cut += stride {
			if err := os.WriteFile(path, []byte(data[:cut]), 0o644); err != nil {
				t.Fatal(err)
			}
			s := opened(t, path)
			if s.Position() != want {
				t.Fatalf("torn at %d of %d: it is at %q, want %q", cut, len(data), s.Position(), want)
			}
			write(t, s, wholeBatch(first, 6))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if got := textOf(t, path); got != data {
				t.Fatalf("torn at %d: got %s", cut, got)
			}
		}
		if s := opened(t, path); s.Position() != place(6) {
			t.Errorf("the whole file is at %s", s.Position())
		} else if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLockedFile: a second process is refused, and changes nothing.
func TestLockedFile(t *testing.T) {
	for _, name := range []string{"a.jsonl", "a.jsonl.zst"} {
		path := filepath.Join(t.TempDir(), name)
		s := opened(t, path)
		write(t, s, batch(0, 3))
		if _, err := open(t, path); err == nil || !strings.Contains(err.Error(), "another process") {
			t.Errorf("%s: %v", name, err)
		}
		write(t, s, batch(3, 4))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		reopensAt(t, path, place(4))
	}
}

// reopensAt wants a file to be at a position when it is opened again.
func reopensAt(t *testing.T, path, want string) {
	t.Helper()
	s := opened(t, path)
	if got := s.Position(); got != want {
		t.Errorf("%s is at %s, want %s", path, got, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestForeignFiles: a file that is no feed stays as it is.
func TestForeignFiles(t *testing.T) {
	packed, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a line\n", 100)
	for name, text := range map[string]string{
		"a.jsonl": "a line\n", "b.jsonl": "no line", "c.jsonl": `{"position":""}` + "\n", "d.jsonl": `{"time":1}`, "e.jsonl": long,
		"a.jsonl.zst": "something", "b.jsonl.zst": long, "c.jsonl.zst": string(packed.EncodeAll([]byte(long), nil)), "d.jsonl.zst": string(packed.EncodeAll([]byte("a"), nil)),
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := open(t, path)
		if foreign := (*ForeignError)(nil); !errors.As(err, &foreign) {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%s: it is %q now: %v", name, got, err)
		}
	}
	if _, err := open(t, filepath.Join(t.TempDir(), "none", "a.jsonl")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestLargeBatch: a batch may be as large as the largest change, and is cut as a whole.
func TestLargeBatch(t *testing.T) {
	for _, name := range []string{"a.jsonl", "a.jsonl.zst"} {
		path := filepath.Join(t.TempDir(), name)
		s := opened(t, path)
		write(t, s, batch(0, 3))
		large := batch(3, 4)
		large.Text = fmt.Appendf(nil, `{"position":"%s","time":1,"parts":[%s{"kind":"flush"}]}`+"\n", place(4), strings.Repeat(`{"kind":"del","counter":"c","mid":"1"},`, 100_000))
		large.Changes[0].End = len(large.Text)
		write(t, s, large)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		reopensAt(t, path, place(4))
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, info.Size()-1); err != nil {
			t.Fatal(err)
		}
		reopensAt(t, path, place(3))
	}
}

// TestFileMadeShorter: a file that another process truncates, as rotations of logs do, gets no batch behind a gap.
func TestFileMadeShorter(t *testing.T) {
	name := filepath.Join(t.TempDir(), "changes.jsonl")
	s, err := openFile(name, lines{name})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := counter.FeedPosition{Frame: 500}
	text := []byte(lineStart + p.String() + "\"}\n")
	b := &Batch{Text: text, Changes: []Change{{Position: p.String(), End: len(text)}}}
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), b); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("a write behind the new end: %v", err)
	}
}
