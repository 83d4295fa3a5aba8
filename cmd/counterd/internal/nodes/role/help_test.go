// Scenario: a damaged primary asks its replicas for its data.

package role

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// sayingNode is a node that answers PING, ROLE and INFO with given replies.
func sayingNode(t *testing.T, l net.Listener, role string, info ...string) {
	t.Cleanup(func() { l.Close() })
	text := strings.Join(info, "\r\n") + "\r\n"
	reply := fmt.Sprintf("+PONG\r\n%s$%d\r\n%s\r\n", role, len(text), text)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					if strings.EqualFold(lines.Text(), "replication") {
						_, _ = conn.Write([]byte(reply))
					}
				}
			}()
		}
	}()
}

// TestWhoHasTheData: replicas of a damaged primary were promoted, or follow others. The node with the most of its log counts; the
// primary itself never does.
func TestWhoHasTheData(t *testing.T) {
	own := format.NewReplID()
	const me = 7001
	type node struct {
		of     int // -1: it is a primary; me: it follows the damaged node; else: the index of another node
		second bool
		offset int
		left   int // where it left the term, if it is in another one
		heals  bool
	}
	primary, mine := -1, me
	for _, c := range []struct {
		name  string
		nodes []node
		want  int // index; -1: none
		leads bool
	}{
		{"the most", []node{{of: mine, offset: 5}, {of: mine, offset: 9}}, 1, true},
		{"promoted", []node{{of: primary, second: true, offset: 12, left: 9}}, 0, false},
		{"promoted with the most", []node{{of: mine, offset: 9}, {of: primary, second: true, offset: 12, left: 9}}, 1, false},
		{"promoted long ago", []node{{of: primary, second: true, offset: 12, left: 4}, {of: mine, offset: 9}}, 1, true},
		{"follows another", []node{{of: 1, second: true, offset: 12, left: 9}, {of: primary, second: true, offset: 12, left: 9}}, 1, false},
		{"follows one long ago", []node{{of: 1, second: true, offset: 12, left: 4}, {of: primary, second: true, offset: 12, left: 4}, {of: mine, offset: 5}}, 2, true},
		{"follows a damaged one", []node{{of: 1, second: true, offset: 12, left: 9}, {of: primary, heals: true}}, -1, false},
		{"promoted and demoted", []node{{of: mine, second: true, offset: 12, left: 9}}, -1, false},
		{"damaged", []node{{of: mine, heals: true}}, -1, false},
	} {
		n := newTestRole(t, func(c *config.Config) { c.Port = me })
		note := repl.ReplicasNote{History: own}
		var listeners []net.Listener
		for range c.nodes {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			listeners = append(listeners, l)
			note.List = append(note.List, repl.Address{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port})
		}
		later := format.NewReplID()
		for i, s := range c.nodes {
			port := me
			if s.of >= 0 && s.of < len(c.nodes) {
				port = note.List[s.of].Port
			}
			role := fmt.Sprintf("*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:%d\r\n$7\r\nconnect\r\n:%d\r\n", port, s.offset)
			if s.of == primary {
				role = fmt.Sprintf("*3\r\n$6\r\nmaster\r\n:%d\r\n*0\r\n", s.offset)
			}
			info := []string{"master_replid:" + own.String(), "second_repl_offset:-1"}
			if s.second {
				info = []string{"master_replid:" + later.String(), "master_replid2:" + own.String(), fmt.Sprintf("second_repl_offset:%d", s.left)}
			}
			if s.heals {
				info = append(info, "counterd_healing:1")
			}
			sayingNode(t, listeners[i], role, info...)
		}
		search := newHelpSearch(n)
		search.note = note
		by, err := search.askReplicas(t.Context(), true)
		switch {
		case c.want < 0 && err == nil:
			t.Errorf("%s: %+v, want an error", c.name, by)
		case c.want >= 0 && (err != nil || by.From != note.List[c.want] || (by.Lead == own) != c.leads):
			t.Errorf("%s: %+v, %v, want node %d, %s; leads: %t", c.name, by, err, c.want, note.List[c.want], c.leads)
		}
	}
}

// TestLeftLongAgo: a node that was promoted answers, and another replica does not. The promoted one is followed where it left the log
// in the seconds before its end, as in a failover, and not where the rest of the log is longer, or damaged: changes that WAIT has
// acknowledged since may be on the silent one.
func TestLeftLongAgo(t *testing.T) {
	own := format.NewReplID()
	promoted, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sayingNode(t, promoted, "*3\r\n$6\r\nmaster\r\n:900\r\n*0\r\n", "master_replid:"+format.NewReplID().String(), "master_replid2:"+own.String(), "second_repl_offset:0")
	address := func(l net.Listener) repl.Address {
		return repl.Address{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent.Close() // nobody listens
	for _, c := range []struct {
		name    string
		between time.Duration // the first change and the last
		damaged bool
		want    bool
	}{{"seconds ago", time.Second, false, true}, {"long ago", time.Minute, false, false}, {"before the clock was set back", -time.Minute, false, false}, {"damaged since", time.Second, true, false}} {
		n := newTestRole(t, func(conf *config.Config) { conf.Dir = t.TempDir() })
		search := newHelpSearch(n)
		search.note = repl.ReplicasNote{History: own, List: []repl.Address{address(promoted), address(silent)}}
		now := time.Now()
		log, _, err := persist.OpenLog(persist.LogOptions{FS: vfs.OS(), Dir: search.conf.Dir, Create: true, Policy: persist.SyncAlways, Now: func() time.Time { return now }}, 0, func(uint64, *format.Record) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := log.Commit(log.AppendSet(1, 1, 1, 1)); err != nil {
				t.Fatal(err)
			}
			now = now.Add(c.between / 2)
		}
		path := log.Segments().List()[0].Path
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		if c.damaged {
			b, err := os.ReadFile(path)
			if err == nil {
				b[format.SegmentHeaderLen+format.FrameHeaderLen+60] ^= 1
				err = os.WriteFile(path, b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if by, err := search.askReplicas(t.Context(), true); (err == nil) != c.want || c.want && by.From != address(promoted) || !c.want && !errors.Is(err, errSilent) {
			t.Errorf("%s: %+v, %v; want it to be followed: %t", c.name, by, err, c.want)
		}
	}
}

// TestWaitsForItsReplica: a damaged primary whose only replica is away waits for it, however long that takes, and does not refuse its
// start. Clients are told for which one, if its log is known (LONGER). A node that was to be followed and has gone is forgotten. Where there is
// a backup it gives up, and where the replica has answered that it has not the data.
func TestWaitsForItsReplica(t *testing.T) {
	own, port := format.NewReplID(), freeport.Take(t)
	newSearch := func(from string) *helpSearch {
		search := newHelpSearch(newTestRole(t, func(c *config.Config) { c.Dir, c.HealFrom = t.TempDir(), from }))
		search.note = repl.ReplicasNote{History: own, List: []repl.Address{{Host: "127.0.0.1", Port: port}}}
		search.patience, search.within, search.every = 0, 0, time.Millisecond
		return search
	}
	if _, err := newSearch("/backups").findNode(t.Context()); !errors.Is(err, errSilent) {
		t.Errorf("with a backup: %v, want %v", err, errSilent)
	}
	found := make(chan error, 1)
	search := newSearch("")
	search.longer = past.LongerLog{Term: own, Offset: 9, Host: "127.0.0.1", Port: port}
	toFollow(search.role, repl.Address{Host: "127.0.0.1", Port: 9})
	go func() {
		by, err := search.findNode(t.Context())
		if err == nil && by.Lead != own {
			err = fmt.Errorf("got %+v", by)
		}
		found <- err
	}()
	select {
	case err := <-found:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	for want := fmt.Sprintf(":%d has the log up to offset 9, and the log here is damaged", port); !strings.HasSuffix(Loading(search.role), want); { // the test's own limit ends it
		time.Sleep(time.Millisecond)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	sayingNode(t, l, "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:1\r\n$7\r\nconnect\r\n:9\r\n", "master_replid:"+own.String(), "second_repl_offset:-1")
	if err := <-found; err != nil {
		t.Error(err)
	}
	if to, text := search.role.config.Get().ReplicaOf, Loading(search.role); to != "" || text != items.ErrLoading {
		t.Errorf("it follows %q, and says %q", to, text)
	}
	search = newSearch("")
	search.note.History, search.within = format.NewReplID(), time.Hour // it is not waited for
	if _, err := search.findNode(t.Context()); err == nil || errors.Is(err, errSilent) {
		t.Errorf("a replica of another history: %v", err)
	}
}

// TestHandoverIsNotToItself: after a power failure, the target of a handover takes its old link to this node for a connected one. This
// node leads again, as the target lacks changes, or promotes it. It does not follow itself.
func TestHandoverIsNotToItself(t *testing.T) {
	n := newTestRole(t, func(c *config.Config) { c.Port = 7001 })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sayingNode(t, l, "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:7001\r\n$9\r\nconnected\r\n:0\r\n", "master_replid:"+format.NewReplID().String())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // without an answer by then, nothing is done either
	defer cancel()
	r := resumption{n, ctx, repl.Address{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}, true}
	done, err := r.step()
	if link, _ := n.repl.Link(); done || link.Primary != (repl.Address{}) {
		t.Errorf("done %t, %v, it follows %s", done, err, link.Primary)
	}
}
