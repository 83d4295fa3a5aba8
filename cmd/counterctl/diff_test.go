package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// oddNode answers as a node whose every post is there, with the same values as on others and a digest of its own.
func oddNode(t *testing.T, sum int) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		for {
			var args []string
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
			for range n {
				line, _ = r.ReadString('\n')
				size, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
				body := make([]byte, size+2)
				if _, err := io.ReadFull(r, body); err != nil {
					return
				}
				args = append(args, string(body[:size]))
			}
			var lines []string
			switch {
			case args[0] == "SCHEMA":
				lines = []string{"add counter c"}
			case args[0] == "COUNTER.MGET":
				lines = []string{"5"}
			case len(args) == 1:
				lines = []string{fmt.Sprintf("counter=c items=9 digest=%016x", sum)}
			default:
				lo, _ := strconv.ParseUint(args[2], 10, 64)
				hi, _ := strconv.ParseUint(args[3], 10, 64)
				for width := max(1, (hi-lo+255)/256); lo < hi; lo += width {
					lines = append(lines, fmt.Sprintf("counter=c lo=%d hi=%d items=1 digest=%016x", lo, min(hi, lo+width), sum))
				}
			}
			answer := fmt.Appendf(nil, "*%d\r\n", len(lines))
			for _, line := range lines {
				answer = fmt.Appendf(answer, "$%d\r\n%s\r\n", len(line), line)
			}
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	}()
	return l.Addr().String()
}

// TestDiffEnds: nodes whose digests differ everywhere although their posts are the same are found out, not compared for
// ever.
func TestDiffEnds(t *testing.T) {
	out, text, status := ctl(t, "diff", oddNode(t, 1), "--with", oddNode(t, 2))
	if status != 1 || out != "" || !strings.Contains(text, "1000 posts in a row") {
		t.Errorf("status %d: %s%s", status, out, text)
	}
}

// TestDiffOfOneNode: a node compared with itself would always be equal.
func TestDiffOfOneNode(t *testing.T) {
	if out, text, status := ctl(t, "diff", "127.0.0.1:1", "--with", "127.0.0.1:1"); status != 2 || !strings.Contains(text, "want two nodes") {
		t.Errorf("status %d: %s%s", status, out, text)
	}
}
