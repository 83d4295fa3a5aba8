package heavy

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/wire"
)

func testPosts() *Posts {
	n := uint64(0)
	return &Posts{
		Counter: "weibo", Columns: 3, Count: 30_000, Counterd: true,
		Mid:  func(i int) uint64 { return 5000 + uint64(i) },
		Pick: func() uint64 { n++; return 5000 + n%30_000 },
		Key:  func(mid uint64, column int) string { return fmt.Sprintf("%d.c%d", mid, column) },
		Page: func(mids []uint64) []byte {
			b := wire.AppendArg(wire.AppendArray(nil, 1+len(mids)), "PAGE")
			for _, mid := range mids {
				b = wire.AppendUint(b, mid)
			}
			return b
		},
	}
}

// TestTurns: every kind is made of complete commands of the size that its line promises, as many as replies are waited for.
func TestTurns(t *testing.T) {
	args := map[string]int{"mget": 65_536, "counter.mget": 65_535, "exec": 2, "counter.mset": 2 + 4*4096, "update": 13, "del": 10_001, "find": 8, "publish": 3} // of the largest command
	for _, k := range kinds {
		if k.turns == nil {
			continue
		}
		turns, err := Turns(k.name, testPosts())
		if err != nil || len(turns) == 0 {
			t.Errorf("%s: %d turns, %v", k.name, len(turns), err)
			continue
		}
		most, first := 0, 0
		for i, turn := range turns {
			r := wire.NewReader(bytes.NewReader(turn.Send), 1<<16)
			n := 0
			for {
				size, _, err := r.ReadArray()
				if err == io.EOF {
					break
				}
				for range size {
					if err == nil {
						_, _, err = r.ReadBulk()
					}
				}
				if err != nil {
					t.Fatalf("%s: turn %d: command %d: %v", k.name, i, n, err)
				}
				most = max(most, size)
				n++
			}
			if i == 0 {
				first = n
			}
			if n != turn.Replies {
				t.Errorf("%s: turn %d has %d commands, and waits for %d replies", k.name, i, n, turn.Replies)
			}
		}
		if most != args[k.name] {
			t.Errorf("%s: the largest command has %d arguments, want %d", k.name, most, args[k.name])
		}
		if want := map[bool]int{true: 10_002, false: 1}[k.name == "exec"]; first != want {
			t.Errorf("%s: %d commands at once, want %d", k.name, first, want)
		}
	}
	if _, err := Turns("update", &Posts{}); err == nil || !OfCounterd("update") || OfCounterd("exec") {
		t.Errorf("a command of counterd for another server: %v", err)
	}
}

// TestSkip: replies of any shape are passed over, and the first error in one is found.
func TestSkip(t *testing.T) {
	r := wire.NewReader(strings.NewReader("*3\r\n*2\r\n$5\r\na\r\nbc\r\n$-1\r\n:7\r\n*-1\r\n+OK\r\n*2\r\n:1\r\n-ERR no\r\n"), 1<<12)
	for i, want := range []string{"", "", "server: ERR no"} {
		text := ""
		if err := skip(r); err != nil {
			text = err.Error()
		}
		if text != want {
			t.Errorf("reply %d: %q, want %q", i, text, want)
		}
	}
}
