// Scenario: every error literal in the source is provoked, with the fault that it reports.

package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/errclass"
	"github.com/counterd/counterd/internal/testkit/racetest"
)

// provoker provokes errors, and remembers the replies.
type provoker struct {
	*testing.T
	said *[]string
}

// heard checks that a reply is an error that begins with want, and of a class.
func (p provoker) heard(reply, want string) errclass.Class {
	p.Helper()
	class, ok := errclass.Of(reply)
	if !ok || !strings.HasPrefix(reply, "-"+want) {
		p.Errorf("got %s (of a class: %v), want -%s", reply, ok, want)
	}
	*p.said = append(*p.said, strings.TrimPrefix(reply, "-"))
	return class
}

// values are all values of a store, and its schema, as a text.
func values(t testing.TB, s *counter.Store) string {
	t.Helper()
	text := s.Schema().String()
	for _, def := range s.Schema().Counters() {
		sums, err := s.Admin().Digests(def.Name, 0, 1<<63, 1)
		if err != nil {
			t.Fatal(err)
		}
		text += def.Name + " " + sums[0].String() + "\n"
	}
	return text
}

// unchanged calls do, which must not change a value of the server's store.
func (p provoker) unchanged(s *Server, what string, do func()) {
	p.Helper()
	before := values(p, s.Store())
	do()
	if after := values(p, s.Store()); after != before {
		p.Errorf("%s was refused and changed something:\n%s%s", what, before, after)
	}
}

// refused sends a command, its words parted by blanks, that must be answered by an error of class Permanent or
// Transient, and change nothing.
func (p provoker) refused(s *Server, c *wireClient, command, want string) {
	p.Helper()
	p.unchanged(s, command, func() {
		p.Helper()
		if p.heard(c.do(command).String(), want) == errclass.InDoubt {
			p.Errorf("%s: %s is no refusal", command, want)
		}
	})
}

// unreachable are errors that no connection of this test can be answered.
var unreachable = []string{
	"ERR the log is streamed on this connection already",                                                                          // a connection that carries the log may send REPLCONF only
	"ERR there is no snapshot and the log begins at ",                                                                             // no store opens so
	"DENIED counterd is running in protected mode: no password is set, and this connection does not come from 127.0.0.1 or ::1. ", // package front's test
	"ERR IDMP: a numbered command changes at most ",                                                                               // 139,000 keys: more than a command has arguments
	"LOADING the server is shutting down, or the connection is closing",                                                           // its reader has gone
	"IDMPEXPIRED the change was made; its stored reply has a format that this version does not know",
	"ERR this port accepts TLS connections only: use TLS (redis-cli --tls, rediss://) or another port",                     // package front's test
	"MASTERDOWN The data of this node was damaged. It copies the data of another node, and answers when it has all of it.", // damage_heals_test.go
	"LOADING counterd waits for the end of its log: ",                                                                      // log_end_test.go
	"NOMASTERLINK the log of this node is of another term",                                                                 // package repl's tests
	"WRONGPASS user name and password required (those of AUTH)",                                                            // of HTTP: package web's test
	"NOPERM this user may not run ",
}

// TestErrors provokes every error that the server's code can send, with the fault injected that it tells of: it has a
// class, and where that is a refusal, no value of the store is another one afterwards. An error that is in the source
// and was not provoked is a fault of this test.
func TestErrors(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	var said []string
	ran := 0
	parts := []struct {
		name string
		run  func(provoker)
	}{
		{"arguments", provokeByArguments}, {"conversation", provokeByConversation}, {"admission", provokeAdmission}, {"loading", provokeLoading},
		{"disk", provokeDisk}, {"snapshots", provokeSnapshots}, {"uncertain", provokeUncertain}, {"cold", provokeCold}, {"memory", provokeMemory},
		{"wait", provokeWait}, {"roles", provokeRoles}, {"failover", provokeFailover}, {"sentinel", provokeSentinel}, {"replicas", provokeReplicas},
		{"numbered", provokeNumbered}, {"readers", provokeReaders}, {"cluster", provokeCluster}, {"forward", provokeForward}, {"joined", provokeJoined}, {"queries", provokeQueries}, {"feeds", provokeFeeds}, {"users", provokeUsers},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			part.run(provoker{t, &said})
			ran++
		})
	}
	literals := errorLiterals(t)
	if ran < len(parts) {
		return
	}
	for _, l := range literals {
		named := strings.HasPrefix(l.where, "../nodes/cluster/") // of a Standing, whose texts are passed on as they are
		for _, text := range said {
			if reason, ok := strings.CutPrefix(text, "EXECABORT Transaction discarded because of: "); ok && strings.HasPrefix("ERR "+reason, l.text) {
				named = true
			}
			named = named || strings.HasPrefix(text, l.text)
		}
		if !named && !slices.Contains(unreachable, l.text) {
			t.Errorf("%s: %q was not provoked", l.where, l.text)
		}
	}
}
