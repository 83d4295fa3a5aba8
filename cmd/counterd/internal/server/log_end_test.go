// Scenario: the log of a primary lacks its end, and no file of its directory tells so.

package server

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// TestMissingEndComesBack: a primary with appendfsync always ends, and a change that WAIT has confirmed a moment before is missing from
// its log, without a trace. One of its replicas has the change. The primary has it again when it leads, and no replica cuts anything.
func TestMissingEndComesBack(t *testing.T) {
	last := func(dir string) string { return fileLike("log/*.aof", true)(t, dir) }
	for name, damage := range map[string]func(dir string) error{
		"the last segment is gone": func(dir string) error { return os.Remove(last(dir)) },
		"the last frame is torn": func(dir string) error {
			b, err := os.ReadFile(last(dir))
			return errors.Join(err, damages[2].make(last(dir), b))
		},
		"the last frames are zeros": func(dir string) error {
			b, err := os.ReadFile(last(dir))
			clear(b[format.SegmentHeaderLen:])
			return errors.Join(err, os.WriteFile(last(dir), b, 0o640))
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := []*replNode{newReplNode(t), newReplNode(t), newReplNode(t)}
			a, b, c := nodes[0], nodes[1], nodes[2]
			for _, n := range nodes {
				n.opts.AppendFsync = counter.SyncAlways
			}
			a.start("")
			a.stop()
			a.start("") // in another segment
			b.start(a.addr())
			c.start(a.addr())
			a.dial().want("SET 1.cntcm 4", "+OK")
			same(t, a, b, c)
			until(t, "both are noted", func() bool { return len(repl.ReadReplicas(vfs.OS(), a.dir).List) == 2 })
			c.stop()
			w := a.dial()
			for i := range 20 {
				w.want(fmt.Sprintf("SET %d.cntcm 5", i), "+OK")
			}
			w.want("WAIT 1 10000", ":1")
			a.stop()
			if err := errors.Join(damage(a.dir), os.Remove(filepath.Join(a.dir, "DURABLE"))); err != nil { // as a kill leaves it
				t.Fatal(err)
			}
			c.start("") // it has less
			a.start("")
			if a.info("role") != "master" {
				t.Errorf("it is a %s", a.info("role"))
			}
			for i := range 20 {
				a.dial().want(fmt.Sprintf("GET %d.cntcm", i), `"5"`)
			}
			a.dial().want("SET 21.cntcm 6", "+OK")
			same(t, a, b, c)
			if found := setAside(t, a.dir); len(found) > 0 || a.info("counterd_refilled_log_segments") == "0" {
				t.Errorf("set aside: %q, %s segments were mended", found, a.info("counterd_refilled_log_segments"))
			}
			for _, n := range nodes {
				if n.info("counterd_diverged_files") != "0" {
					t.Errorf("node %d has cut changes: %s", n.port, n.info("counterd_diverged_files"))
				}
			}
		})
	}
}

// TestReplicaofWhileFramesAreFetched: the log of a replica is damaged, and nobody answers where its primary was. REPLICAOF names the place
// to which the primary has moved. The node gets the frames there.
func TestReplicaofWhileFramesAreFetched(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	b.start(a.addr())
	for i := range 20 {
		a.dial().want(fmt.Sprintf("SET %d.cntcm 5", i), "+OK")
	}
	same(t, a, b)
	b.stop()
	a.stop()
	damageFile(t, fileLike("log/*.aof", true)(t, b.dir), damages[4].make)
	a.port = newReplNode(t).port
	a.start("")
	said := make(chan string, 1)
	b.listening = func() {
		go func() {
			until(t, "the node asks for frames", func() bool { return b.said("asking another node for the missing part") })
			said <- b.dial().do("REPLICAOF " + a.addr()).Text
		}()
	}
	b.start("")
	if got := <-said; got != "OK" {
		t.Errorf("REPLICAOF is answered %q", got)
	}
	same(t, a, b)
	if found := setAside(t, b.dir); len(found) > 0 || b.info("counterd_refilled_log_segments") != "1" {
		t.Errorf("set aside: %q, %s segments were mended", found, b.info("counterd_refilled_log_segments"))
	}
}

// TestReplicaWithTheEndIsDamaged: a primary lost power, and with it the end of its log. The replica that has the end has a damaged log, and asks
// its primary for frames. It gets them while the primary waits for the end, and gives the end then: no change is lost. The same holds where both
// logs are damaged, at different places.
func TestReplicaWithTheEndIsDamaged(t *testing.T) {
	t.Run("the end is missing", func(t *testing.T) {
		bothLogsDamaged(t, true, func(b []byte, s *logfile.Segment, from, _ uint64) { clear(b[s.Offset(from):]) })
	})
	t.Run("both are damaged", func(t *testing.T) {
		bothLogsDamaged(t, false, func(b []byte, s *logfile.Segment, from, end uint64) { b[s.Offset((from+end)/2)] ^= 1 })
	})
}

// bothLogsDamaged damages the log of a replica, and the log of its primary behind that place. power: the primary lost power, so nothing says that
// its log was closed.
func bothLogsDamaged(t *testing.T, power bool, damage func(b []byte, s *logfile.Segment, from, end uint64)) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	b.start(a.addr())
	a.dial().want("SET 1.cntcm 4", "+OK")
	same(t, a, b)
	a.noted()
	ends := []uint64{a.srv.Store().Replication().Written()}
	for half := range 2 {
		for i := range 20 {
			a.dial().want(fmt.Sprintf("SET %d.cntcm 5", 20*half+i), "+OK")
		}
		same(t, a, b)
		ends = append(ends, a.srv.Store().Replication().Written())
	}
	a.stop()
	b.stop()
	for n, damage := range map[*replNode]func(b []byte, s *logfile.Segment){
		a: func(b []byte, s *logfile.Segment) { damage(b, s, ends[1], ends[2]) },
		b: func(b []byte, s *logfile.Segment) { b[s.Offset((ends[0]+ends[1])/2)] ^= 1 },
	} {
		alterLog(t, n.dir, damage)
	}
	if power {
		if err := os.Remove(filepath.Join(a.dir, "DURABLE")); err != nil {
			t.Fatal(err)
		}
	}
	started := make(chan struct{})
	a.listening = func() {
		go func() {
			b.start("")
			close(started)
		}()
	}
	a.start("")
	<-started
	for i := range 40 {
		a.dial().want(fmt.Sprintf("GET %d.cntcm", i), `"5"`)
	}
	a.dial().want("SET 41.cntcm 6", "+OK")
	same(t, a, b)
	for _, n := range []*replNode{a, b} {
		if found := setAside(t, n.dir); len(found) > 0 || n.info("counterd_diverged_files") != "0" || n.info("counterd_refilled_log_segments") != "1" {
			t.Errorf("node %d: set aside %q, cut %s times, %s segments were mended", n.port, found, n.info("counterd_diverged_files"), n.info("counterd_refilled_log_segments"))
		}
	}
}

// alterLog changes the only segment of a log.
func alterLog(t *testing.T, dir string, change func(b []byte, s *logfile.Segment)) {
	t.Helper()
	segs, err := logfile.ListSegments(vfs.OS(), dir)
	if err != nil || len(segs) != 1 {
		t.Fatalf("%d segments, %v", len(segs), err)
	}
	text, err := os.ReadFile(segs[0].Path)
	change(text, &segs[0])
	if err := errors.Join(err, os.WriteFile(segs[0].Path, text, 0o640)); err != nil {
		t.Fatal(err)
	}
}

// saysRole is a replica whose log goes to an offset in a term. It gives no frames: it closes the connection then, and with once it ends.
func saysRole(t *testing.T, port int, term string, end uint64, once bool) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	info := "master_replid:" + term + "\r\nsecond_repl_offset:-1\r\n"
	reply := fmt.Sprintf("+PONG\r\n*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:1\r\n$7\r\nconnect\r\n:%d\r\n$%d\r\n%s\r\n", end, len(info), info)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				if lines.Text() == "replication" {
					_, _ = conn.Write([]byte(reply))
				} else if lines.Text() == "frames" {
					if once {
						l.Close()
					}
					break
				}
			}
			conn.Close()
		}
	}()
}

// TestReplicaWithTheEndGoes: the log of a primary lacks its end. The replica that has it goes away when it has said so. The primary sets
// nothing aside, and says what it waits for. When the replica is back, the primary has all changes and leads.
func TestReplicaWithTheEndGoes(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.opts.AppendFsync, b.opts.AppendFsync = counter.SyncAlways, counter.SyncAlways
	a.start("")
	a.dial().want("SET 1.cntcm 4", "+OK")
	b.start(a.addr())
	same(t, a, b)
	a.noted()
	term, short := a.info("master_replid"), a.srv.Store().Replication().Written()
	for i := range 20 {
		a.dial().want(fmt.Sprintf("SET %d.cntcm 5", i), "+OK")
	}
	same(t, a, b)
	end := a.srv.Store().Replication().Written()
	a.stop()
	b.stop()
	path := fileLike("log/*.aof", true)(t, a.dir)
	text, err := os.ReadFile(path)
	clear(text[format.SegmentHeaderLen+short:]) // the only segment begins at 0
	if err := errors.Join(err, os.WriteFile(path, text, 0o640), os.Remove(filepath.Join(a.dir, "DURABLE"))); err != nil {
		t.Fatal(err)
	}
	saysRole(t, b.port, term, end, true)
	said := make(chan [2]string, 1)
	a.listening = func() {
		go func() {
			until(t, "the node waits", func() bool { return a.info("counterd_healing_waits") == "1" })
			texts := [2]string{a.dial().do("GET 1.cntcm").Text, a.dial().do("PING").Text}
			b.start("")
			said <- texts
		}()
	}
	a.start("")
	want := fmt.Sprintf("LOADING counterd waits for the end of its log: replica 127.0.0.1:%d has the log up to offset %d, and here it ends at %d", b.port, end, short)
	for _, text := range <-said {
		if text != want {
			t.Errorf("it said %q, want %q", text, want)
		}
	}
	for i := range 20 {
		a.dial().want(fmt.Sprintf("GET %d.cntcm", i), `"5"`)
	}
	a.dial().want("SET 21.cntcm 6", "+OK")
	same(t, a, b)
	if found := setAside(t, a.dir); len(found) > 0 || b.info("counterd_diverged_files") != "0" || a.info("counterd_healing_waits") != "0" {
		t.Errorf("set aside: %q, the replica has cut %s times", found, b.info("counterd_diverged_files"))
	}
	if _, err := os.Stat(filepath.Join(a.dir, past.LongerName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the note stays: %v", err)
	}
}

// TestAloneWhileFramesAreFetched: the log of a primary lacks its end. The replica that has it says so, and never gives the frames. REPLICAOF NO
// ONE has the primary lead with its own log, and nothing is set aside.
func TestAloneWhileFramesAreFetched(t *testing.T) {
	a := newReplNode(t)
	a.opts.AppendFsync = counter.SyncAlways
	a.start("")
	a.dial().want("SET 1.cntcm 4", "+OK")
	term, end := a.info("master_replid"), a.srv.Store().Replication().Written()
	a.stop()
	port := freeport.Take(t)
	note := past.LongerLog{Host: "127.0.0.1", Port: port, Offset: end + 7}
	var err error
	if note.Term, err = format.ParseReplID(term); err == nil {
		err = past.NoteLonger(vfs.OS(), a.dir, note)
	}
	if err != nil {
		t.Fatal(err)
	}
	saysRole(t, port, term, end+7, false)
	said := make(chan struct{})
	a.listening = func() {
		go func() {
			until(t, "the node asks for frames", func() bool { return a.said("cannot be made whole with frames") })
			c := a.dial()
			until(t, "REPLICAOF is taken", func() bool { return c.do("REPLICAOF NO ONE").Text == "OK" })
			close(said)
		}()
	}
	a.start("")
	<-said
	a.dial().want("GET 1.cntcm", `"4"`)
	a.dial().want("SET 2.cntcm 6", "+OK")
	if found := setAside(t, a.dir); len(found) > 0 || a.info("role") != "master" {
		t.Errorf("set aside: %q, it is a %s", found, a.info("role"))
	}
	if l, err := past.ReadLonger(vfs.OS(), a.dir); err != nil || l != (past.LongerLog{}) {
		t.Errorf("the note stays: %+v, %v", l, err)
	}
}
