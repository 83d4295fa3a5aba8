// Scenario: groups of hash slots move away while a forward port answers.

package server

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/scatter"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// randomSeed is that of -seed, or a new one. It is printed.
func randomSeed(t *testing.T) uint64 {
	return seed.Of(t)
}

// leave has groups of hash slots leave the stores of the nodes and come back, behind the back of the servers, until the
// returned function is called: so they leave between the look at the map of the cluster and the read of the store.
func (k *testCluster) leave(seed uint64) (stop func()) {
	end := make(chan struct{})
	var wg sync.WaitGroup
	for i, s := range k.srv {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			groups := s.Store().Groups()
			all := groups.Owned()
			for {
				some := all
				for at := range some {
					some[at] &= r.Uint64() | r.Uint64()
				}
				groups.Own(some)
				time.Sleep(time.Duration(r.IntN(300)) * time.Microsecond)
				groups.Own(all)
				select {
				case <-end:
					return
				case <-time.After(time.Duration(r.IntN(600)) * time.Microsecond):
				}
			}
		})
	}
	return func() {
		close(end)
		wg.Wait()
	}
}

// TestForwardLeaving is TestForwardPort while groups leave: the answers are those of one server. An answer that has a part from
// the wrong place is asked for again.
func TestForwardLeaving(t *testing.T) {
	t.Parallel()
	for _, proto := range []int{2, 3} {
		seed := randomSeed(t)
		r := rand.New(rand.NewPCG(seed, 0))
		model := wireDial(t, wireServe(t, nil), proto)
		f := serveForward(t, 2, nil)
		clients := []*wireClient{f.forward(0, proto), f.forward(1, proto)}
		stop := f.leave(seed)
		defer stop()
		for range 600 {
			c := clients[r.IntN(2)]
			sent := []string{randomCommand(r)} // one at a time: what is asked for again is overtaken by what was sent behind it
			if r.IntN(5) == 0 {
				sent = randomTransaction(r)
			}
			var b []byte
			for _, s := range sent {
				b = resptest.Append(b, strings.Fields(s)...)
			}
			for _, to := range []*wireClient{c, model} {
				if _, err := to.conn.Write(b); err != nil {
					t.Fatal(err)
				}
			}
			for i, s := range sent {
				if got, want := c.read(), model.read(); got.Raw != want.Raw {
					t.Fatalf("RESP%d, %s (%d of %d): got %s, want %s", proto, s, i, len(sent), got, want)
				}
			}
		}
	}
}

// TestNodeLeaving: on the port of a cluster's clients a command on posts that leave is answered as one server does, or by one
// error as a whole; EXEC too.
func TestNodeLeaving(t *testing.T) {
	t.Parallel()
	seed := randomSeed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	f := serveForward(t, 2, nil)
	var clients []*wireClient
	for i := range f.srv {
		clients = append(clients, f.dial(i, 2), f.dial(i, 3))
	}
	models := []*wireClient{wireDial(t, wireServe(t, nil), 2), wireDial(t, wireServe(t, nil), 3)}
	for mid := range 60 {
		f.forward(0, 2).want(fmt.Sprintf("COUNTER.MSET weibo %d 5 6", mid), ":1")
		for _, m := range models {
			m.want(fmt.Sprintf("COUNTER.MSET weibo %d 5 6", mid), ":1")
		}
	}
	for i, c := range clients { // keys that a cluster's client hashes as they stand, or that name no post
		c.want("EXISTS {15} {0} nosuch", models[i%2].do("EXISTS {15} {0} nosuch").String())
		c.want("MGET {15}.cntcm {0}.cntcm nosuch", models[i%2].do("MGET {15}.cntcm {0}.cntcm nosuch").String())
	}
	stop := f.leave(seed)
	defer stop()
	whole := 0
	for range 1500 {
		at := r.IntN(len(clients))
		c, model := clients[at], models[at%2]
		many := func(form string) string {
			var words []string
			for range 1 + r.IntN(20) {
				words = append(words, fmt.Sprintf(form, r.IntN(70)))
			}
			return strings.Join(words, " ")
		}
		one := r.IntN(60)
		command := []string{"MGET " + many("{%d}.cntcm"), "EXISTS " + many("{%d}"), "TOUCH " + many("{%d}"), "COUNTER.MGET weibo " + many("%d"), fmt.Sprintf("HMGET %d comment repost", one),
			fmt.Sprintf("HGETALL %d", one), fmt.Sprintf("HVALS %d", one), fmt.Sprintf("HSCAN %d 0", one), fmt.Sprintf("MGET {%d}.cntcm {%d}.cntrn", one, one)}[r.IntN(9)]
		if r.IntN(3) == 0 {
			c.want("MULTI", "+OK")
			model.want("MULTI", "+OK")
			queued := c.do(command)
			if model.want(command, "+QUEUED"); queued.Kind == '-' { // several slots, or another node's
				c.do("DISCARD")
				model.do("DISCARD")
				continue
			}
			command = "EXEC"
		}
		got, want := c.do(command), model.do(command)
		word, _, _ := strings.Cut(got.Text, " ")
		switch {
		case got.Raw == want.Raw:
		case got.Kind == '-' && (word == "MOVED" || word == "TRYAGAIN" || word == "CROSSSLOT"):
			whole++
		default:
			t.Fatalf("%s: got %s, want %s", command, got, want)
		}
	}
	if whole == 0 {
		t.Error("no group left in time")
	}
}

// TestForwardRowsApart: posts of a COUNTER.MSET that come to be of two shards while it is on its way are refused as they are
// when it comes later, and none is set.
func TestForwardRowsApart(t *testing.T) {
	k := serveForward(t, 2, nil)
	stays, goes := k.mid(1, 0), k.mid(1, 1)
	for n := 1; slot.Group(goes) == slot.Group(stays); n++ {
		goes = k.mid(1, n)
	}
	group := slot.Group(goes)
	owned := k.srv[1].Store().Groups().Owned()
	owned.Remove(group)
	k.srv[1].Store().Groups().Own(owned)
	for _, tail := range []string{"", " IDMP p 1"} {
		c := k.forward(0, 2)
		calls := k.srv[1].commands.Calls()
		c.send(fmt.Sprintf("COUNTER.MSET weibo %d 5 5 %d 6 6%s", stays, goes, tail))
		if tail == "" {
			until(t, "the shard has refused it", func() bool { return k.srv[1].commands.Calls() > calls })
			k.shards[1].Groups.Remove(group)
			k.shards[0].Groups.Add(group)
			k.stand()
		}
		if got := c.read().String(); got != "-"+scatter.ErrRowsApart {
			t.Errorf("COUNTER.MSET%s: got %s, want %s", tail, got, scatter.ErrRowsApart)
		}
		c.want(fmt.Sprintf("EXISTS %d %d", stays, goes), ":0")
	}
}
