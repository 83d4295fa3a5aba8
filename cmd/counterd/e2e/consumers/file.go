package consumers

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// NewFile is a file of lines.
func NewFile(t testing.TB) *Sink {
	path := filepath.Join(t.TempDir(), "changes.jsonl")
	return &Sink{To: []string{"--to", path}, Read: fileLines(path)}
}

// fileLines returns the whole lines that were appended since the last call. A torn line at the end comes with a later call.
func fileLines(path string) func() ([]string, error) {
	at := int64(0)
	return func() ([]string, error) {
		f, err := os.Open(path)
		if os.IsNotExist(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		text, err := io.ReadAll(io.NewSectionReader(f, at, 1<<62))
		if err != nil {
			return nil, err
		}
		end := strings.LastIndexByte(string(text), '\n') + 1
		if at += int64(end); end == 0 {
			return nil, nil
		}
		return strings.Split(string(text[:end-1]), "\n"), nil
	}
}
