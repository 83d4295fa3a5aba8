package server

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
)

// TestMaxMemoryClients has connections that do not read what they asked for, and some that hold as much in other ways: the largest are closed, and the
// others, small or with CLIENT NO-EVICT, are not.
func TestMaxMemoryClients(t *testing.T) {
	const limit = 8 << 20
	s := wireServe(t, func(c *config.Config) { c.MaxMemoryClients = config.ClientsLimit{Bytes: limit} })
	admin := wireDial(t, s, 2)
	admin.want("CONFIG GET maxmemory-clients", fmt.Sprintf(`["maxmemory-clients" "%d"]`, limit))
	small := make([]*wireClient, 100)
	for i := range small {
		small[i] = wireDial(t, s, 2)
		small[i].want("PING", "+PONG")
	}
	kept := wireDial(t, s, 2)
	kept.want("CLIENT NO-EVICT on", "+OK")
	part := "*3\r\n$4\r\nMGET\r\n$1000000\r\n" + strings.Repeat("x", 900_000)
	send := func(c *wireClient, text string) { _, _ = io.WriteString(c.conn, text) } // it may be closed by now
	send(kept, part)
	evicted := func() int64 { return s.stats.evictedClients.Load() }
	const size = 1<<20 - 100
	echo := fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", size, strings.Repeat("x", size))
	for name, big := range map[string]string{
		"replies not read": strings.Repeat(echo, 3),
		"half a command":   part,
		"MULTI":            "MULTI\r\n" + echo,
	} {
		before := evicted()
		all := make([]*wireClient, 40)
		for i := range all {
			all[i] = wireDial(t, s, 2)
			go send(all[i], big)
		}
		until(t, name+": some closed", func() bool { return evicted() > before })
		until(t, name+": the others within the limit", func() bool { return s.memoryHeld.held.Load() <= limit })
		for _, c := range all {
			c.conn.Close()
		}
		until(t, name+": all forgotten", func() bool { return len(s.connected()) == len(small)+2 })
	}
	for _, c := range small {
		c.want("PING", "+PONG")
	}
	send(kept, strings.Repeat("x", 100_000)+"\r\n$1\r\n1\r\n")
	if got := kept.read().String(); got != "[nil nil]" {
		t.Errorf("got %s", got)
	}
	until(t, "nothing is held", func() bool { return s.memoryHeld.held.Load() < 1<<20 })
	if n := infoField(t, admin, "evicted_clients"); n != fmt.Sprint(evicted()) {
		t.Errorf("evicted_clients:%s, want %d", n, evicted())
	}
}

// TestMaxMemoryClientsSet changes the limit while connections hold much: the next look closes them.
func TestMaxMemoryClientsSet(t *testing.T) {
	s := wireServe(t, nil)
	admin, big := wireDial(t, s, 2), wireDial(t, s, 2)
	if _, err := io.WriteString(big.conn, "*2\r\n$4\r\nECHO\r\n$1000000\r\n"+strings.Repeat("x", 900_000)); err != nil {
		t.Fatal(err)
	}
	until(t, "the half command", func() bool { return s.memoryHeld.held.Load() > 900_000 })
	for _, c := range []struct{ value, want string }{
		{"5%", "+OK"}, // of no maxmemory
		{"101%", "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - argument must be a percentage between 0% and 100%, or a number of bytes"},
		{"x", "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - argument must be a percentage between 0% and 100%, or a number of bytes"},
		{"0", "+OK"},
		{"64mb", "+OK"},
	} {
		admin.want("CONFIG SET maxmemory-clients "+c.value, c.want)
	}
	admin.want("CONFIG GET maxmemory-clients", `["maxmemory-clients" "67108864"]`)
	s.evictClients()
	if n := s.stats.evictedClients.Load(); n != 0 {
		t.Fatalf("%d closed", n)
	}
	admin.want("CONFIG SET maxmemory-clients 512kb", "+OK")
	s.evictClients()
	big.ended()
	admin.want("PING", "+PONG")
}

// TestClientListShowsMemory: what a connection leaves unread is seen while it does.
func TestClientListShowsMemory(t *testing.T) {
	s := wireServe(t, nil)
	admin, slow := wireDial(t, s, 2), wireDial(t, s, 2)
	id := slow.do("CLIENT ID").n
	go func() {
		_, _ = io.WriteString(slow.conn, strings.Repeat("ECHO "+strings.Repeat("x", 60_000)+"\r\n", 30))
	}()
	until(t, "unread bytes in CLIENT LIST", func() bool {
		f := clientLine(t, strings.TrimSuffix(admin.do(fmt.Sprintf("CLIENT LIST ID %d", id)).text, "\n"))
		obl, _ := strconv.Atoi(f["obl"])
		omem, _ := strconv.Atoi(f["omem"])
		total, _ := strconv.Atoi(f["tot-mem"])
		return obl > 0 && omem >= obl && total >= omem
	})
}

func TestProtocolErrorsAreCounted(t *testing.T) {
	s := wireServe(t, nil)
	admin, c := wireDial(t, s, 2), wireDial(t, s, 2)
	c.want("PING", "+PONG")
	if _, err := io.WriteString(c.conn, "*x\r\n"); err != nil {
		t.Fatal(err)
	}
	if got := c.read().String(); got != "-ERR Protocol error: invalid multibulk length" {
		t.Errorf("got %s", got)
	}
	c.ended()
	if n := infoField(t, admin, "protocol_errors"); n != "1" {
		t.Errorf("protocol_errors:%s", n)
	}
}

func infoField(t *testing.T, c *wireClient, name string) string {
	t.Helper()
	fields, _ := infoFields(t, c.do("INFO everything").text)
	return fields[name]
}
