package transfer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/schema"
)

const script = `add column weibo mid hint=64 max=64 primarykey
add counter weibo
add column weibo repost hint=16 max=32 suffix=cntrn
add column weibo attitude hint=8 max=16 suffix=cntan
add counter video
add column video plays hint=8 max=63 suffix=
`

// fate is the outcome of a command: it is done or not, answered by an error or not, and the connection ends or not.
type fate struct {
	lost   bool   // not done
	answer string // an error in place of the answer
	cut    bool   // the connection ends with no answer
}

// fake is a counterd that knows the commands of a Sink, in memory. Commands go through next, one after the other.
type fake struct {
	mu     sync.Mutex
	schema *schema.Schema
	values map[string]int64  // by "counter:mid column"
	made   map[string]string // by producer and number: the command, and its answer
	next   func(args []string) fate
	names  map[string]int // how often each command came
	slots  *fakeSlots     // nil: it is one server
	log    *fakeLog       // nil: it does not answer INFO
}

func newFake(t testing.TB) *fake {
	t.Helper()
	s, err := schema.ParseScript(strings.NewReader(script), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	return &fake{schema: s, values: map[string]int64{}, made: map[string]string{}, names: map[string]int{}}
}

// dial connects to the fake.
func (f *fake) dial(ctx context.Context) (*wire.Conn, error) { return f.dialNode(ctx, "") }

// dialNode connects to a node of a cluster that the fake is.
func (f *fake) dialNode(ctx context.Context, addr string) (*wire.Conn, error) {
	client, server := net.Pipe()
	context.AfterFunc(ctx, func() { client.Close() })
	go f.serve(server, addr)
	return wire.NewConn(client, wire.StartSize), nil
}

func (f *fake) serve(c net.Conn, addr string) {
	defer c.Close()
	r := bufio.NewReader(c)
	out := make(chan string, 1<<16) // a pipe has no buffer, a socket has
	defer close(out)
	go func() {
		for text := range out {
			if _, err := io.WriteString(c, text); err != nil {
				c.Close()
			}
		}
	}()
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		answer, cut := f.elsewhere(addr, args), false
		if answer == "" {
			answer, cut = f.do(args)
		}
		if cut {
			return
		}
		out <- answer + "\r\n"
	}
}

func readCommand(r *bufio.Reader) (args []string, err error) {
	number := func() (n int) {
		line, e := r.ReadString('\n')
		if err = e; err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n
	}
	for n := number(); n > 0 && err == nil; n-- {
		b := make([]byte, number()+2)
		if err == nil {
			_, err = io.ReadFull(r, b)
		}
		args = append(args, strings.TrimSuffix(string(b), "\r\n"))
	}
	return args, err
}

func (f *fake) do(args []string) (answer string, cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names[args[0]]++
	fate := fate{}
	if f.next != nil {
		fate = f.next(args)
	}
	if !fate.lost {
		answer = f.numbered(args)
		f.log.add(args)
	}
	if fate.answer != "" {
		if answer = fate.answer; answer[0] != '+' {
			answer = "-" + answer
		}
	}
	return answer, fate.cut
}

// numbered makes a command with a number once.
func (f *fake) numbered(args []string) string {
	n := len(args)
	if n < 4 || args[n-3] != "IDMP" {
		return f.run(args)
	}
	name, text := args[n-2]+" "+args[n-1], strings.Join(args, " ")
	if was, ok := f.made[name]; ok {
		answer, same := strings.CutPrefix(was, text+"\n")
		if !same {
			return "-IDMPMISMATCH"
		}
		return answer
	}
	answer := f.run(args[:n-3])
	f.made[name] = text + "\n" + answer
	return answer
}

// number finds what a key names, and the largest value it holds.
func (f *fake) number(key string) (name string, limit int64) {
	k, ok := f.schema.ParseKey([]byte(key))
	if !ok || k.Col < 0 {
		panic("no key: " + key)
	}
	c := &k.Counter.Columns[k.Col]
	return fmt.Sprintf("%s:%d %s", k.Counter.Name, k.Mid, c.Name), int64(c.Limit())
}

func (f *fake) run(args []string) string {
	switch args[0] {
	case "INFO":
		if f.log != nil {
			text := f.log.info()
			return fmt.Sprintf("$%d\r\n%s", len(text), text)
		}
	case "FLUSHALL":
		clear(f.values)
		return "+OK"
	case "MSET":
		for i := 1; i < len(args); i += 2 {
			name, limit := f.number(args[i])
			n, err := strconv.ParseInt(args[i+1], 10, 64)
			if err != nil || n < 0 || n > limit {
				return "-ERR value is not an integer or out of range"
			}
			f.values[name] = n
		}
		return "+OK"
	case "COUNTER.MINCRBY":
		if args[len(args)-1] != "QUIET" {
			return "-ERR want QUIET"
		}
		made := 0
		for i := 1; i < len(args)-1; i += 2 {
			name, limit := f.number(args[i])
			n, err := strconv.ParseInt(args[i+1], 10, 64)
			if err != nil {
				return "-ERR value is not an integer or out of range"
			}
			if sum := clampedSum(f.values[name], n); sum >= 0 && sum <= limit {
				f.values[name] = sum
				made++
			}
		}
		return fmt.Sprintf(":%d", made)
	case "COUNTER.COUNT", "COUNTER.SUM": // counter [WHERE] column
		column := args[2]
		if column == "WHERE" {
			column = args[3]
		}
		var sum Sum
		for name, v := range f.values {
			if strings.HasPrefix(name, args[1]+":") && strings.HasSuffix(name, " "+column) {
				sum.Add(uint64(v))
			}
		}
		text := sum.Total().String()
		if args[0] == "COUNTER.SUM" {
			return fmt.Sprintf("$%d\r\n%s", len(text), text)
		}
		return fmt.Sprintf(":%d", sum.NonZero)
	case "COUNTER.MGET": // counter mid ... COLUMNS column ...
		at := slices.Index(args, "COLUMNS")
		answer := fmt.Sprintf("*%d", at-2)
		for _, mid := range args[2:at] {
			answer += fmt.Sprintf("\r\n*%d", len(args)-at-1)
			for _, column := range args[at+1:] {
				answer += fmt.Sprintf("\r\n:%d", f.values[args[1]+":"+mid+" "+column])
			}
		}
		return answer
	case "IDMP":
		last := -1
		for name := range f.made {
			if n, ok := strings.CutPrefix(name, args[2]+" "); ok {
				if v, err := strconv.Atoi(n); err == nil {
					last = max(last, v)
				}
			}
		}
		if last < 0 {
			return "$-1"
		}
		return fmt.Sprintf(":%d", last)
	case "HDEL":
		delete(f.values, args[1]+" "+args[2])
		return ":1"
	}
	return "-ERR unknown command '" + args[0] + "'"
}

// columns are those of the fake that tests write.
func (f *fake) columns() []mapping.Column {
	w, v := f.schema.Counter("weibo"), f.schema.Counter("video")
	return []mapping.Column{{Counter: w, Index: 0}, {Counter: w, Index: 1}, {Counter: v, Index: 0}}
}
