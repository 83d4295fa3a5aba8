package server

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// numberedForms are commands that take a number, in this order: all answer differently made again. A line of several is
// a transaction.
var numberedForms = []string{
	"INCR 1.cntcm", "INCR 1.cntcm", "incrby 1.cntcm 40", "INCRBY 1.cntcm 0", "DECR 1.cntcm", "DECRBY 1.cntcm 7", "INCRBY 1.cntcm -3",
	"INCREX 1.cntcm BYINT 5 UBOUND 100 SATURATE", "INCREX 30.cntcm BYINT 5 UBOUND 4", "increx 31.cntcm lbound 3 saturate",
	"HINCRBY 1 comment 5", "HINCRBY weibo:2 cntrn 6",
	"SET 3.cntcm 9", "SET 3.cntcm 10 GET", "SET 3.cntcm 11 NX", "SET 3.cntcm 12 XX GET", "SET 4.cntcm 1 XX", "SET 4.cntcm 1 NX", "SET 99.cntcm 1 GET KEEPTTL", "SET 1 5 XX GET",
	"SETNX 5.cntcm 4", "SETNX 5.cntcm 5", "GETSET 5.cntcm 6", "GETSET 6.cntcm 7",
	"GETDEL 5.cntcm", "GETDEL 5.cntcm", "GETDEL 700.cntcm", "GETDEL post:5:likes", "GETDEL 701",
	"HSET 7 comment 3 repost 4", "HSET 7 comment 5", "HMSET 7 comment 6 cntrn 7", "HSETNX 7 comment 8", "HSETNX 8 comment 9",
	"MSET 9.cntcm 1 10.cntrn 2 9.cntcm 3", "MSET 9.cntcm 4",
	"COUNTER.MINCRBY 9.cntcm 5", "COUNTER.MINCRBY 9.cntcm 5 10.cntrn -1000 11.cntcm 2 9.cntcm 1", "COUNTER.MINCRBY 9.cntcm 5 10.cntrn -1000 quiet",
	"COUNTER.MINCRBY 12.cntcm -1", "COUNTER.MINCRBY 12.cntcm -1 QUIET", "COUNTER.MINCRBY 9.cntcm 1 QUIET",
	"COUNTER.MSET weibo 9 5 6 10 7 8", "COUNTER.MSET weibo 9 4 COLUMNS repost",
	"COUNTER.DRAIN 9.cntcm", "COUNTER.DRAIN 9.cntcm 10.cntrn 800.cntcm 9.cntcm", "COUNTER.DRAIN 900.cntcm",
	"SET n:1 5", "INCRBY n:2 9223372036854775806", "GETDEL n:1", "GETDEL n:1", "COUNTER.DRAIN n:2 n:2 n:3 11.cntcm",
	"INCR 20.cntcm\nHGETALL 20\nMGET 20.cntcm 21.cntcm 22\nCOUNTER.MGET weibo 20 21\nSET 21.cntcm 3 NX GET\nSET 21.cntcm x\nDECR 23.cntcm\nHMGET 20 comment x\nTYPE 20",
	"INCR 20.cntcm\nINCR " + strings.Repeat("nokey", 40) + "\nHSET 20 " + strings.Repeat("column", 30) + " 1\nTYPE 20",
	"GET 1.cntcm", "HKEYS 1\nHVALS 1\nSCAN 0 COUNT 3\nDBSIZE\nDEL 20\nHDEL 7 comment\nHSCAN 1 0",
	"DEL 1.cntcm 2", "UNLINK 3 3 99", "HDEL 7 comment repost x", "DEL 12345",
}

// numberedServer starts a server with the data that numberedForms need.
func numberedServer(t *testing.T) *Server {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	c.want("ADD COUNTER n", "+OK")
	c.want("ADD COLUMN n v hint=16 max=63 suffix=", "+OK")
	return s
}

// perform sends a form, with the rest of its last command, and returns its reply.
func (c *wireClient) perform(form, tail string) string {
	c.t.Helper()
	lines := strings.Split(form, "\n")
	if len(lines) == 1 && !strings.HasPrefix(form, "GET 1") {
		return c.do(form + tail).Raw
	}
	c.want("MULTI", "+OK")
	for _, line := range lines {
		c.want(line, "+QUEUED")
	}
	return c.do("EXEC" + tail).Raw
}

// TestNumbered: each form is answered as without a number, changes the same, and made again changes nothing and is
// answered the same, over both versions of the protocol, whichever came first, by arguments and by CLIENT IDMP.
func TestNumbered(t *testing.T) {
	for _, connection := range []bool{false, true} {
		t.Run(fmt.Sprintf("connection=%v", connection), func(t *testing.T) {
			plain2, plain3 := wireDial(t, numberedServer(t), 2), wireDial(t, numberedServer(t), 3)
			s := numberedServer(t)
			numbered := []*wireClient{wireDial(t, s, 2), wireDial(t, s, 3)}
			state := wireDial(t, s, 2)
			forms, kept := numberedForms, 0
			for i, form := range forms {
				want := []string{plain2.perform(form, ""), plain3.perform(form, "")}
				digest := plain2.do("COUNTER.DIGEST").Raw
				for try := range 5 {
					k := (i + try) % 2
					c, tail := numbered[k], ""
					if connection {
						c.want(fmt.Sprintf("CLIENT IDMP p %d EPOCH 0", i), "+OK")
					} else if tail = fmt.Sprintf(" IDMP p %d", i); try%2 == 1 {
						tail += " EPOCH 0"
					}
					if got := c.perform(form, tail); got != want[k] {
						t.Errorf("%q, try %d, RESP%d: got %q, want %q", form, try, k+2, got, want[k])
					}
					if got := state.do("COUNTER.DIGEST").Raw; got != digest {
						t.Fatalf("%q, try %d: the store is another one than without a number:\n%s\n%s", form, try, got, digest)
					}
				}
				if want[0][0] == '-' { // refused, and so tried again each time
					continue
				}
				kept++
				state.want("IDMP LAST p", fmt.Sprintf(":%d", i))
			}
			if got := infoField(t, state, "idmp_repeats"); got != fmt.Sprint(4*kept) || kept < len(forms)-1 {
				t.Errorf("%s repeats, want 4 of %d", got, kept)
			}
		})
	}
}

// TestNumberedRefused: a refusal has a reason, changes nothing and leaves no entry.
func TestNumberedRefused(t *testing.T) {
	s := numberedServer(t)
	c := wireDial(t, s, 2)
	c.want("SET 1.cntcm 5 IDMP p 200", "+OK")
	c.want("HSET 2 comment 1 repost 4294967295 IDMP p 201", ":2")
	long := strings.Repeat("x", 33)
	digest := c.do("COUNTER.DIGEST").Raw
	for line, want := range map[string]string{
		"SET 1.cntcm 6 IDMP p 200":                          "-IDMPMISMATCH ",
		"SET 1.cntcm 5 NX IDMP p 200":                       "-IDMPMISMATCH ",
		"SET 2.cntcm 5 IDMP p 200":                          "-IDMPMISMATCH ",
		"GETSET 1.cntcm 5 IDMP p 200":                       "-IDMPMISMATCH ",
		"INCR 1.cntcm IDMP " + long + " 1":                  "-ERR IDMP: want a producer of 1 to 32 bytes",
		"INCR 1.cntcm IDMP p -1":                            "-ERR IDMP: want a sequence number of 0 to 18446744073709551615",
		"INCR 1.cntcm IDMP p 18446744073709551616":          "-ERR IDMP: want a sequence number",
		"INCR 1.cntcm IDMP p 300 EPOCH 9223372036854775808": "-ERR IDMP: want an epoch of 0 to 9223372036854775807",
		"INCR 1.cntcm IDMP p":                               "-ERR wrong number of arguments for 'incr' command",
		"INCR 1.cntcm IDMP p 300 EPOCH":                     "-ERR wrong number of arguments for 'incr' command",
		"INCR IDMP p 300":                                   "-ERR wrong number of arguments for 'incr' command",
		"HSET 2 comment IDMP p 300":                         "-ERR wrong number of arguments for 'hset' command",
		"HSET 2 comment 4 repost IDMP p 300":                "-ERR wrong number of arguments for 'hset' command",
		"MSET 1.cntcm 4 2.cntcm IDMP p 300":                 "-ERR wrong number of arguments for 'mset' command",
		"COUNTER.MINCRBY QUIET IDMP p 300":                  "-ERR wrong number of arguments for 'counter.mincrby' command",
		"COUNTER.MINCRBY 1.cntcm QUIET IDMP p 300":          "-ERR value is not an integer",
		"COUNTER.MINCRBY 1.cntcm 1 2.cntcm IDMP p 300":      "-ERR wrong number of arguments for 'counter.mincrby' command",
		"COUNTER.DRAIN IDMP p 300":                          "-ERR wrong number of arguments for 'counter.drain' command",
		"DEL IDMP p 300":                                    "-ERR wrong number of arguments for 'del' command",
		"HDEL 1 IDMP p 300":                                 "-ERR wrong number of arguments for 'hdel' command",
		"HDEL 1 comment IDMP p repost":                      "-ERR IDMP: want a sequence number",
		"DECRBY 1.cntcm 6 IDMP p 300":                       "-ERR increment or decrement would overflow",
		"HINCRBY 2 repost 1 IDMP p 300":                     "-ERR increment or decrement would overflow",
		"INCRBY 1.cntcm x IDMP p 300":                       "-ERR value is not an integer or out of range",
		"SET 1.cntcm 4294967296 IDMP p 300":                 "-ERR value is not an integer or out of range",
		"MSET 1.cntcm 7 2.cntcm 4294967296 IDMP p 300":      "-ERR value is not an integer or out of range",
		"HSET 2 comment 7 nocolumn 1 IDMP p 300":            "-ERR no column 'nocolumn'",
		"INCR post:1:likes IDMP p 300":                      "-ERR no counter for key",
		"COUNTER.DRAIN 1.cntcm x IDMP p 300":                "-ERR no counter for key",
		"INCR 2 IDMP p 300":                                 "-WRONGTYPE ",
		"SET 2 1 XX IDMP p 300":                             "-WRONGTYPE ",
		"GETDEL 2 IDMP p 300":                               "-WRONGTYPE ",
		"COUNTER.DRAIN 1.cntcm 2 IDMP p 300":                "-WRONGTYPE ",
		"CLIENT IDMP p":                                     "-ERR syntax error",
		"CLIENT IDMP p 1 EPOCH":                             "-ERR syntax error",
		"CLIENT IDMP p x":                                   "-ERR IDMP: want a sequence number",
		"CLIENT IDMP " + long + " 1":                        "-ERR IDMP: want a producer",
		"IDMP LAST " + long:                                 "-ERR IDMP: want a producer",
		"IDMP FENCE " + long:                                "-ERR IDMP: want a producer",
		"IDMP LAST nobody":                                  "$-1",
		"COUNTER.PRODUCERS LIMIT":                           "-ERR syntax error",
		"COUNTER.PRODUCERS LIMIT -1":                        "-ERR value is not an integer",
		"EXEC IDMP p 300":                                   "-ERR EXEC without MULTI",
	} {
		if got := c.do(line).Raw; !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %s", line, got, want)
		}
		if got := c.do("COUNTER.DIGEST").Raw; got != digest {
			t.Fatalf("%s changed something", line)
		}
		c.want("IDMP LAST p", ":201")
	}
	c.want("DEL 1.cntcm", ":1")

	// A transaction: refused while it is queued, for its number, and for its commands.
	for _, queue := range []struct{ lines, tail, want string }{
		{"INCR 1.cntcm", " IDMP p x", "-EXECABORT Transaction discarded because of: IDMP: want a sequence number"},
		{"INCR 1.cntcm", " IDMP p", "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec'"},
		{"INCR 1.cntcm", " IDMP p 200", "-IDMPMISMATCH "},
		{"INCR 1.cntcm\nPING", " IDMP p 300", "-EXECABORT Transaction discarded because of: IDMP: a numbered transaction accepts commands on posts only, not PING"},
		{"INCR 1.cntcm\nFLUSHALL", " IDMP p 300", "-EXECABORT "},
		{"INCR 1.cntcm IDMP p 300", "", "-EXECABORT Transaction discarded because of previous errors."},
		{"INCR 1.cntcm\nCLIENT IDMP p 5", "", "-EXECABORT Transaction discarded because of previous errors."},
		{"INCR 1.cntcm\nIDMP FENCE p", "", "-EXECABORT Transaction discarded because of previous errors."},
	} {
		digest := c.do("COUNTER.DIGEST").Raw
		c.want("MULTI", "+OK")
		for _, line := range strings.Split(queue.lines, "\n") {
			c.do(line)
		}
		if got := c.do("EXEC" + queue.tail).Raw; !strings.HasPrefix(got, queue.want) {
			t.Errorf("%q%s: got %q, want %s", queue.lines, queue.tail, got, queue.want)
		}
		if got := c.do("COUNTER.DIGEST").Raw; got != digest {
			t.Fatalf("%q changed something", queue.lines)
		}
		c.want("IDMP LAST p", ":201")
	}
	// A number of a refused command is free.
	c.want("INCRBY 1.cntcm 2 IDMP p 300", ":2")
	c.want("INCRBY 1.cntcm 2 IDMP p 300", ":2")
}

// TestNumberedWindow: numbers out of order and gaps are taken within the window. Of 128 the results are kept, and of others that they
// were made. Epochs fence.
func TestNumberedWindow(t *testing.T) {
	s := numberedServer(t)
	c := wireDial(t, s, 2)
	for i := 1000; i < 1128; i++ {
		c.want(fmt.Sprintf("INCR 1.cntcm IDMP p %d", i*10), fmt.Sprintf(":%d", i-999))
	}
	c.want("INCR 1.cntcm IDMP p 10000", ":1")
	c.want("INCR 1.cntcm IDMP p 9999", ":129")
	c.want("INCR 1.cntcm IDMP p 10005", ":130")
	for _, seq := range []string{"9999", "10000"} {
		if got := c.do("INCR 1.cntcm IDMP p " + seq).Raw; !strings.HasPrefix(got, "-IDMPEXPIRED the change was made") {
			t.Errorf("%s: got %q", seq, got)
		}
	}
	c.want("INCR 1.cntcm IDMP p 10005", ":130")
	c.want("INCR 1.cntcm IDMP p 18446744073709551615", ":131")
	c.want("IDMP LAST p", `"18446744073709551615"`)
	c.want("IDMP FENCE p", ":1")
	if got := c.do("INCR 1.cntcm IDMP p 11000").Raw; !strings.HasPrefix(got, "-IDMPFENCED ") {
		t.Errorf("got %q", got)
	}
	c.want("INCR 1.cntcm IDMP p 11000 EPOCH 1", ":101") // the newer incarnation may repeat a request of the older one
	c.want("INCR 1.cntcm IDMP p 11000 EPOCH 7", ":101")
	if got := c.do("INCR 1.cntcm IDMP p 11000 EPOCH 6").Raw; !strings.HasPrefix(got, "-IDMPFENCED ") {
		t.Errorf("a repeat of epoch 7 left epoch 6: got %q", got)
	}
	c.want("IDMP FENCE p", ":8")
	c.want("IDMP FENCE new", ":1")
	c.want("GET 1.cntcm", `"131"`)
}

// TestClientIdmp: which commands of a connection take a number.
func TestClientIdmp(t *testing.T) {
	s := numberedServer(t)
	c, other := wireDial(t, s, 2), wireDial(t, s, 2)
	last := func(want int) {
		t.Helper()
		other.want("IDMP LAST p", fmt.Sprintf(":%d", want))
	}
	c.want("CLIENT IDMP p 10 EPOCH 2", "+OK")
	c.want("INCR 1.cntcm", ":1")
	last(10)
	c.want("GET 1.cntcm", `"1"`)
	c.do("INCR 1.cntcm x")                                                   // 11: refused ones use up a number
	c.do("INCR nokey")                                                       // 12
	c.do("SET 1.cntcm notanumber")                                           // 13
	c.do("HSET 1 comment")                                                   // 14
	c.want("DECRBY 1.cntcm 9", "-ERR increment or decrement would overflow") // 15
	c.do("ADD COUNTER other")
	c.do("UNKNOWN")
	c.do("PING")
	c.want("INCR 1.cntcm", ":2")
	last(16)
	c.want("INCR 1.cntcm IDMP own 5", ":3") // has its own
	c.want("DEL 1.cntcm", ":1")
	last(17)
	c.want("MULTI", "+OK")
	c.want("INCR 1.cntcm", "+QUEUED")
	c.want("INCR 1.cntcm", "+QUEUED")
	c.want("EXEC", "[:1 :2]")
	last(18)
	c.want("MULTI", "+OK")
	c.do("INCR 1.cntcm x")
	c.do("EXEC") // 19
	c.do("EXEC") // 20: without MULTI
	c.want("MULTI", "+OK")
	c.want("DISCARD", "+OK")
	c.want("WATCH 1.cntcm", "+OK")
	c.want("MULTI", "+OK")
	c.want("INCR 1.cntcm", "+QUEUED")
	other.want("INCR 1.cntcm", ":3")
	c.want("EXEC", "nil") // 21: nothing was made, so the number is free
	c.want("INCR 1.cntcm", ":4")
	last(22)
	c.want("CLIENT IDMP p 21 EPOCH 2", "+OK")
	c.want("MULTI", "+OK")
	c.want("INCR 1.cntcm", "+QUEUED")
	c.want("EXEC", "[:5]")
	c.want("CLIENT IDMP OFF", "+OK")
	c.want("INCR 1.cntcm", ":6")
	last(22)

	// Keys that a transaction changed may be watched: it is a repeat all the same.
	c.want("CLIENT IDMP p 23 EPOCH 2", "+OK")
	c.want("MULTI", "+OK")
	c.want("INCR 1.cntcm", "+QUEUED")
	c.want("EXEC", "[:7]")
	c.want("CLIENT IDMP p 23 EPOCH 2", "+OK")
	c.want("WATCH 1.cntcm", "+OK")
	other.want("INCR 1.cntcm", ":8")
	c.want("MULTI", "+OK")
	c.want("INCR 1.cntcm", "+QUEUED")
	c.want("EXEC", "[:7]")

	// RESET ends it; numbers end at the highest.
	c.want("CLIENT IDMP q 18446744073709551614", "+OK")
	c.want("INCR 2.cntcm", ":1")
	c.want("INCR 2.cntcm", ":2")
	c.want("INCR 2.cntcm", "-ERR IDMP: the sequence numbers are used up")
	c.want("RESET", "+RESET")
	c.want("INCR 2.cntcm", ":3")
}

// TestNumberedPipeline: numbers are counted as commands are read, in a pipeline with all kinds of them, and a client
// that sends it again from its first number has each made once.
func TestNumberedPipeline(t *testing.T) {
	s := numberedServer(t)
	lines := []string{"INCR 1.cntcm", "GET 1.cntcm", "INCR 1.cntcm", "INCR 1.cntcm x", "SET 1.cntcm x", "PING", "INCR 1.cntcm", "MULTI", "INCR 1.cntcm", "EXEC", "DBSIZE", "HSET 1 repost 5"}
	var first string
	for try := range 3 {
		c := wireDial(t, s, 2)
		var got strings.Builder
		c.want("CLIENT IDMP p 0", "+OK")
		for range 40 {
			for _, line := range lines {
				c.send(line)
			}
		}
		for range 40 {
			for _, line := range lines {
				if v := c.read(); !strings.HasPrefix(line, "GET") {
					got.WriteString(v.Raw)
				}
			}
		}
		switch {
		case try == 0:
			first = got.String()
		case first != got.String() && try == 1: // 280 numbers: the window has forgotten the first ones
			if !strings.Contains(got.String(), "IDMPEXPIRED") {
				t.Error("replies differ")
			}
		}
		c.want("GET 1.cntcm", `"160"`)
	}
}

// TestNumberedConcurrent: connections that send the same numbers at the same time, each in an order of its own, are all
// answered the same, and each number is made once.
func TestNumberedConcurrent(t *testing.T) {
	s := numberedServer(t)
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	const connections, numbers = 6, 120 // all are in the window
	replies := make([][numbers]string, connections)
	var wait sync.WaitGroup
	for i := range connections {
		c := wireDial(t, s, 2+i%2)
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		wait.Go(func() {
			for order := rnd.Perm(numbers); len(order) > 0; {
				n := min(1+rnd.IntN(20), len(order))
				var packet []byte
				for _, seq := range order[:n] {
					packet = append(packet, resptest.Append(nil, strings.Fields(numberedLine(seq))...)...)
				}
				if _, err := c.conn.Write(packet); err != nil {
					t.Error(err)
					return
				}
				for _, seq := range order[:n] {
					v, err := resptest.Read(c.r, c.proto)
					if err != nil {
						t.Error(err)
						return
					}
					replies[i][seq] = v.String()
				}
				order = order[n:]
			}
		})
	}
	wait.Wait()
	for seq := range numbers {
		for i := range connections {
			if replies[i][seq] != replies[0][seq] {
				t.Errorf("%s: connection %d got %s, connection 0 %s", numberedLine(seq), i, replies[i][seq], replies[0][seq])
			}
		}
	}
	c := wireDial(t, s, 2)
	sum := 0
	for mid := range 4 {
		n, err := c.do(fmt.Sprintf("GET %d.cntcm", mid)).Int()
		if err != nil {
			t.Fatal(err)
		}
		sum += int(n)
	}
	if want := numbers * (numbers - 1); sum != want { // 2 * seq each
		t.Errorf("sum %d, want %d", sum, want)
	}
}

// numberedLine adds seq to two of four posts, in one of the forms that a batch of additions has.
func numberedLine(seq int) string {
	tail := []string{"", " QUIET"}[seq%2]
	return fmt.Sprintf("COUNTER.MINCRBY %d.cntcm %d %d.cntcm %d%s IDMP shared %d", seq%4, seq, (seq+1)%4, seq, tail, seq)
}

// TestNumberedFull: over the limits the answer is an error before any change, and nothing that is remembered is
// dropped.
func TestNumberedFull(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	s := wireServeStore(t, "", counter.Options{}, func(c *config.Config) { c.IdmpMaxProducers = 3 })
	c := wireDial(t, s, 3)
	for _, p := range []string{"a", "b", "c"} {
		c.want("INCR 1.cntcm IDMP "+p+" 1", fmt.Sprintf(":%d", p[0]-'a'+1))
	}
	for _, line := range []string{"INCR 1.cntcm IDMP d 1", "MSET 1.cntcm 8 2.cntcm 9 IDMP d 1", "IDMP FENCE d"} {
		if got := c.do(line).Raw; !strings.HasPrefix(got, "-IDMPFULL ") {
			t.Errorf("%s: got %q", line, got)
		}
	}
	c.want("GET 1.cntcm", `"3"`)
	c.want("INCR 1.cntcm IDMP a 1", ":1")
	c.want("CONFIG SET idmp-max-producers 4", "+OK")
	c.want("INCR 1.cntcm IDMP d 1", ":4")
	if got := c.do("COUNTER.PRODUCERS LIMIT 2"); len(got.List) != 2 || len(got.List[0].List) != 14 || got.List[0].Get(t, "producer").Text != "d" {
		t.Errorf("got %s", got)
	}
	if got := c.do("COUNTER.PRODUCERS"); len(got.List) != 4 || got.List[3].Get(t, "entries").Text != "1" {
		t.Errorf("got %s", got)
	}
	for field, want := range map[string]string{"idmp_producers": "4", "idmp_entries": "4", "idmp_numbers": "4", "idmp_window": "10000", "idmp_full": "3", "idmp_max_producers": "4", "idmp_repeats": "1"} {
		if got := infoField(t, c, field); got != want {
			t.Errorf("%s: got %s, want %s", field, got, want)
		}
	}
	// Memory: results of 64 KiB until none fits.
	c.want("CONFIG SET idmp-max-memory 1mb", "+OK")
	line := "COUNTER.MINCRBY" + strings.Repeat(" 9.cntcm 0", 5000)
	full := 0
	for seq := 2; full < 3 && seq < 60; seq++ {
		if got := c.do(fmt.Sprintf("%s IDMP a %d", line, seq)).Raw; strings.HasPrefix(got, "-IDMPFULL ") {
			full++
		} else if !strings.HasPrefix(got, "*5000\r\n") || full > 0 {
			t.Fatalf("seq %d: got %.40q", seq, got)
		}
	}
	if full == 0 {
		t.Error("no end of memory")
	}
	if got := infoField(t, c, "idmp_memory"); len(got) > len("1048576") || got > "1048576" && len(got) == 7 {
		t.Errorf("%s bytes are remembered", got)
	}
	if got := c.do(line + " IDMP a 2").Raw; !strings.HasPrefix(got, "*5000\r\n:0\r\n") {
		t.Errorf("got %.40q", got)
	}
}

// TestNumberedGone: a reply too long to be kept is given once; a repeat says that the change was made, and changes
// nothing.
func TestNumberedGone(t *testing.T) {
	s := numberedServer(t)
	c := wireDial(t, s, 2)
	line := "COUNTER.MINCRBY" + strings.Repeat(" 9.cntcm 100000", 30000) + " IDMP a 1"
	if got := c.do(line).Raw; !strings.HasPrefix(got, "*30000\r\n:100000\r\n:200000\r\n") {
		t.Fatalf("got %.40q", got)
	}
	for range 2 {
		if got := c.do(line).Raw; !strings.HasPrefix(got, "-IDMPEXPIRED the change was made") {
			t.Fatalf("got %.90q", got)
		}
	}
	c.want("GET 9.cntcm", `"3000000000"`)
	c.want("IDMP LAST a", ":1")
}

// TestNumberedDropped: a repeat of a change is answered as then although its column or counter is gone; another one is
// refused for the column.
func TestNumberedDropped(t *testing.T) {
	s := numberedServer(t)
	c := wireDial(t, s, 2)
	for i, line := range []string{"INCR 1.cntcm", "HSET 1 comment 5", "COUNTER.MINCRBY 1.cntcm 1 1.cntrn 1", "INCR n:1", "MSET 1.cntcm 9 n:1 5"} {
		c.do(fmt.Sprintf("%s IDMP p %d", line, i))
	}
	c.want("DROP COLUMN weibo comment", "+OK")
	c.want("DROP COUNTER n", "+OK")
	for try := range 2 {
		c.want("INCR 1.cntcm IDMP p 0", ":1")
		c.want("HSET 1 comment 5 IDMP p 1", ":0")
		c.want("COUNTER.MINCRBY 1.cntcm 1 1.cntrn 1 IDMP p 2", "[:6 :1]")
		c.want("INCR n:1 IDMP p 3", ":1")
		c.want("MSET 1.cntcm 9 n:1 5 IDMP p 4", "+OK")
		if got := c.do("INCR 1.cntcm IDMP p 5").Raw; !strings.HasPrefix(got, "-ERR no counter for key") {
			t.Errorf("try %d: got %q", try, got)
		}
		if got := c.do("INCR 2.cntcm IDMP p 0").Raw; !strings.HasPrefix(got, "-IDMPMISMATCH") {
			t.Errorf("try %d: got %q", try, got)
		}
	}
	c.want("INCR 1.cntrn IDMP p 5", ":2")
}

// TestNumberedReplica: a replica refuses numbers, and answers repeats of its primary's when it leads.
func TestNumberedReplica(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	ca, cb := a.dial(), b.dial()
	forms := map[string]string{}
	for i, form := range []string{"INCR 1.cntcm", "SET 2.cntcm 5 GET", "COUNTER.MINCRBY 3.cntcm 4 4.cntcm -1", "HSET 5 comment 1 repost 2", "GETDEL 77.cntcm", "MSET 6.cntcm 1 7.cntcm 2"} {
		line := fmt.Sprintf("%s IDMP p %d", form, i)
		forms[line] = ca.do(line).Raw
	}
	ca.want("IDMP FENCE fenced", ":1")
	until(t, "the replica follows", func() bool { return ca.do("WAIT 1 100").String() == ":1" })
	for _, line := range []string{"INCR 1.cntcm IDMP p 0", "IDMP LAST p", "IDMP FENCE p"} {
		if got := cb.do(line).Raw; !strings.HasPrefix(got, "-READONLY ") {
			t.Errorf("%s on a replica: got %q", line, got)
		}
	}
	ca.do("FAILOVER")
	until(t, "the replica leads", func() bool { return cb.do("SET 99.cntcm 0").String() == "+OK" })
	for line, want := range forms {
		if got := cb.do(line).Raw; got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	cb.want("IDMP LAST p", ":5")
	cb.want("IDMP FENCE fenced", ":2")
	cb.want("GET 1.cntcm", `"1"`)
}

// changeExamples are a valid form of each command that changes something, by its name.
var changeExamples = map[string]string{
	"set": "SET 7.cntcm 9", "mset": "MSET 7.cntcm 9 8.cntcm 9", "setnx": "SETNX 9.cntcm 3", "getset": "GETSET 7.cntcm 9", "getdel": "GETDEL 7.cntcm",
	"incr": "INCR 7.cntcm", "incrby": "INCRBY 7.cntcm 3", "decr": "DECR 7.cntcm", "decrby": "DECRBY 7.cntcm 3", "increx": "INCREX 7.cntcm BYINT 3",
	"hset": "HSET 7 comment 9", "hmset": "HMSET 7 comment 9 repost 8", "hsetnx": "HSETNX 9 comment 3", "hincrby": "HINCRBY 7 comment 3", "hdel": "HDEL 7 comment",
	"del": "DEL 7", "unlink": "UNLINK 7 8", "counter.mset": "COUNTER.MSET weibo 7 9 9", "counter.mincrby": "COUNTER.MINCRBY 7.cntcm 3 8.cntcm 3", "counter.drain": "COUNTER.DRAIN 7.cntcm 8.cntcm",
	"counter.update":    "COUNTER.UPDATE weibo MID IN 7 8 INCR comment 3",
	"counter.droprange": "COUNTER.DROPRANGE weibo 7 9",
	"flushall":          "FLUSHALL", "flushdb": "FLUSHDB", "add": "ADD COLUMN weibo more hint=8 max=8", "alter": "ALTER COUNTER weibo ids=weibo", "drop": "DROP COLUMN weibo repost", "idmp|fence": "IDMP FENCE p",
	"counter.cursor|set": "COUNTER.CURSOR SET c 1-0", "counter.cursor|del": "COUNTER.CURSOR DEL c",
	"expire": "EXPIRE 7 100", "pexpire": "PEXPIRE 7 100", "expireat": "EXPIREAT 7 100", "pexpireat": "PEXPIREAT 7 100", "persist": "PERSIST 7", "function|flush": "FUNCTION FLUSH",
}

// TestNumberedTable: each command that changes something takes a number behind its arguments, and is made once then, or refuses
// these words. They are never keys or fields of it: post 42 stays.
func TestNumberedTable(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	command.NewTable(allRows()).Each(func(cmd *row) {
		if cmd.Flags&(command.Write|command.Idmp) == 0 || cmd.Sub != nil || cmd.Is("exec") { // of which TestNumbered is
			return
		}
		example := changeExamples[cmd.Name]
		if example == "" {
			t.Errorf("%s changes something: an example of it is missing here", cmd.Name)
			return
		}
		takes := cmd.Flags&command.Idmp != 0
		if cmd.Plan != nil && !takes {
			t.Errorf("%s changes posts and takes no number", cmd.Name)
		}
		c.want("FLUSHALL", "+OK")
		c.want("MSET 7.cntcm 5 8.cntcm 5 42.cntcm 99", "+OK")
		schema := string(s.Store().Schema().AppendText(nil))
		numbered := example + " IDMP " + strings.ReplaceAll(cmd.Name, "|", "-") + " 42"
		before := values(t, s.Store())
		first := c.do(numbered)
		if after := values(t, s.Store()); first.Kind == '-' == takes || after != before != takes {
			t.Errorf("%s: got %s, it takes a number: %v; before:\n%safter:\n%s", numbered, first, takes, before, after)
		}
		c.do("INCR 7.cntcm")
		before = values(t, s.Store())
		if again := c.do(numbered); takes && again.Raw != first.Raw {
			t.Errorf("%s again: got %s, want %s", numbered, again, first)
		}
		if after := values(t, s.Store()); after != before {
			t.Errorf("%s again changes something: before:\n%safter:\n%s", numbered, before, after)
		}
		c.want("GET 42.cntcm", `"99"`)
		if now := string(s.Store().Schema().AppendText(nil)); now != schema {
			t.Fatalf("%s: the schema is now\n%s", numbered, now)
		}
	})
}

// TestNumberedColumn: fields of a column that is called IDMP are named as others, and where they could be meant as a number
// nothing is changed.
func TestNumberedColumn(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 3)
	c.want("ADD COLUMN weibo idmp hint=8 max=8", "+OK")
	c.want("HSET 7 comment 1 repost 2 idmp 3", ":3")
	for _, w := range [][2]string{
		{"HDEL 7 idmp comment repost", "-ERR wrong number of arguments for 'hdel' command (usage: HDEL key field [field ...] [IDMP producer seq [EPOCH epoch]])"},
		{"HDEL 7 repost idmp comment repost", "-ERR IDMP: want a sequence number of 0 to 18446744073709551615"},
		{"HMGET 7 comment repost idmp", `["1" "2" "3"]`},
		{"HDEL 7 idmp", ":1"}, {"HMGET 7 comment repost idmp", `["1" "2" "0"]`},
		{"HSET 7 idmp 3", ":0"}, {"HDEL 7 comment idmp", ":2"}, {"HMGET 7 comment repost idmp", `["0" "2" "0"]`},
		{"HSET 7 idmp 3 IDMP p 1", ":0"}, {"HDEL 7 idmp repost IDMP p 2", ":2"}, {"HMGET 7 comment repost idmp", `["0" "0" "0"]`},
		{"DEL IDMP p 7", "-ERR wrong number of arguments for 'del' command (usage: DEL key [key ...] [IDMP producer seq [EPOCH epoch]])"}, {"EXISTS 7", ":1"},
	} {
		c.want(w[0], w[1])
	}
}
