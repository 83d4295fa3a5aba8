package source

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/transfer"
	"github.com/counterd/counterd/schema"
)

func testRules(t testing.TB) *mapping.Rules {
	t.Helper()
	s, err := schema.ParseScript(strings.NewReader("add counter c\nadd column c a hint=8 max=32\nadd column c b hint=8 max=32\nadd column c d hint=8 max=32\n"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	r, err := mapping.Parse([]string{"s:{mid}=c.a", "h:{mid}#f=c.b", "p#{mid}=c.d"}, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// scripted is a server that identifies itself and then gives scripted replies to all commands. It returns its address.
func scripted(t testing.TB, script *atomic.Pointer[[]byte]) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				const info = "run_id:x\r\n"
				for line := ""; !strings.Contains(line, "server"); {
					if line, err = r.ReadString('\n'); err != nil {
						return
					}
				}
				_, _ = io.WriteString(c, "$10\r\n"+info+"\r\n")
				line := ""
				for !strings.Contains(line, "DBSIZE") && !strings.Contains(line, "SCAN") && !strings.Contains(line, "GET") && !strings.Contains(line, "TYPE") {
					if line, err = r.ReadString('\n'); err != nil {
						return
					}
				}
				if strings.Contains(line, "DBSIZE") {
					_, _ = io.WriteString(c, ":5\r\n")
					return
				}
				_, _ = c.Write(*script.Load())
			}()
		}
	}()
	return path
}

// FuzzReplies: whatever a server answers, reading it ends, and every item fits its column.
func FuzzReplies(f *testing.F) {
	f.Add([]byte("*2\r\n$1\r\n0\r\n*3\r\n$3\r\ns:1\r\n$3\r\nh:2\r\n$1\r\np\r\n*1\r\n$1\r\n7\r\n*1\r\n$1\r\n8\r\n"), "")
	f.Add([]byte("*1\r\n$2\r\n17\r\n*1\r\n$-1\r\n+string\r\n"), `{"node":0,"begun":true,"keys":["czox","aDoy"]}`)
	f.Add([]byte("*2\r\n$2\r\n16\r\n*2\r\n$1\r\n5\r\n$1\r\n6\r\n"), `{"node":0,"begun":true,"keys":["cA=="],"within":"7"}`)
	f.Add([]byte("-WRONGTYPE no\r\n+list\r\n"), `{"node":0,"begun":true,"keys":["cA=="]}`)
	f.Add([]byte("$99999999999\r\n"), `{"node":0,"begun":true,"keys":["bm8=","czox"]}`)
	f.Add([]byte("-LOADING\r\n"), `{"node":1}`)
	script := &atomic.Pointer[[]byte]{}
	o := RedisOptions{Addr: scripted(f, script), Rules: testRules(f), Patience: time.Microsecond}
	f.Fuzz(func(t *testing.T, answers []byte, position string) {
		script.Store(&answers)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		r, err := OpenRedis(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if position != "" && r.Seek(json.RawMessage(position)) != nil {
			return
		}
		for range 20 {
			c := &transfer.Chunk{Explain: 3}
			err := r.Next(ctx, c)
			if errors.Is(err, context.DeadlineExceeded) {
				t.Fatal("no end")
			}
			for _, i := range c.Items {
				if i.Value < 0 || i.Value > 1<<32-1 || i.Column > 2 {
					t.Fatalf("%+v", i)
				}
			}
			if err != nil {
				return
			}
			if _, err := parsePosition(c.Position); err != nil {
				t.Fatalf("position %s: %v", c.Position, err)
			}
		}
	})
}

// TestPosition: a position that a server did not give is refused.
func TestPosition(t *testing.T) {
	script := &atomic.Pointer[[]byte]{}
	r, err := OpenRedis(t.Context(), RedisOptions{Addr: scripted(t, script), Rules: testRules(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, text := range []string{`{"node":2}`, `{"node":-1}`, `{"cursor":"x"}`, `{"cursor":"-1"}`, `{"within":"5"}`, `{"keys":["a b"]}`, `[]`, `{"cursor":"1 COUNT"}`} {
		if err := r.Seek(json.RawMessage(text)); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
	if err := r.Seek(json.RawMessage(`{"node":0,"begun":true,"cursor":"18446744073709551615","keys":["cA=="],"within":"3"}`)); err != nil {
		t.Error(err)
	}
}
