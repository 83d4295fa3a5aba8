package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/benchtest"
	"github.com/counterd/counterd/internal/wire"
)

// startKind starts a server of that kind, with the schema of generated posts, and returns a connection and the model.
func startKind(t testing.TB, kind Kind) (*benchtest.Server, *wire.Conn, Model) {
	t.Helper()
	server := benchtest.Start(t, kind == Counterd)
	conn, err := Target{Addr: server.Addr}.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if kind == Counterd {
		for _, line := range WeiboScript {
			if _, err := conn.Do(strings.Fields(line)...); err != nil {
				t.Fatal(err)
			}
		}
	}
	model, err := NewModel(kind, WeiboSchema())
	if err != nil {
		t.Fatal(err)
	}
	return server, conn, model
}

// TestModels sets, increments and reads counters in each data model.
func TestModels(t *testing.T) {
	const post, other, absent = 3_000_000_000_123_456, 7, 42
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			_, conn, model := startKind(t, kind)
			r := &conn.Reader
			conn.Out = model.AppendRow(conn.Out, post, []uint64{1, 0, 949174})
			conn.Out = model.AppendRow(conn.Out, other, []uint64{5, 6, 7})
			for range 3 {
				conn.Out = model.AppendIncr(conn.Out, post, 1)
			}
			conn.Out = model.AppendIncr(conn.Out, post, 2)
			conn.Out = model.AppendGet(conn.Out, post, 2)
			conn.Out = model.AppendGet(conn.Out, absent, 0)
			conn.Out = model.AppendPage(conn.Out, []uint64{other, absent, post})
			if err := conn.Flush(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := model.ReadRow(r); err != nil {
					t.Fatal(err)
				}
			}
			for range 4 {
				if err := model.ReadIncr(r); err != nil {
					t.Fatal(err)
				}
			}
			if v, err := model.ReadGet(r, 2); v != 949175 || err != nil {
				t.Errorf("got %d, %v", v, err)
			}
			if v, err := model.ReadGet(r, 0); v != Absent || err != nil {
				t.Errorf("of an absent post got %d, %v", v, err)
			}
			page, err := model.ReadPage(r, nil, 3)
			if want := []int64{5, 6, 7, Absent, Absent, Absent, 1, 3, 949175}; err != nil || !slices.Equal(page, want) {
				t.Errorf("page %d, %v, want %d", page, err, want)
			}
			if model.Max(0) < 1<<21-1 {
				t.Errorf("at most %d", model.Max(0))
			}
		})
	}
}

// TestModelsRefused checks that an error reply leaves the stream in step.
func TestModelsRefused(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			server, conn, model := startKind(t, kind)
			server.Before = func(command string) error {
				if command != "ping" {
					return errors.New("LOADING the data set is being loaded")
				}
				return nil
			}
			refused := func(what string, err error) {
				var failed *wire.ServerError
				if !errors.As(err, &failed) || errors.Is(err, wire.ErrProtocol) {
					t.Errorf("%s: %v, want an error of the server", what, err)
				}
			}
			conn.Out = model.AppendRow(conn.Out, 1, []uint64{1, 2, 3})
			conn.Out = model.AppendIncr(conn.Out, 1, 1)
			conn.Out = model.AppendGet(conn.Out, 1, 1)
			conn.Out = model.AppendPage(conn.Out, []uint64{1, 2, 3})
			if err := conn.Flush(); err != nil {
				t.Fatal(err)
			}
			refused("row", model.ReadRow(&conn.Reader))
			refused("incr", model.ReadIncr(&conn.Reader))
			_, err := model.ReadGet(&conn.Reader, 1)
			refused("get", err)
			_, err = model.ReadPage(&conn.Reader, nil, 3)
			refused("page", err)
			if v, err := conn.Do("PING"); err != nil || v.Str != "PONG" {
				t.Errorf("then PING: %v, %v", v, err)
			}
		})
	}
}

// TestModelsOutOfStep checks that replies of another shape are protocol errors.
func TestModelsOutOfStep(t *testing.T) {
	for _, kind := range Kinds() {
		model, err := NewModel(kind, WeiboSchema())
		if err != nil {
			t.Fatal(err)
		}
		for _, reply := range []string{"*1\r\n*3\r\n:1\r\n:2\r\n:3\r\n", "*2\r\n-ERR a\r\n-ERR b\r\n", "+OK\r\n", "*2\r\n*1\r\n:1\r\n:2\r\n",
			"*6\r\n-ERR a\r\n", "*3\r\n-ERR a\r\n", "$1\r\nx\r\n"} {
			r := wire.NewReader(strings.NewReader(reply+reply), 512)
			if _, err := model.ReadPage(r, nil, 2); !errors.Is(err, wire.ErrProtocol) {
				t.Errorf("%s: page from %q: %v, want %v", kind, reply, err, wire.ErrProtocol)
			}
		}
	}
}

func TestModelsAllocateNothing(t *testing.T) {
	for _, kind := range Kinds() {
		model, err := NewModel(kind, WeiboSchema())
		if err != nil {
			t.Fatal(err)
		}
		out, row, mids := make([]byte, 0, 64<<10), []uint64{1, 2, 3}, []uint64{1, 2, 3}
		if n := testing.AllocsPerRun(100, func() {
			out = model.AppendRow(out[:0], 1, row)
			out = model.AppendIncr(out, 1, 2)
			out = model.AppendGet(out, 1, 2)
			out = model.AppendPage(out, mids)
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", kind, n)
		}
	}
}

func TestParseKind(t *testing.T) {
	for _, kind := range Kinds() {
		if got, err := ParseKind(string(kind)); got != kind || err != nil {
			t.Errorf("%s: %s, %v", kind, got, err)
		}
	}
	if got, err := ParseKind("redis-string"); got != RedisStrings || err != nil {
		t.Errorf("redis-string: %s, %v", got, err)
	}
	if _, err := ParseKind("oracle"); err == nil {
		t.Error("oracle: no error")
	}
}

func TestBucketNeedsBits(t *testing.T) {
	wide := Schema{Columns: make([]Column, 8)}
	if _, err := NewModel(RedisBucket, wide); err == nil {
		t.Error("8 columns in one integer: no error")
	}
	if _, err := NewModel(RedisHash, Schema{}); err == nil {
		t.Error("no columns: no error")
	}
}

func TestParseSchemas(t *testing.T) {
	script := "add column weibo mid hint=64 max=64 primarykey\nadd counter weibo\n\n# note\n" +
		"ADD COLUMN weibo comment hint=16 max=32 default=0 suffix=cntcm\nadd counter other\nadd column other plain hint=1 max=64 suffix="
	schemas, err := ParseSchemas(script)
	if err != nil {
		t.Fatal(err)
	}
	want := "[{weibo true [{comment cntcm 32}]} {other false [{plain  64}]}]"
	if got := fmt.Sprint(schemas); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if schemas[1].Columns[0].Max() != 1<<63-1 || schemas[0].Columns[0].Max() != 1<<32-1 {
		t.Errorf("maxima %d, %d", schemas[1].Columns[0].Max(), schemas[0].Columns[0].Max())
	}
	for _, bad := range []string{"hello", "add column weibo x max=65", "add column weibo x max=q", "drop counter a b"} {
		if _, err := ParseSchemas(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
