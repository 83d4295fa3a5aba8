package repl

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
)

// TestPasswordIsNotLogged asks a server for its role that knows no AUTH and answers with what it was sent, as Redis
// does. Errors are logged.
func TestPasswordIsNotLogged(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := bufio.NewReader(conn).ReadString('*'); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "-ERR unknown command 'AUTH', with args beginning with: 'admin' 'geheim' \r\n")
	}()
	host, text, _ := net.SplitHostPort(l.Addr().String())
	port, _ := strconv.Atoi(text)
	_, err = dialNode(context.Background(), Address{Host: host, Port: port}, Settings{MasterUser: "admin", MasterAuth: "geheim"}, time.Minute)
	if err == nil || strings.Contains(err.Error(), "geheim") || strings.Contains(err.Error(), "'admin'") || !strings.Contains(err.Error(), "unknown command 'AUTH'") {
		t.Errorf("got %v", err)
	}
}

// TestHealingAcknowledgesNothing: a node of a cluster that has set its files aside acknowledges nothing before it has all data again, as its primary
// would put it in sync. It has all data when its log has come to the end that the primary named first, and it makes the log durable up to there.
func TestHealingAcknowledgesNothing(t *testing.T) {
	for _, id := range []string{"b", ""} {
		a, b := newMember(t, "a", counter.SyncNo), newMember(t, "b", counter.SyncNo)
		elect(t, a, b, 1, 3)
		a.node.healing.now.Store(&format.Healing{Reason: "a bad page", Since: 1})
		log := a.host.Store().Replication() // which no link touches: a leads
		l := newTestLink(t, a.host, false)
		l.node, l.id = a.node, id
		conn := &recorded{}
		s := &session{Link: l, conn: wire.NewConn(conn, linkBuffer)}
		acks := func(want bool) {
			t.Helper()
			conn.said = nil
			if err := s.ack(); err != nil {
				t.Fatal(err)
			}
			if got := len(conn.said) > 0; got != want {
				t.Errorf("link to %q: healing %v, acknowledged %v, want %v", id, a.node.Healing() != nil, got, want)
			}
		}
		acks(id == "")
		if id == "" {
			continue
		}
		_ = a.later(1)
		written := log.Written()
		s.caughtUp(log, written+1)
		acks(false)
		s.goal = 0
		if s.caughtUp(log, written); a.node.Healing() != nil || log.Durable() < written {
			t.Errorf("it has all up to %d, and heals on: durable up to %d", written, log.Durable())
		}
		acks(true)
	}
}
