package export

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/counterd/counterd/schema"
)

// sample is a counter of three columns, of which two are exported in another order.
func sample(t *testing.T) *Table {
	sch, err := schema.ParseScript(strings.NewReader("add counter other\nadd column weibo id hint=64 max=64 primarykey\nadd counter weibo\n"+
		"add column weibo like hint=8 max=32\nadd column weibo repost hint=8 max=32 default=7\nadd column weibo x hint=8 max=32\n"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	return &Table{Schema: sch, Counter: sch.Counter("weibo"), Columns: []int{1, 0}}
}

func TestEncoders(t *testing.T) {
	for format, want := range map[string]string{
		"tsv": "id\trepost\tlike\n5\t1\t2\n9223372036854775807\t9223372036854775807\t0\n",
		"csv": "id,repost,like\r\n5,1,2\r\n9223372036854775807,9223372036854775807,0\r\n",
		"sql": "/*!40101 SET SQL_MODE = CONCAT(@@SQL_MODE, ',ANSI_QUOTES') */;\n" +
			"CREATE TABLE IF NOT EXISTS \"weibo\" (\n  \"id\" BIGINT NOT NULL PRIMARY KEY,\n  \"repost\" BIGINT NOT NULL DEFAULT 7,\n  \"like\" BIGINT NOT NULL DEFAULT 0\n);\n" +
			"BEGIN;\nINSERT INTO \"weibo\" (\"id\", \"repost\", \"like\") VALUES\n(5,1,2),\n(9223372036854775807,9223372036854775807,0);\nCOMMIT;\n",
	} {
		e, err := New(format)
		if err != nil {
			t.Fatal(err)
		}
		got := e.Table(e.Start(nil), sample(t))
		got = e.Row(got, 5, []uint64{1, 2})
		got = e.Row(got, schema.MaxMid, []uint64{schema.MaxValue, 0})
		if got = e.Finish(e.End(got)); string(got) != want {
			t.Errorf("%s:\n%s\nwant\n%s", format, got, want)
		}
	}
	e, _ := New("resp")
	got := string(e.Row(e.Table(nil, sample(t)), 5, []uint64{1, 2}))
	if !strings.HasSuffix(got, "*6\r\n$4\r\nHSET\r\n$7\r\nweibo:5\r\n$6\r\nrepost\r\n$1\r\n1\r\n$4\r\nlike\r\n$1\r\n2\r\n") ||
		strings.Contains(got, "other") || strings.Count(got, "$3\r\nadd\r\n") != 5 {
		t.Errorf("resp: %q", got)
	}
	if _, err := New("xml"); err == nil {
		t.Error("xml is no format")
	}
}

// TestInserts: every batch of rows is a statement of its own, and an empty counter has none.
func TestInserts(t *testing.T) {
	for _, rows := range []int{0, 1, rowsPerInsert, rowsPerInsert + 1, 2 * rowsPerInsert} {
		e, _ := New("sql")
		text := e.Table(nil, sample(t))
		for i := range rows {
			text = e.Row(text, uint64(i), []uint64{1, 2})
		}
		text = e.End(text)
		inserts := (rows + rowsPerInsert - 1) / rowsPerInsert
		if n := bytes.Count(text, []byte("INSERT")); n != inserts || bytes.Count(text, []byte(";\n")) != inserts+3 || bytes.Contains(text, []byte("),\n;")) {
			t.Errorf("%d rows: %d INSERTs, want %d", rows, n, inserts)
		}
	}
}

func TestCheckSQL(t *testing.T) {
	table := sample(t)
	if err := CheckSQL(table); err != nil {
		t.Error(err)
	}
	table.Schema, _ = schema.ParseScript(strings.NewReader("add column weibo Like hint=8 max=32\n"), table.Schema)
	table.Counter = table.Schema.Counter("weibo")
	if table.Columns = []int{0, 1}; CheckSQL(table) != nil {
		t.Error("columns that are not exported count")
	}
	if table.Columns = []int{0, 3}; CheckSQL(table) == nil {
		t.Error("Like and like are one column for databases")
	}
}

func TestFormatOf(t *testing.T) {
	for name, want := range map[string]string{"a.tsv": "tsv", "a.csv.gz": "csv", "/x.sql/b.resp.zst": "resp", "a": "", "a.gz": "", "-": "", "c.bin": "", "a.sql": "sql"} {
		if got := FormatOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestSums(t *testing.T) {
	var s Sum
	for range 3 {
		s.Add(1<<64 - 1)
	}
	if s.String() != "55340232221128654845" {
		t.Error(s)
	}
	if back, err := ParseSum(s.String()); back != s || err != nil {
		t.Error(back, err)
	}
	for _, text := range []string{"", "-1", "x", "340282366920938463463374607431768211456"} {
		if _, err := ParseSum(text); err == nil {
			t.Errorf("%q is taken for a sum", text)
		}
	}
	a, b := NewTally(2), NewTally(2)
	a.Add([]uint64{1, 2})
	if a.Equal(b) {
		t.Error("a post and none are equal")
	}
	if b.Add([]uint64{2, 1}); a.Equal(b) {
		t.Error("other sums are equal")
	}
}

// TestFile: a file has its name when it is whole, in place of the old file, and nothing is left of a file that is given
// up.
func TestFile(t *testing.T) {
	text := bytes.Repeat([]byte("888888\t1\t0\n"), 100_000)
	for name, unpack := range map[string]func(io.Reader) (io.Reader, error){
		"a.tsv":     func(r io.Reader) (io.Reader, error) { return r, nil },
		"a.tsv.gz":  func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		"a.tsv.zst": func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) },
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, commit := range []bool{false, true} {
			f, err := Create(path)
			if err != nil {
				t.Fatal(err)
			}
			for part := range bytes.Lines(text) {
				if _, err := f.Write(part); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(path); string(got) != "old" || err != nil {
				t.Errorf("%s changed before its time: %d bytes, %v", name, len(got), err)
			}
			if commit {
				if err := f.Commit(); err != nil {
					t.Fatal(err)
				}
			}
			f.Abort()
		}
		packed, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer packed.Close()
		r, err := unpack(packed)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); !bytes.Equal(got, text) || err != nil {
			t.Errorf("%s holds %d bytes, want %d: %v", name, len(got), len(text), err)
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
			t.Errorf("%s: left over: %v", name, left)
		}
	}
	if _, err := Create(t.TempDir()); err == nil {
		t.Error("a directory was taken for a file")
	}
}
