package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRecordAndPage(t *testing.T) {
	dir := t.TempDir()
	measured, page := filepath.Join(dir, "measurements.json"), filepath.Join(dir, "page.html")
	for _, args := range [][]string{
		{"--section", "Very large", "--name", "disk", "--unit", "bytes a post", "--goal", "<= 2.2", "2.13", "2.15"},
		{"--section", "Very large", "--name", "disk", "--unit", "bytes a post", "--of", "redis 7.0.15", "90"},
	} {
		if status, out, errs := tool(t, append([]string{"record", measured}, args...)...); status != 0 || out+errs != "" {
			t.Fatalf("record: status %d\n%s%s", status, out, errs)
		}
	}
	if status, _, errs := tool(t, "page", measured, "--html", page, "--title", "all of it"); status != 0 {
		t.Fatalf("page: status %d\n%s", status, errs)
	}
	content, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(content), "<h1>all of it</h1>") || !strings.Contains(string(content), "2.14 bytes a post") {
		t.Errorf("the page: %v\n%s", err, content)
	}
	if status, out, errs := tool(t, "markdown", measured); status != 0 || !strings.Contains(out, "| disk | 2.14 bytes a post ±0 % | 90.0 bytes a post | at most 2.20 bytes a post |") {
		t.Errorf("markdown: status %d\n%s%s", status, out, errs)
	}
	for _, args := range [][]string{{"page"}, {"record", measured}, {"record", measured, "1"}, {"record", measured, "x", "--section", "a", "--name", "b"},
		{"record", measured, "--section", "a", "--name", "b", "--goal", "2", "1"}} {
		if status, _, errs := tool(t, args...); status != 2 {
			t.Errorf("%q: status %d, want 2\n%s", args, status, errs)
		}
	}
	if status, _, errs := tool(t, "page", filepath.Join(dir, "none")); status != 1 || !strings.Contains(errs, "no such file") {
		t.Errorf("no file: status %d: %s", status, errs)
	}
}
