// Scenario: the log of a primary lacks its end, and no file of its directory tells so.

package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
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
