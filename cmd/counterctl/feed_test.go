package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
)

// TestFeedRefused: a node refuses the position of the sink. No line says that the sink has everything.
func TestFeedRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r := wire.NewReader(conn, 4096)
				for v, err := r.ReadValue(); err == nil; v, err = r.ReadValue() {
					answer := "-ERR unknown command\r\n"
					if v.Array[0].Str == "COUNTER.FEED" {
						answer = "-POSHISTORY - the position is of another log\r\n"
					}
					if _, err := io.WriteString(conn, answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	p := counter.FeedPosition{Frame: 10}
	p.Term[0] = 1
	sink := filepath.Join(t.TempDir(), "changes.jsonl")
	if err := os.WriteFile(sink, fmt.Appendf(nil, `{"position":"%s","time":5,"parts":[{"kind":"flush"}]}`+"\n", p), 0o644); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := ctl(t, "feed", l.Addr().String(), "--to", sink)
	if status != 1 || strings.Contains(stderr, "it has everything") || !strings.Contains(stderr, "is of another log") || strings.Count(stderr, "0 changes") > 0 {
		t.Errorf("status %d, want 1 and the error alone: %s", status, stderr)
	}
}
