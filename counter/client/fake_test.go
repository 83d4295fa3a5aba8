package client

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

const script = `add counter weibo
add column weibo comment hint=16 max=32 default=0 suffix=cntcm
add column weibo repost hint=16 max=32 default=0 suffix=cntrn
add column weibo attitude hint=8 max=8 default=0 suffix=cntan
`

// fate says how a fake server treats a command.
type fate struct {
	refuse string // answer this error and change nothing
	lose   bool   // change, and close the connection instead of answering
	late   bool   // close the connection, and change afterwards, as a command that arrives late through a slow network
	answer string // change, and answer this error
	hold   chan struct{}
}

// fake is a server with the semantics that the client counts on, and a fate for each command.
type fake struct {
	t    testing.TB
	addr string

	mu        sync.Mutex
	listener  net.Listener // nil while it is down
	conns     map[net.Conn]bool
	script    string
	values    map[string]int64 // by key
	limit     int64
	producers map[string]*fakeProducer
	fates     func(args []string) fate
	commands  [][]string                 // that came, without those that go-redis sends by itself
	slots     string                     // the reply to CLUSTER SLOTS
	posts     int                        // how many COUNTER.FIND knows
	feed      func(args []string) string // the reply to COUNTER.FEED
	goroutine sync.WaitGroup
}

type fakeProducer struct {
	floor   uint64
	entries map[uint64]fakeEntry
	fenced  bool
}

type fakeEntry struct{ args, reply string }

const fakeWindow = 128

func newFake(t testing.TB) *fake {
	f := &fake{t: t, addr: "127.0.0.1:0", script: script, values: map[string]int64{}, limit: math.MaxUint32,
		producers: map[string]*fakeProducer{}, fates: func([]string) fate { return fate{} }, conns: map[net.Conn]bool{}}
	f.start()
	t.Cleanup(func() {
		f.stop()
		f.goroutine.Wait()
	})
	return f
}

// start lets it listen, on the address that it had.
func (f *fake) start() {
	l, err := net.Listen("tcp", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	f.listener, f.addr = l, l.Addr().String()
	f.mu.Unlock()
	f.goroutine.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			down := f.listener != l
			f.conns[c] = true
			f.mu.Unlock()
			if down {
				c.Close()
			}
			f.goroutine.Go(func() {
				f.serve(c)
				c.Close()
				f.mu.Lock()
				delete(f.conns, c)
				f.mu.Unlock()
			})
		}
	})
}

// stop ends the listener and all connections, as a process that dies. Stored values stay.
func (f *fake) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener != nil {
		f.listener.Close()
		f.listener = nil
	}
	for c := range f.conns {
		c.Close()
	}
}

// set changes what the fake does under its lock.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// value is the value of a key.
func (f *fake) value(key string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.values[key]
}

// seen are the commands of a name that came.
func (f *fake) seen(name string) (list [][]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, args := range f.commands {
		if strings.EqualFold(args[0], name) {
			list = append(list, args)
		}
	}
	return list
}

// count is how many commands came.
func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.commands)
}

func (f *fake) serve(c net.Conn) {
	r := bufio.NewReader(c)
	var queue [][]string
	multi := false
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		reply := f.setup(args)
		switch name := strings.ToUpper(args[0]); {
		case name == "MULTI":
			multi, queue, reply = true, nil, "+OK\r\n"
		case multi && name != "EXEC":
			queue, reply = append(queue, args), "+QUEUED\r\n"
		}
		if reply == "" {
			f.mu.Lock()
			f.commands = append(f.commands, args)
			fate := f.fates(args)
			f.mu.Unlock()
			if fate.hold != nil {
				<-fate.hold
			}
			if fate.late {
				c.Close()
			}
			if fate.refuse != "" {
				reply = "-" + fate.refuse + "\r\n"
			} else {
				f.mu.Lock()
				reply = f.execute(args, queue)
				f.mu.Unlock()
				multi = false
			}
			if fate.lose || fate.late {
				return
			}
			if fate.answer != "" {
				reply = "-" + fate.answer + "\r\n"
			}
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	header := func(kind byte) (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if line[0] != kind {
			return 0, fmt.Errorf("%q is no header", line)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := header('*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := header('$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

// setup answers what go-redis says of itself; empty for other commands.
func (f *fake) setup(args []string) string {
	switch strings.ToUpper(args[0]) {
	case "HELLO":
		return "-ERR unknown command 'HELLO'\r\n"
	case "CLIENT", "READONLY":
		return "+OK\r\n"
	case "COMMAND":
		reply := "*3\r\n"
		for _, name := range []string{"get", "counter.mget", "hmget"} {
			reply += fmt.Sprintf("*6\r\n$%d\r\n%s\r\n:-2\r\n*1\r\n+readonly\r\n:1\r\n:1\r\n:1\r\n", len(name), name)
		}
		return reply
	case "CLUSTER":
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.slots
	}
	return ""
}

// execute changes and answers. f.mu is held.
func (f *fake) execute(args []string, queue [][]string) string {
	name := strings.ToUpper(args[0])
	n := len(args)
	apply := func(args []string) string {
		if name != "EXEC" {
			return f.apply(name, args)
		}
		reply := fmt.Sprintf("*%d\r\n", len(queue))
		for _, q := range queue {
			reply += f.apply(strings.ToUpper(q[0]), q[1:])
		}
		return reply
	}
	if n < 4 || !strings.EqualFold(args[n-3], "IDMP") {
		return apply(args[1:])
	}
	id := args[n-2]
	seq, err := strconv.ParseUint(args[n-1], 10, 64)
	if err != nil || id == "" || len(id) > 32 {
		return "-ERR bad IDMP\r\n"
	}
	p := f.producers[id]
	if p == nil {
		p = &fakeProducer{entries: map[uint64]fakeEntry{}}
		f.producers[id] = p
	}
	same := fmt.Sprint(args[:n-3], queue)
	if p.fenced {
		return "-IDMPFENCED producer was fenced\r\n"
	}
	if e, ok := p.entries[seq]; ok {
		if e.args != same {
			return "-IDMPMISMATCH other arguments\r\n"
		}
		return e.reply
	}
	if seq <= p.floor {
		return "-IDMPEXPIRED too old\r\n"
	}
	reply := apply(args[1 : n-3])
	if reply[0] == '-' {
		return reply
	}
	p.entries[seq] = fakeEntry{same, reply}
	if len(p.entries) > fakeWindow {
		lowest := seq
		for s := range p.entries {
			lowest = min(lowest, s)
		}
		delete(p.entries, lowest)
		p.floor = lowest
	}
	return reply
}

func (f *fake) apply(name string, args []string) string {
	add := func(key, by string) (string, bool) {
		n, err := strconv.ParseInt(by, 10, 64)
		if err != nil {
			return "-ERR value is not an integer or out of range\r\n", false
		}
		v := f.values[key] + n
		if v < 0 || v > f.limit {
			return "-ERR increment or decrement would overflow\r\n", false
		}
		f.values[key] = v
		return ":" + strconv.FormatInt(v, 10) + "\r\n", true
	}
	bulk := func(key string) string {
		v, ok := f.values[key]
		if !ok || !f.knows(key) {
			return "$-1\r\n"
		}
		s := strconv.FormatInt(v, 10)
		return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s)
	}
	if slices.Contains([]string{"INCRBY", "SET", "GETDEL"}, name) && !f.knows(args[0]) {
		return "-ERR no such key form\r\n"
	}
	switch name {
	case "PING":
		return "+PONG\r\n"
	case "SCHEMA":
		reply := fmt.Sprintf("*%d\r\n", strings.Count(f.script, "\n"))
		for line := range strings.Lines(f.script) {
			reply += fmt.Sprintf("$%d\r\n%s\r\n", len(line)-1, line[:len(line)-1])
		}
		return reply
	case "INCR":
		reply, _ := add(args[0], "1")
		return reply
	case "INCRBY":
		reply, _ := add(args[0], args[1])
		return reply
	case "SET":
		n, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil || n < 0 || n > f.limit {
			return "-ERR value is not an integer or out of range\r\n"
		}
		f.values[args[0]] = n
		return "+OK\r\n"
	case "GET":
		return bulk(args[0])
	case "GETDEL":
		reply := bulk(args[0])
		delete(f.values, args[0])
		return reply
	case "COUNTER.MGET":
		at := slices.Index(args, "COLUMNS")
		reply := fmt.Sprintf("*%d\r\n", at-1)
		for _, mid := range args[1:at] {
			row, absent := fmt.Sprintf("*%d\r\n", len(args)-at-1), true
			for _, name := range args[at+1:] {
				_, suffix, ok := strings.Cut(f.script, "add column weibo "+name+" ")
				if !ok {
					return "-ERR no column '" + name + "' in counter 'weibo' (see SCHEMA)\r\n"
				}
				suffix, _, _ = strings.Cut(suffix, "\n")
				_, suffix, _ = strings.Cut(suffix, "suffix=")
				v, ok := f.values[mid+"."+suffix]
				if !ok {
					v, ok = f.values["weibo:"+mid+"."+suffix]
				}
				absent = absent && !ok
				row += fmt.Sprintf(":%d\r\n", v)
			}
			if absent {
				row = "*-1\r\n"
			}
			reply += row
		}
		return reply
	case "HMGET":
		reply := fmt.Sprintf("*%d\r\n", len(args)-1)
		for _, field := range args[1:] {
			reply += bulk(args[0] + "." + map[string]string{"comment": "cntcm", "repost": "cntrn", "attitude": "cntan"}[field])
		}
		return reply
	case "COUNTER.FEED":
		return f.feed(args)
	case "COUNTER.FIND":
		return f.find(args)
	case "COUNTER.MINCRBY":
		return f.minrcby(args, add)
	case "COUNTER.MSET":
		return f.mset(args[1:])
	case "IDMP":
		return f.idmp(args)
	}
	return "-ERR unknown command '" + name + "'\r\n"
}

// minrcby checks all keys first; an addition out of range is answered in its place.
func (f *fake) minrcby(args []string, add func(key, by string) (string, bool)) string {
	quiet := len(args)%2 == 1
	if quiet {
		if !strings.EqualFold(args[len(args)-1], "QUIET") {
			return "-ERR syntax error\r\n"
		}
		args = args[:len(args)-1]
	}
	for i := 0; i < len(args); i += 2 {
		if !f.knows(args[i]) {
			return "-ERR no such key form\r\n"
		}
	}
	made, all := 0, fmt.Sprintf("*%d\r\n", len(args)/2)
	for i := 0; i < len(args); i += 2 {
		reply, ok := add(args[i], args[i+1])
		all += reply
		if ok {
			made++
		}
	}
	if quiet {
		return fmt.Sprintf(":%d\r\n", made)
	}
	return all
}

// find answers pages of the posts 0 to f.posts-1, each with its mid as a value of every column. Without LIMIT it stops at
// 10,000, as a server does. A cursor is where to go on.
func (f *fake) find(args []string) string {
	limit, from, columns, paged := 10_000, 0, 0, false
	for i, word := range args {
		switch word {
		case "LIMIT":
			limit, _ = strconv.Atoi(args[i+1])
		case "CURSOR":
			from, _ = strconv.Atoi(args[i+1])
			paged = true
		case "OFFSET":
			from, _ = strconv.Atoi(args[i+1])
		case "COLUMNS":
			columns++
		}
	}
	to := min(from+limit, f.posts)
	var reply strings.Builder
	if paged {
		cursor := "0"
		if to < f.posts {
			cursor = strconv.Itoa(to)
		}
		fmt.Fprintf(&reply, "*2\r\n$%d\r\n%s\r\n", len(cursor), cursor)
	}
	fmt.Fprintf(&reply, "*%d\r\n", max(0, to-from))
	for mid := from; mid < to; mid++ {
		fmt.Fprintf(&reply, "*%d\r\n", 1+columns)
		for range 1 + columns {
			fmt.Fprintf(&reply, ":%d\r\n", mid)
		}
	}
	return reply.String()
}

// mset sets rows of which the columns are named. It checks all of them first.
func (f *fake) mset(args []string) string {
	at := slices.Index(args, "COLUMNS")
	columns := args[at+1:]
	for _, make := range []bool{false, true} {
		for i, arg := range args[:at] {
			k := i % (1 + len(columns))
			if k == 0 {
				continue
			}
			n, err := strconv.ParseInt(arg, 10, 64)
			if err != nil || n < 0 || n > f.limit {
				return "-ERR value is not an integer or out of range\r\n"
			}
			if make {
				f.values[args[i-k]+"."+map[string]string{"comment": "cntcm", "repost": "cntrn", "attitude": "cntan"}[columns[k-1]]] = n
			}
		}
	}
	return fmt.Sprintf(":%d\r\n", at/(1+len(columns)))
}

func (f *fake) idmp(args []string) string {
	p := f.producers[args[1]]
	switch strings.ToUpper(args[0]) {
	case "LAST":
		if p == nil || len(p.entries) == 0 {
			return "$-1\r\n"
		}
		highest := uint64(0)
		for s := range p.entries {
			highest = max(highest, s)
		}
		return fmt.Sprintf(":%d\r\n", highest)
	case "FENCE":
		if p == nil {
			p = &fakeProducer{entries: map[uint64]fakeEntry{}}
			f.producers[args[1]] = p
		}
		p.fenced = true
		return ":1\r\n"
	}
	return "-ERR unknown subcommand\r\n"
}

// knows reports whether a key is of a column of the schema.
func (f *fake) knows(key string) bool {
	_, suffix, ok := strings.Cut(key, ".")
	return ok && strings.Contains(f.script, "suffix="+suffix+"\n")
}

// dial gives a go-redis client with little patience, as a test has.
func (f *fake) dial(change ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{Addr: f.addr, DialerRetries: 1, PoolSize: 20}
	for _, ch := range change {
		ch(o)
	}
	rdb := redis.NewClient(o)
	f.t.Cleanup(func() { rdb.Close() })
	return rdb
}
