// Scenario: changes of all posts go through a forward port.

package server

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/scatter"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestForwardUpdate changes posts by condition by a forward port, and in a server of its own: answers and posts are the
// same. With a number, of its own or the connection's, that is so once.
func TestForwardUpdate(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, proto := range []int{2, 3} {
		model := wireDial(t, wireServe(t, nil), proto)
		k := serveForward(t, 3, nil)
		c := k.forward(1, proto)
		same := func(command string) { t.Helper(); c.same(model, command) }
		ordinary := k.dial(1, proto)
		for range 300 {
			same(fmt.Sprintf("SET %d.%s %d", r.IntN(2000), []string{"cntcm", "cntrn"}[r.IntN(2)], r.IntN(50)))
		}
		for _, command := range []string{
			"COUNTER.UPDATE weibo WHERE comment > 20 INCR comment 1", "COUNTER.UPDATE weibo WHERE comment = 9 SET repost 7 RETURNING OLD",
			"COUNTER.UPDATE weibo WHERE comment > 40 DECR comment 30 RETURNING NEW", "COUNTER.UPDATE weibo WHERE comment = 99999 DEL RETURNING OLD",
			"COUNTER.UPDATE weibo WHERE comment > 10 INCR repost 1 IDMP p 7 EPOCH 2", "COUNTER.UPDATE weibo WHERE comment > 10 INCR repost 1 IDMP p 7 EPOCH 2",
			"COUNTER.UPDATE weibo WHERE comment > 10 INCR repost 1 IDMP p 8 EPOCH 1",
			"COUNTER.UPDATE weibo MID < 100 INCR repost 1 RETURNING NEW IDMP p 9 EPOCH 2", "IDMP LAST p", "IDMP LAST nobody", "COUNTER.UPDATE weibo INCR repost 2 IDMP q 18446744073709551615", "IDMP LAST q",
			"CLIENT IDMP me 5", "COUNTER.UPDATE weibo MID < 50 INCR repost 1", "COUNTER.UPDATE weibo", "INCR 1.cntrn", "IDMP LAST me", "CLIENT IDMP me 5", "COUNTER.UPDATE weibo MID < 50 INCR repost 1",
			"CLIENT IDMP me 7", "INCR 1.cntrn", "CLIENT IDMP OFF",
			"COUNTER.UPDATE nosuch DEL", "COUNTER.UPDATE weibo SET comment 4294967296", "COUNTER.UPDATE weibo INCR comment 1 IDMP p x", "COUNTER.UPDATE weibo WHERE repost > 30 DEL",
			"COUNTER.FIND weibo LIMIT 5000", "COUNTER.UPDATE weibo DEL", "DBSIZE"} {
			if strings.HasPrefix(command, "COUNTER.UPDATE") && (strings.Contains(command, " IDMP ") || strings.Contains(command, "RETURNING")) { // not numbered by CLIENT IDMP
				ordinary.same(model, command)
				continue
			}
			same(command)
		}
		c.want("COUNTER.UPDATE weibo INCR comment 1 LIMIT 5", "-"+scatter.ErrUpdateLimit)
	}
}

// refuseChanges has a shard, counted from 0, refuse changes. It returns the answer to a change of which the others have made their parts.
func (k *testCluster) refuseChanges(shard int) (uncertain string) {
	const refusal = "CLUSTERDOWN as the agent says"
	k.change = func(i int, st *cluster.Standing) {
		if i == shard {
			st.Writes = refusal
		}
	}
	k.stand()
	return fmt.Sprintf("-UNCERTAIN the change was made in a part: shard %d (127.0.0.1:%d): %s", shard+1, k.nodes[shard].Port, refusal)
}

// TestForwardUpdateInPart has a shard refuse its part of a change: the error says which, and that others made theirs. With a
// number it is made by the rest when it is sent again, and by nobody twice.
func TestForwardUpdateInPart(t *testing.T) {
	for _, bad := range []int{0, 1} { // the node that is asked, and another one
		k := serveForward(t, 3, nil)
		k.hurry(100 * time.Millisecond)
		c := k.forward(0, 2)
		for shard := range 3 {
			for n := range 10 {
				c.want(fmt.Sprintf("SET %d.cntcm 100", k.mid(shard, n)), "+OK")
			}
		}
		refused := k.refuseChanges(bad)
		if bad == 0 { // it is asked first, and takes no changes at all
			refused = "-CLUSTERDOWN as the agent says"
		}
		c.want("COUNTER.UPDATE weibo INCR comment 1", refused)
		c.want("COUNTER.UPDATE weibo INCR comment 10 IDMP p 1", refused)
		c.want("COUNTER.UPDATE weibo INCR comment 10 IDMP p 1", refused)
		k.change = nil
		k.stand()
		want := ":3320"
		if bad == 0 {
			want = ":3300"
		}
		c.want("COUNTER.UPDATE weibo INCR comment 10 IDMP p 1", ":30")
		c.want("COUNTER.SUM weibo comment", want)
	}
}

// TestForwardUpdateAgain has a shard refuse its part of an update for a moment, as in a planned failover: it is asked again, and the others are not. It was UNCERTAIN, and a repeat without a
// number changed the posts of the others twice.
func TestForwardUpdateAgain(t *testing.T) {
	for _, number := range []string{"", " IDMP p 1"} {
		k := serveForward(t, 3, nil)
		k.hurry(time.Minute)
		c := k.forward(0, 2)
		for shard := range 3 {
			c.want(fmt.Sprintf("SET %d.cntcm 100", k.mid(shard, 0)), "+OK")
		}
		k.refuseChanges(1)
		answer := make(chan string, 1)
		go func() { answer <- c.do("COUNTER.UPDATE weibo INCR comment 1" + number).String() }()
		made := func(shard int) bool {
			n, _, err := k.srv[shard].Store().Get(fmt.Sprintf("%d.cntcm", k.mid(shard, 0)))
			return n == 101 && err == nil
		}
		until(t, "the other shards have made their parts", func() bool { return made(0) && made(2) })
		k.change = nil
		k.stand()
		if got := <-answer; got != ":3" {
			t.Errorf("the update%s is answered %s, want 3", number, got)
		}
		c.want("COUNTER.SUM weibo comment", ":303")
	}
}

// TestForwardUpdateDoubt has a shard refuse its part of a numbered update, and then no shard has its groups. The answer says that the others made theirs. It was an error behind
// which nothing is changed.
func TestForwardUpdateDoubt(t *testing.T) {
	k := serveForward(t, 2, nil)
	k.hurry(500 * time.Millisecond)
	c := k.forward(0, 2)
	for shard := range 2 {
		c.want(fmt.Sprintf("SET %d.cntcm 100", k.mid(shard, 0)), "+OK")
	}
	k.refuseChanges(1)
	answer := make(chan string, 1)
	go func() { answer <- c.do("COUNTER.UPDATE weibo INCR comment 1 IDMP p 1").String() }()
	until(t, "the other shard has made its part", func() bool {
		n, _, err := k.srv[0].Store().Get(fmt.Sprintf("%d.cntcm", k.mid(0, 0)))
		return n == 101 && err == nil
	})
	k.shards[1].Groups = slot.Set{}
	k.stand()
	if got := <-answer; !strings.HasPrefix(got, "-UNCERTAIN the change was made in a part: ") {
		t.Errorf("got %s", got)
	}
}

// TestForwardUpdateLongAnswer has a shard whose part of an answer is too long to be kept, and others whose parts are short. The repeat of such an update is told that it
// was made, by each shard, and that the answer is gone. It was UNCERTAIN for ever. While a shard has not made its part, the repeat is UNCERTAIN, and another one makes the rest.
func TestForwardUpdateLongAnswer(t *testing.T) {
	for _, long := range []int{0, 1} { // the shard of the node that is asked, and another one
		k := serveForward(t, 3, nil)
		k.hurry(100 * time.Millisecond)
		c := k.forward(0, 2)
		posts := 0
		for shard, n := range []int{10, 10, 10} {
			if shard == long {
				n = 9000
			}
			for i := range n {
				if err := k.srv[shard].Store().Set(fmt.Sprintf("%d.cntcm", k.mid(shard, i)), 100); err != nil {
					t.Fatal(err)
				}
			}
			posts += n
		}
		const update = "COUNTER.UPDATE weibo WHERE comment >= 0 INCR comment 10 RETURNING NEW IDMP p "
		if got := c.do(update + "1"); len(got.List) != posts {
			t.Fatalf("got %d rows, want %d: %.80q", len(got.List), posts, got.Raw)
		}
		want := func(number, want string) {
			t.Helper()
			if got := c.do(update + number).String(); got != want {
				t.Fatalf("the long answer is that of shard %d; number %s: got %.200q, want %q", long+1, number, got, want)
			}
		}
		for range 2 {
			want("1", "-"+idmp.ErrGone)
		}
		uncertain := k.refuseChanges(2)
		for range 2 {
			want("2", uncertain)
		}
		k.change = nil
		k.stand()
		for range 2 {
			want("2", "-"+idmp.ErrGone)
		}
		c.want("COUNTER.SUM weibo comment", fmt.Sprintf(":%d", posts*120))
	}
}

// TestForwardUpdateMoved has a shard refuse its part of a numbered update, and moves a group of it away and back: the rest is made then. When the group has moved again, the
// repeat is in doubt, and changes nothing.
func TestForwardUpdateMoved(t *testing.T) {
	for _, to := range []int{0, 2} { // the shard of the node that is asked, and another one
		k := serveForward(t, 3, nil)
		k.hurry(100 * time.Millisecond)
		c := k.forward(0, 2)
		for shard := range 3 {
			for n := range 10 {
				c.want(fmt.Sprintf("SET %d.cntcm 100", k.mid(shard, n)), "+OK")
			}
		}
		const update = "COUNTER.UPDATE weibo WHERE comment >= 0 INCR comment 10 IDMP p 1"
		c.want(update, k.refuseChanges(1))
		k.change = nil
		group := slot.Group(k.mid(1, 0))
		k.move(group, to)
		k.move(group, 1)
		c.want(update, ":30") // each shard has the groups of the first attempt
		c.want("COUNTER.SUM weibo comment", ":3300")
		k.move(group, to)
		for range 2 {
			if got := c.do(update).String(); !strings.HasPrefix(got, "-IDMPEXPIRED the number was used for posts of other groups") {
				t.Errorf("the repeat behind a move to shard %d: %s", to+1, got)
			}
		}
		c.want("COUNTER.SUM weibo comment", ":3300")
	}
}

// TestForwardUpdateMovedUnmade has a shard refuse its part of a numbered update, and gives a group of it to a shard that has made its own: the repeat is not answered as
// made, as nothing will make it for the posts of that group.
func TestForwardUpdateMovedUnmade(t *testing.T) {
	for _, to := range []int{0, 2} {
		k := serveForward(t, 3, nil)
		k.hurry(100 * time.Millisecond)
		c := k.forward(0, 2)
		for shard := range 3 {
			c.want(fmt.Sprintf("SET %d.cntcm 100", k.mid(shard, 0)), "+OK")
		}
		c.want("COUNTER.UPDATE weibo INCR comment 10 IDMP p 1", k.refuseChanges(1))
		k.change = nil
		k.move(slot.Group(k.mid(1, 0)), to)
		if got := c.do("COUNTER.UPDATE weibo INCR comment 10 IDMP p 1").String(); !strings.HasPrefix(got, "-IDMPEXPIRED the number was used for posts of other groups") {
			t.Errorf("the repeat behind a move to shard %d: %s", to+1, got)
		}
		c.want("COUNTER.SUM weibo comment", ":320")
	}
}

// TestForwardUpdateMovedFresh has one shard make its part of a numbered update, and gives a group of it to a shard that has not, as a client repeats an update that was in doubt.
// The repeat is in doubt, and changes nothing: the posts that moved were updated before. The shard that had not made its part updated them a second time.
func TestForwardUpdateMovedFresh(t *testing.T) {
	k := serveForward(t, 3, nil)
	k.hurry(100 * time.Millisecond)
	for shard := range 3 {
		k.forward(0, 2).want(fmt.Sprintf("SET %d.cntcm 100", k.mid(shard, 0)), "+OK")
	}
	for seq, from := range []int{0, 1} { // the node that is asked, and another one
		link := k.dial(from, 2)
		link.want("COUNTER.LINK 1 x", "+OK")
		link.want("COUNTER.LINK OWNING "+k.shards[from].Groups.String(), "+OK")
		update := fmt.Sprintf("COUNTER.UPDATE weibo WHERE comment >= 0 INCR comment 10 IDMP p %d", seq+1)
		link.want(update, ":1")
		group := slot.Group(k.mid(from, 0))
		k.move(group, 2)
		c := k.forward(0, 2)
		for range 2 {
			if got := c.do(update).String(); !strings.HasPrefix(got, "-IDMPEXPIRED the number was used for posts of other groups") {
				t.Errorf("the repeat behind a move from shard %d: %s", from+1, got)
			}
		}
		c.want("COUNTER.SUM weibo comment", fmt.Sprint(":", 310+30*seq))
		k.move(group, from)
		c.want(update, ":3") // now each shard has the groups of the first attempt
		c.want("COUNTER.SUM weibo comment", fmt.Sprint(":", 300+30*(seq+1)))
		c.want(update, ":3")
		c.want("COUNTER.SUM weibo comment", fmt.Sprint(":", 300+30*(seq+1)))
	}
}

// TestForwardUpdateMovedOld has a shard refuse its part of a numbered update, and gives a group of it to another shard. When 130 more numbers were used, the shards know that
// they made theirs, and not for which groups: the repeat is in doubt. It was answered as made, although nobody had changed the posts of that group.
func TestForwardUpdateMovedOld(t *testing.T) {
	k := serveForward(t, 2, nil)
	k.hurry(100 * time.Millisecond)
	c := k.forward(0, 2)
	for shard := range 2 {
		c.want(fmt.Sprintf("SET %d.cntcm 100", k.mid(shard, 0)), "+OK")
	}
	c.want("COUNTER.UPDATE weibo INCR comment 10 IDMP p 1", k.refuseChanges(1))
	k.change = nil
	k.move(slot.Group(k.mid(1, 0)), 0)
	for seq := range 130 {
		c.want(fmt.Sprintf("COUNTER.UPDATE weibo WHERE comment > 5000 INCR comment 1 IDMP p %d", seq+2), ":0")
	}
	for range 3 {
		if got := c.do("COUNTER.UPDATE weibo INCR comment 10 IDMP p 1").String(); !strings.HasPrefix(got, "-IDMPEXPIRED the number was used long ago") {
			t.Errorf("the repeat: %s", got)
		}
	}
	c.want("COUNTER.SUM weibo comment", ":210")
}

// TestForwardUpdateOwning has a shard own other posts than it is asked for: it changes none.
func TestForwardUpdateOwning(t *testing.T) {
	k := serveForward(t, 2, nil)
	c := k.forward(0, 2)
	mid := k.mid(1, 0)
	c.want(fmt.Sprintf("SET %d.cntcm 5", mid), "+OK")
	link := k.dial(1, 2)
	link.want("COUNTER.LINK 1 x", "+OK")
	groups := k.shards[1].Groups
	link.want("COUNTER.LINK OWNING 0", "-"+items.ErrOwning)
	link.want("COUNTER.UPDATE weibo INCR comment 1", "-"+items.ErrOwning)
	link.want("COUNTER.LINK STILL 0", "-"+scatter.ErrStill)
	link.want("COUNTER.LINK OWNING "+groups.String(), "+OK")
	link.want("COUNTER.UPDATE weibo INCR comment 1", ":1")
	link.want("COUNTER.LINK STILL "+groups.String(), "+OK")
	for _, update := range []string{"COUNTER.UPDATE weibo INCR comment 1", "COUNTER.UPDATE weibo INCR comment 1 RETURNING NEW", "COUNTER.UPDATE weibo INCR comment 1 IDMP p 1", "COUNTER.UPDATED weibo INCR comment 1 IDMP p 1"} {
		link.want("COUNTER.LINK OWNING "+groups.String(), "+OK")
		k.srv[1].Store().Groups().Own(groups.Union(k.shards[0].Groups)) // a move ends between the two
		link.want(update, "-"+items.ErrOwning)
		k.srv[1].Store().Groups().Own(groups)
	}
	k.srv[1].Store().Groups().Own(groups.Union(k.shards[0].Groups)) // it knows of a move that the others do not
	for _, command := range []string{"COUNTER.UPDATE weibo MID > 0 INCR comment 1", "FLUSHALL"} {
		c.want(command, fmt.Sprintf("-UNCERTAIN the change was made in a part: shard 2 (127.0.0.1:%d): %s", k.nodes[1].Port, items.ErrOwning))
	}
	if n, _, err := k.srv[1].Store().Get(fmt.Sprintf("%d.cntcm", mid)); n != 6 || err != nil {
		t.Errorf("got %d and %v, want 6", n, err)
	}
}

// TestForwardChangeByReplica changes the posts of all shards by the forward port of a node that has none.
func TestForwardChangeByReplica(t *testing.T) {
	k := startCluster(t, func(c *config.Config) { c.Cluster.ForwardPort = freeport.Take(t) }, 2, 1)
	c := k.forward(1, 2)
	c.want(fmt.Sprintf("SET %d.cntcm 5", k.mid(0, 0)), "+OK")
	c.want(fmt.Sprintf("SET %d.cntcm 5", k.mid(1, 0)), "+OK")
	c.want("COUNTER.UPDATE weibo INCR comment 1", ":2")
	c.want("FLUSHALL", "+OK")
	for i, shard := range []int{0, 2} {
		if n, found, err := k.srv[shard].Store().Get(fmt.Sprintf("%d.cntcm", k.mid(i, 0))); found || err != nil {
			t.Errorf("shard %d: got %d and %v", i, n, err)
		}
	}
}

// TestForwardChangeWaits: a change of all posts has to wait in another shard for longer than a change of one post may take, as behind many queries. It is made. It was
// answered with UNCERTAIN after twice cluster-node-timeout, and the connection to the shard was cut, with the commands of all other clients.
func TestForwardChangeWaits(t *testing.T) {
	k := serveForward(t, 2, nil)
	k.hurry(50 * time.Millisecond)
	c := k.forward(k.primary(0), 2)
	for _, command := range []string{"COUNTER.DROPRANGE weibo 1 2", "FLUSHALL"} {
		b := k.srv[k.primary(1)].Store().NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		c.send(command)
		time.Sleep(400 * time.Millisecond)
		b.End()
		if got := c.read(); got.Kind == '-' {
			t.Errorf("%s: got %s", command, got)
		}
	}
}

// TestForwardWhileLoading: a replica that opens its store anew, as behind a full copy, passes commands of its forward port on. It answered LOADING to those on single posts.
func TestForwardWhileLoading(t *testing.T) {
	dir := t.TempDir()
	k := startClusterIn(t, func(i int, _ *counter.Options) string {
		if i == 1 {
			return dir
		}
		return ""
	}, func(c *config.Config) { c.Cluster.ForwardPort = freeport.Take(t) }, 2, 1)
	k.schema = topology.Schema{Text: string(k.srv[0].Store().Schema().AppendText(nil)), Revision: 1}
	k.stand()
	k.srv[1].Open = func() (*counter.Store, error) { return counter.Open(dir, counter.Options{}) }
	c, late := k.forward(1, 2), k.forward(0, 2)
	here, there := k.mid(0, 0), k.mid(1, 0) // posts of its own shard, and of another one
	c.want(fmt.Sprintf("INCR %d.cntcm", here), ":1")
	c.want(fmt.Sprintf("COUNTER.MGET weibo %d %d", here, there), "[[:1 :0] nil]")
	err := k.srv[1].Reopen(func(string) error {
		for _, w := range []*wireClient{c, k.forward(1, 2)} {
			for _, mid := range []uint64{here, there} {
				w.want(fmt.Sprintf("SET %d.cntcm 5", mid), "+OK")
				w.want(fmt.Sprintf("INCR %d.cntcm IDMP p %d", mid, mid), ":6")
				w.want(fmt.Sprintf("INCR %d.cntcm IDMP p %d", mid, mid), ":6")
				w.want(fmt.Sprintf("DEL %d", mid), ":1")
			}
			w.want(fmt.Sprintf("MSET %d.cntcm 7", here), "+OK")
			w.want(fmt.Sprintf("COUNTER.MGET weibo %d %d", here, there), "[[:7 :0] nil]")
			w.want("COUNTER.SUM weibo comment", ":7")
			w.want("MULTI", "+OK")
			w.want(fmt.Sprintf("INCR %d.cntcm", here), "+QUEUED")
			w.want("EXEC", "[:8]")
			w.want(fmt.Sprintf("DEL %d", here), ":1")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	late.want(fmt.Sprintf("EXISTS %d %d", here, there), ":0")
	c.want(fmt.Sprintf("INCR %d.cntcm", here), ":1")
}
