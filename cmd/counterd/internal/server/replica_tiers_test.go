// Scenario: a replica demotes blocks and makes snapshots on its own.

package server

import (
	"fmt"
	"strings"
	"testing"
)

// TestReplicaTiers: a replica has tiers and snapshots of its own, while the stream goes on, and stays equal to its
// primary over a restart.
func TestReplicaTiers(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	b.start(a.addr())
	w, r := a.dial(), b.dial()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if v := w.do(fmt.Sprintf("INCR %d.cntcm", i*7919%2000)); v.Kind != ':' {
				t.Errorf("INCR: %s", v)
				return
			}
			if i%500 == 499 {
				w.do(fmt.Sprintf("DEL %d", i%2000))
			}
		}
	}()
	done := make(map[string]int)
	do := func(command string, want ...string) {
		t.Helper()
		v := r.do(command)
		for _, text := range want {
			if strings.HasPrefix(v.String(), text) {
				done[strings.Fields(command)[0]+" "+text]++
				return
			}
		}
		t.Errorf("%s: %s", command, v)
	}
	until(t, "blocks", func() bool { return r.do("DBSIZE").N > 1500 })
	for i := range 9 {
		mid := i * 137 % 1000
		do(fmt.Sprintf("COUNTER.DEMOTE weibo %d", mid), "+OK", "-ERR counter: no such block")
		do(fmt.Sprintf("COUNTER.DEMOTE weibo %d", 1000-mid), "+OK", "-ERR counter: no such block")
		do(fmt.Sprintf("COUNTER.PROMOTE weibo %d", mid), "+OK", "-ERR counter: no such block")
		until(t, "no snapshot is being made", func() bool { return !b.srv.Store().Admin().Snapshots().Running })
		switch i % 3 {
		case 0:
			do("SAVE", "+OK")
		case 1:
			do("BGSAVE", "+Background saving started")
		default:
			do("BGREWRITEAOF", "+Background append only file rewriting started")
		}
	}
	close(stop)
	<-ended
	same(t, a, b)
	if done["COUNTER.DEMOTE +OK"] == 0 || done["COUNTER.PROMOTE +OK"] == 0 {
		t.Errorf("no tier was changed: %v", done)
	}
	r.want("COUNTER.DEMOTE weibo 3", "+OK")
	if blocks := r.do("COUNTER.BLOCKS").String(); !strings.Contains(blocks, "tier=cold") || strings.Contains(w.do("COUNTER.BLOCKS").String(), "tier=cold") {
		t.Errorf("blocks of the replica: %s", blocks)
	}
	b.stop()
	w.want("INCR 3000.cntcm", ":1")
	b.start(a.addr())
	same(t, a, b)
	if n := a.info("sync_full"); n != "1" && n != "0" {
		t.Errorf("%s full copies, want the first at most", n)
	}
}
