package front

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// asked makes a trunk of the first loop of h, and returns its other side, and a reader of the questions that are asked by it. ok is false where there are no
// loops.
func asked(t *testing.T, h *echoes, arrived func(b []byte) (int, error)) (other net.Conn, questions *bufio.Reader, ok bool) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if other, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	_ = other.SetDeadline(time.Now().Add(patience))
	if h.trunk, err = h.Watch(0, conn, arrived); err != nil {
		t.Fatal(err)
	}
	if h.trunk == nil {
		conn.Close()
	}
	return other, bufio.NewReader(other), h.trunk != nil
}

// TestTrunk has sessions of all loops ask by one trunk. Their replies come in order and behind those of the same turn, with the texts of their
// commands, whatever other sessions do meanwhile.
func TestTrunk(t *testing.T) {
	h := serve(t, nil)
	other, questions, ok := asked(t, h, h.arrived)
	if !ok {
		return
	}
	var clients []*wire
	for i := range 8 {
		c := dial(t, h)
		c.want("ECHO hi", `"hi"`) // it has its session
		c.send(fmt.Sprintf("LATER a%d\r\nASK b%d\r\nASK c%d\r\n", i, i, i))
		clients = append(clients, c)
	}
	texts := make([]string, 16)
	for i := range texts {
		text, err := questions.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = strings.ToUpper(text)
	}
	beside := dial(t, h)
	for i := range 100 { // works in the memory that sessions share
		beside.want(fmt.Sprintf("ECHO %d", i), fmt.Sprintf("%q", fmt.Sprint(i)))
	}
	clients[3].conn.Close()
	clients[0].send("ECHO next\r\n") // waits for its turn
	all := strings.Join(texts, "")
	for _, part := range []string{all[:1], all[1:10], all[10:]} {
		if _, err := other.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range clients {
		if i == 3 {
			continue
		}
		for _, want := range []string{fmt.Sprintf(`"a%d"`, i), fmt.Sprintf(`"b%d=B%d"`, i, i), fmt.Sprintf(`"c%d=C%d"`, i, i)} {
			if got := c.read().String(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
	if got := clients[0].read().String(); got != `"next"` {
		t.Errorf("got %s, want next", got)
	}
}

// TestTrunkWrites: bytes that a trunk does not take at once are written by Write. A message that is longer than a trunk's buffer arrives in one piece.
func TestTrunkWrites(t *testing.T) {
	h := serve(t, nil)
	other, questions, ok := asked(t, h, h.arrived)
	if !ok {
		return
	}
	long := make([]byte, 16<<20)
	for i := range long {
		long[i] = 'x'
	}
	long[len(long)-1] = '\n'
	n, err := h.trunk.Offer(long)
	if err != nil || n == len(long) {
		t.Fatalf("Offer took %d bytes of %d, error %v", n, len(long), err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := h.trunk.Write(long[n:], patience)
		written <- err
	}()
	if text, err := questions.ReadString('\n'); err != nil || text != string(long) {
		t.Fatalf("%d bytes arrived of %d, error %v", len(text), len(long), err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	c := dial(t, h)
	for range 2 { // the second one in a buffer that shrank
		c.send("ASK a\r\n")
		if _, err := questions.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Write(long[8<<20:]); err != nil {
			t.Fatal(err)
		}
		if got := len(c.read().Raw); got != len("$8388609\r\na=")+8<<20-1+len("\r\n") {
			t.Errorf("%d bytes arrived", got)
		}
	}
}

// TestTrunkEnds: a trunk ends by its own Close, by the other side's, by an error of its reader, and with its loop.
func TestTrunkEnds(t *testing.T) {
	refused := errors.New("refused")
	for what, end := range map[string]func(h *echoes, other net.Conn){
		"Close":          func(h *echoes, _ net.Conn) { h.trunk.Close() },
		"the other side": func(_ *echoes, other net.Conn) { other.Close() },
		"the reader":     func(_ *echoes, other net.Conn) { _, _ = other.Write([]byte("?")) },
		"the loop": func(h *echoes, _ net.Conn) {
			h.loops[0].stop()
			h.loops = h.loops[1:]
		},
	} {
		h := serve(t, nil)
		other, _, ok := asked(t, h, func([]byte) (int, error) { return 0, refused })
		if !ok {
			return
		}
		end(h, other)
		select {
		case <-h.trunk.Ended():
		case <-time.After(patience):
			t.Fatalf("%s does not end the trunk", what)
		}
		if _, err := h.trunk.Offer([]byte("x")); err == nil {
			t.Errorf("%s: the trunk takes bytes behind its end", what)
		}
	}
}
