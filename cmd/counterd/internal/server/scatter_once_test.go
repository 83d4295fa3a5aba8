// Scenario: increments through forward ports are made once while links are cut.

package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/find"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/cutproxy"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/vfs"
)

// TestForwardOnce has clients of the forward port increment numbers of all shards while the links between the nodes are
// cut, at any byte and in any way: each increment is made once, and the replies to each client's own keys count up.
func TestForwardOnce(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	k := serveForward(t, 3, nil)
	var proxies []*cutproxy.Proxy
	for i := range k.nodes {
		p := cutproxy.New(t, k.nodes[i].Port, seed+uint64(i), false)
		p.SetSpan(13)
		k.nodes[i].Port = p.Port()
		proxies = append(proxies, p)
	}
	k.stand()
	for _, p := range proxies {
		p.Smoothly(false)
	}
	const clients, rounds = 4, 60
	var done sync.WaitGroup
	for n := range clients {
		done.Add(1)
		go func() {
			defer done.Done()
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			w := k.forward(n%len(k.srv), 2)
			made := make(map[string]int64)
			for range rounds {
				var keys []string
				var b []byte
				for range 1 + r.IntN(100) {
					key := fmt.Sprintf("%d.cntcm", k.mid(r.IntN(3), n*10+r.IntN(10)))
					keys = append(keys, key)
					b = resptest.Append(b, "INCR", key)
				}
				if _, err := w.conn.Write(b); err != nil {
					t.Error(err)
					return
				}
				for _, key := range keys {
					made[key]++
					if v, err := resptest.Read(w.r, 2); err != nil || v.Kind != ':' || v.N != made[key] {
						t.Errorf("%s: got %s and %v, want %d", key, v, err, made[key])
						return
					}
				}
			}
		}()
	}
	done.Wait()
	cuts := int64(0)
	for _, p := range proxies {
		p.Smoothly(true)
		cuts += p.Total()
	}
	t.Logf("%d cuts", cuts)
	if cuts == 0 {
		t.Error("nothing was cut")
	}
}

// TestForwardProducersFull: producers of clients have all places of a shard, and no link has asked it for a change yet, as behind the start of a node. A plain
// change by the forward port of that node is made all the same: the link, which numbers it, has a place of its own. It was refused with IDMPFULL.
func TestForwardProducersFull(t *testing.T) {
	k := serveForward(t, 2, func(c *config.Config) { c.IdmpMaxProducers = 1 })
	k.stand()
	p := k.primary(1)
	own := k.dial(p, 2)
	own.want(fmt.Sprintf("INCR {%d}.cntcm IDMP a 1", k.mid(1, 0)), ":1")
	own.want(fmt.Sprintf("INCR {%d}.cntcm IDMP b 1", k.mid(1, 0)), "-IDMPFULL counter: there are as many producers as there may be, and none is idle for long enough to be forgotten")
	w := k.forward(k.primary(0), 2)
	for n := range 3 {
		w.want(fmt.Sprintf("INCR {%d}.cntcm", k.mid(1, 0)), fmt.Sprint(":", 2+n))
	}
	own.want(fmt.Sprintf("INCR {%d}.cntcm IDMP b 1", k.mid(1, 0)), "-IDMPFULL counter: there are as many producers as there may be, and none is idle for long enough to be forgotten")
}

// TestForwardNumbersRefused: the node of a forward port leads the shard of the posts, and refuses changes for a moment, as in a failover. Each command
// of a pipeline has a number of its own all the same. All of them had one: of those of one post one was made, and the others were answered as its
// repeats; a client that sent the later numbers again was counted twice.
func TestForwardNumbersRefused(t *testing.T) {
	k := serveForward(t, 2, nil)
	w, other := k.forward(0, 2), k.forward(1, 2)
	post, neighbour, far := k.mid(0, 0), k.mid(0, 1), k.mid(1, 0)
	w.want("CLIENT IDMP p 1", "+OK")
	last := 0
	for round := range 5 {
		k.change = func(i int, st *cluster.Standing) {
			if i == 0 {
				st.Writes = "CLUSTERDOWN as the test says"
			}
		}
		k.stand()
		answered := make(chan []string)
		go func() {
			commands := []string{"INCR %d.cntcm", "INCR %d.cntcm", "SET %d.cntrn 7", "INCR %d.cntcm", "INCR %d.cntcm"}
			for i, mid := range []uint64{post, neighbour, neighbour, far, post} {
				commands[i] = fmt.Sprintf(commands[i], mid)
			}
			answered <- w.pipeline(commands...)
		}()
		time.Sleep(20 * time.Millisecond) // the node refuses them
		k.change = nil
		k.stand()
		n := 2 * round
		if got, want := <-answered, []string{fmt.Sprint(":", n+1), fmt.Sprint(":", round+1), "+OK", fmt.Sprint(":", round+1), fmt.Sprint(":", n+2)}; !slices.Equal(got, want) {
			t.Fatalf("round %d: got %q, want %q", round, got, want)
		}
		last += 5
		other.want("IDMP LAST p", fmt.Sprint(":", last))
		w.want(fmt.Sprintf("INCR %d.cntcm IDMP p %d", post, last), fmt.Sprint(":", n+2)) // the repeat
	}
}

// TestForwardMoved moves groups between the shards, without their posts, while clients read and write: as owners change
// between a look at the map and the arrival of a command, nodes refuse, and no client hears of it. Each command meets a few moves: a node gives up
// behind those of some seconds, which a busy machine takes for all 60.
func TestForwardMoved(t *testing.T) {
	k := serveForward(t, 3, nil)
	stop := make(chan struct{})
	var done sync.WaitGroup
	var passes [3]atomic.Int64
	for n := range 3 {
		done.Add(1)
		go func() {
			defer done.Done()
			w := k.forward(n, 2)
			for {
				select {
				case <-stop:
					return
				default:
				}
				var b []byte
				for i := range 30 {
					b = resptest.Append(b, "INCR", fmt.Sprintf("%d.cntcm", 100+i))
				}
				b = resptest.Append(b, strings.Fields("MGET 100.cntcm 101.cntcm 102.cntcm 103.cntcm 104.cntcm 105.cntcm 106.cntcm 107.cntcm")...)
				b = resptest.Append(b, strings.Fields("COUNTER.MGET weibo 100 101 102 103 104 105 106 107 108 109")...)
				b = resptest.Append(b, strings.Fields("EXISTS 100 101 102 103 104 105 106 107 108 109")...)
				if _, err := w.conn.Write(b); err != nil {
					t.Error(err)
					return
				}
				for i := range 33 {
					if v, err := resptest.Read(w.r, 2); err != nil || v.Kind == '-' {
						t.Errorf("command %d: got %s and %v", i, v, err)
						return
					}
				}
				passes[n].Add(1)
			}
		}()
	}
	late := 0
	k.change = func(i int, _ *cluster.Standing) { // nodes hear of it one after the other
		if late++; late%4 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	for range 15 {
		var before [3]int64
		for n := range passes {
			before[n] = passes[n].Load()
		}
		for range 4 {
			first := k.shards[0].Groups
			k.shards[0].Groups, k.shards[1].Groups, k.shards[2].Groups = k.shards[1].Groups, k.shards[2].Groups, first
			k.stand()
			time.Sleep(2 * time.Millisecond)
		}
		until(t, "each client has been answered", func() bool {
			for n := range passes {
				if passes[n].Load() == before[n] && !t.Failed() {
					return false
				}
			}
			return true
		})
	}
	close(stop)
	done.Wait()
}

// TestForwardOwnReplies: a node refuses one post for a moment, again and again, while many connections of a loop read posts that never change, and change that one in the same
// pipeline. Each gets its own values: the replies that came at once are kept while the change is asked for again, and other connections of the loop write their replies meanwhile.
func TestForwardOwnReplies(t *testing.T) {
	k := serveForward(t, 2, nil)
	w := k.forward(0, 2)
	refused := k.mid(0, 0)
	var mids []uint64
	for i := 1; len(mids) < 40; i++ {
		if mid := k.mid(0, i); slot.Group(mid) != slot.Group(refused) {
			w.want(fmt.Sprintf("SET %d.cntcm %d", mid, 100_000+len(mids)*7919), "+OK")
			mids = append(mids, mid)
		}
	}
	stop := make(chan struct{})
	var done sync.WaitGroup
	each := func(n int, make func(rng *rand.Rand) (b []byte, want []string), passed func()) {
		done.Add(1)
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		w := k.forward(0, 2)
		go func() {
			defer done.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				b, want := make(rng)
				if _, err := w.conn.Write(b); err != nil {
					t.Error(err)
					return
				}
				for i := range want {
					if v, err := resptest.Read(w.r, 2); err != nil || want[i] != "" && v.String() != want[i] {
						t.Errorf("command %d: got %s and %v, want %s", i, v, err, want[i])
						return
					}
				}
				passed()
			}
		}()
	}
	read := func(rng *rand.Rand) (b []byte, want []string) {
		words, values := []string{"MGET"}, []string{}
		for range 1 + rng.IntN(8) {
			i := rng.IntN(len(mids))
			words, values = append(words, fmt.Sprintf("%d.cntcm", mids[i])), append(values, strconv.Quote(strconv.Itoa(100_000+i*7919)))
		}
		return resptest.Append(nil, words...), []string{"[" + strings.Join(values, " ") + "]"}
	}
	var passes atomic.Int64
	for n := range 6 {
		each(n, func(rng *rand.Rand) (b []byte, want []string) {
			for range 6 {
				more, values := read(rng)
				b, want = resptest.Append(append(b, more...), "INCRBY", fmt.Sprintf("%d.cntrn", refused), "1"), append(append(want, values...), "")
			}
			return b, want
		}, func() { passes.Add(1) })
		each(6+n, func(rng *rand.Rand) (b []byte, want []string) { // these are never refused
			for range 12 {
				more, values := read(rng)
				b, want = append(b, more...), append(want, values...)
			}
			return b, want
		}, func() {})
	}
	var gone slot.Set
	gone.Add(slot.Group(refused))
	own := k.srv[0].Store().Groups().Own
	for range 60 {
		before := passes.Load()
		own(k.shards[0].Groups.Minus(gone))
		time.Sleep(2 * time.Millisecond)
		own(k.shards[0].Groups)
		until(t, "another pass", func() bool { return passes.Load() > before+6 || t.Failed() })
	}
	close(stop)
	done.Wait()
}

// doubtful takes connections for a node and answers the array behind a call of next by UNCERTAIN: the node made the
// change, and does not know whether it stays.
func doubtful(t *testing.T, node int) (port int, next func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	doubts := make(chan struct{}, 1)
	go func() {
		for {
			link, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { link.Close() })
			server, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", node))
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { server.Close() })
			go func() { _, _ = io.Copy(server, link) }()
			go func() {
				for r := bufio.NewReader(server); ; {
					v, err := resptest.Read(r, resptest.Any)
					if err != nil {
						return
					}
					raw := v.Raw
					if raw[0] == '*' {
						select {
						case <-doubts:
							raw = "-UNCERTAIN as the test says\r\n"
						default:
						}
					}
					if _, err := io.WriteString(link, raw); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, func() { doubts <- struct{}{} }
}

// TestForwardExecInDoubt: a transaction that its shard has made and is not sure of is made once, by the number of its
// client or, where there is none, by that of the link.
func TestForwardExecInDoubt(t *testing.T) {
	k := serveForward(t, 2, nil)
	port, doubt := doubtful(t, k.nodes[1].Port)
	k.nodes[1].Port = port
	k.stand()
	there := fmt.Sprint(k.mid(1, 0))
	for i, w := range []struct{ before, exec string }{{"", "EXEC"}, {"", "EXEC IDMP p 1"}, {"CLIENT IDMP q 1", "EXEC"}, {"", "EXEC IDMP p 2"}, {"", "EXEC"}} {
		c := k.forward(0, 2)
		if w.before != "" {
			c.want(w.before, "+OK")
		}
		doubt()
		want := fmt.Sprintf("[:%d]", 5*(i+1))
		for {
			c.want("MULTI", "+OK")
			c.want("INCRBY "+there+".cntcm 5", "+QUEUED")
			got := c.do(w.exec).String()
			if strings.HasPrefix(got, "-UNCERTAIN as the test says") && (w.before != "" || w.exec != "EXEC") { // the client repeats it under its number
				if w.before != "" {
					c.want(w.before, "+OK")
				}
				continue
			}
			if got != want {
				t.Errorf("%s %s: got %s, want %s", w.before, w.exec, got, want)
			}
			break
		}
		c.want("CLIENT IDMP OFF", "+OK")
		c.want("GET "+there+".cntcm", fmt.Sprintf("%q", fmt.Sprint(5*(i+1))))
	}
}

// late takes connections for a node. Behind a call of keep it keeps the next commands that it reads, and ends the connection that they came by. release gives the node
// the kept commands: a session that was busy reads commands that came before its connection was lost.
func late(t *testing.T, node int) (port int, keep, release func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	armed, kept := make(chan struct{}, 1), make(chan func(), 1)
	serve := func(link, server net.Conn) {
		go func() { _, _ = io.Copy(link, server) }()
		b := make([]byte, 1<<16)
		for {
			n, err := link.Read(b)
			if err != nil {
				return
			}
			if bytes.HasPrefix(b[:n], []byte("*3\r\n$12\r\nCOUNTER.LINK\r\n$1\r\n")) || bytes.Contains(b[:n], []byte(find.UpdatedName)) { // a new link introduces itself; a question
				_, _ = server.Write(b[:n])
				continue
			}
			select {
			case <-armed:
				_ = link.Close()
				kept <- func() { _, _ = server.Write(b[:n]) }
				return
			default:
				_, _ = server.Write(b[:n])
			}
		}
	}
	go func() {
		for {
			link, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", node))
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { link.Close(); server.Close() })
			go serve(link, server)
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, func() { armed <- struct{}{} }, func() { (<-kept)() }
}

// TestForwardRefusedLater: the connection of a change is lost, and its repeat is refused, as the disk fails meanwhile. The shard makes the change all the same when it comes to
// the copy of the first connection. So the client must not be told that nothing was changed.
func TestForwardRefusedLater(t *testing.T) {
	k, disk := serveOnFaulty(t)
	direct := k.dial(0, 2)
	port, keep, release := late(t, k.nodes[0].Port)
	k.nodes[0].Port = port
	k.hurry(100 * time.Millisecond)
	w := k.forward(1, 2)
	key := fmt.Sprintf("{%d}.cntcm", k.mid(0, 0))
	made := 0
	for _, commands := range [][]string{{"INCR KEY"}, {"INCR KEY", "INCR KEY"}, {"MULTI", "INCR KEY", "EXEC"}, {"INCRBY KEY 1 IDMP p 1"}, {"COUNTER.UPDATE weibo INCR comment 1 IDMP p 2"}} {
		for i := range commands {
			commands[i] = strings.ReplaceAll(commands[i], "KEY", key)
		}
		w.want("INCRBY "+key+" 0", fmt.Sprint(":", made)) // it connects
		disk.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.EIO})
		if got := direct.do(fmt.Sprintf("INCR {%d}.cntrn", k.mid(0, 1))).String(); !strings.HasPrefix(got, "-UNCERTAIN ") {
			t.Fatalf("the disk fails: got %s", got)
		}
		until(t, "changes are refused", func() bool {
			return strings.HasPrefix(direct.do(fmt.Sprintf("INCR {%d}.cntrn", k.mid(0, 1))).String(), "-MISCONF ")
		})
		keep()
		for i, got := range w.pipeline(commands...) {
			if commands[i] == "MULTI" || commands[len(commands)-1] == "EXEC" && i < len(commands)-1 {
				continue
			}
			if !strings.HasPrefix(got, "-UNCERTAIN ") {
				t.Errorf("%q: got %s, want an error in doubt", commands[i], got)
			}
			made++
		}
		disk.Clear()
		until(t, "changes are made again", func() bool { return direct.do(fmt.Sprintf("INCR {%d}.cntrn", k.mid(0, 1))).String()[0] == ':' })
		release()
		until(t, "the first copy is made", func() bool { return direct.do("GET "+key).String() == fmt.Sprintf("%q", fmt.Sprint(made)) })
	}
}
