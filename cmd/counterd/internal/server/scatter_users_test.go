// Scenario: rights of users hold on a forward port as they do on one server.

package server

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestForwardUsers sends random pipelines of users with few rights to the forward ports of a cluster and to a server of its
// own that has the same users: every byte of the answers is the same, so a command that another node answers is refused as
// one that this node answers.
func TestForwardUsers(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	rights := []string{"~weibo:1*", "~*.cntrn", "%R~weibo:*", "%W~weibo:*", "~weibo:[0-2]? %R~weibo:?.cntcm", "~weibo:* -@write", "~weibo:* -counter.mget -exec"}
	var users []string
	for i, rule := range rights {
		users = append(users, fmt.Sprintf("u%d on nopass +@all %s", i, rule))
	}
	withUsers := func(c *config.Config) { c.Users = users }
	model := wireServe(t, withUsers)
	f := serveForward(t, 3, withUsers)
	everything := wireDial(t, model, 2)
	refused := 0
	for i := range rights {
		login := fmt.Sprintf("AUTH u%d x", i)
		own := wireDial(t, model, 2)
		clients := []*wireClient{f.forward(0, 2), f.forward(1, 2), f.forward(2, 2)}
		for _, c := range append(clients, own) {
			c.want(login, "+OK")
		}
		for range 40 {
			c := clients[r.IntN(3)]
			var sent []string
			for range 1 + r.IntN(20) {
				switch r.IntN(12) {
				case 0:
					sent = append(sent, randomTransaction(r)...)
				case 1:
					sent = append(sent, []string{"COUNTER.COUNT weibo", "COUNTER.SUM weibo repost", "COUNTER.FIND weibo LIMIT 20", "COUNTER.TOP weibo repost 5", "SCAN 0 COUNT 1000",
						"COUNTER.UPDATE weibo WHERE repost > 90 SET repost 1 IDMP p 1", "FLUSHALL", "COUNTER.MSET weibo 11 5 COLUMNS repost", "HLEN 1"}[r.IntN(9)])
				default:
					sent = append(sent, randomCommand(r))
				}
			}
			var b []byte
			for _, s := range sent {
				b = resptest.Append(b, strings.Fields(s)...)
			}
			for _, to := range []*wireClient{c, own} {
				if _, err := to.conn.Write(b); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range sent {
				got, want := c.read(), own.read()
				if strings.HasPrefix(s, "SCAN") && !strings.HasPrefix(want.Raw, "-") {
					continue // in another order
				}
				if got.Raw != want.Raw {
					t.Fatalf("%s: %s: got %s, want %s", rights[i], s, got, want)
				}
				if strings.HasPrefix(want.Raw, "-NOPERM") {
					refused++
				}
			}
		}
		f.forward(0, 2).same(everything, "COUNTER.FIND weibo")
	}
	if refused < 200 {
		t.Errorf("only %d commands were refused", refused)
	}
}

// TestForwardExecRights: a transaction on the forward port is refused when its user has lost a right since it was queued,
// whichever node executes it.
func TestForwardExecRights(t *testing.T) {
	f := serveForward(t, 2, nil)
	admin := f.forward(0, 2)
	for shard := range 2 {
		mid := f.mid(shard, 0)
		for _, exec := range []string{"EXEC", "EXEC IDMP p 1"} {
			admin.want(fmt.Sprintf("ACL SETUSER u reset on nopass +@all ~weibo:%d", mid), "+OK")
			c := f.forward(0, 2)
			c.want("AUTH u x", "+OK")
			c.want("MULTI", "+OK")
			c.want(fmt.Sprintf("INCR %d.cntcm", mid), "+QUEUED")
			admin.want("ACL SETUSER u resetkeys ~weibo:1", "+OK")
			if got := c.do(exec).String(); !strings.Contains(got, "NOPERM ACLs rules changed") {
				t.Errorf("shard %d, %s: got %s, want NOPERM", shard, exec, got)
			}
			admin.want(fmt.Sprintf("EXISTS %d", mid), ":0")
		}
	}
}

// TestForwardStrangers sends every command to a forward port, and to a node's own port as another node would, without a
// password: what needs one changes nothing and shows nothing.
func TestForwardStrangers(t *testing.T) {
	f := serveForward(t, 2, func(c *config.Config) {
		c.Users = []string{"default off", "link on >secret +@all ~* &*"}
		c.MasterUser, c.MasterAuth = "link", "secret"
	})
	admin := f.forward(0, 2)
	admin.want("AUTH link secret", "+OK")
	admin.want("MSET {1}.cntcm 5 {1}.cntrn 6", "+OK")
	before := admin.do("COUNTER.FIND weibo").Raw
	for node := range 2 {
		stranger := f.forward(node, 2)
		f.srv[0].commands.Each(func(cmd *row) {
			if cmd.Flags&command.NoAuth != 0 || cmd.Access().Container {
				return
			}
			words := example(t, cmd)
			if words == nil {
				words = strings.Split(cmd.Name, "|")
				for len(words) < max(cmd.Arity, -cmd.Arity) {
					words = append(words, "1")
				}
			}
			if got := stranger.do(strings.Join(words, " ")).String(); !strings.HasPrefix(got, "-NOAUTH") && !(cmd.Is("exec") && strings.Contains(got, "NOAUTH")) {
				t.Errorf("node %d: %s: got %.200s, want NOAUTH", node, words, got)
			}
		})
		for _, words := range []string{"COUNTER.LINK 1 " + strings.Repeat("a", 40), "COUNTER.LINK OWNING 0-255", "AUTH link wrong", "AUTH default x", "AUTH secret"} {
			if got := stranger.do(words).String(); !strings.HasPrefix(got, "-NOAUTH") && !strings.HasPrefix(got, "-WRONGPASS") {
				t.Errorf("node %d: %s: got %s", node, words, got)
			}
		}
	}
	if after := admin.do("COUNTER.FIND weibo").Raw; after != before {
		t.Errorf("got %s, want %s", after, before)
	}
}

// TestLinkRights: a user that may speak as another node is asked for each key all the same.
func TestLinkRights(t *testing.T) {
	f := serveForward(t, 2, func(c *config.Config) { c.Users = []string{"few on nopass +@all ~weibo:1*"} })
	for node := range 2 {
		c := f.forward(node, 2)
		c.want("AUTH few x", "+OK")
		c.want("COUNTER.LINK 1 "+strings.Repeat("a", 40), "+OK")
		for _, words := range []string{"GET 2.cntcm", "INCR 2.cntcm", "COUNTER.MGET weibo 2", "COUNTER.MSET weibo 2 5 COLUMNS repost", "COUNTER.UPDATE weibo DEL", "SCAN 0", "FLUSHALL", "COUNTER.DRAIN 2.cntcm", "HGETALL 2"} {
			if got := c.do(words).String(); !strings.HasPrefix(got, "-NOPERM") {
				t.Errorf("node %d: %s: got %s, want NOPERM", node, words, got)
			}
		}
	}
}
