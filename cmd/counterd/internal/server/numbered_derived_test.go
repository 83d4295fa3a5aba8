// Scenario: numbered transactions on columns that windows follow.

package server

import (
	"fmt"
	"strings"
	"testing"
)

// TestNumberedWindows: a numbered transaction whose changes, with those of windows, may take more than a frame of the log is refused, and changes
// nothing. A crash between two frames would keep a half, and the repeat of the number would make it again.
func TestNumberedWindows(t *testing.T) {
	s := numberedServer(t)
	c := wireDial(t, s, 2)
	for i := range 7 {
		c.want(fmt.Sprintf("ADD COLUMN weibo w%d window=1h/1m of=repost", i), "+OK")
	}
	exec := func(command string, n int, seq int) string {
		c.want("MULTI", "+OK")
		for i := range n {
			c.want(fmt.Sprintf(command, i+1), "+QUEUED")
		}
		return c.do(fmt.Sprintf("EXEC IDMP p %d", seq)).Raw
	}
	const refused = "-EXECABORT Transaction discarded because of: IDMP: a numbered transaction makes changes of at most 4042674 bytes of log, and these may take "
	for _, command := range []string{"INCR %d.cntrn", "HINCRBY %d repost 1", "COUNTER.MINCRBY %d.cntrn 1"} {
		if got := exec(command, 2100, 1); !strings.HasPrefix(got, refused) {
			t.Errorf("%s: got %.200q", command, got)
		}
	}
	c.want("EXISTS 1", ":0")
	c.want("GET 1.w0", "nil")
	for i, command := range []string{"INCR %d.cntrn", "HINCRBY %d repost 1", "COUNTER.MINCRBY %d.cntrn 1 QUIET", "INCR %d.cntcm"} {
		if got := exec(command, 1900+i/3*200, 2+i); !strings.HasPrefix(got, "*") {
			t.Errorf("%s: got %.200q", command, got)
		}
	}
	c.want("GET 1.cntrn", `"3"`)
	c.want("GET 2100.cntcm", `"1"`)
}
