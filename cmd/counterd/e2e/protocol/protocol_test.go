package protocol

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// protocolInputs are what a connection may receive that is no array of bulk strings.
var protocolInputs = []string{
	// Inline.
	"PING\r\n", "PING\n", "\r\nPING\r\n", "\n\n\r\n", "  PING  \r\n", "ping  hello\r\n", "PING\thello\r\n",
	"ECHO \"hello world\"\r\n", "ECHO 'it is'\r\n", `ECHO "\x41\n\"\\"` + "\r\n", `ECHO 'a\'b\x41'` + "\r\n", "ECHO \"\"\r\n",
	"ECHO \"abc\r\nPING\r\n", "ECHO 'abc\r\nPING\r\n", "ECHO \"a\"b\r\nPING\r\n", "ECHO a\"b\"\r\nPING\r\n",
	"SET n:1 5\r\nGET n:1\r\nDEL n:1\r\n", "PING\r\nPING\r\nPING", "PING\rPING\r\n", "\x00PING\r\nPING\r\n",
	// Arrays with nothing in them are ignored.
	"*0\r\nPING\r\n", "*-1\r\nPING\r\n", "*-100\r\nPING\r\n", "\r\n*1\r\n$4\r\nPING\r\n",
	// Counts and lengths.
	"*1\r\n$4\r\nPING\r\n", "*01\r\n$4\r\nPING\r\nPING\r\n", "*1\r\n$04\r\nPING\r\nPING\r\n", "*+1\r\n$4\r\nPING\r\nPING\r\n",
	"*x\r\nPING\r\n", "*\r\nPING\r\n", "* 1\r\nPING\r\n", "*1x\r\nPING\r\n", "*2147483648\r\nPING\r\n", "*9223372036854775808\r\nPING\r\n",
	"*-9223372036854775809\r\nPING\r\n", "*1\r\n$-1\r\nPING\r\n", "*1\r\n$x\r\nPING\r\n", "*1\r\n$\r\nPING\r\n", "*1\r\n$4x\r\nPING\r\n",
	"*1\r\n$9223372036854775807\r\nPING\r\n", "*1\r\n$9223372036854775808\r\nPING\r\n", "*1\r\n$536870913\r\nPING\r\n",
	"*1\r\n:4\r\nPING\r\n", "*1\r\nPING\r\n", "*1\r\n*1\r\n$4\r\nPING\r\n", "*2\r\n$4\r\nECHO\r\n\r\nPING\r\n", "*1\r\n\x00\r\nPING\r\n",
	"*1\r\n$0\r\n\r\nPING\r\n", "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "*1\n$4\nPING\n", "*1\r\n$4\r\nPINGxxPING\r\n",
	// Cut short.
	"*1\r\n$4\r\nPI", "*1\r\n$4\r\nPING", "*1\r\n", "*2\r\n$4\r\nECHO\r\n", "*1", "$", "PIN",
	// The end.
	"QUIT\r\nPING\r\n", "*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n", "MULTI\r\nPING\r\nQUIT\r\nEXEC\r\n", "SET n:1 5\r\nINCR n:1\r\nQUIT\r\nINCR n:1\r\nINCR n:1\r\n",
	// Replies left out, and everything put back.
	"CLIENT REPLY OFF\r\nPING\r\nINCR n:1\r\nnosuch\r\nCLIENT REPLY ON\r\nGET n:1\r\n", "CLIENT REPLY SKIP\r\nINCR n:1\r\nINCR n:1\r\n",
	"CLIENT REPLY OFF\r\nCLIENT REPLY SKIP\r\nPING\r\nPING\r\n", "CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nPING\r\nPING\r\nPING\r\n",
	"CLIENT REPLY OFF\r\nPING\r\nQUIT\r\nPING\r\n", "MULTI\r\nINCR n:1\r\nRESET\r\nEXEC\r\nGET n:1\r\n", "WATCH n:1\r\nINCR n:1\r\nRESET\r\nMULTI\r\nEXEC\r\n",
	"CLIENT SETNAME x\r\nRESET\r\nCLIENT GETNAME\r\n", "RESET x\r\nPING\r\n", "CLIENT SETNAME x\r\nMULTI\r\nCLIENT GETNAME\r\nSELECT 0\r\nEXEC\r\n",
	// Other protocols.
	"GET / HTTP/1.1\r\n", "$4\r\nPING\r\n", "+OK\r\nPING\r\n", "-ERR x\r\nPING\r\n", ":1\r\nPING\r\n", "~1\r\n$4\r\nPING\r\n",
	// Long lines: the limit is 64 KiB without a line end.
	"*" + strings.Repeat("1", 100) + "\r\nPING\r\n", "*1\r\n$" + strings.Repeat("1", 100) + "\r\nPING\r\n",
	"ECHO " + strings.Repeat("x", 60_000) + "\r\n",
}

// TestProtocol compares what the servers answer to raw input, until they close the connection.
func TestProtocol(t *testing.T) {
	d, ok := newDiffer(t, 2, 1)
	if !ok {
		return
	}
	for _, input := range protocolInputs {
		d.reset()
		redis, ours := exchange(t, d.redis.Addr, input), harness.WithoutHint(exchange(t, d.ours.Addr, input))
		if redis != ours && intended([]string{input}, redis, ours) == nil {
			t.Errorf("input %.200q\nredis    %.200q\ncounterd %.200q", input, redis, ours)
		}
		if r, o := d.control[0].Do("GET", "n:1").Raw, d.control[1].Do("GET", "n:1").Raw; r != o {
			t.Errorf("input %.200q leaves n:1\nredis    %q\ncounterd %q", input, r, o)
		}
	}
	protocolDone = !t.Failed()
}

// TestDifferencesNeeded checks, once all written cases have been compared, that no row of the table of differences is
// idle.
func TestDifferencesNeeded(t *testing.T) {
	if !casesDone || !protocolDone {
		return // a selection of tests, or they failed
	}
	for _, row := range differences {
		if !row.used.Load() {
			t.Errorf("no case needs the difference %q: %s", row.request, row.why)
		}
	}
}

// exchange sends input, closes its side of the connection and returns everything that came back.
func exchange(t testing.TB, addr, input string) string {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, harness.IoTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(harness.IoTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(nc, input); err != nil {
		t.Fatalf("input %.60q: %v", input, err)
	}
	if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
		t.Logf("input %.60q: the server closed first: %v", input, err)
	}
	out, err := io.ReadAll(nc)
	if err != nil && !harness.IsClosed(err) {
		t.Fatalf("input %.60q: got %q and then: %v", input, out, err)
	}
	return string(out)
}
