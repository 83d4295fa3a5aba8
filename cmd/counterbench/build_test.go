package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/bench"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// TestBuild builds a directory of generated posts, which are those that run --built asks for.
func TestBuild(t *testing.T) {
	const n = 70_000
	dir := filepath.Join(t.TempDir(), "data")
	status, out, errs := tool(t, "build", "--out", dir, "--posts", "70000", "--seed", "5", "--hot", "100kb", "--file-posts", "4096", "--progress=false")
	if status != 0 || errs != "" || !strings.Contains(out, "70,000 posts in ") {
		t.Fatalf("status %d\n%s%s", status, out, errs)
	}
	s, err := counter.Open(dir, counter.Options{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	data, err := bench.NewDataset(n, 3, 5, true)
	if err != nil {
		t.Fatal(err)
	}
	i, row := 0, make([]uint64, 3)
	err = s.Find(counter.Query{Counter: s.Schema().Counters()[0], To: schema.MaxMid}, func(mid uint64, values []uint64) bool {
		if data.Fill(i, row); mid != data.Posts().MID(i) || [3]uint64(values) != [3]uint64(row) {
			t.Errorf("post %d: %d %v, want %d %v", i, mid, values, data.Posts().MID(i), row)
			return false
		}
		i++
		return true
	})
	if err != nil || i != n {
		t.Fatalf("%d posts, want %d: %v", i, n, err)
	}
	if status, _, errs := tool(t, "build", "--out", dir); status != 1 || !strings.Contains(errs, "exists") {
		t.Errorf("over a directory that is there: status %d: %s", status, errs)
	}
	for _, wrong := range []string{"--hot 1xb", "--posts 0", "--hot 9999999tb"} {
		if status, _, _ := tool(t, append([]string{"build", "--out", dir + "2"}, strings.Fields(wrong)...)...); status != 2 {
			t.Errorf("%s: status %d, want 2", wrong, status)
		}
	}
}
