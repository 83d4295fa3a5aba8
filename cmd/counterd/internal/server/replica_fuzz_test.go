// Scenario: a stranger sends a primary whatever a replica might send.

package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/counter"
)

// strangerWords stand in a script for what only the primary knows.
func strangerWords(s *counter.Store) *strings.Replacer {
	past := s.Replication().Lineage()
	name := ""
	for _, m := range s.Replication().Manifests() {
		for _, c := range m.Counters {
			for _, b := range c.Blocks {
				name = b.Name
			}
		}
	}
	return strings.NewReplacer("<past>", string(past.AppendText(nil)), "<id>", past.Current().ReplID.String(), "<end>", fmt.Sprint(s.Replication().Written()), "<file>", name)
}

// FuzzStranger lets a stranger say anything to a primary that a replica might: a line is a command, a blank parts its
// words. The primary must not panic, must answer others as before, change nothing, and forget the stranger when it
// goes.
func FuzzStranger(f *testing.F) {
	s := startServer(f, serverStart{schema: wireSchema,
		change: func(c *config.Config) { c.Dir = f.TempDir() },
		open: func(s *Server) (*counter.Store, error) {
			return counter.Open(s.config.Get().Dir, counter.Options{SnapshotGrowth: -1})
		},
		serve: func(_ *Server, store *counter.Store) error {
			return errors.Join(store.Set("1.cntcm", 7), store.Snapshot(), store.Set("2.cntcm", 8))
		}})
	f.Cleanup(func() { stopServer(f, s) })
	store := s.Store()
	end := store.Replication().Position()

	hello := "REPLCONF listening-port 6380\nREPLCONF ip-address 10.0.0.1\nREPLCONF version counterd capa counterd1\nREPLCONF history <past>\n"
	f.Add(hello + "PSYNC <id> <end>\nREPLCONF ACK <end> FACK <end>\nPING\nINFO replication")
	f.Add(hello + "PSYNC <id> 18446744073709551615")
	f.Add(hello + "PSYNC ? -1\nREPLCONF fetch hot <file>\nREPLCONF fetch hot ../LOCK\nREPLCONF fetch cold x\nPSYNC ? 0\nREPLCONF ACK 1")
	f.Add(hello + "PSYNC ? -1\nPSYNC ? -1\nPSYNC ? 18446744073709551615\nPSYNC <id> 5\nPSYNC ? 99")
	f.Add(hello + "PSYNC <id> 5\nREPLCONF ACK 18446744073709551615 FACK 18446744073709551615\nREPLCONF ACK -1\nROLE")
	f.Add("REPLCONF ACK x\nREPLCONF GETACK *\nREPLCONF fetch hot <file>\nREPLCONF version\nREPLCONF")
	f.Add("MULTI\nREPLCONF fetch hot <file>\nREPLCONF ACK 1\nPSYNC ? -1\nSYNC\nEXEC\nROLE")
	f.Add("REPLCONF capa eof\nSYNC\nREPLCONF ACK 0\nREPLCONF ACK 9")
	f.Add("REPLCONF history nonsense\nREPLCONF listening-port 99999999999999999999\nREPLCONF ip-address a,state=online\nINFO replication")
	f.Fuzz(func(t *testing.T, script string) {
		if len(script) > 1<<16 {
			return
		}
		var request []byte
		words := strangerWords(store)
		for line := range strings.SplitSeq(script, "\n") {
			args := strings.Split(line, " ")
			switch strings.ToUpper(args[0]) {
			case "REPLCONF", "PSYNC", "SYNC", "PING", "ROLE", "INFO", "MULTI", "EXEC":
			default:
				args = append([]string{"REPLCONF"}, args...)
			}
			request = fmt.Appendf(request, "*%d\r\n", len(args))
			for _, a := range args {
				a = words.Replace(a)
				request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(a), a)
			}
		}
		conn, err := net.Dial("unix", s.config.Get().UnixSocket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, werr := conn.Write(request) // the primary may have closed the connection before it took all
		if err := conn.(*net.UnixConn).CloseWrite(); err != nil && werr == nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, conn); werr == nil && err != nil || n > int64(1<<20+64*len(request)) {
			t.Fatalf("%d bytes answered, and then %v", n, err)
		}
		until(t, "the stranger is forgotten", func() bool { return len(s.role.Peers().Infos()) == 0 })
		if n := s.stats.Panics.Load(); n != 0 {
			t.Fatalf("%d panics", n)
		}
		for key, want := range map[string]uint64{"1.cntcm": 7, "2.cntcm": 8} {
			if v, found, err := store.Get(key); v != want || !found || err != nil {
				t.Fatalf("%s is %d, %v, %v", key, v, found, err)
			}
		}
		if at := store.Replication().Position(); at != end {
			t.Fatalf("the log ends at %d, it did at %d", at, end)
		}
	})
}
