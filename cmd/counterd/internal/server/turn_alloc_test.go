// Scenario: a command allocates nothing from socket to socket.

package server

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// TestTurnAllocates holds that a command costs no allocation from the socket to the socket, with a number neither.
func TestTurnAllocates(t *testing.T) {
	racetest.Skip(t, "it makes sync.Pool forget")
	s := wireServe(t, nil)
	seq := 1 << 40
	for _, connection := range []bool{false, true} {
		for _, line := range []string{
			"DECRBY 9.cntrn 0", "INCRBY 1.cntrn 0 IDMP producer %d", "SET 1.cntrn 5 IDMP producer %d", "SETNX 1.cntrn 5 IDMP producer %d", "GETSET 2.cntrn 5 IDMP producer %d",
			"MSET 1.cntrn 5 1.cntcm 6 IDMP producer %d", "HSET 1 repost 5 IDMP producer %d", "COUNTER.MINCRBY 1.cntrn 5 2.cntrn 4 QUIET IDMP producer %d",
			"COUNTER.MINCRBY 1.cntrn 5 2.cntrn 4 IDMP producer %d", "GETDEL 1.cntrn IDMP producer %d", "INCR 1.cntcm IDMP once 1", "SET 1.cntcm 5 IDMP once 2",
		} {
			c := wireDial(t, s, 2)
			if connection {
				c.want(fmt.Sprintf("CLIENT IDMP connection %d", seq), "+OK")
				seq += 10000
				line = strings.TrimSuffix(line, " IDMP producer %d")
			}
			command, tail := resptest.Append(nil, strings.Fields(strings.TrimSuffix(line, " %d"))...), []byte(nil)
			if strings.HasSuffix(line, " %d") {
				command[1]++ // one argument more: there are fewer than 9
				tail = []byte("$13\r\n1099511627776\r\n")
			}
			packet := append(command, tail...)
			reply := make([]byte, 1000)
			once := func() {
				if len(tail) > 0 {
					seq++
					strconv.AppendInt(packet[len(command)+5:len(command)+5], int64(seq), 10)
				}
				if _, err := c.conn.Write(packet); err != nil {
					t.Fatal(err)
				}
				if n, err := c.conn.Read(reply); err != nil || reply[0] == '-' {
					t.Fatalf("%s: %q %v", line, reply[:n], err)
				}
			}
			for range 2 * 128 { // a window has its size
				once()
			}
			if n := testing.AllocsPerRun(1000, once); n > 0 {
				t.Errorf("%s: %v allocations a command", line, n)
			}
		}
	}
}

// TestPipelineAllocates holds that a pipeline of commands on one key each costs no allocation either.
func TestPipelineAllocates(t *testing.T) {
	racetest.Skip(t, "it makes sync.Pool forget")
	s := wireServe(t, nil)
	for _, name := range []string{"GET", "INCR", "TTL", "INCR with numbers of the connection", "INCR with numbers"} {
		c := wireDial(t, s, 2)
		var packet []byte
		var ends []int // of numbers of 13 digits
		seq := int64(1e12)
		for i := range 64 {
			words := []string{strings.Fields(name)[0], fmt.Sprint(123456789000+i, ".cntrn")}
			if name == "INCR with numbers" {
				words = append(words, "IDMP", "p", fmt.Sprint(seq))
			}
			packet = resptest.Append(packet, words...)
			ends = append(ends, len(packet)-len("\r\n"))
		}
		if name == "INCR with numbers of the connection" {
			c.want("CLIENT IDMP q 1", "+OK")
		}
		reply := make([]byte, 64<<10)
		once := func() {
			if name == "INCR with numbers" {
				for i, end := range ends {
					strconv.AppendInt(packet[end-13:end-13:end], seq+int64(i), 10)
				}
				seq += 64
			}
			if _, err := c.conn.Write(packet); err != nil {
				t.Fatal(err)
			}
			for lines := 0; lines < 64; { // INCR has one line a reply, a null too
				n, err := c.conn.Read(reply)
				if err != nil || reply[0] == '-' {
					t.Fatalf("%s: %q %v", name, reply[:n], err)
				}
				lines += bytes.Count(reply[:n], []byte{'\n'})
			}
		}
		for range 64 {
			once()
		}
		if n := testing.AllocsPerRun(500, once); n > 0 {
			t.Errorf("%s: %v allocations a pipeline", name, n)
		}
	}
}

// TestForwardPagesMemory holds that the replies of a pipeline of pages, which several shards have a part in, are put together in memory that is there
// already. Their 30 KB were allocated anew for each pipeline, several times as they grew.
func TestForwardPagesMemory(t *testing.T) {
	racetest.Skip(t, "it makes sync.Pool forget")
	k := serveForward(t, 3, nil)
	c := k.forward(0, 2)
	var packet []byte
	for i := range 64 {
		page := []string{"COUNTER.MGET", "weibo"}
		for j := range 20 {
			mid := fmt.Sprint(123456789000 + 20*i + j)
			c.want("SET "+mid+".cntcm 1234567", "+OK")
			page = append(page, mid)
		}
		packet = resptest.Append(packet, page...)
	}
	n := 0
	if _, err := c.conn.Write(packet); err != nil {
		t.Fatal(err)
	}
	for range 64 {
		n += len(c.read().Raw)
	}
	reply := make([]byte, n)
	once := func() {
		if _, err := c.conn.Write(packet); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c.r, reply); err != nil {
			t.Fatal(err)
		}
	}
	allocated := func(rounds int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			once()
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(rounds)
	}
	allocated(100)
	if got := allocated(200); got > uint64(n)/2 {
		t.Errorf("a pipeline of pages allocates %d bytes, its replies have %d", got, n)
	}
}
