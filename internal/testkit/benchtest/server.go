// Package benchtest is a small server for tests of the benchmark tool: it knows the commands that the tool's data models
// send, to counterd and to Redis, and keeps everything in maps under one lock. It is slow and strict: a command that the
// tool should not send is an error.
package benchtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/redcon"
)

// Server is a running server. Its fields are to be set before it is used.
type Server struct {
	Addr string

	// Counterd makes it a counterd, which knows SCHEMA and COUNTER.MGET. Without, it is a Redis.
	Counterd bool

	// Before is called with each command, in lower case; an error it returns is the reply. It may be nil.
	Before func(command string) error

	// Lose is called with each INCR of a counterd; if it returns true, the increment is answered and not done. It may be
	// nil.
	Lose func(command string) bool

	// Save is called by BGSAVE, beside the server's work; while it runs, INFO says that a snapshot is made. It may be nil.
	Save func()

	saving   atomic.Bool
	stall    sync.RWMutex // held for writing by Stall
	mu       sync.Mutex
	script   []string
	counter  string
	columns  []column
	items    map[uint64][]int64
	strings  map[string]string
	hashes   map[string]map[string]int64
	commands int64
}

type column struct{ name, suffix string }

// Start starts a server that ends with the test.
func Start(t testing.TB, counterd bool) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: l.Addr().String(), Counterd: counterd}
	stop := s.Serve(l)
	t.Cleanup(stop)
	return s
}

// Serve serves connections to l until stop is called.
func (s *Server) Serve(l net.Listener) (stop func()) {
	s.reset()
	server := redcon.NewServer(l.Addr().String(), s.handle, nil, nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.Serve(l)
	}()
	return func() {
		l.Close()
		server.Close()
		<-ended
	}
}

// Commands returns how many commands were received.
func (s *Server) Commands() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commands
}

// Add adds n to a column of an item behind the clients' backs.
func (s *Server) Add(mid uint64, column int, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.item(mid)[column] += n
}

// Stall makes the server answer nothing for a while, the caller's command included when called from Before.
func (s *Server) Stall(d time.Duration) {
	s.stall.Lock()
	defer s.stall.Unlock()
	time.Sleep(d)
}

func (s *Server) reset() {
	s.items, s.strings, s.hashes = map[uint64][]int64{}, map[string]string{}, map[string]map[string]int64{}
}

func (s *Server) handle(conn redcon.Conn, cmd redcon.Command) {
	args := make([]string, len(cmd.Args))
	for i, arg := range cmd.Args {
		args[i] = string(arg)
	}
	args[0] = strings.ToLower(args[0])
	if s.Before != nil {
		if err := s.Before(args[0]); err != nil {
			conn.WriteError(err.Error())
			return
		}
	}
	s.stall.RLock()
	defer s.stall.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands++
	do := s.redis
	if s.Counterd {
		do = s.counterd
	}
	if err := s.common(conn, args, do); err != nil {
		conn.WriteError(err.Error())
	}
}

// common answers what both kinds know.
func (s *Server) common(conn redcon.Conn, args []string, others func(redcon.Conn, []string) error) error {
	switch args[0] {
	case "ping":
		conn.WriteString("PONG")
	case "flushall":
		s.reset()
		conn.WriteString("OK")
	case "dbsize":
		conn.WriteInt(len(s.items) + len(s.strings) + len(s.hashes))
	case "info":
		saving := 0
		if s.saving.Load() {
			saving = 1
		}
		conn.WriteBulkString(fmt.Sprintf("# Server\r\nredis_version:7.0.0\r\nprocess_id:%d\r\n# CPU\r\nused_cpu_sys:1.5\r\n"+
			"used_cpu_user:2.5\r\n# Memory\r\nused_memory_rss:%d\r\n# Persistence\r\nrdb_bgsave_in_progress:%d\r\n"+
			"rdb_last_bgsave_status:ok\r\nrdb_last_cow_size:1048576\r\n", os.Getpid(), resident(), saving))
	case "bgsave":
		if !s.saving.CompareAndSwap(false, true) {
			return errors.New("ERR Background save already in progress")
		}
		go func() {
			if s.Save != nil {
				s.Save()
			}
			s.saving.Store(false)
		}()
		conn.WriteString("Background saving started")
	default:
		return others(conn, args)
	}
	return nil
}

// resident returns the resident bytes of this process, which the tool checks against what INFO says.
func resident() int {
	var size, pages int
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		fmt.Sscan(string(statm), &size, &pages)
	}
	return pages * os.Getpagesize()
}

func unknown(args []string) error { return fmt.Errorf("ERR unknown command '%s'", args[0]) }

// counterd answers as counterd does.
func (s *Server) counterd(conn redcon.Conn, args []string) error {
	switch args[0] {
	case "schema":
		conn.WriteBulkString(strings.Join(s.script, "\n"))
	case "add":
		return s.add(conn, args)
	case "hset":
		mid, err := s.mid(args[1])
		if err != nil {
			return err
		}
		item := s.item(mid)
		for i := 2; i+1 < len(args); i += 2 {
			col := s.column(args[i])
			n, err := number(args[i+1])
			if col < 0 || err != nil {
				return fmt.Errorf("ERR no column %q, or no number %q", args[i], args[i+1])
			}
			item[col] = n
		}
		conn.WriteInt(0)
	case "incr":
		mid, col, err := s.columnKey(args[1])
		if err != nil {
			return err
		}
		item := s.item(mid)
		if s.Lose != nil && s.Lose(args[0]) {
			conn.WriteInt64(item[col] + 1)
			return nil
		}
		item[col]++
		conn.WriteInt64(item[col])
	case "get":
		mid, col, err := s.columnKey(args[1])
		if err != nil {
			return err
		}
		if item := s.items[mid]; item != nil {
			conn.WriteBulkString(strconv.FormatInt(item[col], 10))
		} else {
			conn.WriteNull()
		}
	case "counter.mget":
		if args[1] != s.counter {
			return fmt.Errorf("ERR no counter %q", args[1])
		}
		conn.WriteArray(len(args) - 2)
		for _, key := range args[2:] {
			mid, _ := strconv.ParseUint(key, 10, 63)
			item := s.items[mid]
			if item == nil {
				conn.WriteNull()
				continue
			}
			conn.WriteArray(len(item))
			for _, v := range item {
				conn.WriteInt64(v)
			}
		}
	default:
		return unknown(args)
	}
	return nil
}

// add answers ADD COUNTER and ADD COLUMN.
func (s *Server) add(conn redcon.Conn, args []string) error {
	line := strings.Join(args, " ")
	for _, have := range s.script {
		if have == line {
			conn.WriteString("OK")
			return nil
		}
	}
	s.script = append(s.script, line)
	if strings.EqualFold(args[1], "column") && !strings.Contains(line, "primarykey") {
		s.counter = args[2]
		col := column{name: args[3]}
		for _, attribute := range args[4:] {
			if suffix, ok := strings.CutPrefix(attribute, "suffix="); ok {
				col.suffix = suffix
			}
		}
		s.columns = append(s.columns, col)
	}
	conn.WriteString("OK")
	return nil
}

func (s *Server) mid(key string) (uint64, error) {
	if name, rest, ok := strings.Cut(key, ":"); ok && name == s.counter {
		key = rest
	}
	mid, err := strconv.ParseUint(key, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("ERR key %q has no mid", key)
	}
	return mid, nil
}

func (s *Server) columnKey(key string) (mid uint64, col int, err error) {
	head, suffix, _ := strings.Cut(key, ".")
	if col = s.column(suffix); col < 0 {
		return 0, 0, fmt.Errorf("ERR no suffix %q", suffix)
	}
	mid, err = s.mid(head)
	return mid, col, err
}

func (s *Server) column(name string) int {
	for i, col := range s.columns {
		if name == col.suffix || name == col.name {
			return i
		}
	}
	return -1
}

func (s *Server) item(mid uint64) []int64 {
	item := s.items[mid]
	if item == nil {
		item = make([]int64, len(s.columns))
		s.items[mid] = item
	}
	return item
}

// redis answers as Redis does.
func (s *Server) redis(conn redcon.Conn, args []string) error {
	switch args[0] {
	case "mset":
		for i := 1; i+1 < len(args); i += 2 {
			s.strings[args[i]] = args[i+1]
		}
		conn.WriteString("OK")
	case "set":
		s.strings[args[1]] = args[2]
		conn.WriteString("OK")
	case "incr":
		n, err := number(s.strings[args[1]])
		if err != nil {
			return err
		}
		s.strings[args[1]] = strconv.FormatInt(n+1, 10)
		conn.WriteInt64(n + 1)
	case "get":
		s.writeString(conn, args[1])
	case "mget":
		conn.WriteArray(len(args) - 1)
		for _, key := range args[1:] {
			s.writeString(conn, key)
		}
	case "getrange":
		from, _ := strconv.Atoi(args[2])
		to, _ := strconv.Atoi(args[3])
		v := s.strings[args[1]]
		conn.WriteBulkString(v[min(from, len(v)):min(to+1, len(v))])
	case "bitfield":
		return s.bitfield(conn, args)
	case "hset", "hincrby", "hget", "hmget":
		return s.hash(conn, args)
	default:
		return unknown(args)
	}
	return nil
}

func (s *Server) writeString(conn redcon.Conn, key string) {
	if v, ok := s.strings[key]; ok {
		conn.WriteBulkString(v)
	} else {
		conn.WriteNull()
	}
}

// bitfield answers BITFIELD key INCRBY u32 #n by.
func (s *Server) bitfield(conn redcon.Conn, args []string) error {
	if len(args) != 6 || args[2] != "INCRBY" || args[3] != "u32" {
		return fmt.Errorf("ERR syntax error")
	}
	n, err1 := strconv.Atoi(strings.TrimPrefix(args[4], "#"))
	by, err2 := strconv.Atoi(args[5])
	if err1 != nil || err2 != nil {
		return fmt.Errorf("ERR syntax error")
	}
	v := []byte(s.strings[args[1]])
	for len(v) < 4*n+4 {
		v = append(v, 0)
	}
	sum := binary.BigEndian.Uint32(v[4*n:]) + uint32(by)
	binary.BigEndian.PutUint32(v[4*n:], sum)
	s.strings[args[1]] = string(v)
	conn.WriteArray(1)
	conn.WriteInt64(int64(sum))
	return nil
}

func (s *Server) hash(conn redcon.Conn, args []string) error {
	h := s.hashes[args[1]]
	if h == nil && args[0] != "hget" && args[0] != "hmget" {
		h = map[string]int64{}
		s.hashes[args[1]] = h
	}
	write := func(field string) {
		if v, ok := h[field]; ok {
			conn.WriteBulkString(strconv.FormatInt(v, 10))
		} else {
			conn.WriteNull()
		}
	}
	switch args[0] {
	case "hset":
		for i := 2; i+1 < len(args); i += 2 {
			n, err := number(args[i+1])
			if err != nil {
				return err
			}
			h[args[i]] = n
		}
		conn.WriteInt(0)
	case "hincrby":
		by, err := number(args[3])
		if err != nil {
			return err
		}
		h[args[2]] += by
		conn.WriteInt64(h[args[2]])
	case "hget":
		write(args[2])
	case "hmget":
		conn.WriteArray(len(args) - 2)
		for _, field := range args[2:] {
			write(field)
		}
	}
	return nil
}

func number(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("ERR value is not an integer or out of range")
	}
	return n, nil
}
