// Scenario: clients with caches, in all modes of CLIENT TRACKING, never keep a stale value.

package server

import (
	"bufio"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// cacher is a client with a cache of its own, as client libraries have it: it keeps every reply until it is told that the
// key has changed, and believes the order in which replies and pushes arrive. One that is told by another connection
// cannot, and keeps no reply during whose wait it was told of the key.
type cacher struct {
	t       *testing.T
	node    *replNode
	primary bool
	rng     *rand.Rand
	mode    string
	c       *wireClient
	told    *wireClient // of REDIRECT; nil: c itself

	mu      sync.Mutex                   // guards the rest, which two connections write if told
	cache   map[string]map[string]string // replies by key and command
	waiting map[string]int               // keys that are being read, by how often they were asked for; of REDIRECT
	pushes  int
	hits    int
}

// cacherModes are all ways to track.
var cacherModes = []string{"", "OPTIN", "OPTOUT", "NOLOOP", "BCAST", "BCAST PREFIX 1 PREFIX 2 PREFIX 3 PREFIX 4 PREFIX 5 PREFIX 6 PREFIX 7 PREFIX 8 PREFIX 9 PREFIX weibo: PREFIX {", "BCAST NOLOOP", "REDIRECT", "REDIRECT BCAST"}

func newCacher(t *testing.T, node *replNode, primary bool, seed uint64, mode string) *cacher {
	k := &cacher{t: t, node: node, primary: primary, rng: rand.New(rand.NewPCG(seed, 2)), mode: mode, cache: map[string]map[string]string{}, waiting: map[string]int{}}
	k.c = k.dial(3)
	if rest, ok := strings.CutPrefix(mode, "REDIRECT"); ok {
		k.told = k.dial(2 + k.rng.IntN(2))
		mode = fmt.Sprint("REDIRECT ", k.told.do("CLIENT ID").N, rest)
		k.told.do("SUBSCRIBE __redis__:invalidate")
	}
	k.c.want("CLIENT TRACKING ON "+mode, "+OK")
	return k
}

// dial connects for as long as the test takes.
func (k *cacher) dial(proto int) *wireClient {
	conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", k.node.port))
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	c := &wireClient{t: k.t, conn: conn, r: bufio.NewReader(conn), proto: proto}
	if proto == 3 {
		c.do("HELLO 3")
	}
	return c
}

// read is one of the commands that read, and the keys of its reply or of the elements of its reply.
func (k *cacher) read() (command string, keys []string) {
	key := func(suffix string) string {
		mid := 1 + k.rng.IntN(9)
		form := []string{"%d", "weibo:%d", "{%d}", "{weibo:%d}", "weibo:{%d}"}[k.rng.IntN(5)]
		if k.rng.IntN(8) == 0 && !strings.Contains(k.mode, "BCAST") {
			form = strings.Replace(form, "%d", "00%d", 1)
		}
		return fmt.Sprintf(form, mid) + suffix
	}
	number := func() string { return key([]string{".cntcm", ".cntrn", ".cntlk"}[k.rng.IntN(3)]) }
	switch k.rng.IntN(6) {
	case 0:
		a := key("")
		return "HGETALL " + a, []string{a}
	case 1:
		a := number()
		return "EXISTS " + a, []string{a}
	case 2:
		a, b := number(), number()
		return "MGET " + a + " " + b, []string{a, b}
	case 3:
		mid := fmt.Sprint(1 + k.rng.IntN(9))
		return "COUNTER.MGET weibo " + mid, []string{"weibo:" + mid}
	default:
		a := number()
		return "GET " + a, []string{a}
	}
}

// keep puts a reply into the cache.
func (k *cacher) keep(command string, keys []string, v resptest.Value) {
	for i, key := range keys {
		of, value := command, v.String()
		if len(keys) > 1 {
			of, value = "GET "+key, v.List[i].String()
		}
		if k.cache[key] == nil {
			k.cache[key] = map[string]string{}
		}
		k.cache[key][of] = value
	}
}

// push takes what a push says; false: v is none.
func (k *cacher) push(v resptest.Value) bool {
	if v.Kind != '>' && (len(v.List) != 3 || v.List[0].Text != "message") {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pushes++
	last := v.List[len(v.List)-1]
	if last.Null {
		clear(k.cache)
		clear(k.waiting)
		return true
	}
	for _, key := range last.List {
		delete(k.cache, key.Text)
		delete(k.waiting, key.Text)
	}
	return true
}

// round sends some commands at once and reads their replies.
func (k *cacher) round() {
	type asked struct {
		command string
		keys    []string
		skip    int // replies that are of no interest
		exec    bool
	}
	var all []asked
	var text []byte
	add := func(command string) { text = resptest.Append(text, strings.Fields(command)...) }
	k.mu.Lock()
	for range 1 + k.rng.IntN(12) {
		command, keys := k.read()
		if k.told != nil {
			for _, key := range keys {
				k.waiting[key]++
			}
		}
		switch {
		case k.mode == "OPTIN" && k.rng.IntN(2) == 0: // as rueidis does
			add("CLIENT CACHING YES")
			add("MULTI")
			add(command)
			add("EXEC")
			all = append(all, asked{command, keys, 3, true})
		case k.mode == "OPTIN":
			add("CLIENT CACHING YES")
			add(command)
			all = append(all, asked{command, keys, 1, false})
		case k.mode == "OPTOUT" && k.rng.IntN(4) == 0:
			add("CLIENT CACHING NO")
			add(command)
			all = append(all, asked{"", nil, 2, false})
		default:
			add(command)
			all = append(all, asked{command, keys, 0, false})
		}
		if k.primary && k.rng.IntN(5) == 0 { // a change of its own
			key := fmt.Sprint(1 + k.rng.IntN(9))
			add("INCR " + key + ".cntcm")
			all = append(all, asked{"INCR", []string{key}, 0, false})
		}
	}
	k.mu.Unlock()
	if _, err := k.c.conn.Write(text); err != nil {
		k.t.Error(err)
		return
	}
	next := func() resptest.Value {
		for {
			if v := k.c.read(); !k.push(v) {
				return v
			}
		}
	}
	for _, a := range all {
		for range a.skip {
			next()
		}
		if a.command == "" {
			continue
		}
		v := next()
		k.mu.Lock()
		switch {
		case a.command == "INCR":
			if strings.Contains(k.mode, "NOLOOP") { // it is not told, and has to know all names itself
				for key := range k.cache {
					if i := strings.IndexAny(key, "123456789"); key[i:i+1] == a.keys[0] {
						delete(k.cache, key)
					}
				}
			}
		case a.exec:
			v = v.List[0]
			fallthrough
		default:
			if v.Kind != '-' && k.whole(a.keys) {
				k.keep(a.command, a.keys, v)
			}
		}
		k.mu.Unlock()
	}
}

// whole tells whether a reply may be kept: nothing was told of its keys while it was on its way. REQUIRES mu.
func (k *cacher) whole(keys []string) bool {
	if k.told == nil {
		return true
	}
	ok := true
	for _, key := range keys {
		ok = ok && k.waiting[key] > 0
		if k.waiting[key]--; k.waiting[key] <= 0 {
			delete(k.waiting, key)
		}
	}
	return ok
}

// settled reads what is on its way, and tells whether the cache is what the server has now; else where it is not.
func (k *cacher) settled() (stale string) {
	k.c.send("PING")
	for {
		if v := k.c.read(); !k.push(v) {
			break
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	plain := k.node.dial()
	plain.proto = 3
	plain.do("HELLO 3")
	for _, of := range slices.Collect(maps.Values(k.cache)) {
		for command, value := range of {
			k.hits++
			if got := plain.do(command).String(); got != value {
				stale += fmt.Sprintf("%s: cached %s, is %s; ", command, value, got)
			}
		}
	}
	plain.conn.Close()
	return stale
}

// trackedChange makes a change by one of all commands that make any.
func trackedChange(rng *rand.Rand, c *wireClient, rare bool) {
	mid := 1 + rng.IntN(9)
	key := fmt.Sprintf([]string{"%d", "weibo:%d", "{%d}"}[rng.IntN(3)], mid)
	number := key + []string{".cntcm", ".cntrn"}[rng.IntN(2)]
	n := rng.IntN(1000)
	switch rng.IntN(20) {
	case 0:
		c.do(fmt.Sprintf("SET %s %d", number, n))
	case 1:
		c.do(fmt.Sprintf("MSET %s %d %d.cntcm %d", number, n, 1+rng.IntN(9), n))
	case 2:
		c.do("DEL " + key)
	case 3:
		c.do("HDEL " + key + " comment repost")
	case 4:
		c.do(fmt.Sprintf("HSET %s comment %d repost 5", key, n))
	case 5:
		c.do("GETDEL " + number)
	case 6:
		c.do(fmt.Sprintf("COUNTER.MINCRBY %s 1 %d.cntrn 2", number, 1+rng.IntN(9)))
	case 7:
		c.do("COUNTER.DRAIN " + number)
	case 8:
		c.do(fmt.Sprintf("COUNTER.UPDATE weibo MID >= %d WHERE comment < 500 INCR comment 3", mid))
	case 9:
		c.do(fmt.Sprintf("COUNTER.UPDATE weibo WHERE comment > %d SET repost 1 LIMIT 3 RETURNING NEW", n))
	case 10:
		c.do("COUNTER.UPDATE weibo WHERE comment < 200 DEL LIMIT 1")
	case 11:
		for _, command := range []string{"MULTI", "INCR " + number, fmt.Sprintf("HINCRBY %s repost 2", key), "GETSET 3.cntcm 4", "EXEC"} {
			c.do(command)
		}
	case 12:
		id := rng.IntN(30) // repeats too
		c.do(fmt.Sprintf("INCR %d.cntcm IDMP p %d", 1+id%9, id))
	case 13:
		c.do(fmt.Sprintf("SETNX %s %d", number, n))
	case 14:
		if rare && rng.IntN(4) == 0 {
			c.do([]string{"FLUSHALL", "ADD COLUMN weibo like hint=8 max=32 default=3 suffix=cntlk", "DROP COLUMN weibo like"}[rng.IntN(3)])
		}
	case 15:
		c.do("HINCRBY " + key + " like 1")
	default:
		c.do("INCR " + number)
	}
}

// TestTrackingModel has clients with caches, in all modes, on a primary and on its replica, read while everything changes
// by all commands. When it is quiet every cache is what the server has.
func TestTrackingModel(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	until(t, "the replica follows", func() bool { return b.info("master_link_status") == "up" })
	rng := rand.New(rand.NewPCG(seed, 1))
	var all []*cacher
	for _, node := range []*replNode{a, b} {
		for _, mode := range cacherModes {
			all = append(all, newCacher(t, node, node == a, rng.Uint64(), mode))
		}
	}
	for _, k := range all {
		if k.told != nil {
			go func() {
				for {
					v, err := resptest.Read(k.told.r, k.told.proto)
					if err != nil {
						return
					}
					k.push(v)
				}
			}()
		}
	}
	rounds, repeats := 60, 3
	if testing.Short() {
		rounds = 15
	}
	for range repeats {
		var reading, writing sync.WaitGroup
		var done atomic.Bool
		for i := range 3 {
			w, rng := a.dial(), rand.New(rand.NewPCG(rng.Uint64(), 3))
			writing.Go(func() {
				for !done.Load() {
					trackedChange(rng, w, i == 0)
				}
			})
		}
		for _, k := range all {
			reading.Go(func() {
				for range rounds {
					k.round()
				}
			})
		}
		reading.Wait()
		done.Store(true)
		writing.Wait()
		same(t, a, b)
		for i := range 2 * len(all) {
			k := all[i/2]
			if i%2 == 1 { // and again with what it reads now
				k.round()
				same(t, a, b)
			}
			var stale string
			for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // what is told by another connection takes its time
				if stale = k.settled(); stale == "" || time.Now().After(end) {
					break
				}
			}
			if stale != "" {
				t.Errorf("CLIENT TRACKING %q on the %s: %s", k.mode, map[bool]string{true: "primary", false: "replica"}[k.primary], stale)
			}
		}
	}
	for _, k := range all {
		k.mu.Lock()
		if k.pushes == 0 || k.hits == 0 {
			t.Errorf("CLIENT TRACKING %q was told %d times, its cache was used %d times", k.mode, k.pushes, k.hits)
		}
		k.mu.Unlock()
	}
}
